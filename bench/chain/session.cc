// SPDX-License-Identifier: Apache-2.0
// All variants share weights and activations, and run one after the other in one stream.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include <sluice/bench/chain.h>
#include <sluice/chain.h>
#include <sluice/chain/tuning/tune.h>
#include <sluice/check/verify_units.h>
#include <sluice/plan/device_rates.h>
#include <sluice/plan/text/pack_units.h>
#include <sluice/quantiles.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/memory.h>
#include <sluice/try.h>

#include "bench/chain/arms.h"
#include "bench/chain/peer.h"
#include "bench/measure.h"

namespace sluice::bench {
namespace {

using Clock = std::chrono::steady_clock;

void keep_error(Arm& arm, const Result<void>& done) {
  if (!done) arm.record.error = fmt::format("{}: {}", name_of(done.error().code), done.error().message);
}

/// Times in turn the variants that run and compute the right values.
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
  const auto times = time_in_turn(work.lab, replays,
                                  {.count = method.rounds, .rest_ms = method.rest_ms, .samples = &samples});
  for (size_t i = 0; i < running.size(); ++i) {
    if (!times) {
      running[i]->record.error = times.error().message;
      continue;
    }
    running[i]->record.rounds = (*times)[i].us;
    running[i]->record.us = quantiles_of((*times)[i].us);
  }
  record.telemetry = summarise(samples);
}

/// Makes the arm with the peer's products; failures become the arm's error.
Arm peer_arm(const Work& work, const Arm& off) {
  work.phase("timing cuBLASLt's algorithms");
  Arm arm;
  arm.record.name = kChainPeer;
  Result<ChainPeer> made = ChainPeer::create(work.lab, work.data);
  if (!made) {
    keep_error(arm, made.error());
    return arm;
  }
  arm.record.detail = made->detail();
  Result<Graph> graph = Graph::capture(work.lab.device, work.stream(),
                                       [&] { return made->enqueue(*off.chain, work.stream()); });
  if (!graph) {
    keep_error(arm, graph.error());
    return arm;
  }
  const auto kept = std::make_shared<const std::pair<ChainPeer, Graph>>(*std::move(made), *std::move(graph));
  arm.replay = [kept](Stream stream) { return kept->second.launch(stream); };
  keep_error(arm, judge_distance(work, off, arm));
  return arm;
}

ChainSearch search_of(const tuning::Found& found) {
  ChainSearch search{.axes = {},
                     .tried = found.tried(),
                     .kept = found.kept(),
                     .refused = found.refused,
                     .why_refused = found.why_refused};
  for (const tuning::AxisGain& axis : found.axes)
    search.axes.push_back({axis.name, axis.tried, axis.kept, axis.gain});
  return search;
}

/// Tunes the variant if the spec says so, then captures it as a graph and compares its results.
Result<void> make_arm(const Work& work, ArmSpec spec, const Arm& off, Arm& arm) {
  arm.record.name = spec.name;
  if (spec.tune_s > 0) {
    SLUICE_TAKE(const LayerTuning layer,
                tune_chain(work.lab, work.data, {spec.fusion, spec.tune_s, spec.trials}, work.phase));
    arm.tuning = layer;
    const tuning::Found& found = layer.tuning.found;
    arm.record.search = search_of(found);
    spec.choices = found.choices;
    // The tuner's choices already contain the overlap of each step.
    spec.options = {.overlap = ChainOverlap::off};
    work.phase(fmt::format("tuned: {:.2f} us a layer, {:.2f} before, {} of {} changes kept", layer.tuned_us,
                           layer.start_us, found.kept(), found.tried()));
  }
  work.phase(fmt::format("preparing {}", spec.name));
  SLUICE_TRY(prepare_arm(work, spec, arm));
  SLUICE_TRY(set_reference(work, arm));
  SLUICE_TRY(compare_arm(work, arm));
  if (arm.record.detail == off.record.detail) return {};  // same kernels: `off` is the reference
  if (!work.checks_products) return {};                   // the fake driver's kernels compute nothing
  return judge_distance(work, off, arm);
}

/// Returns the time of a layer with this fusion, the kernels that are fastest alone and no overlap. Returns 0
/// if there is no such variant or it failed. arms[0] is unfused; arms[i + 1] belongs to item.arms[i].
double off_us(const ChainCase& item, const std::vector<Arm>& arms, Fusion fusion) {
  if (fusion == Fusion::none) return arms[0].record.us.median;
  for (size_t i = 0; i < item.arms.size(); ++i) {
    const ArmSpec& spec = item.arms[i];
    const bool as_off = spec.options.overlap == ChainOverlap::off && spec.options.smem_limit == 0 &&
                        spec.options.most_stages == 0 && spec.choices.empty() && !spec.add;
    if (spec.fusion == fusion && as_off) return arms[i + 1].record.us.median;
  }
  return 0;
}

Result<void> measure(const Lab& lab, const ChainCase& item, const Phase& phase, ChainRecord& record) {
  phase("filling weights");
  SLUICE_TAKE(const ChainData data, ChainData::create(lab, item.spec));
  SLUICE_TAKE(const Comparer comparer, Comparer::create(lab));
  SLUICE_TAKE(DeviceBuffer expected, DeviceBuffer::allocate(lab.device, data.activations().bytes()));
  const Work work{lab, phase, data, comparer, std::move(expected), lab.workspace, !item.on_fake};

  std::vector<Arm> arms(1);
  phase("preparing off");
  const ArmSpec off{.name = kChainOff, .options = {.overlap = ChainOverlap::off}};
  SLUICE_TRY(prepare_arm(work, off, arms[0]));
  arms[0].reference = arms[0].replay;
  SLUICE_TRY(compare_arm(work, arms[0]));
  for (const ArmSpec& spec : item.arms) {
    Arm arm;
    keep_error(arm, make_arm(work, spec, arms[0], arm));
    arms.push_back(std::move(arm));
  }
  for (size_t i = 1; i < arms.size() && item.replays > 0; ++i)
    if (arms[i].record.right()) keep_error(arms[i], replay_arm(work, arms[i], item.replays));
  if (item.against_peer) arms.push_back(peer_arm(work, arms[0]));
  phase("timing in turn");
  SLUICE_TRY(data.set_input(0, lab.stream.get()));
  time_arms(work, arms, record);
  for (size_t i = 1; i < arms.size(); ++i) {
    if (!arms[i].tuning) continue;
    const Times times{arms[i].record.us.median, off_us(item, arms, item.arms[i - 1].fusion)};
    if (times.tuned_us > 0 && times.off_us > 0)
      record.tuned.push_back(std::make_shared<const TunedChain>(tuned_chain(lab, *arms[i].tuning, times)));
  }
  for (Arm& arm : arms) record.arms.push_back(std::move(arm.record));
  return {};
}

}  // namespace

double chain_peak_bytes_per_us(const DeviceInfo& device) {
  return 4.6e6 * hbm_share(device);
}

bool ArmRecord::right() const {
  if (!error.empty()) return false;
  return name == kChainPeer || differing == 0;
}

Result<ChainPlan> plan_arm(const LayerSpec& spec, const ArmSpec& arm, const DeviceInfo& device,
                           const RecordBook& records) {
  std::vector<ChainStep> steps = steps_of(fused(spec, arm.fusion), imagined_memory(spec));
  put_choices(arm.choices, steps);
  if (arm.add) arm.add(steps);
  return plan_chain(steps, device, arm.options, records);
}

std::string missing_record(const ChainPlan& plan, const ChainOptions& options) {
  const bool any =
      std::any_of(plan.steps.begin(), plan.steps.end(), [](const PlannedStep& s) { return s.tuned; });
  if (options.overlap != ChainOverlap::tuned || any) return "";
  return "no record of these steps on this GPU: as weights_first; --tune measures one\n";
}

std::vector<std::string> data_units_of(const ChainCase& item) {
  std::vector<std::string> units{verify_unit_text(VerifyUnit::fill), verify_unit_text(VerifyUnit::check),
                                 Comparer::unit_text()};
  if (item.spec.weights == LayerWeights::int4)
    units.push_back(pack_unit_text(
        {.format = packed_problem_of(item.spec, LayerProduct::qkv).b.packed, .codes = CodeStorage::nibble}));
  return units;
}

Result<std::vector<std::string>> units_of(const ChainCase& item, const DeviceInfo& device,
                                          const RecordBook& records) {
  std::vector<std::string> units;
  std::vector<ArmSpec> arms = item.arms;
  arms.push_back({.name = kChainOff, .options = {.overlap = ChainOverlap::off}});
  for (const ArmSpec& arm : arms) {
    const Result<ChainPlan> plan = plan_arm(item.spec, arm, device, records);
    if (!plan)
      return Error{plan.error().code,
                   fmt::format("{}, {}: {}", name_of(item.spec), arm.name, plan.error().message)};
    for (std::string& unit : units_of(*plan)) units.push_back(std::move(unit));
  }
  return units;
}

ChainRecord measure_chain(const Lab& lab, const ChainCase& item, const Phase& phase) {
  const Clock::time_point start = Clock::now();
  ChainRecord record{.spec = item.spec,
                     .layer_weight_bytes = weight_bytes(item.spec),
                     .peak_bytes_per_us = chain_peak_bytes_per_us(lab.device.info())};
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
