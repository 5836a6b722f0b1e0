// SPDX-License-Identifier: Apache-2.0
// One thread per math group stamps the workspace, with CAS loops over the steps of spec/workspace_stamp.h.
// Only in debug kernels (Stamping::on). Called by device/machine.cuh.
#pragma once

#include <sluice/spec/workspace_stamp.h>
#include <sluice/device/ptx/global.cuh>

namespace sluice {

class Stamper {
 public:
  Stamper() = default;
  /// A stamper for a kernel that continues in a workspace that the previous kernel has entered.
  static SLUICE_DEVICE Stamper entered() {
    Stamper stamper;
    stamper.counted_ = true;
    return stamper;
  }
  SLUICE_DEVICE void enter(u32* counters, const LaunchStamp& stamp) {
    counted_ =
        step(counters, stamp, [](u64 owner, const LaunchStamp& by) { return after_entering(owner, by); });
  }
  /// Leaves the workspace. A group that was not counted on entering changes nothing.
  SLUICE_DEVICE void leave(u32* counters, const LaunchStamp& stamp) {
    if (!counted_) return;
    step(counters, stamp, [](u64 owner, const LaunchStamp& by) { return after_leaving(owner, by); });
  }

 private:
  /// Returns false if the workspace belongs to another launch, which is then recorded as a conflict.
  template <class Step>
  static SLUICE_DEVICE bool step(u32* counters, const LaunchStamp& stamp, Step next_of) {
    auto* at = reinterpret_cast<WorkspaceStamp*>(reinterpret_cast<u8*>(counters) + kWorkspaceStampOffset);
    u64 found = 0;
    for (;;) {
      const StampStep next = next_of(found, stamp);
      const u64 old = ptx::atomic_cas_acq_rel(&at->owner, found, next.owner);
      if (old != found) {
        found = old;
        continue;
      }
      if (next.conflict)
        ptx::atomic_cas_acq_rel(&at->conflict, 0, stamp_pair(stamp_high(found), stamp.launch));
      return !next.conflict;
    }
  }

  bool counted_ = false;
};

}  // namespace sluice
