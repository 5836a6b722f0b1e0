// SPDX-License-Identifier: Apache-2.0
// sluice_race() and sluice_options.race on the fake driver. Every kind of problem can race, sluice_run() then
// uses the fastest plan, and misuse launches nothing. To see them fail: let sluice_race() return the
// planner's pick.
#include <sluice/c_api/options.h>
#include <sluice/run/ops/kept.h>

#include <stdlib.h>

#include "c_api_fixture.h"
#include "cache_fake.h"

namespace sluice {
namespace {

sluice_problem dense() {
  return dense_problem(64, 2048, 4096);
}
sluice_problem convolution() {
  sluice_problem p{};
  p.batch = 1;
  p.conv = {.op = SLUICE_FPROP,
            .spatial = 2,
            .images = 8,
            .channels = 64,
            .filters = 128,
            .size = {28, 28},
            .filter = {3, 3},
            .stride = {1, 1},
            .dilation = {1, 1},
            .padding = {1, 1},
            .padding_after = {1, 1}};
  return p;
}

class CApiRace : public LaunchTest {
 protected:
  CApiRace() {
    driver.machine.memory_bytes = i64{2} << 30;
    handle_ = opened();
  }
  ~CApiRace() override {
    sluice_plan_free(plan_);
    sluice_device_close(handle_);
  }

  sluice_device* opened() const {
    const Result<Device> device = open_fake_device({.records_dir = folder_ / "records", .jobs = 2});
    EXPECT_TRUE(device.ok());
    return new sluice_device{c_api::Session(*device), "fake"};
  }
  void refused(sluice_status got, const std::string& mention,
               sluice_status status = SLUICE_INVALID_ARGUMENT) {
    EXPECT_EQ(got, status);
    EXPECT_NE(std::string(sluice_error_message()).find(mention), std::string::npos) << sluice_error_message();
    EXPECT_EQ(plan_, nullptr);
    EXPECT_EQ(driver.launches(), 0);
  }

  const test::TemporaryFolder folder_;
  sluice_device* handle_ = nullptr;
  sluice_plan* plan_ = nullptr;
};

TEST_F(CApiRace, each_kind_of_problem_races_and_leaves_a_record) {
  for (const sluice_problem& problem : {dense(), packed_problem(16, 4096, 4096), convolution()}) {
    const int before = driver.launches();
    ASSERT_EQ(sluice_race(handle_, AsCall(problem), 3, &plan_), SLUICE_OK) << sluice_error_message();
    EXPECT_GT(driver.launches(), before + 3);
    EXPECT_STREQ(sluice_plan_source(plan_), "record");
    EXPECT_GT(sluice_plan_estimate_us(plan_), 0);
    sluice_device* const later = opened();
    sluice_plan* again = nullptr;
    const int after = driver.launches();
    ASSERT_EQ(sluice_race(later, AsCall(problem), 3, &again), SLUICE_OK) << sluice_error_message();
    EXPECT_EQ(driver.launches(), after) << "a record stands: nothing is timed";
    EXPECT_STREQ(sluice_plan_config(again), sluice_plan_config(plan_));
    sluice_plan_free(again);
    sluice_device_close(later);
    sluice_plan_free(std::exchange(plan_, nullptr));
  }
}

/// sluice_race() enters the device's context itself, because the caller's context may be another or none.
TEST_F(CApiRace, the_winner_is_what_run_takes_from_now_on) {
  const auto ranked = gemm::candidates(*c_api::problem_of(dense()), device().info());
  const std::vector<Plan> racers = ops::racing<ops::Gemm>(*ranked, 3);
  ASSERT_NE(racers.back().smem_bytes, racers[0].smem_bytes);
  driver.make_fast(static_cast<u32>(racers.back().smem_bytes));
  driver.make_current(1);
  const sluice_problem problem = dense();
  ASSERT_EQ(sluice_race(handle_, AsCall(problem), 3, &plan_), SLUICE_OK) << sluice_error_message();
  driver.make_current(0);
  EXPECT_EQ(plan_->plan.config, racers.back().config);
  ASSERT_EQ(sluice_use_plan(handle_, plan_), SLUICE_OK) << sluice_error_message();
  const Problem of = *c_api::problem_of(problem);
  const Device& on = handle_->session.device();
  const int before = driver.launches();
  ASSERT_TRUE(gemm::run(on, of, args_for(of), nullptr).ok());
  EXPECT_EQ(driver.launches(), before + 1);
  const auto& kept = ops::kept<ops::Gemm>(on);
  EXPECT_EQ(kept.find(ops::Gemm::key_of(of))->impl().plan.config, racers.back().config);
}

TEST_F(CApiRace, misuse_is_refused) {
  sluice_problem problem = dense();
  refused(sluice_race(nullptr, AsCall(problem), 3, &plan_), "device is NULL");
  refused(sluice_race(handle_, nullptr, 3, &plan_), "call is NULL");
  refused(sluice_race(handle_, AsCall(problem), 3, nullptr), "plan is NULL");
  for (const int32_t candidates : {-1, 0, 17})
    refused(sluice_race(handle_, AsCall(problem), candidates, &plan_),
            "candidates = " + std::to_string(candidates) + " must be in 1..16: pass 3");
  problem.a.ld = -1;
  refused(sluice_race(handle_, AsCall(problem), 3, &plan_), "a.ld = -1", SLUICE_INVALID_STRIDE);
  problem.a.type = 77;
  refused(sluice_race(handle_, AsCall(problem), 3, &plan_), "a.type = 77");
}

TEST_F(CApiRace, making_ready_races_by_default) {
  const sluice_problem problem = dense();
  for (const int32_t race : {0, 1, -1}) {
    sluice_device* const fresh = opened();
    const int before = driver.launches();
    EXPECT_EQ(sluice_make_ready(fresh, AsCall(problem), 1, race), SLUICE_OK) << sluice_error_message();
    EXPECT_EQ(driver.launches() > before, race == -1) << race;
    sluice_device_close(fresh);
  }
  for (const int32_t race : {-2, 17}) {
    EXPECT_EQ(sluice_make_ready(handle_, AsCall(problem), 1, race), SLUICE_INVALID_ARGUMENT);
    const std::string mention = "race = " + std::to_string(race) + " must be in 0..16";
    EXPECT_NE(std::string(sluice_error_message()).find(mention), std::string::npos) << sluice_error_message();
  }
}

TEST_F(CApiRace, a_layer_has_sizes) {
  const int32_t filter[] = {3, 1, 5};
  const auto turns = [](const Axes& axes) {
    return ops::takes_turn({.conv = {.op = ConvOp::fprop, .channels = 88, .filters = 56, .filter = axes}});
  };
  EXPECT_EQ(sluice_race_layer(56, 88, filter, 3), SLUICE_OK) << sluice_error_message();
  EXPECT_FALSE(turns({3, 1, 5}));
  EXPECT_TRUE(turns({5, 1, 3})) << "outermost first";
  EXPECT_EQ(sluice_race_layer(56, 88, nullptr, 0), SLUICE_OK) << sluice_error_message();
  EXPECT_TRUE(ops::takes_turn({.m = 4, .n = 56, .k = 88}));
  const auto wrong = [](sluice_status got, sluice_status wanted, const std::string& mention) {
    EXPECT_EQ(got, wanted);
    EXPECT_NE(std::string(sluice_error_message()).find(mention), std::string::npos) << sluice_error_message();
  };
  wrong(sluice_race_layer(0, 88, nullptr, 0), SLUICE_INVALID_SIZE, "outputs = 0 must be at least 1");
  wrong(sluice_race_layer(56, -1, nullptr, 0), SLUICE_INVALID_SIZE, "inputs = -1 must");
  wrong(sluice_race_layer(56, 88, filter, 4), SLUICE_INVALID_ARGUMENT, "spatial = 4 must be in 0..3");
  wrong(sluice_race_layer(56, 88, nullptr, 1), SLUICE_INVALID_ARGUMENT, "filter is NULL");
}

TEST_F(CApiRace, the_option_replaces_the_environments) {
  unsetenv("SLUICE_RACE");
  EXPECT_EQ(c_api::options_of(nullptr)->race, kUsualRace);
  setenv("SLUICE_RACE", "0", 1);
  EXPECT_EQ(c_api::options_of(nullptr)->race, 0);
  setenv("SLUICE_RACE", "5", 1);
  const auto race_of = [](int32_t race) {
    const sluice_options given{nullptr, nullptr, nullptr, -1, -1, race};
    return c_api::options_of(&given);
  };
  EXPECT_EQ(c_api::options_of(nullptr)->race, 5);
  EXPECT_EQ(race_of(-1)->race, 5);
  unsetenv("SLUICE_RACE");
  for (const int32_t race : {0, 1, 16}) EXPECT_EQ(race_of(race)->race, race);
  for (const int32_t race : {-2, 17}) {
    ASSERT_FALSE(race_of(race).ok());
    const std::string message = race_of(race).error().message;
    EXPECT_NE(message.find("race = " + std::to_string(race) + " must be in 0..16: pass 0"), std::string::npos)
        << message;
    const sluice_options given{nullptr, nullptr, nullptr, -1, -1, race};
    sluice_device* none = nullptr;
    const sluice_weight_format format{SLUICE_UINT4, 64, SLUICE_FP16, 1, SLUICE_ORDER_HALF};
    EXPECT_EQ(sluice_device_open(0, &given, &none), SLUICE_INVALID_ARGUMENT);
    EXPECT_EQ(none, nullptr);
    EXPECT_EQ(sluice_compile(nullptr, 0, &given, nullptr), SLUICE_INVALID_ARGUMENT);
    EXPECT_EQ(sluice_compile_norms(SLUICE_BF16, &given, nullptr), SLUICE_INVALID_ARGUMENT);
    EXPECT_EQ(sluice_compile_quantizers(SLUICE_BF16, &given, nullptr), SLUICE_INVALID_ARGUMENT);
    EXPECT_EQ(sluice_compile_packer(&format, &given, nullptr), SLUICE_INVALID_ARGUMENT);
  }
}

}  // namespace
}  // namespace sluice
