// SPDX-License-Identifier: Apache-2.0
// Random geometries. Half of the sizes are chosen to be hard: one pixel, odd numbers, filters larger than x,
// and taps that no pixel uses because of stride and dilation. Then the largest sizes are halved until the
// host can compute the convolution.
#include <algorithm>

#include <sluice/conv.h>

#include "lab/random/choices.h"

namespace sluice::lab {
namespace {

constexpr std::array kHardSizes = {1, 2, 3, 5, 7, 8, 9, 14, 15, 16, 17, 28, 31, 32, 33, 56};
constexpr std::array<i64, 14> kHardChannels = {8, 16, 24, 32, 48, 56, 64, 72, 96, 120, 128, 136, 192, 256};
constexpr std::array kFilters = {1, 1, 2, 3, 3, 3, 3, 4, 5, 7};
constexpr std::array kStrides = {1, 1, 1, 1, 2, 2, 3, 4};
constexpr std::array kDilations = {1, 1, 1, 1, 2, 3};

i64 random_channels(Dice& dice, i64 unit) {
  const i64 channels = dice.one_in(2) ? dice.any_of(kHardChannels) : unit * (1 + dice.below(48));
  return round_up(channels, unit);
}

/// Sets filter sizes and strides to 1, axis by axis, until a launch can hold all taps and phases.
void keep_limits(Conv& v) {
  for (int axis = 0; taps_of(v) > kMostTaps; axis = (axis + 1) % kMostSpatial) v.filter[axis] = 1;
  for (int axis = 0; phase_count(v) > kMostPhases; axis = (axis + 1) % kMostSpatial) v.stride[axis] = 1;
}

/// Enlarges x along each axis until y has at least one pixel.
void keep_output(Conv& v) {
  for (int axis = 0; axis < v.spatial; ++axis)
    while (long_output_size(v, axis) < 1) ++v.size[axis];
}

/// Multiply-adds that the host twin executes, with blocks and tiles padded.
double products_of(const Conv& v) {
  const ConvExtents e = extents_of(v);
  return static_cast<double>(e.m) * static_cast<double>(round_up(e.n, i64{64})) *
         static_cast<double>(round_up(e.k, i64{64})) * static_cast<double>(e.batch);
}

/// Halves the longest axis of x. Returns false, and changes nothing, if y would be empty.
bool shorten(Conv& v) {
  Conv shorter = v;
  int longest = 0;
  for (int axis = 1; axis < v.spatial; ++axis)
    if (v.size[axis] > v.size[longest]) longest = axis;
  shorter.size[longest] = std::max(v.size[longest] / 2, 1);
  keep_output(shorter);
  if (shorter.size[longest] >= v.size[longest]) return false;
  v = shorter;
  return true;
}
bool is_large(const Conv& v) {
  return std::max({v.size.w, v.size.h, v.size.d}) > 8;
}

/// Halves images, then sizes, then channels until there are at most `most` multiply-adds or nothing can be
/// halved.
void keep_products(Conv& v, i64 unit, double most) {
  while (products_of(v) > most) {
    i64& channels = v.channels > v.filters ? v.channels : v.filters;
    if (v.images > 1)
      v.images /= 2;
    else if (is_large(v) && shorten(v))
      continue;
    else if (channels > unit)
      channels = round_up(channels / 2, unit);
    else if (!shorten(v))
      return;
  }
}

Conv random_geometry(Dice& dice, const RandomSpec& spec, ConvOp op, i64 unit) {
  constexpr std::array kSpatial = {1, 2, 2, 2, 3};
  Conv v{.op = op, .spatial = dice.any_of(kSpatial)};
  v.images = 1 + dice.below(4);
  v.channels = random_channels(dice, unit);
  v.filters = random_channels(dice, unit);
  const bool pointwise = dice.one_in(12);
  for (int axis = 0; axis < v.spatial; ++axis) {
    v.size[axis] = dice.one_in(2) ? dice.any_of(kHardSizes) : 1 + dice.below(40);
    if (pointwise) continue;
    v.filter[axis] = dice.any_of(kFilters);
    v.stride[axis] = dice.any_of(kStrides);
    v.dilation[axis] = v.spatial == 3 ? 1 + dice.below(2) : dice.any_of(kDilations);
    const i64 reach = i64{v.dilation[axis]} * (v.filter[axis] - 1);
    v.padding[axis] = dice.below(static_cast<int>(std::min<i64>(reach, 9)) + 2);
    v.padding_after[axis] =
        dice.one_in(3) ? dice.below(static_cast<int>(std::min<i64>(reach, 9)) + 2) : v.padding[axis];
  }
  keep_limits(v);
  keep_output(v);
  const double edge = static_cast<double>(spec.largest);
  keep_products(v, unit, edge * edge * edge);
  if (dice.one_in(5)) v.x_pitch = v.channels + 16 * dice.below(3);
  if (dice.one_in(5)) v.y_pitch = v.filters + 16 * dice.below(3);
  return v;
}

Epilogue random_forward_epilogue(Dice& dice, const RandomSpec& spec, DType input, DType output) {
  Epilogue e;
  e.bias = dice.one_in(2) ? Bias::column : Bias::none;
  e.bias_type = dice.any_of(kVectorTypes);
  e.residual = dice.one_in(3);
  e.c_type = dice.any_of(kVectorTypes);
  e.activation = random_activation(dice, spec);
  if (is_fp8(input)) {
    e.scale_a = dice.one_in(2) ? ScaleMode::tensor : ScaleMode::none;
    e.scale_b = dice.any_of(std::array{ScaleMode::none, ScaleMode::tensor, ScaleMode::vector});
  }
  if (output == DType::e4m3 && dice.one_in(2)) e.scale_d = ScaleMode::tensor;
  return e;
}

}  // namespace

Result<Problem> random_conv(const RandomSpec& spec, std::optional<ConvOp> op, int index) {
  Dice dice = dice_of(spec, index);
  const ConvOp chosen = dice.any_of(std::array{ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad});
  const ConvOp made = op.value_or(chosen);
  const bool forward = made == ConvOp::fprop, fp8 = forward && dice.one_in(4);
  const DType input =
      fp8 ? (dice.one_in(3) ? DType::e5m2 : DType::e4m3) : (dice.one_in(2) ? DType::bf16 : DType::fp16);
  const DType output = forward && dice.one_in(6) ? DType::e4m3 : dice.any_of(kVectorTypes);
  const Conv conv = random_geometry(dice, spec, made, fp8 || output == DType::e4m3 ? 16 : 8);
  Epilogue epilogue;
  if (forward) epilogue = random_forward_epilogue(dice, spec, input, output);
  if (made == ConvOp::dgrad && !is_phased(conv) && dice.one_in(3)) {
    epilogue.residual = true;
    epilogue.c_type = dice.any_of(kVectorTypes);
  }
  const bool added = made == ConvOp::wgrad && output == DType::fp32 && dice.one_in(2);
  if (added) epilogue.update = Update::add;
  Result<Problem> problem = conv::problem(conv, input, output, epilogue);
  if (!problem) return problem.error();
  if (fp8) problem->accumulate = dice.one_in(2) ? Accumulate::promoted : Accumulate::fast;
  if (added) problem->deterministic = dice.one_in(2);
  return problem;
}

}  // namespace sluice::lab
