// SPDX-License-Identifier: Apache-2.0
// Bounds of the hardware and of the kernels' arithmetic, shared by planner, driver and launches.
#pragma once

#include <sluice/spec/problem.h>

namespace sluice {

/// Most CTAs of a grid along y (CUDA C++ Programming Guide, compute capabilities).
inline constexpr i64 kMaxGridY = 65535;

/// Largest number that an int of the kernels holds: tiles, CTAs, slots.
inline constexpr i64 kMaxInt = (i64{1} << 31) - 1;

/// Largest m, n and k of a dense product: tile offsets are ints, and a size is rounded up to whole cluster
/// tiles (2,048 rows at most).
inline constexpr i64 kMaxDenseExtent = (i64{1} << 31) - 4096;
/// Largest m, n and k of a packed product: rows and k are rounded up to 128 in an int.
inline constexpr i64 kMaxPackedExtent = (i64{1} << 31) - 129;

}  // namespace sluice
