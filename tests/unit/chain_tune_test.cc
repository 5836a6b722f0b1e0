// SPDX-License-Identifier: Apache-2.0
// The tuner of chains on the fake driver, whose clock determines what an early launch gains. To see it fail:
// use Keep::no_loss for every change (second test), or remove take_off (fourth test).
#include "bench/chain/tune.h"

#include <algorithm>

#include "lab_fixture.h"

namespace sluice::bench {
namespace {

class ChainTuner : public LabFixture {
 protected:
  ChainTuner() : LabFixture({.rounds = 3}) {}

  /// Returns layers of four equal products. All weights together are four times the fake GPU's L2.
  static LayerSpec spec(int layers = 4) {
    return {.model = *parse_model("3200x4096"),
            .parts = LayerParts::projections,
            .tokens = 4,
            .layers = layers,
            .passes = 1};
  }
  Result<LayerTuning> tuned(const LayerSpec& of) {
    const Result<ChainData> data = ChainData::create(*lab_, of);
    if (!data) return data.error();
    return tune_chain(*lab_, *data, {.budget_s = 60}, kSilent);
  }
  static int waiting(const LayerTuning& layer) {
    return static_cast<int>(std::count_if(layer.tuning.found.choices.begin(),
                                          layer.tuning.found.choices.end(),
                                          [](const TunedStep& c) { return c.overlap.wait != Wait::none; }));
  }
};

TEST_F(ChainTuner, takes_what_gains) {
  driver_.make_overlap_gain(0.01f);
  const Result<LayerTuning> tuning = tuned(spec());
  ASSERT_TRUE(tuning) << tuning.error().message;
  EXPECT_EQ(waiting(*tuning), static_cast<int>(tuning->tuning.found.choices.size()));
  EXPECT_LT(tuning->tuned_us, tuning->start_us);
  EXPECT_GT(tuning->tuning.found.kept(), 0);
  const TunedChain kept =
      tuned_chain(*lab_, *tuning, {.tuned_us = tuning->tuned_us, .off_us = tuning->start_us});
  EXPECT_EQ(kept.us, tuning->tuned_us);
}

TEST_F(ChainTuner, leaves_what_gains_nothing_and_ships_off) {
  for (const float gain : {0.0f, -0.001f}) {
    driver_.make_overlap_gain(gain);
    const Result<LayerTuning> tuning = tuned(spec());
    ASSERT_TRUE(tuning) << tuning.error().message;
    EXPECT_GT(tuning->tuning.found.tried(), 20);
    EXPECT_EQ(tuning->tuning.found.kept(), 0);
    EXPECT_EQ(waiting(*tuning), 0);
  }
}

/// A gain of one per mille is noise, so no record of it may be kept.
TEST_F(ChainTuner, a_gain_within_the_noise_is_no_gain) {
  driver_.make_overlap_gain(0.01f);
  const Result<LayerTuning> tuning = tuned(spec());
  ASSERT_TRUE(tuning) << tuning.error().message;
  const TunedChain same = tuned_chain(*lab_, *tuning, {.tuned_us = 99.9, .off_us = 100});
  EXPECT_EQ(same.us, 100);
  EXPECT_EQ(same.steps, tuned_steps(tuning->tuning.layer, tuning->tuning.alone));
  EXPECT_EQ(tuned_chain(*lab_, *tuning, {.tuned_us = 99.5, .off_us = 100}).us, 99.5);
}

/// On this machine at most five early launches save time. The search turns the others off.
TEST_F(ChainTuner, takes_off_what_gains_nothing_any_more) {
  driver_.make_overlap_gain(0.01f, 5);
  LayerSpec four = spec(5);
  four.model = {"four", 2048, 3072, 2048, 4096};
  const Result<LayerTuning> tuning = tuned(four);
  ASSERT_TRUE(tuning) << tuning.error().message;
  ASSERT_EQ(tuning->tuning.found.choices.size(), 4u);
  EXPECT_EQ(waiting(*tuning), 1) << "of each of five layers";
  EXPECT_LT(tuning->tuned_us, tuning->start_us);
}

TEST_F(ChainTuner, refuses_weights_that_stay_in_l2) {
  const Result<LayerTuning> few = tuned(spec(2));
  ASSERT_FALSE(few);
  EXPECT_NE(few.error().message.find("give it more layers"), std::string::npos) << few.error().message;
  LayerSpec small = spec();
  small.model = *parse_model("256x256");
  const Result<LayerTuning> light = tuned(small);
  ASSERT_FALSE(light);
  EXPECT_NE(light.error().message.find("the steps have 1 MB of weights"), std::string::npos)
      << light.error().message;
}

}  // namespace
}  // namespace sluice::bench
