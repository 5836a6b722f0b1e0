// SPDX-License-Identifier: Apache-2.0
#include "conv_cases.h"

#include <sluice/try.h>

#include "lab/random/dice.h"

namespace sluice::testing {
namespace {

constexpr i64 kMostProducts = 300'000'000;

/// A convolution along two axes, with equal sizes along both.
Conv square(i64 images, i64 channels, i64 filters, int size, int filter, int stride, int padding) {
  return {.images = images,
          .channels = channels,
          .filters = filters,
          .size = {size, size, 1},
          .filter = {filter, filter, 1},
          .stride = {stride, stride, 1},
          .padding = {padding, padding, 0},
          .padding_after = {padding, padding, 0}};
}
/// A convolution along one axis.
Conv line(i64 images, i64 channels, i64 filters, int size, int filter, int dilation, int padding) {
  return {.spatial = 1,
          .images = images,
          .channels = channels,
          .filters = filters,
          .size = {size, 1, 1},
          .filter = {filter, 1, 1},
          .dilation = {dilation, 1, 1},
          .padding = {padding, 0, 0},
          .padding_after = {padding, 0, 0}};
}

PlanOverrides tile(Schedule schedule, int m, int n, ClusterShape cluster = {}) {
  return {.schedule = schedule, .tile_m = m, .tile_n = n, .cluster = cluster};
}
PlanOverrides split(PlanOverrides o, int splits, Combine combine) {
  o.splits = splits;
  o.combine = combine;
  return o;
}

}  // namespace

std::vector<NamedConv> named_convs() {
  Conv asymmetric = square(3, 64, 96, 20, 1, 1, 0);
  asymmetric.filter = {5, 2, 1};
  asymmetric.padding = {1, 0, 0};
  asymmetric.padding_after = {3, 1, 0};
  Conv both = square(2, 64, 64, 23, 3, 2, 3);
  both.size.h = 19;
  both.dilation = {3, 3, 1};
  Conv pitch = square(3, 40, 64, 15, 3, 1, 1);
  pitch.x_pitch = 104;
  pitch.y_pitch = 136;
  Conv strided_pitch = pitch;
  strided_pitch.stride = {2, 2, 1};
  Conv narrow = square(5, 64, 64, 40, 3, 1, 1);
  narrow.size.w = 3;
  narrow.padding.w = narrow.padding_after.w = 0;
  Conv unequal = square(2, 64, 64, 21, 1, 1, 0);
  unequal.filter = {7, 3, 1};
  unequal.padding = unequal.padding_after = {3, 1, 0};
  Conv empty = square(3, 64, 72, 29, 2, 3, 0);
  empty.size.h = 17;
  empty.stride.h = 2;
  Conv gcd = square(2, 64, 64, 25, 3, 2, 2);
  gcd.dilation = {2, 2, 1};                       // half of the phases have no taps
  Conv dropped = square(2, 32, 64, 24, 3, 2, 0);  // the last row and column of x are never read
  const Conv causal{.spatial = 3,
                    .images = 2,
                    .channels = 64,
                    .filters = 64,
                    .size = {12, 10, 5},
                    .filter = {3, 3, 3},
                    .padding = {1, 1, 2},
                    .padding_after = {1, 1, 0}};
  Conv halved = causal;
  halved.stride = {2, 2, 2};
  return {{"3x3", square(8, 64, 64, 56, 3, 1, 1)},
          {"3x3 of 512 channels", square(8, 512, 512, 7, 3, 1, 1)},
          {"3x3/2", square(8, 128, 128, 56, 3, 2, 1)},
          {"1x1/2", square(8, 256, 512, 28, 1, 2, 0)},
          {"stem 7x7/2", square(4, 8, 64, 112, 7, 2, 3)},
          {"1x1", square(4, 64, 256, 28, 1, 1, 0)},
          {"dilation 2", line(4, 64, 96, 200, 3, 2, 2)},
          {"dilation 18", line(2, 64, 64, 300, 15, 18, 126)},
          {"2x5, asymmetric padding", asymmetric},
          {"stride and dilation", both},
          {"stride and dilation with a divisor", gcd},
          {"16 filters", square(3, 48, 16, 20, 3, 1, 1)},
          {"72 channels", square(3, 72, 64, 20, 3, 1, 1)},
          {"200 channels, 136 filters", square(2, 200, 136, 14, 3, 1, 1)},
          {"pixels apart", pitch},
          {"pixels apart, strided", strided_pitch},
          {"one column of y", narrow},
          {"fewer pixels than a tile", square(1, 64, 64, 5, 3, 1, 1)},
          {"unequal padding", unequal},
          {"phases without taps", empty},
          {"what a stride leaves out", dropped},
          {"one pixel an image", square(150, 64, 64, 1, 3, 1, 1)},
          {"filter of 31", line(3, 128, 64, 500, 31, 1, 15)},
          {"causal 3x3x3", causal},
          {"3x3x3/2", halved},
          {"one image of 5x5", square(1, 32, 32, 33, 5, 1, 2)}};
}

std::vector<Conv> small_convs() {
  Conv pitch = square(1, 72, 72, 9, 3, 1, 1);
  pitch.x_pitch = 88;
  pitch.y_pitch = 104;
  const Conv cube{.spatial = 3,
                  .images = 2,
                  .channels = 24,
                  .filters = 72,
                  .size = {7, 6, 5},
                  .filter = {3, 2, 2},
                  .padding = {1, 1, 0},
                  .padding_after = {1, 0, 1}};
  return {pitch, square(3, 48, 80, 9, 3, 2, 1), line(4, 24, 72, 125, 3, 2, 2), cube};
}

std::vector<ConvVariant> conv_variants() {
  const Schedule ping = Schedule::ping_pong, coop = Schedule::cooperative;
  const Epilogue bias{.bias = Bias::column, .activation = Activation::relu};
  const Epilogue residual{.residual = true};
  const Epilogue scales{.scale_a = ScaleMode::tensor, .scale_b = ScaleMode::vector};
  const Epilogue added{.update = Update::add};
  const DType half = DType::fp16, wide = DType::fp32;
  return {
      {"planned", ConvOp::fprop},
      {"64x64", ConvOp::fprop, tile(ping, 64, 64)},
      {"128x128, clusters 2x1, bias", ConvOp::fprop, tile(coop, 128, 128, {2, 1}), half, half, bias},
      {"128x96, clusters 1x2", ConvOp::fprop, tile(coop, 128, 96, {1, 2}), DType::bf16, wide},
      {"128x96 in 3 parts", ConvOp::fprop, split(tile(ping, 128, 96), 3, Combine::last_arriver)},
      {"128x128 in 4 parts", ConvOp::fprop, split(tile(coop, 128, 128), 4, Combine::separate)},
      {"64x64, clusters along k, residual", ConvOp::fprop, tile(ping, 64, 64, {1, 1, 2}), half, half,
       residual},
      {"e4m3", ConvOp::fprop, tile(coop, 128, 128), DType::e4m3, DType::bf16, scales},
      {"planned", ConvOp::dgrad},
      {"64x64", ConvOp::dgrad, tile(ping, 64, 64), half, half},
      {"128x128, clusters 1x2", ConvOp::dgrad, tile(coop, 128, 128, {1, 2})},
      {"128x96", ConvOp::dgrad, tile(ping, 128, 96), DType::bf16, wide},
      {"128x192, clusters 2x1", ConvOp::dgrad, tile(coop, 128, 192, {2, 1})},
      {"128x128 in 3 parts", ConvOp::dgrad, split(tile(coop, 128, 128), 3, Combine::separate)},
      {"planned", ConvOp::wgrad},
      {"64x64", ConvOp::wgrad, tile(ping, 64, 64), DType::bf16, wide},
      {"128x192, clusters 2x1", ConvOp::wgrad, tile(coop, 128, 192, {2, 1}), half, half},
      {"128x128, clusters 1x2, 5 parts", ConvOp::wgrad,
       split(tile(coop, 128, 128, {1, 2}), 5, Combine::last_arriver), DType::bf16, wide},
      {"128x256 in 7 parts", ConvOp::wgrad, split(tile(coop, 128, 256), 7, Combine::separate)},
      {"64x128, clusters along k", ConvOp::wgrad, tile(ping, 64, 128, {1, 1, 2})},
      {"added, 3 parts", ConvOp::wgrad, split(tile(ping, 64, 64), 3, Combine::last_arriver), DType::bf16,
       wide, added},
      {"added in any order", ConvOp::wgrad, split(tile(coop, 128, 128), 4, Combine::add), DType::bf16, wide,
       added, false},
  };
}

Result<Plan> plan_conv(Conv conv, const ConvVariant& variant, const DeviceInfo& device) {
  conv.op = variant.op;
  SLUICE_TAKE(Problem problem, conv::problem(conv, variant.inputs, variant.output, variant.epilogue));
  problem.deterministic = variant.deterministic;
  problem.accumulate = variant.accumulate;
  return gemm::plan(problem, device, variant.overrides);
}

namespace {

Axes random_axes(Dice& dice, int spatial, int otherwise, std::initializer_list<int> list) {
  return {dice.any_of(list), spatial > 1 ? dice.any_of(list) : otherwise,
          spatial > 2 ? dice.any_of(list) : otherwise};
}
int along_axis(Dice& dice, int spatial) {
  const int most = spatial == 1 ? 600 : spatial == 2 ? 40 : 12;
  return dice.one_in(5) ? dice.between(1, 4) : dice.between(1, most);
}

}  // namespace

Conv random_conv(u64 seed) {
  Dice dice(seed);
  for (;;) {
    const int spatial = dice.any_of(std::initializer_list<int>{1, 2, 2, 2, 3});
    Conv v{.spatial = spatial, .images = dice.between(1, 6)};
    v.channels = 8 * (dice.one_in(3) ? 8 * dice.between(1, 4) : dice.between(1, 33));
    v.filters = 8 * (dice.one_in(3) ? 8 * dice.between(1, 4) : dice.between(1, 33));
    v.size = {along_axis(dice, spatial), spatial > 1 ? along_axis(dice, spatial) : 1,
              spatial > 2 ? along_axis(dice, spatial) : 1};
    v.filter = random_axes(dice, spatial, 1, {1, 1, 2, 3, 3, 3, 4, 5, 7});
    v.stride = random_axes(dice, spatial, 1, {1, 1, 1, 1, 2, 2, 3, 4});
    v.dilation = random_axes(dice, spatial, 1, {1, 1, 1, 2, 3});
    v.padding = v.padding_after = random_axes(dice, spatial, 0, {0, 0, 1, 1, 2, 3, 5});
    if (dice.one_in(3)) v.padding_after = random_axes(dice, spatial, 0, {0, 1, 2, 4});
    if (dice.one_in(4)) v.x_pitch = v.channels + 8 * dice.between(1, 20);
    if (dice.one_in(4)) v.y_pitch = v.filters + 8 * dice.between(1, 20);
    bool fits = y_pixels(v) * taps_of(v) * v.channels * v.filters <= kMostProducts;
    for (const ConvOp op : {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad}) {
      v.op = op;
      fits = fits && conv::problem(v, DType::bf16, DType::bf16).ok();
    }
    v.op = ConvOp::none;
    if (fits) return v;
  }
}

}  // namespace sluice::testing
