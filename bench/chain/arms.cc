// SPDX-License-Identifier: Apache-2.0
// Variants are compared by all activations that they write; the buffers are poisoned first.
#include "bench/chain/arms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <sluice/chain.h>
#include <sluice/plan/dense/tuned_choice.h>
#include <sluice/reference/element.h>
#include <sluice/run/driver/memory.h>
#include <sluice/try.h>

#include "bench/chain/check.h"
#include "bench/device.h"

namespace sluice::bench {
namespace {

constexpr i64 kReplaysAtOnce = 1000;  // launched before the counter of differences is read again
constexpr int kComparedReplays = 3;   // several, because a data race does not show in each run

/// Returns the planned steps of one layer: of the second one in a chain of three, because it has a neighbour
/// on both sides.
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

/// Poisons the activations, uploads the input and replays the chain. Does not wait for the GPU.
Result<void> run_once(const Work& work, const ReplayCall& replay, int input) {
  SLUICE_TRY(work.data.poison(work.stream()));
  SLUICE_TRY(work.data.set_input(input, work.stream()));
  return replay(work.stream());
}

/// Runs `replay` on input number `input` and copies the resulting activations to `expected`.
Result<void> expect(const Work& work, const ReplayCall& replay, int input, const DeviceBuffer& expected) {
  SLUICE_TRY(run_once(work, replay, input));
  SLUICE_TRY(copy_async(work.lab.device, expected, work.data.activations().data(), work.stream()));
  return work.lab.stream.synchronize();
}

Result<std::vector<double>> values_of(const Work& work, const DeviceBuffer& block,
                                      Activations::Buffer buffer) {
  const DType type = problem_of(work.data.spec(), LayerProduct::down).d.type;
  const i64 size = bytes_of(type), bytes = activation_bytes(work.data.spec())[buffer];
  std::vector<u8> codes(static_cast<size_t>(bytes));
  SLUICE_TRY(block.download(codes.data(), bytes, work.data.offset_of(buffer)));
  std::vector<double> values;
  for (size_t i = 0; i < codes.size(); i += static_cast<size_t>(size))
    values.push_back(decode_code(type, size == 2 ? u32{codes[i]} | u32{codes[i + 1]} << 8 : codes[i]));
  return values;
}

/// Downloads the result: the residual stream at the end or, for projections, D of the last product.
Result<std::vector<double>> result_of(const Work& work, const DeviceBuffer& block, const Arm& arm) {
  Result<std::vector<double>> last = values_of(work, block, Activations::kDown);
  if (!last || arm.adds_residuals || work.data.spec().parts != LayerParts::all) return last;
  SLUICE_TAKE(const std::vector<double> hidden, values_of(work, block, Activations::kHidden));
  for (size_t i = 0; i < last->size(); ++i) (*last)[i] += hidden[i];
  return last;
}

}  // namespace

Result<void> prepare_arm(const Work& work, const ArmSpec& spec, Arm& arm) {
  arm.record.name = spec.name;
  std::vector<ChainStep> steps = steps_of(fused(work.data.spec(), spec.fusion), work.data.memory());
  arm.adds_residuals = adds_residuals(fused(work.data.spec(), spec.fusion));
  put_choices(spec.choices, steps);
  if (spec.add) spec.add(steps);
  const Device& device = work.lab.device;
  SLUICE_TAKE(Chain chain, spec.guard ? Chain::guarded(device, steps, spec.options)
                                      : Chain::prepare(device, steps, spec.options));
  arm.record.detail = detail_of(chain.plan(), work.data.spec());
  arm.record.text =
      missing_record(chain.plan(), spec.options) + one_layer_text(chain.plan(), work.data.spec());
  if (work.checks_products) SLUICE_TRY(check_products(work.lab, chain.plan()));
  SLUICE_TAKE(const ChainGraph graph, ChainGraph::capture(chain, work.stream(), work.workspace.view()));
  arm.record.kernels = graph.kernels();
  arm.record.programmatic_edges = graph.programmatic_edges();
  arm.replay = [graph](Stream stream) { return graph.replay(stream); };
  arm.chain = std::move(chain);
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
  SLUICE_TAKE(const Chain chain, Chain::prepare(work.lab.device, steps, {.overlap = ChainOverlap::off}));
  SLUICE_TAKE(const ChainGraph graph, ChainGraph::capture(chain, work.stream(), work.workspace.view()));
  arm.reference = [graph](Stream stream) { return graph.replay(stream); };
  return {};
}

Result<void> compare_arm(const Work& work, Arm& arm) {
  SLUICE_TRY(expect(work, arm.reference, 0, work.expected));
  for (int i = 0; i < kComparedReplays; ++i) {
    SLUICE_TRY(run_once(work, arm.replay, 0));
    SLUICE_TRY(work.comparer.enqueue(work.data.activations(), work.expected, work.stream()));
  }
  SLUICE_TAKE(const i64 differing, work.comparer.take(work.stream()));
  arm.record.differing = differing;
  return {};
}

Result<void> judge_distance(const Work& work, const Arm& off, Arm& arm) {
  SLUICE_TRY(expect(work, off.replay, 0, work.expected));
  SLUICE_TAKE(const std::vector<double> ours, result_of(work, work.expected, off));
  SLUICE_TRY(run_once(work, arm.replay, 0));
  SLUICE_TRY(work.lab.stream.synchronize());
  SLUICE_TAKE(const std::vector<double> theirs, result_of(work, work.data.activations(), arm));
  double difference = 0, size = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    difference += (ours[i] - theirs[i]) * (ours[i] - theirs[i]);
    size += ours[i] * ours[i];
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
    SLUICE_TAKE(DeviceBuffer block, DeviceBuffer::allocate(work.lab.device, work.data.activations().bytes()));
    expected.push_back(std::move(block));
    SLUICE_TRY(expect(work, arm.reference, input, expected.back()));
  }
  arm.record.differing = std::max<i64>(arm.record.differing, 0);
  for (i64 i = 0; i < replays; ++i) {
    const int input = static_cast<int>(i % ChainData::kInputs);
    SLUICE_TRY(work.data.set_input(input, work.stream()));
    SLUICE_TRY(arm.replay(work.stream()));
    SLUICE_TRY(
        work.comparer.enqueue(work.data.activations(), expected[static_cast<size_t>(input)], work.stream()));
    arm.record.replays = i + 1;
    if ((i + 1) % kReplaysAtOnce != 0 && i + 1 != replays) continue;
    SLUICE_TAKE(const i64 differing, work.comparer.take(work.stream()));
    arm.record.differing += differing;
    work.phase(fmt::format("replay {} of {}", i + 1, replays));
    if (differing > 0) break;
  }
  return {};
}

}  // namespace sluice::bench
