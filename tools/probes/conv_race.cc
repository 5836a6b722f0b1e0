// SPDX-License-Identifier: Apache-2.0
#include "tools/probes/conv_race.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include <sluice/try.h>

#include "bench/contender/sluice_contender.h"
#include "bench/errors.h"
#include "bench/race.h"
#include "tools/probes/conv_lines.h"
#include "tools/probes/conv_sample.h"

namespace sluice::probes {
namespace {

using bench::CudnnTensor;
using Clock = std::chrono::steady_clock;

constexpr CudnnTensor kTensors[] = {CudnnTensor::x, CudnnTensor::w, CudnnTensor::y};
constexpr bench::Rounds kScreenRounds{.count = 3, .rest_ms = 1};
constexpr double kScreenReplayUs = 800;
constexpr int kDeterministicFinalists = 2;
constexpr i64 kL2Multiple = 3;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One set of operands: x, w, y.
struct Operands {
  DeviceBuffer tensors[3];

  const DeviceBuffer& of(CudnnTensor tensor) const { return tensors[static_cast<int>(tensor)]; }
  bench::CudnnPointers pointers() const { return {tensors[0].data(), tensors[1].data(), tensors[2].data()}; }
};

class Race {
 public:
  Race(const bench::Lab& lab, const bench::Cudnn& cudnn, const ConvKernels& kernels, const RaceRules& rules,
       const bench::Phase& phase, ConvRecord& record)
      : lab_(lab), cudnn_(cudnn), kernels_(kernels), rules_(rules), phase_(phase), record_(record) {}

  Result<void> run() {
    SLUICE_TRY(build());
    SLUICE_TRY(allocate());
    SLUICE_TRY(check_all());
    screen();
    final();
    return bench::still_alive(lab_);
  }

 private:
  const bench::CudnnConvolution& problem() const { return record_.problem; }
  CudnnTensor result() const { return bench::result_of(problem().conv.op); }
  Stream stream() const { return lab_.stream.get(); }

  Result<void> build() {
    phase_("plans");
    const Clock::time_point start = Clock::now();
    const ContextScope scope(tools::context_of(lab_.device));
    SLUICE_TRY(scope.entered());
    SLUICE_TAKE(bench::CudnnPlans found, bench::plans_of(cudnn_, problem(), rules_.most_workspace));
    record_.build_s = seconds_since(start);
    record_.refused = std::move(found.refused);
    record_.engines = found.engines;
    record_.engines_refused = found.engines_refused;
    for (bench::CudnnPlan& plan : found.plans) record_.plans.push_back({.plan = std::move(plan)});
    if (record_.plans.empty()) return error_of(ErrorCode::driver, "cuDNN has no plan");
    return {};
  }

  Result<void> allocate() {
    phase_("operands");
    i64 set_bytes = 0, workspace = 1;
    for (const CudnnTensor tensor : kTensors) set_bytes += bytes(tensor);
    for (const PlanRecord& plan : record_.plans) workspace = std::max(workspace, plan.plan.workspace_bytes);
    record_.set_mb = static_cast<double>(set_bytes) / (1 << 20);
    record_.copies = copies_of(set_bytes, lab_.device.info().l2_bytes, lab_.method.cold);
    for (int copy = 0; copy < record_.copies; ++copy) {
      Operands set;
      for (const CudnnTensor tensor : kTensors) {
        DeviceBuffer& buffer = set.tensors[static_cast<int>(tensor)];
        SLUICE_TAKE(buffer, DeviceBuffer::allocate(lab_.device, bytes(tensor)));
        const u64 seed = lab_.method.seed + static_cast<u64>(3 * copy + static_cast<int>(tensor));
        SLUICE_TRY(tensor == result() ? buffer.fill(0, stream())
                                      : kernels_.fill(buffer, problem().inputs, seed, stream()));
      }
      pointers_.push_back(set.pointers());
      sets_.push_back(std::move(set));
    }
    SLUICE_TAKE(workspace_, DeviceBuffer::allocate(lab_.device, workspace));
    SLUICE_TAKE(wanted_, DeviceBuffer::allocate(lab_.device, bytes(result())));
    return lab_.stream.synchronize();
  }

  i64 bytes(CudnnTensor tensor) const {
    return bench::span_of(problem(), tensor) * bytes_of(bench::type_of(problem(), tensor));
  }

  bench::Contender contender(const PlanRecord& plan) const {
    return bench::cudnn_contender(lab_.device, plan.plan, pointers_, workspace_.data(), plan.plan.tag);
  }

  /// Runs each plan on the first set, into poison; the first that runs is what others are compared with.
  Result<void> check_all() {
    bool any = false;
    for (size_t i = 0; i < record_.plans.size(); ++i) {
      PlanRecord& plan = record_.plans[i];
      phase_(fmt::format("check {} of {}: {}", i + 1, record_.plans.size(), plan.plan.tag));
      const Result<void> ran = run_once(plan, any);
      if (!ran) plan.error = ran.error().message;
      SLUICE_TRY(bench::still_alive(lab_));
      if (ran) any = true;
    }
    return any ? Result<void>{} : error_of(ErrorCode::driver, "no plan of cuDNN's runs");
  }

  Result<void> run_once(PlanRecord& plan, bool compare) {
    const DeviceBuffer& written = sets_[0].of(result());
    const bench::Contender runner = contender(plan);
    SLUICE_TRY(written.fill(0xff, stream()));
    SLUICE_TRY(runner.launch(0, stream()));
    SLUICE_TRY(lab_.stream.synchronize());
    const DType type = bench::type_of(problem(), result());
    if (!compare) {
      SLUICE_TRY(tools::copy_async(lab_.device, wanted_, written.data(), stream()));
      SLUICE_TRY(lab_.stream.synchronize());
      SLUICE_TRY(take_samples());
    }
    SLUICE_TAKE(plan.difference, kernels_.compare(written, wanted_, type, stream()));
    plan.wrong = plan.difference.not_finite > 0 || !(plan.difference.relative <= rules_.tolerance);
    SLUICE_TRY(lab_.start.record(stream()));
    SLUICE_TRY(runner.launch(0, stream()));
    SLUICE_TRY(lab_.stop.record(stream()));
    SLUICE_TRY(lab_.stop.synchronize());
    SLUICE_TAKE(plan.probe_us, lab_.stop.microseconds_since(lab_.start));
    plan.us = {plan.probe_us, plan.probe_us, plan.probe_us};
    plan.timed = Timed::probe;
    return {};
  }

  /// Brings set 0 to the host, and compares samples of the result with the definition.
  Result<void> take_samples() {
    std::vector<u8> memory[3];
    HostTensors host;
    HostTensor* const tensors[] = {&host.x, &host.w, &host.y};
    for (const CudnnTensor tensor : kTensors) {
      std::vector<u8>& bytes_of_it = memory[static_cast<int>(tensor)];
      bytes_of_it.resize(static_cast<size_t>(bytes(tensor)));
      SLUICE_TRY(sets_[0].of(tensor).download(bytes_of_it.data(), bytes(tensor)));
      *tensors[static_cast<int>(tensor)] = {bench::type_of(problem(), tensor), bytes_of_it.data()};
    }
    const SampleError found = sample_error(problem(), host, rules_.sampled_products);
    record_.samples = found.count;
    record_.sample_error = found.worst;
    record_.samples_wrong = !(found.worst <= rules_.tolerance);
    return {};
  }

  /// Times plans in turn and keeps what each stage gives.
  void time(const std::vector<PlanRecord*>& plans, const bench::Timing& timing, Timed stage) {
    std::vector<bench::Entrant> entrants;
    for (const PlanRecord* plan : plans) entrants.push_back(bench::entrant_of(contender(*plan)));
    std::vector<bench::Entrant*> all;
    for (bench::Entrant& entrant : entrants) all.push_back(&entrant);
    bench::time_entrants(lab_, all, timing);
    for (size_t i = 0; i < plans.size(); ++i) {
      const bench::ContenderRecord& timed = entrants[i].record;
      if (!timed.error.empty()) {
        plans[i]->error = timed.error;
        continue;
      }
      plans[i]->us = timed.us;
      plans[i]->sm_mhz = timed.sm_mhz;
      plans[i]->timed = stage;
    }
  }

  void screen() {
    double least = 0;
    for (const PlanRecord& plan : record_.plans)
      if (plan.error.empty() && (least == 0 || plan.probe_us < least)) least = plan.probe_us;
    std::vector<PlanRecord*> hopeful;
    for (PlanRecord& plan : record_.plans)
      if (plan.error.empty() && plan.probe_us <= rules_.hopeless * least) hopeful.push_back(&plan);
    // The heuristic's first is always timed: it is what a user gets.
    if (PlanRecord* first = first_right(); first != nullptr && first->probe_us > rules_.hopeless * least)
      hopeful.push_back(first);
    phase_(fmt::format("screen {} plans", hopeful.size()));
    time(hopeful, {.copies = record_.copies, .replay_us = kScreenReplayUs, .rounds = kScreenRounds},
         Timed::screen);
  }

  PlanRecord* first_right() {
    for (PlanRecord& plan : record_.plans)
      if (plan.error.empty() && !plan.wrong) return &plan;
    return nullptr;
  }

  void final() {
    std::vector<PlanRecord*> order;
    for (PlanRecord& plan : record_.plans)
      if (plan.usable()) order.push_back(&plan);
    std::stable_sort(order.begin(), order.end(),
                     [](const PlanRecord* a, const PlanRecord* b) { return a->us.median < b->us.median; });
    std::vector<PlanRecord*> chosen;
    const auto choose = [&](PlanRecord* plan) {
      if (std::find(chosen.begin(), chosen.end(), plan) == chosen.end()) chosen.push_back(plan);
    };
    for (PlanRecord* plan : order)
      if (static_cast<int>(chosen.size()) < rules_.finalists) choose(plan);
    int deterministic = 0;
    for (PlanRecord* plan : order)
      if (plan->plan.deterministic() && deterministic < kDeterministicFinalists)
        choose(plan), ++deterministic;
    if (PlanRecord* first = first_right(); first != nullptr && first->usable()) choose(first);
    phase_(fmt::format("time {} plans", chosen.size()));
    std::vector<bench::Sample> samples;
    time(chosen,
         {.copies = record_.copies,
          .replay_us = lab_.method.replay_us,
          .rounds = {.count = lab_.method.rounds,
                     .rest_ms = lab_.method.rest_ms,
                     .clocks = true,
                     .samples = &samples}},
         Timed::final);
    record_.telemetry = bench::summarise(samples);
  }

  const bench::Lab& lab_;
  const bench::Cudnn& cudnn_;
  const ConvKernels& kernels_;
  const RaceRules& rules_;
  const bench::Phase& phase_;
  ConvRecord& record_;
  std::vector<Operands> sets_;
  std::vector<bench::CudnnPointers> pointers_;
  DeviceBuffer workspace_, wanted_;
};

/// The fastest of the plans of the last stage that any of them reached.
template <class Accept>
const PlanRecord* fastest(const std::vector<PlanRecord>& plans, const Accept& accept) {
  const PlanRecord* best = nullptr;
  for (const PlanRecord& plan : plans) {
    if (!plan.usable() || !accept(plan)) continue;
    if (best == nullptr || plan.timed > best->timed ||
        (plan.timed == best->timed && plan.us.median < best->us.median))
      best = &plan;
  }
  return best;
}

}  // namespace

int copies_of(i64 set_bytes, i64 l2_bytes, bool cold) {
  if (!cold) return 1;
  const i64 bytes = std::max<i64>(set_bytes, 1);
  const i64 wanted = 1 + std::max<i64>(ceil_div(kL2Multiple * l2_bytes, bytes), 1);
  const i64 most = std::max<i64>(bench::kMaxDataBytes / bytes, 1);
  return static_cast<int>(std::min({wanted, most, i64{bench::kMostCopies}}));
}

const PlanRecord* ConvRecord::first() const {
  for (const PlanRecord& plan : plans)
    if (plan.usable()) return &plan;
  return nullptr;
}
const PlanRecord* ConvRecord::best() const {
  return fastest(plans, [](const PlanRecord&) { return true; });
}
const PlanRecord* ConvRecord::best_deterministic() const {
  return fastest(plans, [](const PlanRecord& plan) { return plan.plan.deterministic(); });
}

ConvRecord race(const bench::Lab& lab, const bench::Cudnn& cudnn, const ConvKernels& kernels,
                const bench::CudnnConvolution& problem, const RaceRules& rules, const bench::Phase& phase) {
  const Clock::time_point start = Clock::now();
  ConvRecord record{.problem = problem};
  if (const Result<void> done = Race(lab, cudnn, kernels, rules, phase, record).run(); !done)
    record.error = done.error().message;
  for (PlanRecord& plan : record.plans) plan.plan.plan.reset();  // frees its kernels; the words stay
  record.wall_s = seconds_since(start);
  return record;
}

}  // namespace sluice::probes
