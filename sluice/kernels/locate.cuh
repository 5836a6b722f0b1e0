// SPDX-License-Identifier: Apache-2.0
// Writes down on which SM each CTA of a launch lies. Launched once a device by host/gpc_order.cc, in clusters
// of several sizes: CTAs of one cluster lie in one GPC.
#pragma once

#include <sluice/spec/locate.h>

namespace sluice {

SLUICE_DEVICE void locate(const LocateParams& params) {
  if (threadIdx.x != 0) return;
  u32 sm;
  u64 start, now;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start)::"memory");
  params.sms[blockIdx.x] = sm;
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  } while (now < start + params.hold_ns);
}

}  // namespace sluice
