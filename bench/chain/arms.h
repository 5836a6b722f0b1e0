// SPDX-License-Identifier: Apache-2.0
// The variants ("arms") of a chain's measurement, one per way to run the chain. Each is captured as a graph,
// and its results are compared bit by bit with those of the same kernels without overlap. Part of
// sluice/bench/chain.h.
#pragma once

#include <functional>
#include <optional>

#include <sluice/bench/chain.h>

#include "bench/chain/data.h"
#include "bench/chain/tune.h"
#include "bench/comparer.h"
#include "bench/lab.h"

namespace sluice::bench {

using ReplayCall = std::function<Result<void>(Stream)>;

struct Arm {
  std::optional<Chain> chain;  // empty for cuBLASLt
  ReplayCall replay;
  ReplayCall reference;  // kernels of `replay`, run without overlap
  std::optional<LayerTuning> tuning;
  bool adds_residuals = false;  // true: the last product writes the residual stream
  ArmRecord record;
};

/// GPU, data and buffers that the measurement of one case uses.
struct Work {
  const Lab& lab;
  const Phase& phase;
  const ChainData& data;
  const Comparer& comparer;
  DeviceBuffer expected;  // activations that the reference computed for one input
  Workspace workspace;
  bool checks_products = true;

  Stream stream() const { return lab.stream.get(); }
};

/// Prepares a variant of the chain and checks each of its products on its own (chain/check.h). A variant with
/// an error is not timed.
Result<void> prepare_arm(const Work& work, const ArmSpec& spec, Arm& arm);
/// Sets the variant's reference: the same kernels without overlap. The kernels of the variant "off" are no
/// reference, because they may round differently.
Result<void> set_reference(const Work& work, Arm& arm);
/// Fills the activations with poison, replays, and counts the differences from the reference.
Result<void> compare_arm(const Work& work, Arm& arm);
/// Replays `replays` times with changing inputs, and compares each result with the reference.
Result<void> replay_arm(const Work& work, Arm& arm, i64 replays);
/// Checks that the distance between the results and those of `off` is within most_distance(). Bits may
/// differ: cuBLASLt, other kernels and fused kernels round in another order or less often.
Result<void> judge_distance(const Work& work, const Arm& off, Arm& arm);

}  // namespace sluice::bench
