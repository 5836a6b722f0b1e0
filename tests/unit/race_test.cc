// SPDX-License-Identifier: Apache-2.0
// Races of plans on the fake driver: who runs, who wins, what is kept, and what a failure leaves. To see them
// fail: return the first plan in race(), or let racing() take plans by rank alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include <sluice/host/ops/packed.h>

#include "cache_fake.h"
#include "packed_launch_fixture.h"

namespace sluice {
namespace {

const Problem kProblem{.m = 64, .n = 2048, .k = 4096};
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
  const auto racers = ops::racing<ops::Packed>(*packed::candidates(kPacked, racing.info()), 3);
  const auto other = std::find_if(racers.begin(), racers.end(), [&](const auto& racer) {
    return racer.smem_bytes != racers[0].smem_bytes;
  });
  ASSERT_NE(other, racers.end());
  driver.make_fast(static_cast<u32>(other->smem_bytes));
  const Result<packed::Plan> won = packed::race(racing, kPacked);
  ASSERT_TRUE(won.ok()) << won.error().message;
  EXPECT_EQ(won->source, PlanSource::record);
  const auto again = packed::plan(kPacked, racing.info(), {}, opened(0).records());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->config, won->config);
  EXPECT_EQ(again->source, PlanSource::record);
  PackedProblem residual = kPacked;
  residual.residual = true;
  driver.make_fast(~0u);
  ASSERT_TRUE(packed::race(opened(0), residual).ok());
  EXPECT_EQ(packed::plan(kPacked, racing.info(), {}, opened(0).records())->config, won->config)
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
  const Device racing = *open_fake_device({.jobs = 2});  // no folder: every call races
  ASSERT_TRUE(gemm::race(racing, kProblem, 2).ok());     // compiles, loads
  const Alive before = driver.alive();
  int failed = 0;
  for (int call = 0;; call += 41) {
    driver.fail_call(call, CUDA_ERROR_UNKNOWN);
    const Result<Plan> won = gemm::race(racing, kProblem, 2);
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
  const Result<void> nowhere = keep_record({}, device().info(), planned(device()), 1, "a test");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().code, ErrorCode::io);
}

}  // namespace
}  // namespace sluice
