// SPDX-License-Identifier: Apache-2.0
// Results of races that are stored with a user's records, on the fake driver: for which card and version they
// decide, and that tuned records stay. To see them fail: leave `card` or the version out of
// RaceBook::decides(), write results in place of records, or let save_result() overwrite anything.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <sluice/run/ops/packed.h>
#include <sluice/run/records/race_store.h>
#include <sluice/run/records/record_store.h>

#include "cache_fake.h"
#include "launch_fixture.h"

namespace sluice {
namespace {

/// A problem whose three racers have different sizes of shared memory, by which the fake driver recognises
/// them.
const Problem kProblem{.m = 64, .n = 512, .k = 1024};

class RaceResults : public LaunchTest {
 protected:
  RaceResults() { driver.machine.memory_bytes = i64{2} << 30; }

  Device opened(int ordinal = 0) const {
    const Result<Device> device = open_fake_device({.records_dir = records(), .jobs = 2}, ordinal);
    EXPECT_TRUE(device.ok());
    return *device;
  }
  std::string records() const { return folder_ / "records"; }
  static Plan planned(const Device& device) {
    return *gemm::plan(kProblem, device.info(), {}, device.records());
  }
  static std::vector<Plan> racers(const Device& device, int most = 3) {
    return ops::racing<ops::Gemm>(*gemm::candidates(kProblem, device.info()), most);
  }
  /// Makes the plan `fast` the fastest and races. Expects `wins` to win. Returns whether anything was timed.
  bool races(const Device& device, const Plan& fast, const Plan& wins, int most = 3) {
    driver.make_fast(static_cast<u32>(fast.smem_bytes));
    const int launches = driver.launches();
    const Result<Plan> won = gemm::race(device, kProblem, most);
    EXPECT_TRUE(won.ok()) << (won.ok() ? "" : won.error().message);
    EXPECT_EQ(won->config, wins.config) << short_name(won->config);
    return driver.launches() > launches;
  }
  TuningKey key() const { return key_of(*ops::Gemm::check(kProblem), device().info()); }
  std::string result_file() const { return race_folder(records()) + "/" + file_name_of(key()); }
  std::string record_file() const { return records() + "/" + file_name_of(key()); }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// Replaces text in the stored result of the race.
  void edit(const std::string& from, const std::string& to) const {
    std::string text = text_of(result_file());
    ASSERT_NE(text.find(from), std::string::npos) << text;
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
    std::ofstream(result_file()) << text;
  }
  /// Stores a tuning record of a plan, as another process's `sluice tune` would.
  void tune(const Plan& plan, const std::string& method = "sluice tune: 40 candidates") const {
    Plan measured = plan;
    measured.measured_us = 1.5;
    ASSERT_TRUE(keep_record(opened(), measured, 2, method).ok());
  }

 private:
  const test::TemporaryFolder folder_;
};

TEST_F(RaceResults, lie_apart_from_tuned_records_and_name_the_driver) {
  const Device device = opened();
  EXPECT_TRUE(races(device, racers(device)[2], racers(device)[2]));
  EXPECT_FALSE(std::filesystem::exists(record_file()));
  const ParsedRecords kept = read_records_folder(records());
  EXPECT_TRUE(kept.records.empty());
  EXPECT_TRUE(kept.troubles.empty());
  ASSERT_EQ(kept.races.size(), 1u);
  EXPECT_EQ(kept.races[0].driver, "580.1");
  EXPECT_EQ(kept.races[0].card, device.impl().card().key());
  EXPECT_EQ(kept.races[0].sluice, library_version());
  EXPECT_EQ(kept.races[0].method, "a race of 3 plans");
  EXPECT_EQ(RecordStore::open_folder(records())->records().size(), 0u) << "sluice tune has not measured it";
}

TEST_F(RaceResults, two_cards_of_one_name_end_with_a_winner_each) {
  const Device first = opened(0), second = opened(1);
  ASSERT_EQ(first.info().name, second.info().name);
  const std::vector<Plan> plans = racers(first);
  ASSERT_NE(plans[1].smem_bytes, plans[2].smem_bytes);
  EXPECT_TRUE(races(first, plans[2], plans[2]));
  EXPECT_TRUE(races(second, plans[1], plans[1])) << "another card's result is a hint, not a decision";
  const Device first_later = opened(0), second_later = opened(1);
  EXPECT_EQ(planned(first_later).config, plans[2].config);
  EXPECT_EQ(planned(second_later).config, plans[1].config);
  EXPECT_FALSE(races(first_later, plans[0], plans[2]));
  EXPECT_FALSE(races(second_later, plans[0], plans[1]));
}

TEST_F(RaceResults, another_version_or_driver_races_again_and_the_old_winner_is_in_the_race) {
  const Device device = opened();
  const auto ranked = *gemm::candidates(kProblem, device.info());
  const std::vector<Plan> two = racers(device, 2);
  const Plan old = racers(device, 3)[2];  // not among two racers, unless a stored result adds it
  ASSERT_NE(old.config, two[1].config);
  for (const std::string what : {"version", "driver"}) {
    EXPECT_TRUE(races(opened(), old, old)) << what;
    EXPECT_EQ(planned(opened()).source, PlanSource::record);
    if (what == "version")
      edit("\"sluice\":\"" + library_version() + "\"", "\"sluice\":\"0.0.1\"");
    else
      driver.machine.driver = "590.2";
    const Device later = opened();
    EXPECT_EQ(planned(later).source, PlanSource::model) << what;
    EXPECT_TRUE(races(later, old, old, 2)) << what;
    EXPECT_EQ(planned(opened()).config, old.config);
    std::filesystem::remove_all(race_folder(records()));
  }
}

TEST_F(RaceResults, of_earlier_versions_that_lie_among_records_are_hints) {
  const Device device = opened();
  const Plan old = racers(device)[2];
  tune(old, "a race of 3 plans");
  EXPECT_TRUE(std::filesystem::exists(record_file()));
  const Device later = opened();
  EXPECT_EQ(planned(later).source, PlanSource::model);
  EXPECT_TRUE(races(later, old, old, 2));
  EXPECT_FALSE(races(opened(), racers(device)[0], old)) << "this card's own result decides now";
}

/// A device reads its records when it is opened. Records that `sluice tune` writes later must be kept, and
/// must decide.
TEST_F(RaceResults, a_record_that_is_tuned_after_the_device_opened_decides_and_stays) {
  const Device device = opened();
  const std::vector<Plan> plans = racers(device);
  EXPECT_TRUE(races(device, plans[2], plans[2]));
  const Device racing = opened(1);  // has not raced yet
  tune(plans[1]);
  const std::string tuned = text_of(record_file());
  EXPECT_FALSE(races(racing, plans[2], plans[1]));
  EXPECT_EQ(planned(racing).config, plans[1].config) << "the device's own book has it too";
  EXPECT_EQ(planned(opened()).config, plans[1].config) << "a record wins over a result of a race";
  EXPECT_EQ(text_of(record_file()), tuned);
  tune(plans[0]);
  EXPECT_EQ(planned(opened()).config, plans[0].config) << "sluice tune may replace anything";
}

TEST_F(RaceResults, another_process_on_this_card_is_heard_before_a_race) {
  const Device one = opened(), two = opened();
  const std::vector<Plan> plans = racers(one);
  EXPECT_TRUE(races(one, plans[2], plans[2]));
  EXPECT_FALSE(races(two, plans[1], plans[2]));
}

TEST_F(RaceResults, replace_only_older_ones_of_the_same_card_driver_and_version) {
  const Device device = opened();
  EXPECT_TRUE(races(device, racers(device)[2], racers(device)[2]));
  TuningRecord result = read_results(records(), key()).races.at(0);
  const auto save = [&](const std::string& date, const std::string& card, const std::string& version) {
    TuningRecord other = result;
    other.date = date;
    other.card = card;
    other.sluice = version;
    EXPECT_TRUE(save_result(records(), other).ok());
    return read_results(records(), key()).races.size();
  };
  EXPECT_EQ(save("2020-01-01T00:00:00Z", result.card, result.sluice), 1u);
  EXPECT_EQ(read_results(records(), key()).races[0], result) << "an older one";
  EXPECT_EQ(save("2099-01-01T00:00:00Z", result.card, result.sluice), 1u);
  EXPECT_EQ(read_results(records(), key()).races[0].date, "2099-01-01T00:00:00Z");
  EXPECT_EQ(save("2099-01-01T00:00:00Z", "another", result.sluice), 2u);
  EXPECT_EQ(save("2099-01-01T00:00:00Z", result.card, "0.0.1"), 3u);
  for (size_t i = 0; i < 2 * kMostResults; ++i)
    save("2050-01-01T00:00:00Z", "card" + std::to_string(i), result.sluice);
  EXPECT_EQ(read_results(records(), key()).races.size(), kMostResults);
  EXPECT_EQ(read_results(records(), key()).races[0].date, "2099-01-01T00:00:00Z") << "the oldest leave";
}

TEST_F(RaceResults, a_card_without_a_uuid_keeps_results_for_its_process_alone) {
  const Device device = opened();
  ops::let_card_decide(device.records(), "");
  const std::vector<Plan> plans = racers(device);
  EXPECT_TRUE(races(device, plans[2], plans[2]));
  EXPECT_EQ(planned(device).config, plans[2].config);
}

TEST_F(RaceResults, a_damaged_file_is_no_result_and_is_replaced) {
  EXPECT_TRUE(races(opened(), racers(device())[2], racers(device())[2]));
  std::ofstream(result_file()) << "{";
  const Device later = opened();
  EXPECT_EQ(later.records().troubles().size(), 1u) << "sluice doctor names it";
  EXPECT_TRUE(races(later, racers(device())[2], racers(device())[2]));
  EXPECT_TRUE(opened().records().troubles().empty());
}

}  // namespace
}  // namespace sluice
