// SPDX-License-Identifier: Apache-2.0
// The arms of a chain's measurement: captured, and held to the bits of the same kernels with the overlap off.
// Part of chain/session.h.
#pragma once

#include <functional>
#include <optional>

#include "bench/chain/session.h"

namespace sluice::bench {

using ReplayCall = std::function<Result<void>(Stream)>;

struct Arm {
  std::optional<Chain> chain;  // ours
  ReplayCall replay;
  ReplayCall reference;  // the same kernels with the overlap off
  std::optional<ChainTuning> tuning;
  bool adds_residuals = false;  // what the last product leaves is the residual stream
  ArmRecord record;
};

/// What one case works with.
struct Work {
  const Lab& lab;
  const Phase& phase;
  const ChainData& data;
  const Comparer& comparer;
  DeviceBuffer expected;  // activations of a reference, for one input
  Workspace workspace;
  bool checks_products = true;

  Stream stream() const { return lab.stream.get(); }
};

/// Every product is right alone (chain/check.h), or the arm has an error and is not timed.
Result<void> prepare_arm(const Work& work, const ArmSpec& spec, Arm& arm);
/// The same kernels, which may add up in another order than those of the off arm, with the overlap off.
Result<void> set_reference(const Work& work, Arm& arm);
/// Replays over poison and counts what differs from the reference.
Result<void> compare_arm(const Work& work, Arm& arm);
/// Many replays with changing inputs, each compared with the reference.
Result<void> replay_arm(const Work& work, Arm& arm, i64 replays);
/// The peer, other kernels and fused ones round in another order, or less often, so that bits may differ from
/// `off`, but not by much.
Result<void> judge_distance(const Work& work, const Arm& off, Arm& arm);

}  // namespace sluice::bench
