// SPDX-License-Identifier: Apache-2.0
// A simulated CTA has no cluster: what reaches another CTA is a fault.
#pragma once

#include <sluice/device/ptx/global.cuh>

namespace sluice::ptx {

inline u32 map_to_cta(u32 address, u32) {
  simulated::cta.fault("clusters are not simulated");
  return address;
}
inline void store_async(u32, const Float4&, u32) {
  simulated::cta.fault("clusters are not simulated");
}
inline void store_cluster(u32, const Float4&) {
  simulated::cta.fault("clusters are not simulated");
}
inline void store_async(u32, u32, u32) {
  simulated::cta.fault("clusters are not simulated");
}
inline Float4 load_shared_v4(u32 address) {
  struct Four {
    float x, y, z, w;
  };
  const Four four = simulated::cta.load_shared<Four>(address);
  return {four.x, four.y, four.z, four.w};
}

}  // namespace sluice::ptx
