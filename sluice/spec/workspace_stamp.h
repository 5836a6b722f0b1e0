// SPDX-License-Identifier: Apache-2.0
// The owner stamp of a workspace (Options::stamp_workspaces): debug kernels record which launch uses it, so
// that two launches that use it at the same time are detected. Two replays of one captured launch have the
// same number, and are detected often but not always; workspace_stamp_test.cc states the share.
// The arithmetic is the same on host and device; atomics are in device/workspace_stamp.cuh, and
// Workspace::verify() reads the result. A launch owns the workspace from the first math group that enters to
// the last one that leaves. Sums that an early peer left in its slot belong to the launch until they are
// added up. No group waits: a group that finds another owner records the conflict and continues, uncounted.
#pragma once

#include <sluice/spec/work_split.h>

namespace sluice {

/// Whether a kernel stamps its workspace. It is a property of the unit and not of the config: the plan is the
/// same.
enum class Stamping : u8 { off, on };

/// The stamp of a launch. All zero if workspaces are not stamped.
struct LaunchStamp {
  u32 launch;   // number of the launch in its process, from 1; replays of a graph have the same number
  u32 leavers;  // math groups, and CTAs that add up slices; the last one to leave releases the workspace
};

/// Stored in the last bytes of the counters' 64 KB (kWorkspaceStampOffset): two pairs of 32 bits, each pair
/// in one 64-bit word.
struct WorkspaceStamp {
  u64 owner;     // launch << 32 | groups that have not left yet; 0: not owned
  u64 conflict;  // owner << 32 | intruder, at the first conflict; 0: no conflict since reset()
};
static_assert(sizeof(WorkspaceStamp) <= kWorkspaceCounterBytes - kWorkspaceStampOffset);

SLUICE_HD constexpr u64 stamp_pair(u32 high, u32 low) {
  return static_cast<u64>(high) << 32 | low;
}
SLUICE_HD constexpr u32 stamp_high(u64 pair) {
  return static_cast<u32>(pair >> 32);
}
SLUICE_HD constexpr u32 stamp_low(u64 pair) {
  return static_cast<u32>(pair);
}

/// The owner word after a group of `stamp`'s launch has entered or left. `conflict`: the word belongs to
/// another launch, and is unchanged.
struct StampStep {
  u64 owner;
  bool conflict;
};
SLUICE_HD constexpr StampStep after_entering(u64 owner, const LaunchStamp& stamp) {
  if (owner == 0) return {stamp_pair(stamp.launch, stamp.leavers), false};
  return {owner, stamp_high(owner) != stamp.launch};
}
SLUICE_HD constexpr StampStep after_leaving(u64 owner, const LaunchStamp& stamp) {
  if (stamp_high(owner) != stamp.launch) return {owner, true};
  return {stamp_low(owner) == 1 ? 0 : owner - 1, false};
}

}  // namespace sluice
