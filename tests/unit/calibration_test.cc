// SPDX-License-Identifier: Apache-2.0
// A card's calibration is stored, found again only for this card and driver, and used in plans. Damaged,
// foreign and impossible files are refused, with the remedy. To see it fail: leave the key out of
// find_calibration(), or the bounds out of parse_calibration().
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <sluice/run/device/device_impl.h>
#include <sluice/run/jit/compiler.h>
#include <sluice/run/records/record_store.h>

#include "cli/doctor_checks.h"
#include "fake_driver.h"
#include "lab/calibrate/calibrate.h"

namespace sluice {
namespace {

class CalibrationTest : public testing::Test {
 protected:
  CalibrationTest()
      : folder_(testing::TempDir() + "sluice_calibration_" + std::to_string(getpid()) + "_" +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_);
  }
  ~CalibrationTest() override { std::filesystem::remove_all(folder_); }

  static Card card(int ordinal = 0) {
    const Result<Device> device = Device::open(ordinal, {});
    return device ? device->impl().card() : Card{};
  }
  static Calibration made_for(const Card& card) {
    Calibration c{.gpu = card.gpu, .driver = card.driver, .key = card.key(), .date = "2026-11-27T01:00:00Z"};
    c.rates.hbm_bytes_per_us = 3.1e6;
    c.rates.light_mhz = 1700;
    return c;
  }
  void write(const Card& card, const std::string& text) const {
    std::ofstream(folder_ + "/" + calibration_file(card)) << text;
  }
  DeviceInfo opened(int ordinal = 0) const {
    const Result<Device> device = Device::open(ordinal, {.records_dir = folder_});
    EXPECT_TRUE(device.ok());
    return device ? device->info() : DeviceInfo{};
  }

  FakeDriver driver_;
  const std::string folder_;
};

TEST_F(CalibrationTest, a_card_plans_with_the_rates_that_it_was_measured_to_have) {
  const Result<std::string> path = save_calibration(folder_, card(), made_for(card()));
  ASSERT_TRUE(path) << path.error().message;
  const DeviceInfo info = opened();
  EXPECT_EQ(info.rates, made_for(card()).rates);
  EXPECT_EQ(info.sources.hbm_rate, FactSource::calibrated);
  EXPECT_EQ(info.sources.sm_rates, FactSource::calibrated);
  EXPECT_EQ(info.sources.clusters, FactSource::driver) << "facts stay the driver's";
  EXPECT_NE(describe(info).find("3.10 TB/s (measured on this card)"), std::string::npos) << describe(info);
}

TEST_F(CalibrationTest, another_card_or_driver_has_none) {
  ASSERT_TRUE(save_calibration(folder_, card(), made_for(card())));
  EXPECT_NE(opened(1).sources.hbm_rate, FactSource::calibrated) << "another card of the machine";
  driver_.machine.driver = "580.2";
  EXPECT_NE(opened().sources.hbm_rate, FactSource::calibrated);
  driver_.machine.driver = "580.1";
  EXPECT_EQ(opened().sources.hbm_rate, FactSource::calibrated);
}

TEST_F(CalibrationTest, a_file_under_another_cards_name_is_refused) {
  ASSERT_TRUE(save_calibration(folder_, card(1), made_for(card(0))));
  const FoundCalibration found = find_calibration(folder_, card(1));
  EXPECT_FALSE(found.calibration);
  EXPECT_NE(found.trouble.find("it is of card \"" + card(0).key()), std::string::npos) << found.trouble;
  EXPECT_NE(opened(1).sources.hbm_rate, FactSource::calibrated);
}

TEST_F(CalibrationTest, damaged_and_impossible_files_are_refused_with_the_remedy) {
  const Calibration good = made_for(card());
  ASSERT_TRUE(save_calibration(folder_, card(), good));
  const std::string text = to_json(good);
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  const struct {
    std::string text;
    const char* said;
  } files[] = {{"", "is not JSON"},
               {text.substr(0, text.size() / 2), "is not JSON"},
               {"[]", "it is no object"},
               {"{}", "it is not of version 1"},
               {replaced("\"calibration\": 1", "\"calibration\": 2"), "it is not of version 1"},
               {replaced("3100000.0", "-3100000.0"), "hbm_bytes_per_us = -3.1e+06 must be in 100000..1e+07"},
               {replaced("3100000.0", "\"fast\""), "it has no hbm_bytes_per_us"},
               {replaced("light_mhz", "heavy_mhz"), "it has no light_mhz"},
               {replaced("\"heavy_share\": 0.96", "\"heavy_share\": 0.3"), "must be above light_share"}};
  for (const auto& [damaged, said] : files) {
    write(card(), damaged);
    const FoundCalibration found = find_calibration(folder_, card());
    EXPECT_FALSE(found.calibration) << damaged;
    EXPECT_NE(found.trouble.find(said), std::string::npos) << found.trouble;
    EXPECT_NE(found.trouble.find("sluice_lab calibrate"), std::string::npos) << found.trouble;
    EXPECT_NE(opened().sources.hbm_rate, FactSource::calibrated);
  }
  write(card(), text);
  EXPECT_EQ(opened().rates, good.rates);
}

TEST_F(CalibrationTest, it_is_no_tuning_record) {
  ASSERT_TRUE(save_calibration(folder_, card(), made_for(card())));
  const ParsedRecords records = read_records_folder(folder_);
  EXPECT_TRUE(records.troubles.empty()) << records.troubles.front();
  EXPECT_TRUE(records.records.empty());
}

TEST_F(CalibrationTest, without_a_uuid_or_a_folder_nothing_is_kept) {
  EXPECT_EQ(save_calibration("", card(), made_for(card())).error().code, ErrorCode::invalid_argument);
  driver_.fail_function("cuDeviceGetUuid", CUDA_ERROR_UNKNOWN);
  const Card unknown = card();
  EXPECT_EQ(unknown.key(), "");
  EXPECT_EQ(save_calibration(folder_, unknown, {}).error().code, ErrorCode::invalid_argument);
  EXPECT_NE(opened().sources.hbm_rate, FactSource::calibrated);
}

TEST_F(CalibrationTest, the_doctor_says_whether_there_is_one) {
  using cli::Health;
  const cli::Check none = cli::check_calibration({.records_dir = folder_});
  EXPECT_EQ(none.health, Health::optional);
  EXPECT_NE(none.remedy.find("sluice_lab calibrate"), std::string::npos);
  ASSERT_TRUE(save_calibration(folder_, card(), made_for(card())));
  const cli::Check there = cli::check_calibration({.records_dir = folder_});
  EXPECT_EQ(there.health, Health::ok);
  EXPECT_NE(there.found.find("2026-11-27"), std::string::npos) << there.found;
  write(card(), "{");
  const cli::Check damaged = cli::check_calibration({.records_dir = folder_});
  EXPECT_EQ(damaged.health, Health::optional);
  EXPECT_NE(damaged.found.find("is not JSON"), std::string::npos) << damaged.found;
}

/// The clock is 1800 MHz at up to half load, and 1600 MHz from 90 % on.
TEST(calibration_clock, the_curve_is_found_from_points_on_it) {
  std::vector<lab::ClockPoint> points;
  for (const double share : {1.0, 0.95, 0.8, 0.7, 0.6, 0.5})
    points.push_back({share, 1800 - 200 * std::clamp((share - 0.5) / 0.4, 0.0, 1.0)});
  DeviceRates rates;
  points.push_back({0.2, 1900});  // only WGMMA; no GEMM kernel reaches this clock
  lab::fit_clock(points, 1600, rates);
  EXPECT_DOUBLE_EQ(rates.light_mhz, 1800);
  EXPECT_NEAR(rates.light_share, 0.5, 0.051);
  EXPECT_NEAR(rates.heavy_share, 0.9, 0.051);
  const DeviceRates before = rates;
  lab::fit_clock(std::vector<lab::ClockPoint>{{1, 1590}, {0.5, 1600}}, 1590, rates);
  EXPECT_EQ(rates.light_mhz, 1600);
  EXPECT_EQ(rates.light_share, before.light_share) << "a clock that hardly falls says nothing of where";
}

TEST(calibration_units, kernels_compile) {
  const auto compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  for (const std::string& unit : lab::calibration_unit_texts()) {
    const auto cubin = (*compiler)->compile(unit);
    ASSERT_TRUE(cubin) << cubin.error().message;
    EXPECT_EQ(cubin->report.spill_bytes, 0) << unit.substr(0, 100);
  }
}

}  // namespace
}  // namespace sluice
