// SPDX-License-Identifier: Apache-2.0
// Bounds of the hardware and of the kernels' arithmetic, used by the planner, the driver layer and launches.
#pragma once

#include <sluice/spec/problem.h>

namespace sluice {

/// Largest grid dimension along y, in CTAs (CUDA C++ Programming Guide, compute capabilities).
inline constexpr i64 kMaxGridY = 65535;

/// Largest value of a kernel's int: numbers of tiles, CTAs and workspace slots.
inline constexpr i64 kMaxInt = (i64{1} << 31) - 1;

/// Largest m, n and k of a dense product. Tile offsets are ints, and sizes are rounded up to whole cluster
/// tiles (at most 2,048 rows).
inline constexpr i64 kMaxDenseExtent = (i64{1} << 31) - 4096;
/// Largest m, n and k of a packed product: rows and k are rounded up to 128 in an int.
inline constexpr i64 kMaxPackedExtent = (i64{1} << 31) - 129;

}  // namespace sluice
