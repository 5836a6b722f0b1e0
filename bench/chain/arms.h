// SPDX-License-Identifier: Apache-2.0
// The arms of a chain's measurement, one for each way to run the chain. An arm is captured, and its bits are
// compared with those of its kernels with the overlap off. Part of chain/session.h.
#pragma once

#include <functional>
#include <optional>

#include "bench/chain/session.h"

namespace sluice::bench {

using ReplayCall = std::function<Result<void>(Stream)>;

struct Arm {
  std::optional<Chain> chain;  // the peer's arm has none
  ReplayCall replay;
  ReplayCall reference;  // its kernels with the overlap off
  std::optional<LayerTuning> tuning;
  bool adds_residuals = false;  // the last product leaves the residual stream
  ArmRecord record;
};

/// Everything that one case works with.
struct Work {
  const Lab& lab;
  const Phase& phase;
  const ChainData& data;
  const Comparer& comparer;
  DeviceBuffer expected;  // activations of a reference for one input
  Workspace workspace;
  bool checks_products = true;

  Stream stream() const { return lab.stream.get(); }
};

/// Checks each product by itself (chain/check.h). On an error the arm is not timed.
Result<void> prepare_arm(const Work& work, const ArmSpec& spec, Arm& arm);
/// Makes the arm's kernels with the overlap off its reference. They may round otherwise than the off arm's.
Result<void> set_reference(const Work& work, Arm& arm);
/// Replays over poison and counts differences from the reference.
Result<void> compare_arm(const Work& work, Arm& arm);
/// Replays many times with changing inputs, and compares each with the reference.
Result<void> replay_arm(const Work& work, Arm& arm, i64 replays);
/// Compares with `off` within a distance: the peer, other kernels and fused ones round in another order or
/// less often, so that bits may differ.
Result<void> judge_distance(const Work& work, const Arm& off, Arm& arm);

}  // namespace sluice::bench
