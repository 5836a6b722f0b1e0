// SPDX-License-Identifier: Apache-2.0
// The variants ("arms") of a chain's measurement, one per way to run the chain. Each is captured as a graph,
// and its results are compared bit by bit with those of the same kernels without overlap. Part of
// chain/session.h.
#pragma once

#include <functional>
#include <optional>

#include "bench/chain/session.h"

namespace sluice::bench {

using ReplayCall = std::function<Result<void>(Stream)>;

struct Arm {
  std::optional<Chain> chain;  // empty for the peer's variant
  ReplayCall replay;
  ReplayCall reference;  // its own kernels, run without overlap
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

/// Prepares a variant and checks each of its products separately (chain/check.h). After an error it is not
/// timed.
Result<void> prepare_arm(const Work& work, const ArmSpec& spec, Arm& arm);
/// Sets the variant's reference: its own kernels without overlap. Their rounding may differ from the kernels
/// of `off`.
Result<void> set_reference(const Work& work, Arm& arm);
/// Replays over poison and counts differences from the reference.
Result<void> compare_arm(const Work& work, Arm& arm);
/// Replays many times with changing inputs, and compares each with the reference.
Result<void> replay_arm(const Work& work, Arm& arm, i64 replays);
/// Checks that the results are within a distance of those of `off`. Bits may differ, because the peer, other
/// kernels and fused kernels round in another order or less often.
Result<void> judge_distance(const Work& work, const Arm& off, Arm& arm);

}  // namespace sluice::bench
