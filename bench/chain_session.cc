// SPDX-License-Identifier: Apache-2.0
// All arms share weights and activations; they run one after the other in one stream.
#include "bench/chain_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include <sluice/host/chain.h>
#include <sluice/host/jit/source.h>
#include <sluice/host/pack_units.h>
#include <sluice/host/verify_units.h>
#include <sluice/reference/element.h>

#include "bench/chain_peer.h"
#include "bench/measure.h"

namespace sluice::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr i64 kReplaysAtOnce = 500;  // between two looks at the counter
constexpr double kFarPeer = 0.5;     // of RMS: another computation, not another rounding

struct Arm {
  std::optional<Chain> chain;  // ours
  std::function<Result<void>(Stream)> replay;
  ArmRecord record;
};

/// What one case works with.
struct Work {
  const Lab& lab;
  const Phase& phase;
  const ChainData& data;
  const Comparer& comparer;
  DeviceBuffer expected;  // activations of the overlap off, for one input
  Workspace workspace;

  Stream stream() const { return lab.stream.get(); }
};

std::string first_layer_text(const ChainPlan& plan, const LayerSpec& spec) {
  ChainPlan layer = plan;
  const size_t steps = plan.steps.size() / static_cast<size_t>(spec.layers * spec.passes);
  const size_t begin = plan.steps.size() > 2 * steps ? steps : 0;  // the second: it has both neighbours
  layer.steps.assign(plan.steps.begin() + static_cast<std::ptrdiff_t>(begin),
                     plan.steps.begin() + static_cast<std::ptrdiff_t>(begin + steps));
  return explain(layer);
}

/// The products' kernels: "qkv ping_pong ...; o ...".
std::string detail_of(const ChainPlan& plan) {
  std::string text;
  size_t seen = 0;
  for (size_t i = plan.steps.size() > 16 ? 8 : 0; i < plan.steps.size() && seen < kLayerProducts; ++i) {
    const PlannedStep& s = plan.steps[i];
    const auto at = static_cast<size_t>(s.plan);
    std::string name;
    if (std::holds_alternative<ProductStep>(s.step.work)) name = short_name(plan.products[at].config);
    if (std::holds_alternative<MixedStep>(s.step.work)) name = mixed::short_name(plan.mixed[at].config);
    if (name.empty()) continue;
    text += fmt::format("{}{} {}", seen++ == 0 ? "" : "; ", s.step.name, name);
  }
  return text;
}

/// Poisons, sets the input, replays. Does not wait.
Result<void> run_once(const Work& work, const Arm& arm, int input) {
  if (Result<void> done = work.data.poison(work.stream()); !done) return done;
  if (Result<void> done = work.data.set_input(input, work.stream()); !done) return done;
  return arm.replay(work.stream());
}

Result<void> prepare_arm(const Work& work, const ArmSpec& spec, Arm& arm) {
  std::vector<ChainStep> steps = steps_of(work.data.spec(), work.data.memory(), spec.prefetch_ratio);
  put_choices(spec.choices, steps);
  Result<Chain> chain = Chain::prepare(work.lab.device, steps, spec.options);
  if (!chain) return chain.error();
  arm.record.detail = detail_of(chain->plan());
  arm.record.text = first_layer_text(chain->plan(), work.data.spec());
  Result<ChainGraph> graph = ChainGraph::capture(*chain, work.stream(), work.workspace.view());
  if (!graph) return graph.error();
  arm.record.kernels = graph->kernels();
  arm.record.programmatic_edges = graph->programmatic_edges();
  arm.replay = [graph = *graph](Stream stream) { return graph.replay(stream); };
  arm.chain = *std::move(chain);
  return {};
}

/// What the overlap off leaves for `input` becomes `expected`.
Result<void> expect(const Work& work, const Arm& off, int input, const DeviceBuffer& expected) {
  if (Result<void> done = run_once(work, off, input); !done) return done;
  if (Result<void> done = copy_block(work.lab.device, expected, work.data.activations(), work.stream());
      !done)
    return done;
  return work.lab.stream.synchronize();
}

Result<void> compare_arm(const Work& work, Arm& arm) {
  for (int i = 0; i < 3; ++i) {  // a race need not show at once
    if (Result<void> done = run_once(work, arm, 0); !done) return done;
    if (Result<void> done = work.comparer.enqueue(work.data.activations(), work.expected, work.stream());
        !done)
      return done;
  }
  const Result<i64> differing = work.comparer.take(work.stream());
  if (!differing) return differing.error();
  arm.record.differing = *differing;
  return {};
}

Result<std::vector<double>> result_of(const Work& work, const DeviceBuffer& block) {
  const DType type = problem_of(work.data.spec(), LayerProduct::down).d.type;
  const i64 size = bytes_of(type), count = work.data.result_bytes() / size;
  std::vector<u8> bytes(static_cast<size_t>(work.data.result_bytes()));
  if (Result<void> done = block.download(bytes.data(), work.data.result_bytes(), work.data.result_offset());
      !done)
    return done.error();
  std::vector<double> values;
  for (i64 i = 0; i < count; ++i) {
    u32 code = bytes[static_cast<size_t>(i * size)];
    if (size == 2) code |= u32{bytes[static_cast<size_t>(i * size + 1)]} << 8;
    values.push_back(decode_code(type, code));
  }
  return values;
}

/// cuBLASLt rounds in another order, so that bits may differ, but not by much.
Result<void> judge_peer(const Work& work, Arm& arm) {
  const Result<std::vector<double>> ours = result_of(work, work.expected);
  if (!ours) return ours.error();
  if (Result<void> done = run_once(work, arm, 0); !done) return done;
  if (Result<void> done = work.lab.stream.synchronize(); !done) return done;
  const Result<std::vector<double>> theirs = result_of(work, work.data.activations());
  if (!theirs) return theirs.error();
  double difference = 0, size = 0;
  for (size_t i = 0; i < ours->size(); ++i) {
    difference += ((*ours)[i] - (*theirs)[i]) * ((*ours)[i] - (*theirs)[i]);
    size += (*ours)[i] * (*ours)[i];
  }
  arm.record.distance = size > 0 ? std::sqrt(difference / size) : 1;
  if (!(arm.record.distance <= kFarPeer))
    return Error{ErrorCode::internal,
                 fmt::format("its last outputs differ from ours by {:.2f} of their RMS: one of us is wrong",
                             arm.record.distance)};
  return {};
}

/// Many replays with changing inputs, each compared with the overlap off.
Result<void> replay_arm(const Work& work, const Arm& off, Arm& arm, i64 replays) {
  std::vector<DeviceBuffer> expected;
  for (int input = 0; input < ChainData::kInputs; ++input) {
    Result<DeviceBuffer> block = DeviceBuffer::allocate(work.lab.device, work.data.activations().bytes());
    if (!block) return block.error();
    expected.push_back(*std::move(block));
    if (Result<void> done = expect(work, off, input, expected.back()); !done) return done;
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

void keep_error(Arm& arm, const Result<void>& done) {
  if (!done) arm.record.error = fmt::format("{}: {}", name_of(done.error().code), done.error().message);
}

/// Arms that cannot run, or compute something else, are not timed.
void time_arms(const Work& work, std::vector<Arm>& arms, ChainRecord& record) {
  std::vector<Replay> replays;
  std::vector<Arm*> running;
  const LayerSpec& spec = work.data.spec();
  for (Arm& arm : arms) {
    if (!arm.record.right()) continue;
    replays.push_back({.launch = arm.replay, .launches = spec.layers * spec.passes});
    running.push_back(&arm);
  }
  const Method& method = work.lab.method;
  std::vector<Sample> samples;
  const auto times =
      time_in_turn(work.lab, replays, {.count = method.rounds, .rest_ms = method.rest_ms}, &samples);
  for (size_t i = 0; i < running.size(); ++i) {
    if (!times) {
      running[i]->record.error = times.error().message;
      continue;
    }
    running[i]->record.rounds = (*times)[i];
    running[i]->record.us = spread_of((*times)[i]);
  }
  record.telemetry = summarise(samples);
}

Result<void> measure(const Lab& lab, const ChainCase& item, const Phase& phase, ChainRecord& record) {
  phase("filling weights");
  const Result<ChainData> data = ChainData::create(lab, item.spec);
  if (!data) return data.error();
  const Result<Comparer> comparer = Comparer::create(lab);
  if (!comparer) return comparer.error();
  Result<DeviceBuffer> expected = DeviceBuffer::allocate(lab.device, data->activations().bytes());
  if (!expected) return expected.error();
  Work work{lab, phase, *data, *comparer, *std::move(expected), lab.workspace};

  std::vector<Arm> arms(1);
  arms[0].record.name = kChainOff;
  phase("preparing off");
  const ArmSpec off{.name = kChainOff, .options = {.overlap = ChainOverlap::off}};
  if (Result<void> done = prepare_arm(work, off, arms[0]); !done) return done;
  if (Result<void> done = expect(work, arms[0], 0, work.expected); !done) return done;
  if (Result<void> done = compare_arm(work, arms[0]); !done) return done;
  for (ArmSpec spec : item.arms) {
    if (spec.tune_s > 0) {
      const Result<ChainTuning> tuning = tune_chain(lab, *data, work.workspace, spec.tune_s, phase);
      if (!tuning) return tuning.error();
      spec.choices = tuning->choices;
      spec.options = {.overlap = ChainOverlap::off};  // the choices say it all
      phase(fmt::format("tuned: {:.2f} us a layer, {:.2f} before, {} of {} changes kept", tuning->tuned_us,
                        tuning->start_us, tuning->kept, tuning->tried));
    }
    phase(fmt::format("preparing {}", spec.name));
    Arm& arm = arms.emplace_back();
    arm.record.name = spec.name;
    Result<void> done = prepare_arm(work, spec, arm);
    if (done) done = compare_arm(work, arm);
    keep_error(arm, done);
  }
  if (item.replays > 0 && arms.back().record.right())
    keep_error(arms.back(), replay_arm(work, arms[0], arms.back(), item.replays));

  std::optional<ChainPeer> peer;
  if (item.against_peer) {
    phase("timing cuBLASLt's algorithms");
    Arm& arm = arms.emplace_back();
    arm.record.name = kChainPeer;
    Result<ChainPeer> made = ChainPeer::create(lab, *data);
    if (made) {
      peer = *std::move(made);
      arm.record.detail = peer->detail();
      Result<Graph> graph = Graph::capture(lab.device, lab.stream.get(),
                                           [&] { return peer->enqueue(*arms[0].chain, lab.stream.get()); });
      if (graph) {
        const auto owned = std::make_shared<const Graph>(*std::move(graph));
        arm.replay = [owned](Stream stream) { return owned->launch(stream); };
        keep_error(arm, judge_peer(work, arm));
      } else {
        keep_error(arm, graph.error());
      }
    } else {
      keep_error(arm, made.error());
    }
  }
  phase("timing in turn");
  if (Result<void> done = data->set_input(0, lab.stream.get()); !done) return done;
  time_arms(work, arms, record);
  for (Arm& arm : arms) record.arms.push_back(std::move(arm.record));
  return {};
}

}  // namespace

bool ArmRecord::right() const {
  if (!error.empty()) return false;
  return name == kChainPeer || differing == 0;
}

Result<ChainPlan> plan_arm(const LayerSpec& spec, const ArmSpec& arm, const DeviceInfo& device,
                           const RecordBook& records) {
  std::vector<ChainStep> steps = steps_of(spec, imagined_memory(spec), arm.prefetch_ratio);
  put_choices(arm.choices, steps);
  return plan_chain(steps, device, arm.options, records);
}

Result<std::vector<std::string>> units_of(const ChainCase& item, const DeviceInfo& device,
                                          const RecordBook& records, Stamping stamping) {
  std::vector<std::string> units{verify_unit_text(VerifyUnit::fill), verify_unit_text(VerifyUnit::check),
                                 Comparer::unit_text()};
  if (item.spec.weights == LayerWeights::int4)
    units.push_back(pack_unit_text(
        {.format = mixed_problem_of(item.spec, LayerProduct::qkv).weights, .codes = CodeStorage::nibble}));
  std::vector<ArmSpec> arms = item.arms;
  arms.push_back({.name = kChainOff, .options = {.overlap = ChainOverlap::off}});
  for (const ArmSpec& arm : arms) {
    const Result<ChainPlan> plan = plan_arm(item.spec, arm, device, records);
    if (!plan)
      return Error{plan.error().code,
                   fmt::format("{}, {}: {}", name_of(item.spec), arm.name, plan.error().message)};
    for (std::string& unit : units_of(*plan, stamping)) units.push_back(std::move(unit));
  }
  return units;
}

ChainRecord measure_chain(const Lab& lab, const ChainCase& item, const Phase& phase) {
  const Clock::time_point start = Clock::now();
  ChainRecord record{.spec = item.spec, .layer_weight_bytes = weight_bytes(item.spec)};
  if (const Result<void> done = measure(lab, item, phase, record); !done)
    record.error = fmt::format("{}: {}", name_of(done.error().code), done.error().message);
  record.wall_s = std::chrono::duration<double>(Clock::now() - start).count();
  return record;
}

double median_of(const ChainRecord& record, const std::string& arm) {
  for (const ArmRecord& a : record.arms)
    if (a.name == arm && a.right()) return a.us.median;
  return 0;
}

}  // namespace sluice::bench
