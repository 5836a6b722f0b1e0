// SPDX-License-Identifier: Apache-2.0
// Records on which SM each CTA of a launch runs. Launched by run/device/locate.cc, in clusters of several
// sizes: CTAs of one cluster share a GPC.
#pragma once

#include <sluice/spec/locate.h>
#include <sluice/device/ptx/special_registers.cuh>

namespace sluice {

SLUICE_DEVICE void locate(const LocateParams& params) {
  if (threadIdx.x != 0) return;
  const u64 start = ptx::nanoseconds();
  params.sms[blockIdx.x] = ptx::sm_number();
  while (ptx::nanoseconds() < start + params.hold_ns) {
  }
}

}  // namespace sluice
