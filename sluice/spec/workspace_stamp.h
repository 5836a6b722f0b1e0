// SPDX-License-Identifier: Apache-2.0
// The owner stamp of a workspace (Options::stamp_workspaces): debug kernels write down who works in it, so
// that two launches at one time are seen; two replays of one captured launch, which bear one number, most
// times but not always (workspace_stamp_test.cc states the share). The arithmetic, the same on host and
// device; the atomics are in device/workspace_stamp.cuh, and Workspace::verify() reads what is left. A launch
// owns the workspace from the first math group that enters to the last one that leaves, not only while a
// group is inside: what an early peer left in its slot belongs to the launch until it is added up. Nobody
// waits: a group that finds another owner writes the pair down and works on, uncounted.
#pragma once

#include <sluice/spec/work_split.h>

namespace sluice {

/// Is a kernel built to stamp the workspace it uses? A unit says so, and no config: the plan is the same.
enum class Stamping : u8 { off, on };

/// What a launch brings along. All zero where workspaces are not stamped.
struct LaunchStamp {
  u32 launch;   // from 1 on, in the order of the process's launches; a graph replays its number
  u32 leavers;  // math groups, and CTAs that add up parts: the last to leave gives the workspace back
};

/// In the last words of the counters' 64 KB (kWorkspaceStampOffset). Two pairs of 32 bits, each in one word.
struct WorkspaceStamp {
  u64 owner;     // launch << 32 | groups that have not left yet; 0: free
  u64 conflict;  // owner << 32 | intruder, of the first conflict; 0: none since reset()
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

/// The owner word after a group of `stamp`'s launch has entered or left; `conflict` where it belongs to
/// another launch, and then the word stays as it is.
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
