// SPDX-License-Identifier: Apache-2.0
// The activations of the epilogue, compiled by g++, must be within the errors that docs/numerics.md states of
// the functions in double. ex2.approx may differ from exp2f by 2^-22 (PTX ISA), which adds one unit. To see
// it fail: change the linear coefficient of gelu() by 1e-6.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

inline float __expf(float x) {
  return std::exp(x);
}
inline float __fdividef(float x, float y) {
  return x / y;
}

#include <sluice/device/epilogue/activation.cuh>

namespace sluice {
namespace {

double exact_gelu(double x) {
  return 0.5 * x * std::erfc(-x * 0.70710678118654752);
}
TEST(activation, gelu_is_right_to_a_unit_of_its_argument) {
  double worst = 0;
  for (int i = -2'000'000; i <= 2'000'000; ++i) {
    const float x = static_cast<float>(i) * 1e-5f;
    const double error = std::fabs(static_cast<double>(gelu(x)) - exact_gelu(static_cast<double>(x)));
    if (x != 0) worst = std::max(worst, error / (0x1p-23 * std::fabs(static_cast<double>(x))));
  }
  EXPECT_LE(worst, 1.0);
  EXPECT_GT(worst, 0.1) << "the measure sees something";
}

TEST(activation, gelu_far_below_zero_keeps_the_stated_share_of_itself) {
  const struct {
    float from, to;
    double most;
  } ranges[] = {{-3, 0, 2.5e-6}, {-4, -3, 2.2e-5}, {-5, -4, 2e-4}, {-6, -5, 1.6e-2}};
  for (const auto& [from, to, most] : ranges) {
    double worst = 0;
    for (int i = 1; i <= 300'000; ++i) {
      const float x = to - (to - from) * static_cast<float>(i) / 300'000;
      const double right = exact_gelu(static_cast<double>(x));
      worst = std::max(worst, std::fabs((static_cast<double>(gelu(x)) - right) / right));
    }
    EXPECT_LE(worst, most) << from;
    EXPECT_GT(worst, most / 10) << "the page says no more than is so, from " << from;
  }
}

TEST(activation, nan_and_infinity_go_through_gelu) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(gelu(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(gelu(kInfinity), kInfinity);
  EXPECT_EQ(gelu(-kInfinity), 0.0f);
  EXPECT_EQ(gelu(-13.0f), 0.0f);
  EXPECT_EQ(gelu(0.0f), 0.0f);
  EXPECT_EQ(gelu(100.0f), 100.0f);
}

TEST(activation, relu_keeps_nan_and_silu_is_x_over_one_and_its_exponential) {
  EXPECT_TRUE(std::isnan(activate<Activation::relu>(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(activate<Activation::relu>(-2.0f), 0.0f);
  EXPECT_EQ(activate<Activation::relu>(2.0f), 2.0f);
  EXPECT_EQ(activate<Activation::none>(-2.0f), -2.0f);
  for (const float x : {-80.0f, -3.0f, -0.1f, 0.0f, 1.5f, 30.0f}) {
    const double right = static_cast<double>(x) / (1 + std::exp(-static_cast<double>(x)));
    EXPECT_NEAR(static_cast<double>(activate<Activation::silu>(x)), right, 1e-6 * std::fabs(right));
  }
}

TEST(activation, gates_of_gpt_oss_are_clamped_on_both_sides) {
  constexpr Activation kClamped = Activation::clamped_swiglu;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const float x : {-40.0f, -8.0f, -3.0f, -0.1f, 0.0f, 1.5f, 6.9f, 7.0f, 7.1f, 1e30f}) {
    const double gate = std::min(static_cast<double>(x), 7.0), right = gate / (1 + std::exp(-1.702 * gate));
    EXPECT_NEAR(static_cast<double>(activate<kClamped>(x)), right, 2e-6 * std::fabs(right)) << x;
    EXPECT_EQ(gate_factor<kClamped>(x), std::min(std::max(x, -7.0f), 7.0f) + 1.0f) << x;
    EXPECT_EQ(gate_factor<Activation::silu>(x), x);
  }
  EXPECT_TRUE(std::isnan(activate<kClamped>(kNan)));
  EXPECT_TRUE(std::isnan(gate_factor<kClamped>(kNan)));
}

}  // namespace
}  // namespace sluice
