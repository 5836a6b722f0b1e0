// SPDX-License-Identifier: Apache-2.0
// Finalists are the planner's pick, the fastest of its candidates (--tune) and the fastest two of cuBLASLt's
// algorithms for each type.
#include "bench/packed_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include <sluice/check/packed_check.h>

#include "bench/contender/cublaslt_problem.h"
#include "bench/contender/read_floor.h"
#include "bench/contender/sluice_contender.h"
#include "bench/race.h"
#include "bench/shapes.h"

namespace sluice::bench {
namespace {

constexpr int kL2Multiple = 3;

/// A dense product of the same size, its operands, and who computes it.
struct Dense {
  Problem problem;
  std::vector<ProblemData> copies;
  int count() const { return static_cast<int>(copies.size()); }
};

/// State of one shape. Operands live here until all have been timed.
struct Session {
  const Lab& lab;
  const Phase& phase;
  ShapeRecord record;
  std::optional<packed::DeviceData> data, exact;  // exact: a small problem of whole numbers
  Dense fp8, half;
  std::vector<Entrant> finals;
  std::vector<Sample> samples;
};

int copies_of(const Lab& lab, i64 weight_bytes) {
  if (!lab.method.cold) return 1;
  const i64 wanted = ceil_div(kL2Multiple * lab.device.info().l2_bytes, std::max<i64>(weight_bytes, 1));
  return static_cast<int>(std::clamp<i64>(wanted, 2, kMostCopies));
}

Entrant failed(const char* name, const std::string& why) {
  Entrant entrant = entrant_of({.name = name});
  entrant.record.error = why;
  return entrant;
}

void verify_packed(const Session& session, const PackedConfig& config, Entrant& entrant) {
  const Stream stream = session.lab.stream.get();
  Result<void> done = session.data->poison(stream);
  if (done) done = entrant.contender.launch(0, stream);
  Result<Comparison> found =
      done ? session.data->check(0, packed::rounding_of(config)) : Result<Comparison>(done.error());
  // Real data have bounds. One small problem has none.
  if (found && found->passed()) {
    const Comparison real = *found;
    found = packed::check_config(session.lab.device, *session.exact, config, stream);
    if (found && found->passed()) found = real;  // whose errors are what is reported
  }
  take_verdict(entrant, found, true);
}

void verify_dense(const Session& session, Dense& dense, Entrant& entrant) {
  const Result<Comparison> found = verify(session.lab, entrant.contender, dense.copies[0]);
  take_verdict(entrant, found, found && found->checked > 0);
}

std::vector<packed::Plan> plans_for(const Lab& lab, const PackedCase& item, const packed::Plan& pick) {
  std::vector<packed::Plan> plans{pick};
  if (lab.method.tune <= 1) return plans;
  const auto all = packed::candidates(item.problem, lab.device.info(), item.overrides);
  if (!all) return plans;
  for (const packed::Plan& plan : *all) {
    if (static_cast<int>(plans.size()) >= lab.method.tune) break;
    if (!(plan.config == pick.config)) plans.push_back(plan);
  }
  return plans;
}

/// Our kernels: entrants[0] is the pick.
std::vector<Entrant> our_entrants(Session& session, const std::vector<packed::Plan>& plans) {
  session.phase(fmt::format("compiling {}", plans.size()));
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Result<packed::Kernel>> kernels = packed::prepare(session.lab.device, plans);
  session.record.compile_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::vector<Entrant> entrants;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const char* name = i == 0 ? kSluice : kSluiceTuned;
    if (!kernels[i]) {
      entrants.push_back(failed(name, kernels[i].error().message));
      continue;
    }
    const packed::DeviceData* data = &*session.data;
    entrants.push_back(entrant_of({.name = name,
                                   .detail = packed::short_name(plans[i].config),
                                   .launch = [kernel = *kernels[i], data](int copy, Stream stream) {
                                     return packed::launch(kernel, data->args(copy), stream);
                                   }}));
    entrants.back().copies = data->copies();
    session.phase(fmt::format("verifying {}", entrants.back().contender.detail));
    verify_packed(session, plans[i].config, entrants.back());
  }
  return entrants;
}

void enter_ours(Session& session, const std::vector<packed::Plan>& plans) {
  std::vector<Entrant> ours = our_entrants(session, plans);
  session.finals.push_back(ours[0]);
  if (ours.size() == 1) return;
  session.phase(fmt::format("screening {} candidates", ours.size()));
  const std::vector<Entrant*> best = best_of(session.lab, ours, session.data->copies());
  for (size_t i = 0; i < ours.size(); ++i)
    session.record.candidates.push_back({.name = packed::short_name(plans[i].config),
                                         .config = to_string(plans[i].config),
                                         .split = "",
                                         .estimate = {.total_us = plans[i].estimate_us},
                                         .us = ours[i].record.us.median,
                                         .verified = ours[i].record.verified,
                                         .error = ours[i].record.error});
  for (const Entrant* entrant : best) {
    session.finals.push_back(*entrant);
    session.finals.back().contender.name = session.finals.back().record.name = kSluiceTuned;
  }
}

/// cuBLASLt's fastest algorithms for a dense product, under one name.
void enter_peer(Session& session, Dense& dense, const char* name) {
  session.phase(fmt::format("screening {}", name));
  const auto peer = CublasLtProblem::create(session.lab, dense.copies);
  if (!peer) {
    session.finals.push_back(failed(name, peer.error().message));
    return;
  }
  std::vector<Entrant> entrants;
  for (int i = 0; i < (*peer)->algorithms(); ++i)
    entrants.push_back(entrant_of(cublaslt_contender(*peer, i, name)));
  session.record.peer_algorithms += (*peer)->algorithms();
  for (const Entrant* entrant : best_of(session.lab, entrants, dense.count())) {
    session.finals.push_back(*entrant);
    session.finals.back().copies = dense.count();
    session.finals.back().record.bytes = bytes_of_traffic(dense.problem);
    verify_dense(session, dense, session.finals.back());
  }
}

void enter_our_fp8(Session& session) {
  session.phase("preparing our FP8 product");
  const Device& device = session.lab.device;
  const Result<Plan> plan = gemm::plan(session.fp8.problem, device.info(), {}, device.records());
  const Result<gemm::Kernel> kernel =
      plan ? gemm::prepare(device, *plan) : Result<gemm::Kernel>(plan.error());
  if (!kernel) {
    session.finals.push_back(failed(kSluiceFp8, kernel.error().message));
    return;
  }
  session.finals.push_back(
      entrant_of(sluice_contender(session.lab, *kernel, session.fp8.copies, kSluiceFp8)));
  session.finals.back().copies = session.fp8.count();
  session.finals.back().record.bytes = bytes_of_traffic(session.fp8.problem);
  verify_dense(session, session.fp8, session.finals.back());
}

void enter_floor(Session& session) {
  Weights weights{.bytes = static_cast<i64>(session.record.weight_bytes)};
  for (int i = 0; i < session.data->copies(); ++i) weights.copies.push_back(session.data->args(i).weights);
  const Result<Contender> floor = read_floor_contender(session.lab, weights, kReadFloor);
  session.finals.push_back(floor ? entrant_of(*floor) : failed(kReadFloor, floor.error().message));
  session.finals.back().record.verified = true;  // it has no result
  session.finals.back().record.bytes = session.record.weight_bytes;
  session.finals.back().copies = session.data->copies();
}

void time_all(Session& session) {
  session.phase("timing in turn");
  std::vector<Entrant*> racers;
  for (Entrant& entrant : session.finals) racers.push_back(&entrant);
  const Method& method = session.lab.method;
  time_entrants(
      session.lab, racers,
      {.copies = session.data->copies(),
       .replay_us = method.replay_us,
       .rounds = {
           .count = method.rounds, .rest_ms = method.rest_ms, .clocks = true, .samples = &session.samples}});
  if (session.finals[0].record.error.empty())
    if (const Result<double> cost = host_cost_us(session.lab, session.finals[0].contender); cost)
      session.finals[0].record.host_us = *cost;
  for (const Entrant& entrant : session.finals) session.record.contenders.push_back(entrant.record);
  for (const char* name : {kSluiceTuned, kFp8PeerBest, kHalfPeerBest})
    keep_fastest(session.record.contenders, name);
}

/// Operands of all: ours, and those of the dense products.
Result<void> fill(Session& session, const PackedProblem& p) {
  session.phase("filling operands");
  Result<packed::HostData> host = packed::random_data(p, packed::DataKind::real, session.lab.method.seed);
  if (!host) return host.error();
  const i64 bytes = blob_bytes(p.weights, p.n, p.k);
  Result<packed::DeviceData> data =
      packed::DeviceData::create(session.lab.device, *std::move(host), copies_of(session.lab, bytes));
  if (!data) return data.error();
  session.data = *std::move(data);
  Result<packed::HostData> whole =
      packed::random_data(packed::small_problem(p), packed::DataKind::exact, session.lab.method.seed);
  if (!whole) return whole.error();
  Result<packed::DeviceData> exact = packed::DeviceData::create(session.lab.device, *std::move(whole));
  if (!exact) return exact.error();
  session.exact = *std::move(exact);
  session.record.copies = session.data->copies();
  session.fp8.problem = with_strides(plain_problem(p.m, p.n, p.k, DType::e4m3));
  session.half.problem = with_strides(plain_problem(p.m, p.n, p.k, is_16bit(p.x) ? p.x : DType::bf16));
  for (Dense* dense : {&session.fp8, &session.half}) {
    Result<std::vector<ProblemData>> copies = make_copies(session.lab, dense->problem, {});
    if (!copies) return copies.error();
    dense->copies = *std::move(copies);
  }
  return {};
}

}  // namespace

ShapeRecord measure_packed(const Lab& lab, const PackedCase& item, const Phase& phase) {
  const auto start = std::chrono::steady_clock::now();
  Session session{.lab = lab, .phase = phase};
  ShapeRecord& record = session.record;
  const auto finish = [&](const std::string& error) {
    record.error = error;
    record.telemetry = summarise(session.samples);
    record.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return record;
  };
  record.problem = plain_problem(item.problem.m, item.problem.n, item.problem.k, item.problem.x);
  record.packed = item.problem;
  const Result<packed::Plan> pick =
      packed::plan(item.problem, lab.device.info(), item.overrides, lab.device.records());
  if (!pick) return finish(fmt::format("{}: {}", name_of(pick.error().code), pick.error().message));
  record.packed = pick->problem;
  record.source = pick->source;
  record.weight_bytes = static_cast<double>(pick->weight_bytes);
  if (pick->weight_bytes == 0 || pick->problem.m == 0) return finish("an empty product has nothing to time");
  if (Result<void> filled = fill(session, pick->problem); !filled)
    return finish(fmt::format("{}: {}", name_of(filled.error().code), filled.error().message));
  enter_ours(session, plans_for(lab, item, *pick));
  enter_floor(session);
  enter_peer(session, session.fp8, kFp8PeerBest);
  enter_our_fp8(session);
  enter_peer(session, session.half, kHalfPeerBest);
  time_all(session);
  return finish("");
}

}  // namespace sluice::bench
