// SPDX-License-Identifier: Apache-2.0
// Screening costs about a millisecond a kernel and round; only the best two of each side are timed with care,
// beside the planner's pick and cuBLASLt's first heuristic.
#include "bench/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "bench/contender/cublaslt_problem.h"
#include "bench/contender/read_floor.h"
#include "bench/contender/sluice_contender.h"
#include "bench/race.h"

namespace sluice::bench {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// State of one shape.
struct Shape {
  const Lab& lab;
  const Phase& phase;
  ShapeRecord record;
  std::vector<ProblemData> copies;
  std::vector<Sample> samples;

  int copy_count() const { return static_cast<int>(copies.size()); }
};

/// Fills in what the check says. cuBLASLt's caveat makes a wrong result of it a known difference.
void verify_entrant(Shape& shape, Entrant& entrant) {
  const Result<Comparison> found = verify(shape.lab, entrant.contender, shape.copies[0]);
  const Problem& p = shape.record.problem;
  const bool has_elements = p.m > 0 && p.n > 0 && p.batch > 0;
  take_verdict(entrant, found, !has_elements || (found && found->checked > 0));
}

/// The planner's pick first, then its other candidates up to method.tune of all.
std::vector<Plan> plans_for(const Lab& lab, const Case& item, const Plan& pick) {
  std::vector<Plan> plans{pick};
  if (lab.method.tune <= 1) return plans;
  const Result<std::vector<Plan>> all = gemm::candidates(item.problem, lab.device.info(), item.overrides);
  if (!all) return plans;
  for (const Plan& plan : *all) {
    if (static_cast<int>(plans.size()) >= lab.method.tune) break;
    if (!(plan.config == pick.config && plan.split == pick.split)) plans.push_back(plan);
  }
  return plans;
}

CandidateRecord candidate_record(const Plan& plan, const ContenderRecord& timed) {
  return {.name = short_name(plan.config),
          .config = to_string(plan.config),
          .split = to_string(plan.split),
          .estimate = plan.estimate,
          .us = timed.us.median,
          .verified = timed.verified,
          .error = timed.error};
}

/// Our kernels: entrants[0] is the pick. With tuning, all are verified and screened, and recorded.
std::vector<Entrant> our_entrants(Shape& shape, const std::vector<Plan>& plans) {
  shape.phase(fmt::format("compiling {}", plans.size()));
  const Clock::time_point start = Clock::now();
  const std::vector<Result<gemm::Kernel>> kernels = gemm::prepare(shape.lab.device, plans);
  shape.record.compile_s = seconds_since(start);
  std::vector<Entrant> entrants;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const char* name = i == 0 ? kSluice : kSluiceTuned;
    if (kernels[i]) {
      entrants.push_back(entrant_of(sluice_contender(shape.lab, *kernels[i], shape.copies, name)));
      shape.phase(fmt::format("verifying {}", entrants.back().contender.detail));
      verify_entrant(shape, entrants.back());
    } else {
      entrants.push_back(entrant_of({.name = name, .detail = short_name(plans[i].config)}));
      entrants.back().record.error = kernels[i].error().message;
    }
  }
  return entrants;
}

std::vector<Entrant> peer_entrants(Shape& shape) {
  shape.phase("asking cuBLASLt");
  const auto peer = CublasLtProblem::create(shape.lab, shape.copies);
  std::vector<Entrant> entrants;
  if (!peer) {
    entrants.push_back(entrant_of({.name = kPeerFirst}));
    entrants.back().record.error = peer.error().message;
    return entrants;
  }
  shape.record.peer_algorithms = (*peer)->algorithms();
  shape.record.peer_caveat = (*peer)->caveat();
  for (int i = 0; i < (*peer)->algorithms(); ++i)
    entrants.push_back(entrant_of(cublaslt_contender(*peer, i, kPeerFirst)));
  verify_entrant(shape, entrants[0]);
  return entrants;
}

/// A finalist under another name; verified if it was not yet.
void add_finalist(Shape& shape, const Entrant& from, const char* name, std::vector<Entrant>& finals) {
  finals.push_back(from);
  finals.back().contender.name = finals.back().record.name = name;
  if (finals.back().record.verdict.empty()) verify_entrant(shape, finals.back());
}

Weights weights_of(std::span<const ProblemData> copies) {
  const Problem& p = copies.front().problem();
  Weights weights{.bytes = p.n * p.k * p.batch * bytes_of(p.b.type)};
  for (const ProblemData& copy : copies) weights.copies.push_back(copy.args().b);
  return weights;
}

void race(Shape& shape, const std::vector<Plan>& plans) {
  std::vector<Entrant> ours = our_entrants(shape, plans);
  std::vector<Entrant> peers = peer_entrants(shape);
  std::vector<Entrant> finals{ours[0], peers[0]};
  if (ours.size() > 1) {
    shape.phase(fmt::format("screening {} candidates", ours.size()));
    const std::vector<Entrant*> best = best_of(shape.lab, ours, shape.copy_count());
    for (size_t i = 0; i < ours.size(); ++i)
      shape.record.candidates.push_back(candidate_record(plans[i], ours[i].record));
    for (const Entrant* entrant : best) add_finalist(shape, *entrant, kSluiceTuned, finals);
  }
  if (peers[0].contender.launch) {
    shape.phase(fmt::format("screening {} cuBLASLt algorithms", peers.size()));
    for (const Entrant* entrant : best_of(shape.lab, peers, shape.copy_count()))
      add_finalist(shape, *entrant, kPeerBest, finals);
  }

  if (is_mostly_weights(shape.record.problem)) {
    Result<Contender> floor = read_floor_contender(shape.lab, weights_of(shape.copies), kReadFloor);
    finals.push_back(entrant_of(floor ? *floor : Contender{.name = kReadFloor}));
    finals.back().record.verified = true;  // it has no result
    if (!floor) finals.back().record.error = floor.error().message;
  }

  shape.phase("timing in turn");
  std::vector<Entrant*> racers;
  for (Entrant& entrant : finals) racers.push_back(&entrant);
  const Method& method = shape.lab.method;
  time_entrants(
      shape.lab, racers,
      {.copies = shape.copy_count(),
       .replay_us = method.replay_us,
       .rounds = {
           .count = method.rounds, .rest_ms = method.rest_ms, .clocks = true, .samples = &shape.samples}});
  for (size_t i = 0; i < std::min<size_t>(finals.size(), 2); ++i)
    if (finals[i].record.error.empty())
      if (const Result<double> cost = host_cost_us(shape.lab, finals[i].contender); cost)
        finals[i].record.host_us = *cost;
  for (const Entrant& entrant : finals) shape.record.contenders.push_back(entrant.record);
  keep_fastest(shape.record.contenders, kSluiceTuned);
  keep_fastest(shape.record.contenders, kPeerBest);
}

}  // namespace

ShapeRecord measure_shape(const Lab& lab, const Case& item, const Phase& phase) {
  const Clock::time_point start = Clock::now();
  Shape shape{.lab = lab, .phase = phase, .record = {.problem = item.problem}};
  const auto give_up = [&](const Error& error) {
    shape.record.error = fmt::format("{}: {}", name_of(error.code), error.message);
    shape.record.wall_s = seconds_since(start);
    return shape.record;
  };
  const Result<Plan> pick = gemm::plan(item.problem, lab.device.info(), item.overrides, lab.device.records());
  if (!pick) return give_up(pick.error());
  shape.record.problem = pick->problem;
  shape.record.source = pick->source;
  phase("filling operands");
  Result<std::vector<ProblemData>> copies =
      make_copies(lab, pick->problem, {.alpha = item.alpha, .beta = item.beta});
  if (!copies) return give_up(copies.error());
  shape.copies = std::move(*copies);
  shape.record.copies = shape.copy_count();
  race(shape, plans_for(lab, item, *pick));
  shape.record.telemetry = summarise(shape.samples);
  shape.record.wall_s = seconds_since(start);
  return shape.record;
}

Result<void> still_alive(const Lab& lab) {
  return synchronize(lab.device);
}

}  // namespace sluice::bench
