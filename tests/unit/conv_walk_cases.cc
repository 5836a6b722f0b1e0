// SPDX-License-Identifier: Apache-2.0
// Makes random geometries and tiles for conv_walk.h, and checks the results.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <random>

#include <sluice/reference/conv.h>
#include <sluice/spec/conv_problem.h>
#include <sluice/spec/validate.h>

#include "conv_walk.h"

namespace sluice::test {
namespace {

constexpr i64 kMostProducts = 3'000'000;
constexpr i64 kMostPixels = 1500;
WalkCounts counts{};

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}

  int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  template <int kCount>
  int any(const int (&list)[kCount]) {
    return list[below(kCount)];
  }
  template <int kCount>
  Axes axes(int spatial, int otherwise, const int (&list)[kCount]) {
    return {any(list), spatial > 1 ? any(list) : otherwise, spatial > 2 ? any(list) : otherwise};
  }

 private:
  std::mt19937 random_;
};

Conv random_conv(Dice& dice) {
  for (;;) {
    const int spatial = dice.any({1, 2, 2, 2, 3});
    Conv v{.spatial = spatial, .images = dice.any({1, 1, 2, 3, 5})};
    v.channels = dice.any({8, 16, 24, 40, 64, 64, 72, 96, 128, 136});
    v.filters = dice.any({8, 16, 24, 64, 64, 72, 128, 136});
    v.size = dice.axes(spatial, 1, {1, 2, 3, 5, 7, 8, 9, 13, 16, 21});
    v.filter = spatial < 3 ? dice.axes(spatial, 1, {1, 1, 2, 3, 3, 4, 5}) : dice.axes(spatial, 1, {1, 2, 3});
    v.stride = dice.axes(spatial, 1, {1, 1, 1, 2, 2, 3});
    v.dilation = dice.axes(spatial, 1, {1, 1, 1, 2, 3});
    v.padding = dice.axes(spatial, 0, {0, 0, 1, 1, 2, 3});
    v.padding_after = v.padding;
    if (dice.below(2) == 0) v.padding_after = dice.axes(spatial, 0, {0, 1, 2});
    if (dice.below(3) == 0)
      v.x_pitch = v.channels + dice.any({8, 64}), v.y_pitch = v.filters + dice.any({8, 64});
    if (v.stride.w * v.stride.h * v.stride.d > kMostPhases || is_pointwise(v)) continue;
    const i64 pixels = y_pixels(v), products = pixels * taps_of(v) * v.channels * v.filters;
    if (pixels > 0 && pixels <= kMostPixels && products <= kMostProducts && x_pixels(v) <= 4 * kMostPixels)
      return v;
  }
}

/// Returns rows with `pitch` elements, of which the first `channels` are whole numbers and the others NaN.
std::vector<float> random_tensor(Dice& dice, i64 rows, i64 channels, i64 pitch) {
  std::vector<float> t(static_cast<size_t>((rows - 1) * pitch + channels),
                       std::numeric_limits<float>::quiet_NaN());
  for (i64 row = 0; row < rows; ++row)
    for (i64 c = 0; c < channels; ++c)
      t[static_cast<size_t>(row * pitch + c)] = static_cast<float>(dice.below(9) - 4);
  return t;
}

WalkPlan random_plan(Dice& dice, const Conv& v) {
  WalkPlan plan{.slices = dice.any({1, 1, 2, 3, 7, 16}), .direct = dice.below(2) == 0};
  KernelConfig& c = plan.config;
  c.conv = kind_of(v);
  const int clusters[][2] = {{1, 1}, {1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}};
  const int* cluster = clusters[dice.below(std::size(clusters))];
  c.cluster = {c.conv.phased ? 1 : cluster[0], cluster[1], 1};
  c.tile = {.m = dice.any({64, 128}), .n = 64};
  c.d = dice.below(2) == 0 ? DType::fp32 : DType::bf16;
  if (v.op == ConvOp::fprop) {
    c.tile.n = dice.any({32, 64, 96, 128});
    if (v.channels % 16 == 0 && x_pitch_of(v) % 16 == 0 && dice.below(4) == 0)
      c.a = c.b = DType::e4m3, c.tile.k = 128;
  } else if (v.op == ConvOp::dgrad) {
    c.tile.n = dice.any({32, 64, 96, 128});
    c.b_major = Major::mn;
  } else {
    c.tile.n = dice.any({64, 128, 192, 256});
    c.a_major = c.b_major = Major::mn;
  }
  return plan;
}

std::string judge(const Conv& v, const WalkPlan& plan, const WalkTensors& t, WalkMutant mutant) {
  const WalkResult got = walk_conv(v, plan, t, mutant);
  const std::string name = name_of(v.op);
  if (!got.refusal.empty()) return name + ": " + got.refusal;
  Problem p{.a = {.type = DType::fp32}, .b = {.type = DType::fp32}, .d = {.type = DType::fp32}};
  p.conv = v;
  std::vector<float> expected(got.d.size(), std::numeric_limits<float>::quiet_NaN());
  const void* a = v.op == ConvOp::fprop ? t.x.data() : t.y.data();
  const void* b = v.op == ConvOp::wgrad ? t.x.data() : t.w.data();
  reference_conv(p, {.a = a, .b = b, .d = expected.data()}, 1.0f, 0.0f);
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string where = name + ", element " + std::to_string(i) + ": ";
    const bool is_element = !std::isnan(expected[i]);
    if (got.written[i] != (is_element ? 1 : 0))
      return where + "written " + std::to_string(got.written[i]) + " times";
    if (is_element && got.d[i] != expected[i])
      return where + std::to_string(got.d[i]) + ", not " + std::to_string(expected[i]);
  }
  return "";
}

void count(const Conv& v, const WalkPlan& plan) {
  counts.strided += v.stride != kOnes;
  counts.dilated += v.dilation != kOnes;
  counts.split += plan.slices > 1;
  counts.clustered += plan.config.cluster.m * plan.config.cluster.n > 1;
  counts.padded_blocks += v.channels % kConvBlock != 0;
  const Phases phases = v.op == ConvOp::dgrad ? phases_of(v) : Phases{};
  counts.empty_phases += phases.count > 0 && phases.items[phases.count - 1].taps() == 0;
}

}  // namespace

std::string check_random_walk(unsigned seed, WalkMutant mutant) {
  Dice dice(seed);
  Conv v = random_conv(dice);
  const WalkTensors t{.x = random_tensor(dice, x_pixels(v), v.channels, x_pitch_of(v)),
                      .w = random_tensor(dice, v.filters * taps_of(v), v.channels, v.channels),
                      .y = random_tensor(dice, y_pixels(v), v.filters, y_pitch_of(v))};
  for (const ConvOp op : {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad}) {
    v.op = op;
    const WalkPlan plan = random_plan(dice, v);
    if (const char* rule = validate_conv(plan.config); rule != nullptr) return rule;
    count(v, plan);
    if (const std::string wrong = judge(v, plan, t, mutant); !wrong.empty()) return wrong;
  }
  return "";
}

WalkCounts walk_counts() {
  return counts;
}

}  // namespace sluice::test
