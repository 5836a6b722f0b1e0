// SPDX-License-Identifier: Apache-2.0
// The argument of the kernel that finds out where a launch's CTAs lie (kernels/locate.cuh).
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

struct LocateParams {
  u32* sms;     // one a CTA, in the grid's order: the number of its SM
  u32 hold_ns;  // each CTA keeps its SM so long, so that all of a wave lie beside each other
};

inline constexpr int kLocateThreads = 32;
/// More than half of an SM's shared memory, so that no two CTAs share an SM.
inline constexpr int kLocateSmemBytes = 120 << 10;

}  // namespace sluice
