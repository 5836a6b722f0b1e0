// SPDX-License-Identifier: Apache-2.0
// The argument of the kernel that records on which SM each CTA of a launch runs (kernels/locate.cuh).
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

struct LocateParams {
  u32* sms;     // one entry per CTA, in grid order: the number of its SM
  u32 hold_ns;  // nanoseconds that each CTA keeps its SM, so that all CTAs of a wave are resident at the same
                // time
};

inline constexpr int kLocateThreads = 32;
/// More than half of an SM's shared memory, so that only one CTA fits on an SM.
inline constexpr int kLocateSmemBytes = 120 << 10;

}  // namespace sluice
