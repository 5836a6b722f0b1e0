// SPDX-License-Identifier: Apache-2.0
// The tuner's search on a simulated machine with invented times. It finds the fastest plan, survives failing
// and wrong candidates, keeps its budget, and reports what it left out. To see it fail: leave the model's
// pick out of the finalists, so that its time is 0. Or do not divide the remaining time, so that the first
// problem uses it all.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bench/shapes.h"
#include "bench/tune/machine.h"
#include "bench/tune/report.h"
#include "bench/tune/walks.h"
#include "cli/tune_table.h"
#include "lab/fit/cost_fit.h"
#include "tests/packed_problems.h"

#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/plan/records/record_book.h>

namespace sluice::bench {
namespace {

/// Seconds that operations take on the simulated machine.
struct Costs {
  double open = 0.01, compile = 0.1, check = 0.01, screen = 0.002, careful = 0.02;
};

class FakeMachine : public TuneMachine {
 public:
  double now_s() override { return now; }
  Result<void> open(const Problem& problem) override {
    now += costs.open;
    plans_.clear();
    opened.push_back(problem);
    if (fail_open) return Error{ErrorCode::driver, "no memory"};
    return {};
  }
  int width() override { return 4; }
  std::vector<Result<int>> prepare(std::span<const Plan> plans) override {
    now += costs.compile;
    std::vector<Result<int>> kernels;
    for (const Plan& plan : plans) {
      plans_.push_back(plan);
      if (compiles && !compiles(plan))
        kernels.push_back(Error{ErrorCode::toolchain, "ptxas said no"});
      else
        kernels.push_back(static_cast<int>(plans_.size()) - 1);
    }
    return kernels;
  }
  Result<std::string> check(int kernel) override {
    now += costs.check;
    ++checks;
    return std::string(is_right && !is_right(plan(kernel)) ? "D[0] is 1 and must be 2" : "");
  }
  Result<double> time(int kernel, Effort effort) override {
    now += effort == Effort::screen ? costs.screen : costs.careful;
    (effort == Effort::screen ? screens : carefuls) += 1;
    if (runs && !runs(plan(kernel), effort)) return Error{ErrorCode::driver, "launch failed"};
    const Plan& any = plans_.at(static_cast<size_t>(kernel));
    if (is_packed(any.problem)) return packed_us(any);
    return us(plan(kernel));
  }
  Result<void> alive() override {
    if (lost_after > 0 && static_cast<int>(opened.size()) >= lost_after)
      return Error{ErrorCode::driver, "the GPU fell off the bus"};
    return {};
  }

  double now = 100;
  Costs costs;
  bool fail_open = false;
  int lost_after = 0;
  int checks = 0, screens = 0, carefuls = 0;
  std::vector<Problem> opened;
  std::function<double(const Plan&)> us = [](const Plan& plan) { return plan.estimate.total_us; };
  std::function<double(const Plan&)> packed_us = [](const Plan& plan) { return plan.estimate.total_us; };
  std::function<bool(const Plan&)> compiles, is_right;
  std::function<bool(const Plan&, Effort)> runs;

 private:
  const Plan& plan(int kernel) const { return plans_.at(static_cast<size_t>(kernel)); }
  std::vector<Plan> plans_;
};

class TuneSearch : public testing::Test {
 protected:
  TuneResult one(const Problem& problem) { return many({problem}).results.at(0); }
  TuneRun many(const std::vector<Problem>& problems) {
    return tune(machine_, DeviceInfo{}, problems, settings_,
                {.known = known_,
                 .recorded = recorded_,
                 .phase = [](const std::string&) {},
                 .finished =
                     [this](const TuneResult& result) {
                       finished_.push_back(result);
                       return finish_ ? finish_() : Result<void>();
                     }});
  }

  /// Makes the ranked candidates of big_ take the model's times, and other rasters longer.
  void only_candidates_are_fast() {
    machine_.us = [ranked = *gemm::candidates(big_, DeviceInfo{})](const Plan& plan) {
      const bool known = std::any_of(ranked.begin(), ranked.end(), [&](const Plan& x) {
        return x.config == plan.config && x.split == plan.split;
      });
      return plan.estimate.total_us * (known ? 1 : 1.1);
    };
  }
  /// Expects that the record leads to the best plan again.
  void expect_recorded(const TuneResult& result) {
    const TuningRecord record =
        record_of(result, {.driver = "580", .date = "2026-11-21T10:00:00Z", .method = method_text(Method{})});
    const ParsedRecords parsed = parse_records(to_json(record), "x");
    ASSERT_TRUE(parsed.troubles.empty()) << parsed.troubles.front();
    const Plan again = *gemm::plan(result.problem, DeviceInfo{}, {}, book_of(parsed.records));
    const Plan& best = result.trials[static_cast<size_t>(result.best)].plan;
    EXPECT_EQ(again.source, PlanSource::record);
    EXPECT_EQ(again.config, best.config) << short_name(again.config);
    EXPECT_EQ(again.split, best.split) << to_string(again.split);
  }

  FakeMachine machine_;
  TuneSettings settings_{.budget_s = 1000};
  std::function<bool(const Problem&)> known_;
  std::function<std::optional<Plan>(const Problem&)> recorded_;
  std::function<Result<void>()> finish_;
  std::vector<TuneResult> finished_;
  const Problem big_ = plain_problem(8192, 8192, 4096, DType::bf16);
};

const Plan& dense(const Trial& trial) {
  return trial.plan;
}
i64 tokens_of(const Problem& problem) {
  return problem.m;
}

std::vector<Problem> several(int count) {
  std::vector<Problem> problems;
  for (int i = 1; i <= count; ++i) problems.push_back(plain_problem(1024 * i, 4096, 4096, DType::bf16));
  return problems;
}

TEST_F(TuneSearch, where_the_model_is_right_its_pick_wins) {
  only_candidates_are_fast();
  const TuneResult result = one(big_);
  ASSERT_EQ(result.state, TuneState::tuned) << result.message;
  EXPECT_EQ(result.gain(), 1);
  EXPECT_EQ(result.pick_us(), dense(result.trials[0]).estimate.total_us);
  EXPECT_EQ(result.trials[0].timed.size(), 9u);
}

TEST_F(TuneSearch, the_fastest_of_all_candidates_is_found) {
  // This plan is slow by the model, but fast on the machine.
  const Plan hidden = gemm::candidates(big_, DeviceInfo{})->at(20);
  machine_.us = [&](const Plan& plan) { return plan.config == hidden.config ? 10.0 : 20.0; };
  const TuneResult result = one(big_);
  ASSERT_EQ(result.state, TuneState::tuned);
  EXPECT_EQ(dense(result.trials[static_cast<size_t>(result.best)]).config, hidden.config);
  EXPECT_EQ(result.best_us(), 10);
  EXPECT_EQ(result.pick_us(), 20) << "the model's pick is timed in the same turn";
  EXPECT_EQ(result.gain(), 2);
}

TEST_F(TuneSearch, the_order_of_tiles_is_searched_for_the_leaders) {
  // The pick's kernel, with a raster that the model did not choose.
  const Plan pick = gemm::candidates(big_, DeviceInfo{})->at(0);
  const Raster other = pick.split.raster == Raster::along_m ? Raster::along_n : Raster::along_m;
  const auto hidden = [&](const Plan& plan) {
    return plan.config == pick.config && plan.split.raster == other && plan.split.group == 4;
  };
  machine_.us = [&](const Plan& plan) { return hidden(plan) ? 9.9 : plan.estimate.total_us; };
  const TuneResult result = one(big_);
  ASSERT_GE(result.best, settings_.top) << "one of those that were added";
  const Plan& best = dense(result.trials[static_cast<size_t>(result.best)]);
  EXPECT_TRUE(hidden(best)) << describe(best);
  EXPECT_EQ(validate(best.config), nullptr);
}

/// Waves are equally full with fewer clusters than fit, in the same number of waves.
TEST_F(TuneSearch, smaller_grids_are_searched_for_the_leaders) {
  const std::vector<Plan> ranked = *gemm::candidates(big_, DeviceInfo{});
  const auto uneven = std::find_if(ranked.begin(), ranked.begin() + settings_.top, [](const Plan& plan) {
    return !smaller_grids(plan, DeviceInfo{}).empty();
  });
  ASSERT_NE(uneven, ranked.begin() + settings_.top);
  const auto hidden = [&](const Plan& plan) {
    return plan.config == uneven->config && plan.split.clusters < uneven->split.clusters;
  };
  machine_.us = [&](const Plan& plan) {
    return hidden(plan) ? 9.9 : plan.config == uneven->config ? 10.0 : 20.0;
  };
  const TuneResult result = one(big_);
  EXPECT_TRUE(hidden(dense(result.trials[static_cast<size_t>(result.best)])));
  expect_recorded(result);
}

/// The recorded plan is always measured, so that a new record is never slower.
TEST_F(TuneSearch, what_a_record_said_until_now_is_a_finalist) {
  const std::vector<Plan> ranked = *gemm::candidates(big_, DeviceInfo{});
  settings_.top = 5;
  ASSERT_GT(ranked.size(), 8u);
  const auto is_old = [&](const Plan& plan) { return is_same(plan, ranked[7]); };
  recorded_ = [&](const Problem&) { return ranked[7]; };
  machine_.us = [&](const Plan& plan) { return is_old(plan) ? 9.0 : 10 + plan.estimate.total_us / 1e3; };
  TuneResult result = one(big_);
  EXPECT_EQ(result.recorded, 1) << "second, so that no budget cuts it off";
  EXPECT_EQ(result.best, 1);
  EXPECT_EQ(result.recorded_us(), 9);
  expect_recorded(result);

  machine_.us = [&](const Plan& plan) { return is_old(plan) ? 30.0 : plan.estimate.total_us / 1e3; };
  result = one(big_);
  EXPECT_NE(result.best, 1);
  EXPECT_EQ(result.recorded_us(), 30) << "timed with care, though the slowest of all";
  const std::string summary = cli::tune_summary({result}, "FOLDER", 1);
  EXPECT_NE(summary.find("over the records until now: geometric mean "), std::string::npos) << summary;
  const ShapeRecord shape = shape_record_of(result);
  EXPECT_EQ(shape.contenders.back().name, kSluiceRecorded);
  EXPECT_EQ(shape.contenders.back().us.median, 30);

  recorded_ = [&](const Problem&) { return ranked[2]; };
  result = one(big_);
  EXPECT_EQ(result.recorded, 1);
  EXPECT_EQ(std::count_if(result.trials.begin(), result.trials.end(),
                          [&](const Trial& trial) { return is_same(trial.plan, ranked[2]); }),
            1)
      << "once, though it is among the candidates";

  recorded_ = [&](const Problem&) { return ranked[0]; };
  EXPECT_EQ(one(big_).recorded, 0) << "the pick itself";
  recorded_ = [](const Problem&) { return std::nullopt; };
  result = one(big_);
  EXPECT_EQ(result.recorded, -1);
  EXPECT_EQ(result.recorded_us(), 0);
}

TEST_F(TuneSearch, halving_measures_the_slow_ones_least) {
  only_candidates_are_fast();
  const TuneResult result = one(big_);
  const auto rounds = [&](size_t i) { return result.trials[i].screened.size(); };
  EXPECT_EQ(rounds(23), 2u);
  EXPECT_GT(rounds(0), rounds(23));
  EXPECT_EQ(machine_.carefuls, 27) << "three finalists, the pick one of them";
  EXPECT_LE(machine_.checks, 24 + 3 * 12) << "three leaders; ten orders and two grids of each";
}

TEST_F(TuneSearch, a_candidate_that_fails_is_told_and_the_rest_goes_on) {
  const Plan first = gemm::candidates(big_, DeviceInfo{})->at(0);
  machine_.compiles = [&](const Plan& plan) { return !(plan.config == first.config); };
  machine_.runs = [](const Plan& plan, Effort) { return plan.config.schedule != Schedule::ping_pong; };
  const TuneResult result = one(big_);
  ASSERT_EQ(result.state, TuneState::tuned);
  EXPECT_EQ(result.trials[0].message, "ptxas said no");
  EXPECT_EQ(result.pick_us(), 0);
  EXPECT_EQ(result.gain(), 1) << "there is nothing to compare with";
  EXPECT_EQ(dense(result.trials[static_cast<size_t>(result.best)]).config.schedule, Schedule::cooperative);
  EXPECT_GT(result.count(TrialState::failed), 1);
}

TEST_F(TuneSearch, a_wrong_candidate_never_wins_and_is_counted) {
  const Plan first = gemm::candidates(big_, DeviceInfo{})->at(0);
  machine_.is_right = [&](const Plan& plan) { return !(plan.config == first.config); };
  machine_.us = [&](const Plan& plan) { return plan.config == first.config ? 1.0 : 20.0; };
  const TuneRun run = many({big_});
  ASSERT_EQ(run.results[0].state, TuneState::tuned);
  EXPECT_EQ(run.results[0].best_us(), 20);
  EXPECT_EQ(run.results[0].trials[0].state, TrialState::wrong);
  EXPECT_TRUE(run.results[0].trials[0].screened.empty()) << "not even timed";
  EXPECT_EQ(summarise(run.results).wrong_kernels, 1);
}

TEST_F(TuneSearch, where_nothing_is_right_there_is_no_record) {
  machine_.is_right = [](const Plan&) { return false; };
  EXPECT_EQ(one(big_).state, TuneState::failed);
  machine_.is_right = nullptr;
  machine_.fail_open = true;
  EXPECT_EQ(one(big_).message, "no memory");
  EXPECT_EQ(one(plain_problem(64, 64, 100, DType::e4m3)).state, TuneState::failed) << "cannot be planned";
}

TEST_F(TuneSearch, a_finalist_that_fails_late_does_not_win) {
  machine_.runs = [first = gemm::candidates(big_, DeviceInfo{})->at(0)](const Plan& plan, Effort effort) {
    return effort == Effort::screen || !(plan.config == first.config);
  };
  const TuneResult result = one(big_);
  ASSERT_EQ(result.state, TuneState::tuned);
  EXPECT_FALSE(result.trials[static_cast<size_t>(result.best)].timed.empty());
  EXPECT_NE(result.best, 0);
}

TEST_F(TuneSearch, a_short_budget_drops_the_worst_ranked_and_ends_soon) {
  settings_.budget_s = 0.4;
  const TuneResult result = one(big_);
  ASSERT_EQ(result.state, TuneState::tuned);
  EXPECT_GE(result.count(TrialState::right), kLeastTrials);
  EXPECT_GT(result.count(TrialState::untried), 0);
  bool dropped = false;  // true after the first untried trial; all later ones must be untried too
  for (const Trial& trial : result.trials) {
    if (trial.state == TrialState::untried) dropped = true;
    EXPECT_EQ(trial.state == TrialState::untried, dropped);
  }
  EXPECT_GE(result.trials[0].timed.size(), static_cast<size_t>(kLeastRounds));
  EXPECT_LT(result.seconds, 0.8);
}

TEST_F(TuneSearch, slow_checks_are_cut_off_too) {
  settings_.budget_s = 4;
  machine_.costs = {.compile = 0, .check = 0.4};
  const TuneResult result = one(big_);
  EXPECT_EQ(result.state, TuneState::tuned);
  EXPECT_LE(result.count(TrialState::right), 9) << "5 in half of the share, and orders until four fifths";
  EXPECT_GE(result.count(TrialState::untried), 19);
}

TEST_F(TuneSearch, the_budget_is_shared_and_hardly_overrun) {
  settings_.budget_s = 6;
  const double start = machine_.now;
  const TuneRun run = many(several(6));
  for (const TuneResult& result : run.results) {
    EXPECT_EQ(result.state, TuneState::tuned);
    EXPECT_LT(result.seconds, 1.4);
  }
  EXPECT_LT(machine_.now - start, settings_.budget_s + 0.6);
}

TEST_F(TuneSearch, filling_operands_takes_no_candidates) {
  settings_.budget_s = 2;
  const int usual = one(big_).count(TrialState::right);
  machine_.costs.open = 1.9;
  EXPECT_EQ(one(big_).count(TrialState::right), usual);
}

TEST_F(TuneSearch, without_time_a_problem_is_skipped_and_said_to_be) {
  settings_.budget_s = 0.5;
  const double start = machine_.now;
  const TuneRun run = many(several(8));
  EXPECT_EQ(run.results.size(), 8u);
  EXPECT_EQ(finished_.size(), 8u);
  EXPECT_EQ(run.results.front().state, TuneState::tuned);
  EXPECT_EQ(run.results.back().state, TuneState::no_time);
  EXPECT_FALSE(run.ended);
  const TuneSummary s = summarise(run.results);
  EXPECT_EQ(s.tuned + s.no_time, 8);
  EXPECT_LT(machine_.now - start, settings_.budget_s + 0.5) << "one problem's least";
}

TEST_F(TuneSearch, known_problems_take_no_share) {
  settings_.budget_s = 2;
  known_ = [](const Problem& problem) { return tokens_of(problem) != 3072; };
  const TuneRun run = many(several(5));
  for (const TuneResult& result : run.results)
    EXPECT_EQ(result.state, tokens_of(result.problem) == 3072 ? TuneState::tuned : TuneState::known);
  EXPECT_EQ(machine_.opened.size(), 1u);
  EXPECT_GT(run.results[2].seconds, 1) << "it has the whole budget to itself";
}

TEST_F(TuneSearch, a_lost_machine_ends_the_run_after_what_was_found) {
  machine_.lost_after = 2;
  const TuneRun run = many(several(4));
  ASSERT_TRUE(run.ended);
  EXPECT_NE(run.ended->message.find("bus"), std::string::npos);
  EXPECT_EQ(finished_.at(0).state, TuneState::tuned);
  EXPECT_EQ(finished_.at(3).state, TuneState::no_time);
}

TEST_F(TuneSearch, a_record_that_cannot_be_kept_ends_the_run) {
  finish_ = [] { return Result<void>(Error{ErrorCode::io, "the disk is full"}); };
  const TuneRun run = many(several(3));
  ASSERT_TRUE(run.ended);
  EXPECT_EQ(run.ended->code, ErrorCode::io);
  EXPECT_EQ(machine_.opened.size(), 1u);
}

TEST_F(TuneSearch, is_deterministic) {
  const TuneResult first = one(big_), second = one(big_);
  ASSERT_EQ(first.trials.size(), second.trials.size());
  for (size_t i = 0; i < first.trials.size(); ++i)
    EXPECT_EQ(describe(dense(first.trials[i])), describe(dense(second.trials[i])));
}

TEST_F(TuneSearch, its_record_gives_the_best_plan_again) {
  machine_.us = [](const Plan& plan) {
    return plan.split.group == 16 && plan.split.raster == Raster::along_n ? 9.9 : plan.estimate.total_us;
  };
  const TuneResult result = one(big_);
  ASSERT_EQ(result.state, TuneState::tuned);
  const TuningRecord record =
      record_of(result, {.driver = "580", .date = "2026-11-21T10:00:00Z", .method = method_text(Method{})});
  const ParsedRecords parsed = parse_records(to_json(record), "x");
  ASSERT_TRUE(parsed.troubles.empty()) << parsed.troubles.front();
  EXPECT_EQ(parsed.records.at(0).model_us, std::round(result.pick_us() * 1000) / 1000);
  const Plan again = *gemm::plan(big_, DeviceInfo{}, {}, book_of(parsed.records));
  const Plan& best = dense(result.trials[static_cast<size_t>(result.best)]);
  EXPECT_EQ(again.source, PlanSource::record);
  EXPECT_EQ(again.config, best.config);
  EXPECT_EQ(again.split, best.split);
  EXPECT_EQ(again.measured_us, 9.9);
}

TEST_F(TuneSearch, packed_weights_are_searched_and_kept_alike) {
  for (const i64 m : {16, 512}) {  // one size per kernel
    const PackedProblem problem{.m = m, .n = 8192, .k = 8192, .weights = {.group = 64}};
    const Result<std::vector<Plan>> plans = gemm::candidates(problem, DeviceInfo{});
    ASSERT_TRUE(plans);
    const Plan& hidden = plans->at(5);
    machine_.packed_us = [&](const Plan& plan) { return plan.config == hidden.config ? 10.0 : 20.0; };
    const TuneResult result = one(problem);
    ASSERT_EQ(result.state, TuneState::tuned) << result.message;
    EXPECT_EQ(result.gain(), 2);
    EXPECT_EQ(result.trials.size(), std::min<size_t>(24, plans->size())) << "there are no other orders";
    const TuningRecord record =
        record_of(result, {.driver = "580", .date = "2026-11-21T10:00:00Z", .method = "cold"});
    const ParsedRecords parsed = parse_records(to_json(record), "x");
    ASSERT_TRUE(parsed.troubles.empty()) << parsed.troubles.front();
    EXPECT_EQ(parsed.records.at(0).key, record.key);
    EXPECT_EQ(parsed.records.at(0).choice, record.choice);
    const Plan again = *gemm::plan(problem, DeviceInfo{}, {}, book_of(parsed.records));
    EXPECT_EQ(again.source, PlanSource::record);
    EXPECT_EQ(again.config, hidden.config);
    EXPECT_EQ(again.measured_us, 10);
    const std::string line = cli::tune_line(result), kernel = short_name(hidden.config);
    EXPECT_NE(line.find("8192x8192 bf16 * uint4 g64 > bf16"), std::string::npos) << line;
    EXPECT_NE(line.find(kernel.substr(0, kernel.find(" bf16*"))), std::string::npos) << line;
    EXPECT_EQ(line.find("bf16*uint4"), std::string::npos) << "formats are the problem's";
    const ShapeRecord shape = shape_record_of(result);
    EXPECT_EQ(shape.problem, Problem(hidden.problem));
    EXPECT_EQ(shape.candidates.size(), result.trials.size());
    EXPECT_EQ(median_of(shape, kSluiceTuned), 10);
  }
}

TEST_F(TuneSearch, a_list_may_hold_both_kinds) {
  const PackedProblem packed{.m = 4, .n = 4096, .k = 4096};
  const TuneRun run = many({packed, big_, packed});
  for (const TuneResult& result : run.results) EXPECT_EQ(result.state, TuneState::tuned) << result.message;
  EXPECT_TRUE(is_packed(run.results[0].trials[0].plan.problem));
  EXPECT_FALSE(is_packed(run.results[1].trials[0].plan.problem));
}

TEST_F(TuneSearch, its_bench_record_has_every_candidate_that_was_tried) {
  const Plan first = gemm::candidates(big_, DeviceInfo{})->at(1);
  machine_.is_right = [&](const Plan& plan) { return !(plan.config == first.config); };
  const TuneResult result = one(big_);
  const ShapeRecord shape = shape_record_of(result);
  EXPECT_EQ(shape.candidates.size(), result.trials.size());
  EXPECT_EQ(shape.candidates[0].config, to_string(dense(result.trials[0]).config));
  EXPECT_GT(shape.candidates[0].us, 0);
  EXPECT_FALSE(shape.candidates[1].verified);
  EXPECT_EQ(median_of(shape, kSluice), result.pick_us());
  EXPECT_EQ(median_of(shape, kSluiceTuned), result.best_us());
  EXPECT_FALSE(all_verified(shape));
  RunRecord run;
  run.shapes.push_back(shape);
  const std::string path = testing::TempDir() + "sluice_tune_run.json";
  ASSERT_TRUE(write_json(run, path));
  const auto fit = fitting::read_fit_shapes(path);  // sluice_lab fit must be able to read the file
  std::remove(path.c_str());
  ASSERT_TRUE(fit) << fit.error().message;
  ASSERT_EQ(fit->size(), 1u);
  EXPECT_EQ(fit->at(0).timings.size(), shape.candidates.size() - 1) << "all but the wrong one";
  EXPECT_EQ(fit->at(0).timings[0].config, dense(result.trials[0]).config);
}

TEST_F(TuneSearch, its_lines_say_what_became_of_each_problem) {
  const std::vector<Plan> plans = *gemm::candidates(big_, DeviceInfo{});
  machine_.us = [&](const Plan& plan) { return plan.config == plans[1].config ? 10.0 : 12.5; };
  machine_.is_right = [&](const Plan& plan) { return !(plan.config == plans[2].config); };
  known_ = [&](const Problem& problem) { return tokens_of(problem) == 2048; };
  const TuneRun run = many({big_, several(2)[1]});
  const auto expect_in = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nin:\n" << text;
  };
  const auto tile_text = [](const Plan& plan) {
    return fmt::format("{} {}x{} s{} ", name_of(plan.config.schedule), plan.config.tile.m, plan.config.tile.n,
                       plan.config.stages);
  };
  const std::string tuned = cli::tune_line(run.results[0]);
  expect_in(tuned, "8192x8192x4096 bf16 > bf16 ");
  expect_in(tuned, " 12.50 ");
  expect_in(tuned, " 10.00   1.250 ");
  expect_in(tuned, tile_text(plans[1]));
  expect_in(cli::tune_line(run.results[1]), "-  skipped: has a record");
  expect_in(cli::tune_troubles(run.results[0]), "    WRONG " + tile_text(plans[2]));
  expect_in(cli::tune_troubles(run.results[0]), ": D[0] is 1 and must be 2\n");
  const std::string summary = cli::tune_summary(run.results, "FOLDER", 12.3);
  expect_in(summary, "1 record to FOLDER; skipped: 1 with a record, 0 without time; 0 failed; 12 s");
  expect_in(summary, "most 1.250 (8192x8192x4096 bf16 > bf16); the pick is as good in 0 of 1");
  expect_in(summary, "1 were WRONG and 0 failed");
}

}  // namespace
}  // namespace sluice::bench
