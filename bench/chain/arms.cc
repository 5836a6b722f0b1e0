// SPDX-License-Identifier: Apache-2.0
// Arms are compared by all activations that they leave, poisoned before.
#include "bench/chain/arms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <sluice/chain/chain.h>
#include <sluice/reference/element.h>

#include "bench/chain/check.h"

namespace sluice::bench {
namespace {

constexpr i64 kReplaysAtOnce = 1000;  // between two looks at the counter
constexpr int kComparedReplays = 3;   // a race need not show at once

/// The steps of one layer: the second, if there is one behind it too, since it has both neighbours.
std::span<const PlannedStep> one_layer(const ChainPlan& plan, const LayerSpec& spec) {
  const size_t steps = plan.steps.size() / static_cast<size_t>(spec.layers * spec.passes);
  return std::span(plan.steps).subspan(plan.steps.size() > 2 * steps ? steps : 0, steps);
}

std::string one_layer_text(const ChainPlan& plan, const LayerSpec& spec) {
  ChainPlan layer = plan;
  const std::span<const PlannedStep> steps = one_layer(plan, spec);
  layer.steps.assign(steps.begin(), steps.end());
  return explain(layer);
}

/// The products' kernels: "qkv ping_pong ...; o ...".
std::string detail_of(const ChainPlan& plan, const LayerSpec& spec) {
  std::string text;
  for (const PlannedStep& s : one_layer(plan, spec)) {
    const std::string name = product_kernel(plan, s);
    if (name.empty()) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", s.step.name, name);
  }
  return text;
}

/// Poisons, sets the input, replays. Does not wait.
Result<void> run_once(const Work& work, const ReplayCall& replay, int input) {
  if (Result<void> done = work.data.poison(work.stream()); !done) return done;
  if (Result<void> done = work.data.set_input(input, work.stream()); !done) return done;
  return replay(work.stream());
}

/// What `replay` leaves for `input` becomes `expected`.
Result<void> expect(const Work& work, const ReplayCall& replay, int input, const DeviceBuffer& expected) {
  if (Result<void> done = run_once(work, replay, input); !done) return done;
  if (Result<void> done = copy_block(work.lab.device, expected, work.data.activations(), work.stream());
      !done)
    return done;
  return work.lab.stream.synchronize();
}

Result<std::vector<double>> values_of(const Work& work, const DeviceBuffer& block,
                                      Activations::Buffer buffer) {
  const DType type = problem_of(work.data.spec(), LayerProduct::down).d.type;
  const i64 size = bytes_of(type), bytes = activation_bytes(work.data.spec())[buffer];
  std::vector<u8> codes(static_cast<size_t>(bytes));
  if (Result<void> done = block.download(codes.data(), bytes, work.data.offset_of(buffer)); !done)
    return done.error();
  std::vector<double> values;
  for (size_t i = 0; i < codes.size(); i += static_cast<size_t>(size))
    values.push_back(decode_code(type, size == 2 ? u32{codes[i]} | u32{codes[i + 1]} << 8 : codes[i]));
  return values;
}

/// What the residual stream ends with; of projections, which have none, the last product.
Result<std::vector<double>> result_of(const Work& work, const DeviceBuffer& block, const Arm& arm) {
  Result<std::vector<double>> last = values_of(work, block, Activations::kDown);
  if (!last || arm.adds_residuals || work.data.spec().parts != LayerParts::all) return last;
  const Result<std::vector<double>> hidden = values_of(work, block, Activations::kHidden);
  if (!hidden) return hidden;
  for (size_t i = 0; i < last->size(); ++i) (*last)[i] += (*hidden)[i];
  return last;
}

}  // namespace

Result<void> prepare_arm(const Work& work, const ArmSpec& spec, Arm& arm) {
  arm.record.name = spec.name;
  std::vector<ChainStep> steps =
      steps_of(fused(work.data.spec(), spec.fusion), work.data.memory(), spec.prefetch_ratio);
  arm.adds_residuals = adds_residuals(fused(work.data.spec(), spec.fusion));
  put_choices(spec.choices, steps);
  add_windows(spec.window, &work.idler, steps);
  Result<Chain> chain = Chain::prepare(work.lab.device, steps, spec.options);
  if (!chain) return chain.error();
  arm.record.detail = detail_of(chain->plan(), work.data.spec());
  arm.record.text = one_layer_text(chain->plan(), work.data.spec());
  if (work.checks_products)
    if (Result<void> right = check_products(work.lab, chain->plan()); !right) return right;
  Result<ChainGraph> graph = ChainGraph::capture(*chain, work.stream(), work.workspace.view());
  if (!graph) return graph.error();
  arm.record.kernels = graph->kernels();
  arm.record.programmatic_edges = graph->programmatic_edges();
  arm.replay = [graph = *graph](Stream stream) { return graph.replay(stream); };
  arm.chain = *std::move(chain);
  return {};
}

Result<void> set_reference(const Work& work, Arm& arm) {
  std::vector<ChainStep> steps;
  for (const PlannedStep& planned : arm.chain->plan().steps) {
    TunedStep choice = choice_of(arm.chain->plan(), planned);
    choice.overlap = {};
    choice.hand_off_bytes = choice.prefetch_bytes = 0;
    steps.push_back(planned.step);
    put_choice(choice, steps.back());
  }
  const Result<Chain> chain = Chain::prepare(work.lab.device, steps, {.overlap = ChainOverlap::off});
  if (!chain) return chain.error();
  const Result<ChainGraph> graph = ChainGraph::capture(*chain, work.stream(), work.workspace.view());
  if (!graph) return graph.error();
  arm.reference = [graph = *graph](Stream stream) { return graph.replay(stream); };
  return {};
}

Result<void> compare_arm(const Work& work, Arm& arm) {
  if (Result<void> done = expect(work, arm.reference, 0, work.expected); !done) return done;
  for (int i = 0; i < kComparedReplays; ++i) {
    if (Result<void> done = run_once(work, arm.replay, 0); !done) return done;
    if (Result<void> done = work.comparer.enqueue(work.data.activations(), work.expected, work.stream());
        !done)
      return done;
  }
  const Result<i64> differing = work.comparer.take(work.stream());
  if (!differing) return differing.error();
  arm.record.differing = *differing;
  return {};
}

Result<void> judge_distance(const Work& work, const Arm& off, Arm& arm) {
  if (Result<void> done = expect(work, off.replay, 0, work.expected); !done) return done;
  const Result<std::vector<double>> ours = result_of(work, work.expected, off);
  if (!ours) return ours.error();
  if (Result<void> done = run_once(work, arm.replay, 0); !done) return done;
  if (Result<void> done = work.lab.stream.synchronize(); !done) return done;
  const Result<std::vector<double>> theirs = result_of(work, work.data.activations(), arm);
  if (!theirs) return theirs.error();
  double difference = 0, size = 0;
  for (size_t i = 0; i < ours->size(); ++i) {
    difference += ((*ours)[i] - (*theirs)[i]) * ((*ours)[i] - (*theirs)[i]);
    size += (*ours)[i] * (*ours)[i];
  }
  arm.record.distance = size > 0 ? std::sqrt(difference / size) : 1;
  const double most = most_distance(work.data.spec());
  if (!(arm.record.distance <= most))
    return Error{
        ErrorCode::internal,
        fmt::format("its last outputs differ from those of off by {:.2g} of their RMS, and roundings "
                    "by {:.2g} at most: one of them is wrong",
                    arm.record.distance, most)};
  return {};
}

Result<void> replay_arm(const Work& work, Arm& arm, i64 replays) {
  std::vector<DeviceBuffer> expected;
  for (int input = 0; input < ChainData::kInputs; ++input) {
    Result<DeviceBuffer> block = DeviceBuffer::allocate(work.lab.device, work.data.activations().bytes());
    if (!block) return block.error();
    expected.push_back(*std::move(block));
    if (Result<void> done = expect(work, arm.reference, input, expected.back()); !done) return done;
  }
  arm.record.differing = std::max<i64>(arm.record.differing, 0);
  for (i64 i = 0; i < replays; ++i) {
    const int input = static_cast<int>(i % ChainData::kInputs);
    if (Result<void> done = work.data.set_input(input, work.stream()); !done) return done;
    if (Result<void> done = arm.replay(work.stream()); !done) return done;
    if (Result<void> done = work.comparer.enqueue(work.data.activations(),
                                                  expected[static_cast<size_t>(input)], work.stream());
        !done)
      return done;
    arm.record.replays = i + 1;
    if ((i + 1) % kReplaysAtOnce != 0 && i + 1 != replays) continue;
    const Result<i64> differing = work.comparer.take(work.stream());
    if (!differing) return differing.error();
    arm.record.differing += *differing;
    work.phase(fmt::format("replay {} of {}", i + 1, replays));
    if (*differing > 0) break;
  }
  return {};
}

}  // namespace sluice::bench
