// SPDX-License-Identifier: Apache-2.0
// Chain::tune on the fake driver: what is searched, which of the caller's choices stay, what is stored. To
// see them fail: let find_repeats return parts of a repetition, return the start in searched()
// (chain/tuning/tune.cc), or let take_choices override a caller's kernel.
#include <gtest/gtest.h>

#include <sluice/chain/tuning/tune.h>
#include <sluice/run/records/record_store.h>

#include "cache_fake.h"
#include "chain_fixture.h"

namespace sluice {
namespace {

class ChainTuningTest : public ChainTest {
 protected:
  static constexpr i64 kSide = 4096;
  ChainTuningTest() { driver.machine.memory_bytes = i64{2} << 30; }

  Device opened() const {
    const Result<Device> device = open_fake_device({.records_dir = folder_ / "records", .jobs = 2});
    EXPECT_TRUE(device.ok());
    return *device;
  }
  /// Returns square products with 16 MB of weights each, three times L2 in all.
  std::vector<ChainStep> squares(int count = 12) {
    std::vector<ChainStep> steps;
    void* from = driver.memory(kRows * kSide);
    for (int i = 0; i < count; ++i) {
      void* to = driver.memory(kRows * kSide);
      Problem p = link_problem();
      p.n = p.k = kSide;
      steps.push_back(
          {.work = ProductStep{.problem = p, .args = {.a = from, .b = driver.memory(kSide * kSide), .d = to}},
           .name = "square" + std::to_string(i)});
      from = to;
    }
    return steps;
  }

 private:
  const test::TemporaryFolder folder_;
};

TEST_F(ChainTuningTest, what_gains_is_found_kept_and_planned_from_then_on) {
  driver.make_overlap_gain(0.0005f);
  const Device device = opened();
  const std::vector<ChainStep> steps = squares();
  std::vector<std::string> trials;
  int told = 0;
  const Alive before = driver.alive();
  const Result<Chain> chain =
      Chain::tune(device, steps,
                  {.seconds = 0.2,
                   .progress = [&](const std::string&) { ++told; },
                   .trials = [&](const std::string& line) { trials.push_back(line); }});
  ASSERT_TRUE(chain.ok()) << chain.error().message;
  EXPECT_EQ(chain->programmatic_edges(), 11);
  EXPECT_EQ(driver.alive().allocations, before.allocations);
  EXPECT_EQ(driver.alive().graphs + driver.alive().executables, 0);
  EXPECT_GT(trials.size(), 3u);
  EXPECT_GE(told, static_cast<int>(trials.size()));
  EXPECT_NE(trials[0].find("\"axis\":\"overlap of all\""), std::string::npos) << trials[0];
  EXPECT_NE(trials[0].find("\"kept\":true"), std::string::npos) << trials[0];

  const ParsedRecords kept = read_records_folder(device.options().records_dir);
  ASSERT_EQ(kept.chains.size(), 1u);
  EXPECT_EQ(kept.chains[0].driver, "580.1");
  const Device later = opened();
  const Result<ChainPlan> planned = plan_chain(steps, later.info(), {}, later.records());
  ASSERT_TRUE(planned.ok());
  EXPECT_TRUE(planned->steps[1].tuned) << "a device opened later has the record";
  EXPECT_EQ(explain(*planned), explain(chain->plan()));
}

TEST_F(ChainTuningTest, without_a_gain_the_overlap_stays_off_and_nothing_need_be_kept) {
  driver.make_overlap_gain(-0.0005f);
  const Device device = opened();
  const std::vector<ChainStep> steps = squares();
  const Result<Chain> chain = Chain::tune(device, steps, {.seconds = 0, .keep = false});
  ASSERT_TRUE(chain.ok()) << chain.error().message;
  EXPECT_EQ(chain->programmatic_edges(), 0);
  const Device later = opened();
  const Result<ChainPlan> planned = plan_chain(steps, later.info(), {}, later.records());
  ASSERT_TRUE(planned.ok());
  EXPECT_FALSE(planned->steps[1].tuned);
}

/// With overlap off, steps outside of the repeated part have it off too.
TEST_F(ChainTuningTest, a_head_and_a_tail_are_off_with_the_rest) {
  driver.make_overlap_gain(-0.0005f);
  std::vector<ChainStep> steps = squares();
  for (const size_t end : {size_t{0}, steps.size() - 1}) product(steps[end]).overrides.tile_n = 64;
  ASSERT_EQ(tuning::find_repeats(steps), (tuning::Repeats{1, 1, 11}));
  const Result<Chain> guarded = Chain::guarded(device(), steps);
  ASSERT_TRUE(guarded.ok()) << guarded.error().message;
  EXPECT_EQ(guarded->programmatic_edges(), 0);
  driver.make_overlap_gain(0.0005f);
  const Result<Chain> gains = Chain::guarded(device(), steps);
  ASSERT_TRUE(gains.ok()) << gains.error().message;
  EXPECT_EQ(gains->programmatic_edges(), 11);
}

TEST_F(ChainTuningTest, a_callers_kernel_stays) {
  driver.make_overlap_gain(0.0005f);
  const Device device = opened();
  std::vector<ChainStep> steps = squares();
  for (ChainStep& step : steps)
    product(step).overrides = {.schedule = Schedule::ping_pong, .tile_m = 64, .tile_n = 64};
  const Result<Chain> chain = Chain::tune(device, steps, {.seconds = 0});
  ASSERT_TRUE(chain.ok()) << chain.error().message;
  EXPECT_EQ(chain->programmatic_edges(), 11);
  for (const PlannedStep& planned : chain->plan().steps)
    EXPECT_NE(product_kernel(chain->plan(), planned).find("ping_pong 64x64"), std::string::npos)
        << product_kernel(chain->plan(), planned);
  EXPECT_TRUE(opened().records().troubles().empty()) << "a record that could not be read is not kept";
}

TEST_F(ChainTuningTest, refusals_say_what_to_do) {
  const auto refused = [&](const std::vector<ChainStep>& steps, const ChainTuning& tuning,
                           const std::string& mention) {
    const Result<Chain> chain = Chain::tune(device(), steps, tuning);
    ASSERT_FALSE(chain.ok()) << mention;
    EXPECT_EQ(chain.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(chain.error().message.find(mention), std::string::npos) << chain.error().message;
  };
  refused(links(4), {}, "must have 3 times the 52 MB of L2");
  refused(squares(), {.seconds = -1}, "seconds = -1");
  refused(squares(), {.start = {.smem_limit = kHalfFootprint}}, "smem_limit and most_stages");
  EXPECT_TRUE(Chain::tune(device(), {}).ok()) << "nothing to launch, nothing to time";
}

TEST_F(ChainTuningTest, layers_are_found_between_other_steps) {
  using tuning::find_repeats;
  using tuning::Repeats;
  std::vector<ChainStep> layer = links(3);
  product(layer[1]).problem.n = 2 * kWidth;
  product(layer[2]).problem.k = 2 * kWidth;
  std::vector<ChainStep> model;
  for (int i = 0; i < 4; ++i) model.insert(model.end(), layer.begin(), layer.end());
  EXPECT_EQ(find_repeats(model), (Repeats{0, 3, 12}));
  ChainStep other = layer[0];
  product(other).problem.n = 4 * kWidth;
  model.insert(model.begin(), other);
  model.push_back(other);
  EXPECT_EQ(find_repeats(model), (Repeats{1, 3, 13}));
  EXPECT_EQ(find_repeats(links(4)), (Repeats{0, 1, 4})) << "one product four times";
  EXPECT_EQ(find_repeats(layer), (Repeats{0, 3, 3})) << "nothing repeats";
  model.resize(5);
  EXPECT_EQ(find_repeats(model), (Repeats{0, 5, 5})) << "a layer and a bit is no repetition";
  EXPECT_EQ(find_repeats({}), (Repeats{0, 0, 0}));
}

}  // namespace
}  // namespace sluice
