// SPDX-License-Identifier: Apache-2.0
// Races of plans on the fake driver: which plans run, which wins, which are dropped, and what a failure
// leaves. To see them fail: return the first plan in race(), or let racing() choose plans by rank only or
// leave out tile families. Or let winner_of() choose the lowest median, return true for all in agreeing() or
// false in is_disturbed().
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include <sluice/conv.h>
#include <sluice/run/ops/packed.h>

#include "cache_fake.h"
#include "packed_launch_fixture.h"
#include "tests/packed_problems.h"

namespace sluice {
namespace {

const Problem kProblem{.m = 64, .n = 2048, .k = 4096};
/// A problem whose three racers have different sizes of shared memory, by which the fake driver recognises
/// them.
const Problem kDistinct{.m = 64, .n = 512, .k = 1024};
const PackedProblem kPacked{.m = 16, .n = 4096, .k = 4096};

class Races : public PackedLaunchTest {
 protected:
  Races() { driver.machine.memory_bytes = i64{2} << 30; }

  Device opened(int race) const {
    const Result<Device> device = open_fake_device({.records_dir = records(), .jobs = 2, .race = race});
    EXPECT_TRUE(device.ok());
    return *device;
  }
  std::string records() const { return folder_ / "records"; }
  Plan planned(const Device& device) const {
    return *gemm::plan(kProblem, device.info(), {}, device.records());
  }

 private:
  const test::TemporaryFolder folder_;
};

TEST_F(Races, each_schedule_near_the_best_has_a_place) {
  const Result<std::vector<Plan>> ranked = gemm::candidates(kProblem, device().info());
  ASSERT_TRUE(ranked.ok());
  const std::vector<Plan> three = ops::racing<ops::Gemm>(*ranked, 3);
  ASSERT_EQ(three.size(), 3u);
  EXPECT_EQ(three[0].config, ranked->front().config);
  std::set<Schedule> seen, near;
  for (const Plan& plan : three) seen.insert(plan.config.schedule);
  for (const Plan& plan : *ranked)
    if (plan.estimate.total_us <= ops::kRacingEstimate * three[0].estimate.total_us)
      near.insert(plan.config.schedule);
  EXPECT_GT(near.size(), 1u) << "the problem shows nothing";
  EXPECT_EQ(seen, near);
  EXPECT_EQ(ops::racing<ops::Gemm>(*ranked, 1).size(), 1u);
  EXPECT_EQ(ops::racing<ops::Gemm>({}, 3).size(), 0u);
  EXPECT_EQ(ops::racing<ops::Gemm>({(*ranked)[0], (*ranked)[1]}, 16).size(), 2u);
}

/// A slow card finds its way round only if the racers are kernels of different kinds.
TEST_F(Races, two_racers_share_a_tile_only_if_no_other_tile_is_near) {
  int twins = 0;
  std::vector<Problem> problems{kProblem,
                                kDistinct,
                                kPacked,
                                {.m = 4096, .n = 4096, .k = 4096},
                                {.m = 512, .n = 1000, .k = 520},
                                {.m = 1458, .n = 672, .k = 2560}};
  for (const ConvOp op : {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad})
    problems.push_back(*conv::problem({.op = op,
                                       .images = 32,
                                       .channels = 128,
                                       .filters = 128,
                                       .size = {28, 28, 1},
                                       .filter = {3, 3, 1},
                                       .padding = {1, 1, 0},
                                       .padding_after = {1, 1, 0}},
                                      DType::bf16, DType::bf16, {}));
  for (const Problem& problem : problems) {
    const std::vector<Plan> ranked = *gemm::candidates(problem, device().info());
    const std::vector<Plan> three = ops::racing<ops::Gemm>(ranked, 3);
    std::set<i64> seen, near, best;
    for (const Plan& plan : three) seen.insert(ops::Gemm::tile_family_of(plan));
    for (const Plan& plan : ranked)
      if (plan.estimate.total_us <= ops::kRacingEstimate * ranked[0].estimate.total_us)
        near.insert(ops::Gemm::tile_family_of(plan));
    EXPECT_GE(seen.size(), std::min(near.size(), three.size())) << to_string(problem);
    for (size_t i = 0; i < std::min(ranked.size(), size_t{3}); ++i)
      best.insert(ops::Gemm::tile_family_of(ranked[i]));
    twins += best.size() < std::min(near.size(), size_t{3});
  }
  EXPECT_GT(twins, 0) << "the problems show nothing";
}

TEST_F(Races, a_busy_gpu_keeps_the_models_pick_and_stores_nothing) {
  const std::vector<Plan> racers = ops::racing<ops::Gemm>(*gemm::candidates(kProblem, device().info()), 3);
  driver.make_fast(static_cast<u32>(racers.back().smem_bytes));
  for (u64 seed = 1; seed <= 20; ++seed) {
    driver.make_noise(0.3, seed);
    const Device racing = opened(0);
    const Result<Plan> kept = gemm::race(racing, kProblem, 3);
    ASSERT_TRUE(kept.ok()) << kept.error().message;
    EXPECT_EQ(kept->config, racers[0].config) << seed;
    EXPECT_EQ(kept->source, PlanSource::model);
    EXPECT_EQ(kept->measured_us, 0);
    EXPECT_EQ(planned(racing).source, PlanSource::model) << "nothing is in the device's book";
    EXPECT_EQ(planned(opened(0)).source, PlanSource::model) << "nothing is in the folder";
  }
  driver.make_noise(0.002, 1);
  EXPECT_EQ(gemm::race(opened(0), kProblem, 3)->config, racers.back().config) << "idle: it is raced again";
}

TEST_F(Races, rounds_that_differ_by_five_percent_are_disturbed) {
  const auto rounds = [](double most, double few) {
    ops::RaceTimes times(9, most);
    times[2] = times[6] = few;
    return times;
  };
  EXPECT_FALSE(ops::is_disturbed(rounds(100, 104.9)));
  EXPECT_TRUE(ops::is_disturbed(rounds(100, 106.5))) << "two slow rounds of nine";
  EXPECT_FALSE(ops::is_disturbed(rounds(100, 95.5)));
  EXPECT_TRUE(ops::is_disturbed(rounds(100, 94))) << "seven slow rounds of nine";
  EXPECT_TRUE(ops::is_disturbed({100, 100, 110})) << "three rounds";
  EXPECT_FALSE(ops::is_disturbed({100, 101, 102}));
}

TEST_F(Races, preparing_problems_races_three_unless_told) {
  const auto launches_of = [&](int option, int race) {
    const Device fresh = *open_fake_device({.jobs = 2, .race = option});
    const int before = driver.launches();
    const Result<void> ready = gemm::prepare(fresh, std::vector{kDistinct}, race);
    EXPECT_TRUE(ready.ok()) << (ready.ok() ? "" : ready.error().message);
    const auto plan = ops::kept<ops::Gemm>(fresh).find(ops::Gemm::key_of(kDistinct))->impl().plan;
    const int made = driver.launches() - before;
    EXPECT_EQ(plan.source, made > 0 ? PlanSource::record : PlanSource::model);
    return made;
  };
  const int three = launches_of(kUsualRace, kUsualRace);
  EXPECT_GT(three, 3);
  EXPECT_EQ(launches_of(3, kUsualRace), three);
  EXPECT_LT(launches_of(2, kUsualRace), three);
  EXPECT_EQ(launches_of(0, 3), three) << "the argument replaces the option";
  for (const int none : {0, 1}) {
    EXPECT_EQ(launches_of(none, kUsualRace), 0);
    EXPECT_EQ(launches_of(3, none), 0);
  }
  const int before = driver.launches();
  for (const int wrong : {-2, 17}) {
    const Result<void> ready = gemm::prepare(opened(0), std::vector{kDistinct}, wrong);
    ASSERT_FALSE(ready.ok());
    EXPECT_EQ(ready.error().code, ErrorCode::invalid_argument);
    const std::string rule = "race = " + std::to_string(wrong) + " must be in 0..16";
    EXPECT_NE(ready.error().message.find(rule), std::string::npos) << ready.error().message;
  }
  EXPECT_EQ(driver.launches(), before);
}

TEST_F(Races, a_race_that_nobody_asked_for_is_in_nobodys_way) {
  const auto races = [&](const Options& options, int race = kUsualRace) {
    const Device fresh = *open_fake_device(options);
    const int before = driver.launches();
    EXPECT_TRUE(gemm::prepare(fresh, std::vector{kDistinct}, race).ok());
    return driver.launches() > before;
  };
  EXPECT_TRUE(races({.jobs = 2}));
  EXPECT_FALSE(races({.cache_read_only = true, .jobs = 2})) << "it would compile in every process";
  driver.fail_function("cuMemGetInfo", CUDA_ERROR_UNKNOWN);
  EXPECT_FALSE(races({.jobs = 2}));
  driver.fail_nothing();
  driver.machine.memory_bytes = i64{512} << 20;  // a race needs twice L2, 100 MB
  EXPECT_FALSE(races({.jobs = 2})) << "more than an eighth of the free memory";
  EXPECT_TRUE(races({.jobs = 2}, 3)) << "asked for";
  driver.machine.memory_bytes = i64{2} << 30;
  const ContextScope scope(*device().impl().primary);
  CUstream stream = nullptr;
  const DriverApi& api = *device().impl().api;
  ASSERT_EQ(api.cuStreamCreate(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  ASSERT_EQ(api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  EXPECT_FALSE(races({.jobs = 2})) << "this thread captures";
  CUgraph graph = nullptr;
  EXPECT_EQ(api.cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  api.cuGraphDestroy(graph);
  api.cuStreamDestroy(stream);
}

TEST_F(Races, a_default_race_is_tried_once_and_asking_tries_again) {
  const std::vector<Plan> racers = ops::racing<ops::Gemm>(*gemm::candidates(kDistinct, device().info()), 3);
  driver.make_fast(static_cast<u32>(racers.back().smem_bytes));
  driver.make_noise(0.3, 7);
  const Device busy = *open_fake_device({.jobs = 2});
  const Plan pick = *gemm::plan(kDistinct, busy.info());
  const auto wish = [] { return ops::RaceWish{.most = 3, .asked = false}; };
  const int before = driver.launches();
  EXPECT_EQ(ops::raced<ops::Gemm>(busy, pick, wish).config, pick.config);
  const int once = driver.launches();
  EXPECT_GT(once, before);
  driver.make_noise(0.002, 7);
  EXPECT_EQ(ops::raced<ops::Gemm>(busy, pick, wish).config, pick.config);
  ASSERT_TRUE(gemm::prepare(busy, std::vector{kDistinct}).ok());
  EXPECT_EQ(driver.launches(), once) << "not again in this process";
  const auto kept = [&] {
    return ops::kept<ops::Gemm>(busy).find(ops::Gemm::key_of(kDistinct))->impl().plan;
  };
  EXPECT_EQ(kept().config, pick.config);
  ASSERT_TRUE(gemm::prepare(busy, std::vector{kDistinct}, 3).ok());
  EXPECT_EQ(kept().config, racers.back().config) << "asked for: the kept kernel is replaced";
  const int after = driver.launches();
  ASSERT_TRUE(gemm::prepare(busy, std::vector{kDistinct}, 3).ok());
  EXPECT_EQ(driver.launches(), after) << "a result stands";
}

TEST_F(Races, first_calls_of_a_layer_race_six_times) {
  constexpr i64 kOutputs = 520,
                kInputs = 264;  // no other test's sizes, since layers are kept for the process
  const Device plain = *open_fake_device({.jobs = 2}), never = *open_fake_device({.jobs = 2, .race = 0});
  const auto races = [&](const Device& on, const Problem& problem) {
    const int before = driver.launches();
    EXPECT_TRUE(gemm::run(on, problem, args_for(problem), nullptr).ok());
    return driver.launches() > before + 1;
  };
  const Problem first{.m = 32, .n = kOutputs, .k = kInputs};
  EXPECT_FALSE(races(plain, first)) << "a bare call";
  for (int twice = 0; twice < 2; ++twice)
    EXPECT_TRUE(ops::let_race({.outputs = kOutputs, .inputs = kInputs}).ok());
  EXPECT_FALSE(races(plain, first)) << "not its first call";
  EXPECT_FALSE(races(never, first)) << "switched off";
  EXPECT_TRUE(races(plain, {.m = 40, .n = kOutputs, .k = kInputs}));
  EXPECT_TRUE(races(plain, {.m = 40, .n = kInputs, .k = kOutputs})) << "the gradient of the input";
  EXPECT_TRUE(races(plain, {.m = kOutputs, .n = kInputs, .k = 40})) << "the gradient of the weight";
  EXPECT_FALSE(races(plain, {.m = 40, .n = kOutputs, .k = kInputs + 8})) << "another layer";
  EXPECT_FALSE(races(plain, {.m = 40, .n = kOutputs, .k = kInputs, .batch = 2}));
  for (const i64 m : {48, 56, 64}) EXPECT_TRUE(races(plain, {.m = m, .n = kOutputs, .k = kInputs}));
  EXPECT_FALSE(races(plain, {.m = 72, .n = kOutputs, .k = kInputs})) << "the seventh";
  EXPECT_TRUE(ops::let_race({.outputs = kInputs, .inputs = kOutputs}).ok());
  EXPECT_TRUE(races(plain, {.m = 72, .n = kOutputs, .k = kInputs, .d = {.type = DType::fp32}}))
      << "a layer with the transposed weight has turns of its own";
}

TEST_F(Races, layers_that_convolve_are_known_by_their_filter) {
  const Conv conv{.op = ConvOp::dgrad, .images = 2, .channels = 72, .filters = 136, .filter = {3, 5, 1}};
  EXPECT_FALSE(ops::takes_turn({.conv = conv}));
  EXPECT_TRUE(ops::let_race({.outputs = 136, .inputs = 72, .filter = {5, 3, 1}}).ok());
  EXPECT_FALSE(ops::takes_turn({.conv = conv})) << "another filter";
  EXPECT_TRUE(ops::let_race({.outputs = 136, .inputs = 72, .filter = conv.filter}).ok());
  for (int turn = 0; turn < ops::kTurnsOfLayer; ++turn) EXPECT_TRUE(ops::takes_turn({.conv = conv}));
  EXPECT_FALSE(ops::takes_turn({.conv = conv}));
  for (const ops::LayerSizes& wrong :
       {ops::LayerSizes{0, 1}, ops::LayerSizes{1, -1}, ops::LayerSizes{1, 1, {1, 0, 1}}})
    EXPECT_FALSE(ops::let_race(wrong).ok());
}

TEST_F(Races, the_fastest_wins_is_kept_and_needs_no_race_again) {
  const Device first = opened(3);
  const std::vector<Plan> racers = ops::racing<ops::Gemm>(*gemm::candidates(kProblem, first.info()), 3);
  const Plan& last = racers.back();
  ASSERT_NE(last.smem_bytes, racers[0].smem_bytes);
  driver.make_fast(static_cast<u32>(last.smem_bytes));
  const Alive before = driver.alive();
  const Result<Plan> won = gemm::race(first, kProblem, 3);
  ASSERT_TRUE(won.ok()) << won.error().message;
  EXPECT_EQ(won->config, last.config);
  EXPECT_EQ(won->source, PlanSource::record);
  EXPECT_GT(won->measured_us, 0);
  EXPECT_EQ(driver.alive().allocations, before.allocations);
  EXPECT_EQ(driver.alive().graphs + driver.alive().executables + driver.alive().events, 0);
  EXPECT_EQ(planned(opened(0)).config, last.config) << "a device opened later takes the record";
  EXPECT_NEAR(planned(opened(0)).measured_us, won->measured_us, 1e-3);
}

/// If the lowest median won, only about a third of these races would give the model's pick.
TEST_F(Races, noise_gives_the_models_pick_a_hundred_times) {
  const Problem small{.m = 64, .n = 256, .k = 256};
  const Device racing = *open_fake_device({.jobs = 2});
  const std::vector<Plan> racers = ops::racing<ops::Gemm>(*gemm::candidates(small, racing.info()), 3);
  ASSERT_EQ(racers.size(), 3u);
  for (u64 seed = 1; seed <= 100; ++seed) {
    driver.make_noise(0.002, seed);
    const Result<Plan> won = ops::race<ops::Gemm>(*open_fake_device({.jobs = 2}), small, 3);
    ASSERT_TRUE(won.ok()) << won.error().message;
    ASSERT_EQ(won->config, racers[0].config) << seed;
    ASSERT_EQ(won->split, racers[0].split) << seed;
  }
}

TEST_F(Races, the_winner_is_safely_faster_than_those_before_it) {
  const auto steady = [](double us) { return ops::RaceTimes(9, us); };
  const auto winner = [](const std::vector<ops::RaceTimes>& times) { return ops::winner_of(times); };
  EXPECT_EQ(winner({steady(100)}), 0u);
  EXPECT_EQ(winner({steady(100), steady(99.1), steady(100)}), 0u) << "less than 1 %";
  EXPECT_EQ(winner({steady(100), steady(98.9), steady(98.5)}), 1u)
      << "the third gains too little over the second";
  EXPECT_EQ(winner({steady(100), {}, steady(90)}), 2u) << "a racer without times";
  ops::RaceTimes spread(9, 90);
  spread[0] = spread[1] = 101;
  EXPECT_EQ(winner({steady(100), spread}), 0u) << "two slow rounds";
}

TEST_F(Races, the_device_that_raced_plans_the_winner) {
  const Device racing = opened(0);
  const std::vector<Plan> racers = ops::racing<ops::Gemm>(*gemm::candidates(kProblem, racing.info()), 3);
  driver.make_fast(static_cast<u32>(racers.back().smem_bytes));
  ASSERT_TRUE(gemm::race(racing, kProblem, 3).ok());
  EXPECT_EQ(planned(racing).config, racers.back().config);
  EXPECT_EQ(planned(racing).source, PlanSource::record);
  const int launches = driver.launches();
  ASSERT_TRUE(gemm::race(racing, kProblem, 3).ok());
  EXPECT_EQ(driver.launches(), launches) << "a result of this card decides";
}

TEST_F(Races, a_racer_with_another_result_is_dropped) {
  const Device racing = *open_fake_device({.jobs = 2});
  const std::vector<Plan> racers = ops::racing<ops::Gemm>(*gemm::candidates(kDistinct, racing.info()), 3);
  std::set<i64> sizes;
  for (const Plan& plan : racers) sizes.insert(plan.smem_bytes);
  ASSERT_EQ(sizes.size(), 3u);
  const auto with_wrong = [&](std::set<i64> wrong, size_t fast, int most) {
    driver.make_wrong([=](const LaunchRecord& launch) { return wrong.contains(launch.smem_bytes); });
    driver.make_fast(static_cast<u32>(racers[fast].smem_bytes));
    const Result<Plan> won = ops::race<ops::Gemm>(*open_fake_device({.jobs = 2}), kDistinct, most);
    EXPECT_TRUE(won.ok()) << (won.ok() ? "" : won.error().message);
    return *won;
  };
  const i64 first = racers[0].smem_bytes, second = racers[1].smem_bytes, third = racers[2].smem_bytes;
  EXPECT_EQ(with_wrong({}, 2, 3).config, racers[2].config);
  EXPECT_EQ(with_wrong({third}, 2, 3).config, racers[0].config) << "fast and wrong";
  EXPECT_EQ(with_wrong({second}, 2, 3).config, racers[2].config) << "the others still race";
  EXPECT_EQ(with_wrong({first}, 0, 3).config, racers[1].config) << "two agree against the model's pick";
  const Plan alone = with_wrong({second}, 1, 2);
  EXPECT_EQ(alone.config, racers[0].config) << "of two, the model's pick stays";
  EXPECT_EQ(alone.source, PlanSource::model) << "nothing was compared";
}

TEST_F(Races, packed_products_and_convolutions_drop_wrong_racers_too) {
  const Device racing = *open_fake_device({.jobs = 2});
  const auto packed_racers = ops::racing<ops::Gemm>(*gemm::candidates(kPacked, racing.info()), 3);
  const auto other = std::find_if(packed_racers.begin(), packed_racers.end(), [&](const auto& racer) {
    return racer.smem_bytes != packed_racers[0].smem_bytes;
  });
  ASSERT_NE(other, packed_racers.end());
  const u32 wrong = static_cast<u32>(other->smem_bytes);
  driver.make_fast(wrong);
  driver.make_wrong([=](const LaunchRecord& launch) { return launch.smem_bytes == wrong; });
  const Result<Plan> packed_won = gemm::race(racing, kPacked);
  ASSERT_TRUE(packed_won.ok()) << packed_won.error().message;
  EXPECT_NE(packed_won->smem_bytes, wrong);

  const Conv conv{.op = ConvOp::fprop,
                  .images = 8,
                  .channels = 64,
                  .filters = 128,
                  .size = {28, 28, 1},
                  .filter = {3, 3, 1},
                  .padding = {1, 1, 0},
                  .padding_after = {1, 1, 0}};
  const Result<Problem> problem = conv::problem(conv, DType::bf16, DType::bf16, {});
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  const std::vector<Plan> racers = ops::racing<ops::Gemm>(*gemm::candidates(*problem, racing.info()), 16);
  const auto spoilt = std::find_if(racers.begin(), racers.end(), [&](const Plan& racer) {
    return racer.smem_bytes != racers[0].smem_bytes;
  });
  ASSERT_NE(spoilt, racers.end());
  const u32 fast = static_cast<u32>(spoilt->smem_bytes);
  driver.make_fast(fast);
  driver.make_wrong([](const LaunchRecord&) { return false; });
  EXPECT_EQ(gemm::race(*open_fake_device({.jobs = 2}), *problem, 16)->smem_bytes, fast);
  driver.make_wrong([=](const LaunchRecord& launch) { return launch.smem_bytes == fast; });
  const Result<Plan> won = gemm::race(racing, *problem, 16);
  ASSERT_TRUE(won.ok()) << won.error().message;
  EXPECT_NE(won->smem_bytes, fast);
}

/// run() must not take a plan that needs more workspace than the caller passes.
TEST_F(Races, a_callers_workspace_bounds_the_plans_that_race) {
  const Problem split{.m = 128, .n = 256, .k = 16384};
  const Device racing = opened(16);
  const auto ranked = gemm::candidates(split, racing.info());
  ASSERT_TRUE(ranked.ok());
  const std::vector<Plan> racers = ops::racing<ops::Gemm>(*ranked, 16);
  const auto needs = [](const Plan& plan) { return plan.workspace_bytes > 0; };
  ASSERT_GT(std::count_if(racers.begin(), racers.end(), needs), 0) << "the problem shows nothing";
  gemm::Args args = args_for(split);
  args.workspace = {driver.memory(kWorkspaceCounterBytes), 0};
  const Result<void> done = gemm::run(racing, split, args, nullptr);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(ops::kept<ops::Gemm>(racing).find(ops::Gemm::key_of(split))->impl().plan.workspace_bytes, 0);
}

TEST_F(Races, a_race_of_one_is_no_record) {
  const Result<Plan> alone = gemm::race(opened(0), kProblem, 1);
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  EXPECT_EQ(alone->source, PlanSource::model);
  EXPECT_EQ(planned(opened(0)).source, PlanSource::model);
}

TEST_F(Races, run_races_once_if_the_options_ask_for_it) {
  const Device racing = opened(3), plain = opened(0);
  const gemm::Args args = args_for(kProblem);
  driver.make_fast(~0u);
  launched(gemm::run(plain, kProblem, args, nullptr), 1);
  ASSERT_TRUE(gemm::run(racing, kProblem, args, nullptr).ok());
  const int after_race = driver.launches();
  EXPECT_GT(after_race, 3);
  ASSERT_TRUE(gemm::run(racing, kProblem, args, nullptr).ok());
  EXPECT_EQ(driver.launches(), after_race + 1);
  const Device later = opened(3);
  ASSERT_TRUE(gemm::run(later, kProblem, args, nullptr).ok());
  EXPECT_EQ(driver.launches(), after_race + 2) << "a record stands: nobody races";
}

TEST_F(Races, packed_weights_race_too) {
  const Device racing = opened(3);
  const auto racers = ops::racing<ops::Gemm>(*gemm::candidates(kPacked, racing.info()), 3);
  const auto other = std::find_if(racers.begin(), racers.end(), [&](const auto& racer) {
    return racer.smem_bytes != racers[0].smem_bytes;
  });
  ASSERT_NE(other, racers.end());
  driver.make_fast(static_cast<u32>(other->smem_bytes));
  const Result<Plan> won = gemm::race(racing, kPacked);
  ASSERT_TRUE(won.ok()) << won.error().message;
  EXPECT_EQ(won->source, PlanSource::record);
  const auto again = gemm::plan(kPacked, racing.info(), {}, opened(0).records());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->config, won->config);
  EXPECT_EQ(again->source, PlanSource::record);
  PackedProblem residual = kPacked;
  residual.residual = true;
  driver.make_fast(~0u);
  ASSERT_TRUE(gemm::race(opened(0), residual).ok());
  EXPECT_EQ(gemm::plan(kPacked, racing.info(), {}, opened(0).records())->config, won->config)
      << "a product with a residual must not replace the plain one's record";
}

TEST_F(Races, without_memory_run_keeps_the_models_pick) {
  driver.machine.memory_bytes = 64 << 20;
  const Device racing = opened(3);
  const gemm::Args args = args_for(kProblem);
  EXPECT_FALSE(gemm::race(racing, kProblem, 3).ok());
  launched(gemm::run(racing, kProblem, args, nullptr), 1);
  EXPECT_EQ(planned(opened(0)).source, PlanSource::model);
}

TEST_F(Races, a_failure_of_any_call_leaves_nothing_behind) {
  const Device racing = *open_fake_device({.jobs = 2});
  PackedProblem problem{.m = 16, .n = 512, .k = 1024};
  problem.residual = true;                           // such problems store no result, so every call races
  ASSERT_TRUE(gemm::race(racing, problem, 2).ok());  // compiles and loads the kernels
  const Alive before = driver.alive();
  int failed = 0;
  for (int call = 0;; call += 41) {
    driver.fail_call(call, CUDA_ERROR_UNKNOWN);
    const Result<Plan> won = gemm::race(racing, problem, 2);
    const bool reached = *driver.last_failed() != 0;
    driver.fail_nothing();
    EXPECT_EQ(driver.alive(), before) << driver.last_failed();
    if (!reached) break;
    failed += !won.ok();
  }
  EXPECT_GT(failed, 5);
}

TEST_F(Races, wrong_arguments_are_refused) {
  for (const int candidates : {-1, 0, 17}) {
    const Result<Plan> won = gemm::race(device(), kProblem, candidates);
    ASSERT_FALSE(won.ok());
    EXPECT_EQ(won.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(won.error().message.find("1..16"), std::string::npos);
  }
  EXPECT_FALSE(gemm::race(device(), {.m = 8, .n = 8, .k = 3, .a = {.ld = 2}}, 3).ok());
  const Result<Plan> empty = gemm::race(device(), {.m = 0, .n = 8, .k = 8}, 3);
  ASSERT_TRUE(empty.ok()) << empty.error().message;
  EXPECT_EQ(driver.launches(), 0);
  const Result<Plan> no_k = gemm::race(device(), {.m = 8, .n = 8, .k = 0}, 3);
  ASSERT_TRUE(no_k.ok()) << no_k.error().message;
  EXPECT_EQ(driver.launches(), 0) << "no record can hold k = 0";
  const Result<Plan> large = gemm::race(device(), {.m = 65536, .n = 65536, .k = 8192}, 3);
  ASSERT_FALSE(large.ok());
  EXPECT_NE(large.error().message.find("4 GiB"), std::string::npos) << large.error().message;
  const Result<void> nowhere = keep_record(device(), planned(device()), 1, "a test");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().code, ErrorCode::io);
}

}  // namespace
}  // namespace sluice
