// SPDX-License-Identifier: Apache-2.0
// Screening takes about a millisecond per kernel and round. Only the planner's pick, cuBLASLt's first
// algorithm, and the two fastest kernels of each library are timed carefully.
#include <sluice/bench/session.h>

#include <fmt/format.h>

#include <chrono>
#include <list>

#include <sluice/try.h>

#include "bench/contender/conv_peers.h"
#include "bench/contender/cublaslt_problem.h"
#include "bench/contender/read_floor.h"
#include "bench/contender/sluice_contender.h"
#include "bench/lab.h"
#include "bench/operands/store.h"
#include "bench/race.h"
#include "bench/shapes.h"

namespace sluice::bench {
namespace {

constexpr size_t kMostJudged = 8;  // fastest plans of a peer to check, at most, until two are right

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string text_of(const Error& error) {
  return fmt::format("{}: {}", name_of(error.code), error.message);
}

Entrant failed(const char* name, const std::string& detail, const Error& error) {
  Entrant entrant = entrant_of({.name = name, .detail = detail});
  entrant.record.error = error.message;
  return entrant;
}

/// Measures one shape. Owns the operands until all contenders have been timed.
class Session {
 public:
  Session(const Lab& lab, const Planned& item, const Phase& phase)
      : lab_(lab), item_(item), phase_(phase), store_(lab, kAllElements) {
    record_.problem = item.plan.problem;
    record_.problem.conv = item.request.problem.conv;
    record_.source = item.plan.source;
  }

  ShapeRecord run() {
    const Clock::time_point start = Clock::now();
    if (const Result<void> done = measure(); !done) record_.error = text_of(done.error());
    record_.telemetry = summarise(samples_);
    record_.wall_s = seconds_since(start);
    return std::move(record_);
  }

 private:
  Result<void> measure() {
    const bool packed = is_packed(record_.problem);
    if (packed && has_no_product(record_.problem)) {
      record_.error = "an empty product has nothing to time";
      return {};
    }
    phase_("filling operands");
    SLUICE_TAKE(const auto opened, store_.open(record_.problem, scalars_of(item_.request)));
    ours_ = opened;
    record_.copies = ours_->copies();
    if (packed) SLUICE_TRY(fill_dense_peers(record_.problem));
    enter_ours();
    if (packed)
      enter_dense_peers();
    else if (is_conv(record_.problem.conv))
      enter_conv_peers();
    else
      enter_peers();
    time_all();
    return {};
  }

  // ---- ours ----
  /// Returns the plans to prepare: the given plan, then the planner's other candidates, Method::tune in all.
  /// Last comes the winner of a race, unless it is one of them.
  std::vector<Plan> plans() const {
    std::vector<Plan> all{item_.plan};
    const Result<std::vector<Plan>> ranked =
        lab_.method.tune > 1 ? candidates_of(item_.request, lab_.device.info()) : std::vector<Plan>();
    for (const Plan& plan : ranked ? *ranked : std::vector<Plan>()) {
      if (static_cast<int>(all.size()) >= lab_.method.tune) break;
      if (!is_same(plan, item_.plan)) all.push_back(plan);
    }
    if (item_.raced && *item_.raced && place_in(all, **item_.raced) == all.size())
      all.push_back(**item_.raced);
    return all;
  }

  /// Index of a plan in `all`; all.size() if it is not there.
  static size_t place_in(const std::vector<Plan>& all, const Plan& plan) {
    const auto same = [&](const Plan& one) { return is_same(one, plan); };
    return static_cast<size_t>(std::find_if(all.begin(), all.end(), same) - all.begin());
  }

  /// Prepares and checks a contender for each plan. The first is that of the given plan.
  std::vector<Entrant> our_entrants(const std::vector<Plan>& plans) {
    phase_(fmt::format("compiling {}", plans.size()));
    const Clock::time_point start = Clock::now();
    std::vector<Result<Contender>> contenders = ours_->prepare(plans);
    record_.compile_s = seconds_since(start);
    std::vector<Entrant> entrants;
    for (size_t i = 0; i < contenders.size(); ++i) {
      const char* name = i == 0 ? kSluice : kSluiceTuned;
      if (!contenders[i]) {
        entrants.push_back(failed(name, short_name(plans[i].config), contenders[i].error()));
        continue;
      }
      contenders[i]->name = name;
      entrants.push_back(entrant_of(*std::move(contenders[i])));
      entrants.back().copies = ours_->copies();
      phase_(fmt::format("verifying {}", entrants.back().contender.detail));
      const Result<Comparison> found = judged(*ours_, entrants.back().contender, plans[i]);
      take_verdict(entrants.back(), found, !has_elements() || (found && found->checked > 0));
    }
    return entrants;
  }

  /// Adds the given plan, and the winner of its race, to the final race. With tuning: times all candidates
  /// briefly, records them, and adds the best two.
  void enter_ours() {
    const std::vector<Plan> all = plans();
    std::vector<Entrant> entrants = our_entrants(all);
    finals_.push_back(entrants[0]);
    if (item_.raced && !*item_.raced) finals_.push_back(failed(kSluiceRaced, "", item_.raced->error()));
    if (item_.raced && *item_.raced) enter(entrants[place_in(all, **item_.raced)], kSluiceRaced);
    if (lab_.method.tune <= 1 || entrants.size() == 1) return;
    phase_(fmt::format("screening {} candidates", entrants.size()));
    const std::vector<Entrant*> best = best_of(lab_, entrants, ours_->copies());
    for (size_t i = 0; i < entrants.size(); ++i)
      record_.candidates.push_back({.name = short_name(all[i].config),
                                    .config = config_text(all[i]),
                                    .split = split_text(all[i]),
                                    .estimate = all[i].estimate,
                                    .us = entrants[i].record.us.median,
                                    .verified = entrants[i].record.verified,
                                    .error = entrants[i].record.error,
                                    .plan = all[i]});
    for (const Entrant* entrant : best) enter(*entrant, kSluiceTuned);
  }

  bool has_elements() const {
    const Problem& p = record_.problem;
    return is_packed(p) || (p.m > 0 && p.n > 0 && p.batch > 0);
  }

  // ---- peers ----
  Entrant& enter(const Entrant& entrant, const char* name) {
    finals_.push_back(entrant);
    finals_.back().contender.name = finals_.back().record.name = name;
    return finals_.back();
  }

  void enter_floor() {
    const i64 bytes = weight_bytes(record_.problem);
    const Result<Contender> floor = read_floor_contender(lab_, {ours_->weights(), bytes}, kReadFloor);
    finals_.push_back(floor ? entrant_of(*floor) : failed(kReadFloor, "", floor.error()));
    finals_.back().copies = ours_->copies();
    finals_.back().record.verified = true;  // its only output is a read, so nothing can be wrong
    if (is_packed(record_.problem)) finals_.back().record.bytes = static_cast<double>(bytes);
  }

  void verify_dense(DenseOperands& operands, Entrant& entrant) {
    const Result<Comparison> found = verify(lab_, entrant.contender, operands.sets()[0]);
    take_verdict(entrant, found, !has_elements() || (found && found->checked > 0));
  }

  /// All cuBLASLt algorithms for a dense product; one failed contender if cuBLASLt refuses it.
  std::vector<Entrant> peers_for(DenseOperands& operands, const char* name) {
    const auto peer = CublasLtProblem::create(lab_, operands.sets());
    if (!peer) return {failed(name, "", peer.error())};
    record_.peer_algorithms += (*peer)->algorithms();
    record_.peer_caveat = (*peer)->caveat();
    std::vector<Entrant> entrants;
    for (int i = 0; i < (*peer)->algorithms(); ++i) {
      entrants.push_back(entrant_of(cublaslt_contender(*peer, i, name)));
      entrants.back().copies = operands.copies();
    }
    return entrants;
  }

  /// Adds cuBLASLt's first algorithm and its two fastest to the final race, on the same operands. If the
  /// product is mostly weights, adds the read floor too.
  void enter_peers() {
    phase_("asking cuBLASLt");
    DenseOperands& operands = store_.dense();
    std::vector<Entrant> peers = peers_for(operands, kPeerFirst);
    if (peers[0].contender.launch) verify_dense(operands, peers[0]);
    finals_.insert(finals_.begin() + 1, peers[0]);
    if (peers[0].contender.launch) {
      phase_(fmt::format("screening {} cuBLASLt algorithms", peers.size()));
      for (const Entrant* entrant : best_of(lab_, peers, operands.copies()))
        if (Entrant& entered = enter(*entrant, kPeerBest); entered.record.verdict.empty())
          verify_dense(operands, entered);
    }
    if (is_mostly_weights(record_.problem)) enter_floor();
  }

  // ---- peers of convolutions ----
  /// Adds the fastest contenders of `ranked` that satisfy `wanted` and are right to the final race, at most
  /// kFinalists. If the very fastest is wrong, it is added too, so that the table shows it.
  template <class Wanted>
  void enter_right(const std::vector<Entrant*>& ranked, const char* name, const Wanted& wanted) {
    size_t right = 0, tried = 0;
    for (Entrant* entrant : ranked) {
      if (!wanted(*entrant)) continue;
      if (right == kFinalists || ++tried > kMostJudged) return;
      if (entrant->record.verdict.empty()) verify_dense(store_.dense(), *entrant);
      right += entrant->record.verified;
      if (entrant->record.verified || tried == 1) enter(*entrant, name);
    }
  }

  /// Adds cuDNN's first plan, its fastest plan, and the fastest whose result has the same bits on every run.
  void enter_conv_peers() {
    phase_("asking cuDNN");
    DenseOperands& operands = store_.dense();
    Result<ConvPeers> made = ConvPeers::create(lab_, record_.problem.conv, operands.sets());
    if (!made) {
      finals_.push_back(failed(kCudnnFirst, "", made.error()));
      return;
    }
    conv_peers_ = *std::move(made);
    record_.peer_algorithms = conv_peers_->count();
    std::vector<Entrant> peers;
    for (int i = 0; i < conv_peers_->count(); ++i) {
      peers.push_back(entrant_of(conv_peers_->contender(i, kCudnnFirst)));
      peers.back().copies = operands.copies();
    }
    verify_dense(operands, peers[0]);
    finals_.insert(finals_.begin() + 1, peers[0]);
    phase_(fmt::format("screening {} cuDNN plans", peers.size()));
    const std::vector<Entrant*> ranked = best_of(lab_, peers, operands.copies(), peers.size());
    phase_("verifying cuDNN's fastest plans");
    enter_right(ranked, kCudnnBest, [](const Entrant&) { return true; });
    enter_right(ranked, kCudnnDeterministic, [&](const Entrant& entrant) {
      return conv_peers_->deterministic(static_cast<int>(&entrant - peers.data()));
    });
  }

  // ---- peers of packed weights: dense products of the same size ----
  Result<void> fill_dense_peers(const Problem& p) {
    for (const DType type : {DType::e4m3, is_16bit(p.a.type) ? p.a.type : DType::bf16}) {
      dense_.emplace_back(lab_);
      const Problem problem = with_strides(plain_problem(p.m, p.n, p.k, type));
      SLUICE_TRY(dense_.back().open(problem, {}));
    }
    return {};
  }

  void enter_dense_peers() {
    enter_floor();
    enter_best_peer(dense_.front(), kFp8PeerBest);
    enter_our_fp8(dense_.front());
    enter_best_peer(dense_.back(), kHalfPeerBest);
  }

  void enter_dense(const Entrant& entrant, DenseOperands& operands, const char* name) {
    Entrant& entered = enter(entrant, name);
    entered.copies = operands.copies();
    entered.record.bytes = bytes_of_traffic(operands.sets()[0].problem());
    verify_dense(operands, entered);
  }

  void enter_best_peer(DenseOperands& operands, const char* name) {
    phase_(fmt::format("screening {}", name));
    std::vector<Entrant> peers = peers_for(operands, name);
    record_.peer_caveat.clear();  // here cuBLASLt computes plain products, without an epilogue
    if (!peers[0].contender.launch) {
      finals_.push_back(peers[0]);
      return;
    }
    for (const Entrant* entrant : best_of(lab_, peers, operands.copies()))
      enter_dense(*entrant, operands, name);
  }

  void enter_our_fp8(DenseOperands& operands) {
    phase_("preparing our FP8 product");
    const Request request{.problem = operands.sets()[0].problem()};
    const Result<Plan> plan = plan_of(request, lab_.device.info(), lab_.device.records());
    const Result<Contender> contender =
        plan ? operands.prepare(std::span(&*plan, 1))[0] : Result<Contender>(plan.error());
    if (contender)
      enter_dense(entrant_of(*contender), operands, kSluiceFp8);
    else
      finals_.push_back(failed(kSluiceFp8, "", contender.error()));
  }

  // ---- the race ----
  void time_all() {
    phase_("timing in turn");
    std::vector<Entrant*> racers;
    for (Entrant& entrant : finals_) racers.push_back(&entrant);
    const Method& method = lab_.method;
    time_entrants(
        lab_, racers,
        {.copies = ours_->copies(),
         .replay_us = method.replay_us,
         .rounds = {
             .count = method.rounds, .rest_ms = method.rest_ms, .clocks = true, .samples = &samples_}});
    for (Entrant& entrant : finals_)
      if ((entrant.record.name == kSluice || entrant.record.name == kPeerFirst ||
           entrant.record.name == kCudnnFirst) &&
          entrant.record.error.empty())
        if (const Result<double> cost = host_cost_us(lab_, entrant.contender); cost)
          entrant.record.host_us = *cost;
    for (const Entrant& entrant : finals_) record_.contenders.push_back(entrant.record);
    for (const char* name :
         {kSluiceTuned, kPeerBest, kFp8PeerBest, kHalfPeerBest, kCudnnBest, kCudnnDeterministic})
      keep_fastest(record_.contenders, name);
  }

  const Lab& lab_;
  const Planned& item_;
  const Phase& phase_;
  ShapeRecord record_;
  OperandStore store_;
  Operands* ours_ = nullptr;
  std::optional<ConvPeers> conv_peers_;
  // Operands of the dense products that packed ones are compared with: e4m3, then 16-bit.
  std::list<DenseOperands> dense_;
  std::vector<Entrant> finals_;
  std::vector<Sample> samples_;
};

}  // namespace

ShapeRecord measure_shape(const Lab& lab, const Planned& item, const Phase& phase) {
  return Session(lab, item, phase).run();
}

ShapeRecord unplanned_shape(const Request& request, const Error& error) {
  return {.problem = request.problem, .error = text_of(error)};
}

Result<void> still_alive(const Lab& lab) {
  return synchronize(lab.device);
}

}  // namespace sluice::bench
