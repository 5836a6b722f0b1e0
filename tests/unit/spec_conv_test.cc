// SPDX-License-Identifier: Apache-2.0
// Compares spec/conv.h with the definition of a convolution, over random geometries. By definition, pixel q
// of y and tap t of the filter touch pixel x if x = q * stride - padding + t * dilation along each axis.
#include <sluice/spec/conv.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include <sluice/reference/gemm.h>
#include <sluice/spec/conv_params.h>
#include <sluice/spec/conv_problem.h>

namespace sluice {
namespace {

// ---- ResNet-50's layers, at compile time ----

constexpr Conv layer(ConvOp op, int size, int filter, int stride, int padding, i64 channels, i64 filters) {
  return {.op = op,
          .images = 32,
          .channels = channels,
          .filters = filters,
          .size = {size, size, 1},
          .filter = {filter, filter, 1},
          .stride = {stride, stride, 1},
          .padding = {padding, padding, 0},
          .padding_after = {padding, padding, 0}};
}
constexpr bool has_extents(const Conv& v, i64 m, i64 n, i64 k, i64 batch = 1) {
  const ConvExtents e = extents_of(v);
  return e.m == m && e.n == n && e.k == k && e.batch == batch;
}
constexpr i64 kPixels56 = 32 * 56 * 56, kPixels28 = 32 * 28 * 28;

// 56 x 56 pixels, 3 x 3 filter, 64 channels to 64.
static_assert(has_extents(layer(ConvOp::fprop, 56, 3, 1, 1, 64, 64), kPixels56, 64, 9 * 64));
static_assert(has_extents(layer(ConvOp::dgrad, 56, 3, 1, 1, 64, 64), kPixels56, 64, 9 * 64));
static_assert(has_extents(layer(ConvOp::wgrad, 56, 3, 1, 1, 64, 64), 64, 9 * 64, kPixels56));
static_assert(forward_axis(layer(ConvOp::fprop, 56, 3, 1, 1, 64, 64), 0).lower == -1);
static_assert(upper_corner(forward_axis(layer(ConvOp::fprop, 56, 3, 1, 1, 64, 64), 0)) == -1);
static_assert(upper_corner(phase_axis(layer(ConvOp::dgrad, 56, 3, 1, 1, 64, 64), 0, 0)) == -1);
static_assert(!is_phased(layer(ConvOp::dgrad, 56, 3, 1, 1, 64, 64)));

// 56 x 56 pixels, 3 x 3 filter with stride 2, 128 channels to 128. Phases have 4, 2, 2 and 1 taps.
constexpr Conv kStrided = layer(ConvOp::dgrad, 56, 3, 2, 1, 128, 128);
static_assert(output_size(kStrided, 0) == 28 && is_phased(kStrided) && phases_of(kStrided).count == 4);
static_assert(has_extents(kStrided, kPixels28, 128, 4 * 128, 4));
static_assert(phases_of(kStrided).items[0].taps() == 4 && phases_of(kStrided).items[1].taps() == 2 &&
              phases_of(kStrided).items[2].taps() == 2 && phases_of(kStrided).items[3].taps() == 1);
static_assert(phases_of(kStrided).items[0].first == Axes{1, 1, 0});
static_assert(phases_of(kStrided).items[3].first == Axes{0, 0, 0});
static_assert(has_extents(layer(ConvOp::wgrad, 56, 3, 2, 1, 128, 128), 128, 9 * 128, kPixels28));

// 56 x 56 pixels, 1 x 1 filter with stride 2, 256 channels to 512. Three phases have no tap, so their pixels
// of dx are zero.
constexpr Conv kShortcut = layer(ConvOp::dgrad, 56, 1, 2, 0, 256, 512);
static_assert(has_extents(kShortcut, kPixels28, 256, 512, 4));
static_assert(phases_of(kShortcut).items[0].taps() == 1 && phases_of(kShortcut).items[1].taps() == 0 &&
              phases_of(kShortcut).items[3].taps() == 0);
static_assert(upper_corner(forward_axis(layer(ConvOp::fprop, 56, 1, 2, 0, 256, 512), 0)) == -1);

// The first layer: 224 x 224 pixels, 7 x 7 filter with stride 2, 8 (padded) channels to 64.
constexpr Conv kStem = layer(ConvOp::fprop, 224, 7, 2, 3, 8, 64);
static_assert(output_size(kStem, 0) == 112);
static_assert(has_extents(kStem, i64{32} * 112 * 112, 64, 49 * 64));
static_assert(forward_axis(kStem, 0).lower == -3 && upper_corner(forward_axis(kStem, 0)) == -4);
static_assert(has_extents(layer(ConvOp::wgrad, 224, 7, 2, 3, 8, 64), 64, 49 * 64, i64{32} * 112 * 112));

// ---- random geometries ----

Conv random_conv(std::mt19937& dice, ConvOp op) {
  const auto roll = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(dice);
  };
  for (;;) {
    Conv v{.op = op,
           .spatial = roll(1, 3),
           .images = roll(1, 3),
           .channels = 8 * roll(1, 20),
           .filters = 8 * roll(1, 20)};
    for (int axis = 0; axis < v.spatial; ++axis) {
      const int longest = v.spatial == 1 ? 40 : v.spatial == 2 ? 14 : 7;
      v.size[axis] = roll(1, longest);
      v.filter[axis] = roll(1, v.spatial == 1 ? 12 : 4);
      v.stride[axis] = roll(1, 3);
      v.dilation[axis] = roll(1, 4);
      v.padding[axis] = roll(0, 5);
      v.padding_after[axis] = roll(0, 5);
    }
    bool has_output = true;
    for (int axis = 0; axis < v.spatial; ++axis) has_output &= output_size(v, axis) > 0;
    if (has_output && phase_count(v) <= kMostPhases && taps_of(v) <= kMostTaps) return v;
  }
}

using Touch = std::array<int, 3>;  // indices of: the product's pixel, the filter's tap, the gathered pixel

/// Returns the combinations that contribute along one axis, by definition. The product's pixels are those of
/// y (fprop, wgrad) or x (dgrad).
std::set<Touch> defined_touches(const Conv& v, int axis) {
  std::set<Touch> touches;
  for (int x = 0; x < v.size[axis]; ++x)
    for (int q = 0; q < output_size(v, axis); ++q)
      for (int t = 0; t < v.filter[axis]; ++t)
        if (x == q * v.stride[axis] - v.padding[axis] + t * v.dilation[axis])
          touches.insert(v.op == ConvOp::dgrad ? Touch{x, t, q} : Touch{q, t, x});
  return touches;
}

/// Adds the combinations that a GatherAxis of spec/conv.h visits. Position p is the product's pixel first + p
/// * step.
void add_touches(const GatherAxis& a, int first, int step, std::vector<Touch>& touches) {
  for (int p = 0; p < a.positions; ++p)
    for (int t = 0; t < a.taps; ++t) {
      const int place = a.lower + p * a.step + a.offset_first + t * a.offset_step;
      if (place >= 0 && place < a.extent)
        touches.push_back({first + p * step, a.filter_first + t * a.filter_step, place});
    }
}

/// Expects what the copy engine requires: no offset is negative, and the box contains exactly the positions.
void expect_encodable(const GatherAxis& a) {
  for (int t = 0; t < a.taps; ++t) {
    ASSERT_GE(a.offset_first + t * a.offset_step, 0);
    ASSERT_GE(a.filter_first + t * a.filter_step, 0);
  }
  const int end = a.extent + upper_corner(a), last = a.lower + (a.positions - 1) * a.step;
  ASSERT_LT(last, end);
  ASSERT_GE(last + a.step, end) << "one more position would lie in the box";
}

void expect_same_touches(const Conv& v, int axis) {
  std::vector<Touch> made;
  if (v.op != ConvOp::dgrad) {
    const GatherAxis a = forward_axis(v, axis);
    ASSERT_EQ(a.positions, output_size(v, axis));
    ASSERT_EQ(a.extent, v.size[axis]);
    expect_encodable(a);
    add_touches(a, 0, 1, made);
  } else {
    int positions = 0;
    for (int first = 0; first < std::min(v.stride[axis], v.size[axis]); ++first) {
      const GatherAxis a = phase_axis(v, axis, first);
      ASSERT_EQ(a.extent, output_size(v, axis));
      if (a.taps > 0) expect_encodable(a);
      positions += a.positions;
      add_touches(a, first, v.stride[axis], made);
    }
    ASSERT_EQ(positions, v.size[axis]) << "each pixel of dx lies in one phase";
  }
  const std::set<Touch> defined = defined_touches(v, axis);
  ASSERT_EQ(made.size(), defined.size()) << "a touch comes twice, or is missing";
  ASSERT_TRUE(std::set<Touch>(made.begin(), made.end()) == defined);
}

/// Expects each entry of the tap table to consist of the axes' taps, and each of the filter's matrices to
/// occur once.
void expect_same_taps(const Conv& v, const Phases& phases) {
  std::set<int> filters;
  int taps = 0;
  for (int i = 0; i < phases.count; ++i) {
    const Phase& phase = phases.items[i];
    taps += phase.taps();
    int index = 0;
    for (int d = 0; d < phase.axes[2].taps; ++d)
      for (int h = 0; h < phase.axes[1].taps; ++h)
        for (int w = 0; phase.taps() > 0 && w < phase.axes[0].taps; ++w, ++index) {
          const Tap tap = tap_of(v, phase, index);
          const int at[] = {w, h, d};
          int of_filter[kMostSpatial];
          for (int axis = 0; axis < kMostSpatial; ++axis) {
            const GatherAxis& a = phase.axes[axis];
            ASSERT_EQ(tap.offset[axis], a.offset_first + at[axis] * a.offset_step);
            of_filter[axis] = a.filter_first + at[axis] * a.filter_step;
          }
          ASSERT_EQ(tap.filter, of_filter[0] + v.filter.w * (of_filter[1] + v.filter.h * of_filter[2]));
          ASSERT_LT(tap.filter, taps_of(v));
          filters.insert(tap.filter);
        }
  }
  ASSERT_EQ(static_cast<int>(filters.size()), taps) << "a matrix of the filter is used twice";
  if (v.op != ConvOp::dgrad) {
    ASSERT_EQ(taps, taps_of(v));
  }
}

void expect_same_extents(const Conv& v, const Phases& phases) {
  i64 most_pixels = 0, most_taps = 0, pixels = 0;
  for (int i = 0; i < phases.count; ++i) {
    most_pixels = std::max(most_pixels, v.images * phases.items[i].positions());
    most_taps = std::max<i64>(most_taps, phases.items[i].taps());
    pixels += v.images * phases.items[i].positions();
    if (i > 0) {
      ASSERT_LE(phases.items[i].taps(), phases.items[i - 1].taps()) << "heaviest first";
    }
  }
  ASSERT_EQ(pixels, v.op == ConvOp::dgrad ? x_pixels(v) : y_pixels(v));
  for (const int block : {64, 128}) {
    const ConvExtents e = extents_of(v, block);
    const i64 depth = (gathers_x(v.op) ? v.channels : v.filters) + block - 1;
    ASSERT_EQ(e.batch, phases.count);
    if (v.op == ConvOp::wgrad) {
      ASSERT_EQ(e.m, v.filters);
      ASSERT_EQ(e.n, taps_of(v) * ((v.channels + 63) / 64 * 64));
      ASSERT_EQ(e.k, y_pixels(v));
    } else {
      ASSERT_EQ(e.m, most_pixels);
      ASSERT_EQ(e.n, v.op == ConvOp::fprop ? v.filters : v.channels);
      ASSERT_EQ(e.k, most_taps * (depth / block * block));
    }
  }
}

TEST(spec_conv, touches_what_the_definition_touches) {
  std::mt19937 dice(20);
  std::map<std::string, int> seen;
  for (int i = 0; i < 3000; ++i) {
    const Conv v = random_conv(dice, static_cast<ConvOp>(1 + i % 3));
    SCOPED_TRACE(testing::Message() << name_of(v.op) << " number " << i);
    const Phases phases = phases_of(v);
    for (int axis = 0; axis < kMostSpatial; ++axis) {
      expect_same_touches(v, axis);
      const int reach = v.size[axis] + v.padding[axis] + v.padding_after[axis] -
                        v.dilation[axis] * (v.filter[axis] - 1) - 1;
      seen["remainder"] += reach % v.stride[axis] != 0;
      seen["common divisor"] +=
          v.op == ConvOp::dgrad && greatest_divisor(v.stride[axis], v.dilation[axis]) > 1;
      seen["asymmetric"] += v.padding[axis] != v.padding_after[axis];
      seen["fewer pixels than stride"] += v.op == ConvOp::dgrad && v.size[axis] < v.stride[axis];
    }
    if (HasFatalFailure()) return;
    expect_same_taps(v, phases);
    expect_same_extents(v, phases);
    if (HasFatalFailure()) return;
    for (int phase = 0; phase < phases.count; ++phase) seen["empty phase"] += phases.items[phase].taps() == 0;
    seen["phased"] += is_phased(v);
  }
  for (const char* kind :
       {"remainder", "common divisor", "asymmetric", "fewer pixels than stride", "empty phase", "phased"})
    EXPECT_GT(seen[kind], 50) << kind;
}

/// Kernel parameters contain the step of 64 pixels in mixed radix, and the taps of all phases in one table.
TEST(spec_conv, parameters_hold_the_walk_and_every_tap) {
  std::mt19937 dice(21);
  for (int i = 0; i < 600; ++i) {
    const Conv v = random_conv(dice, static_cast<ConvOp>(1 + i % 3));
    const Phases phases = phases_of(v);
    const Gather gather = gather_for(v, kConvBlock);
    const int* positions = gather.pixels.positions;
    const i64 advance =
        gather.advance_at[0] +
        i64{positions[0]} *
            (gather.advance_at[1] +
             i64{positions[1]} * (gather.advance_at[2] + i64{positions[2]} * gather.advance_images));
    ASSERT_EQ(advance, kConvBlock);
    for (int axis = 0; axis < kMostSpatial; ++axis) ASSERT_LT(gather.advance_at[axis], positions[axis]);
    ASSERT_EQ(gather.blocks, ((gathers_x(v.op) ? v.channels : v.filters) + 63) / 64);
    PhaseParams params[kMostPhases]{};
    fill_phases(v, kConvBlock, params);
    int tap = 0;
    for (int phase = 0; phase < phases.count; ++phase) {
      ASSERT_EQ(params[phase].first_tap, tap);
      ASSERT_EQ(params[phase].k_tiles, phases.items[phase].taps() * gather.blocks);
      ASSERT_EQ(params[phase].m, v.images * phases.items[phase].positions());
      for (int t = 0; t < phases.items[phase].taps(); ++t, ++tap)
        ASSERT_EQ(gather.taps[tap].filter, tap_of(v, phases.items[phase], t).filter);
    }
  }
}

// ---- the problem ----

Conv pointwise(ConvOp op) {
  Conv v = layer(op, 14, 1, 1, 0, 256, 1024);
  v.x_pitch = 264;
  v.y_pitch = 1032;
  return v;
}

TEST(conv_problem, a_pointwise_convolution_is_a_plain_product) {
  constexpr i64 kPixels = 32 * 14 * 14;
  const Problem fprop = product_of_conv(pointwise(ConvOp::fprop), DType::bf16, DType::fp16);
  EXPECT_EQ(fprop, with_strides({.m = kPixels,
                                 .n = 1024,
                                 .k = 256,
                                 .a = {.ld = 264},
                                 .b = {.ld = 256},
                                 .d = {.type = DType::fp16, .ld = 1032}}));
  const Problem dgrad = product_of_conv(pointwise(ConvOp::dgrad), DType::bf16, DType::bf16);
  EXPECT_EQ(dgrad, with_strides({.m = kPixels,
                                 .n = 256,
                                 .k = 1024,
                                 .a = {.ld = 1032},
                                 .b = {.major = Major::mn, .ld = 256},
                                 .d = {.ld = 264}}));
  const Problem wgrad = product_of_conv(pointwise(ConvOp::wgrad), DType::bf16, DType::fp32);
  EXPECT_EQ(wgrad, with_strides({.m = 1024,
                                 .n = 256,
                                 .k = kPixels,
                                 .a = {.major = Major::mn, .ld = 1032},
                                 .b = {.major = Major::mn, .ld = 264},
                                 .d = {.type = DType::fp32, .ld = 256}}));
  for (const Problem& p : {fprop, dgrad, wgrad}) {
    EXPECT_FALSE(is_conv(p.conv));
    EXPECT_EQ(p.batch, 1);
  }
  // The residual has D's layout.
  const Problem residual =
      product_of_conv(pointwise(ConvOp::fprop), DType::bf16, DType::bf16, {.residual = true});
  EXPECT_EQ(residual.c.ld, 1032);
}

/// A pointwise wgrad is a plain product with as many columns as channels. A gathered wgrad has whole blocks
/// of columns.
TEST(conv_problem, odd_channels_of_a_pointwise_one_are_not_padded) {
  Conv v = pointwise(ConvOp::wgrad);
  v.channels = 24;
  v.x_pitch = 0;
  EXPECT_EQ(product_of_conv(v, DType::bf16, DType::fp32).n, 24);
  v.padding = {1, 1, 0};
  EXPECT_EQ(product_of_conv(v, DType::bf16, DType::fp32).n, 64);
}

TEST(conv_problem, anything_gathered_stays_a_convolution) {
  for (const ConvOp op : {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad}) {
    const Conv plain = pointwise(op);
    std::vector<Conv> all(5, plain);
    all[0].filter.h = 2;
    all[1].stride.w = 2;
    all[2].padding.d = 1;
    all[3].padding_after.w = 1;
    all[4].stride.d = 3;
    for (const Conv& v : all) {
      const Problem p = product_of_conv(v, DType::bf16, DType::bf16);
      EXPECT_EQ(p.conv, v);
      EXPECT_EQ(with_strides(p), p) << "strides of a convolution are not touched";
      const ConvExtents e = extents_of(v);
      EXPECT_TRUE(p.m == e.m && p.n == e.n && p.k == e.k && p.batch == e.batch);
    }
    Conv dilated = plain;  // with a single tap, the dilation has no effect
    dilated.dilation = {3, 3, 3};
    EXPECT_FALSE(is_conv(product_of_conv(dilated, DType::bf16, DType::bf16).conv));
  }
}

TEST(conv_problem, operands_lie_as_the_kernels_read_them) {
  Conv v = layer(ConvOp::fprop, 28, 3, 1, 1, 72, 40);
  v.x_pitch = 80;
  const Problem fprop = product_of_conv(v, DType::bf16, DType::bf16);
  // The filter is w[filter][tap][channel]. B's rows are filters, and its batch index is the tap.
  EXPECT_EQ(b_index(fprop, 5, 7, 11), (7 * 9 + 5) * 72 + 11);
  EXPECT_EQ(fprop.a.ld, 80);
  EXPECT_EQ(fprop.d.ld, 40);
  EXPECT_EQ(fprop.k, 9 * 128);
  EXPECT_EQ(product_of_conv(v, DType::e4m3, DType::bf16).k, 9 * 128);
  v.op = ConvOp::dgrad;
  const Problem dgrad = product_of_conv(v, DType::bf16, DType::bf16);
  EXPECT_EQ(b_index(dgrad, 5, 11, 7), (7 * 9 + 5) * 72 + 11);  // rows are channels, k is the filter
  EXPECT_EQ(dgrad.a.ld, 40);
  EXPECT_EQ(dgrad.d.ld, 80);
  v.op = ConvOp::wgrad;
  const Problem wgrad = product_of_conv(v, DType::bf16, DType::fp32);
  EXPECT_EQ(a_index(wgrad, 0, 7, 100), 100 * 40 + 7);
  EXPECT_EQ(d_index(wgrad, {5, 7, 11}), (7 * 9 + 5) * 72 + 11);
  EXPECT_EQ(wgrad.b.ld, 80);
}

TEST(conv_problem, spans_end_with_the_last_channel) {
  Conv v = layer(ConvOp::fprop, 5, 3, 2, 1, 16, 24);
  v.images = 2;
  v.x_pitch = 32;
  EXPECT_EQ(x_span(v), (2 * 25 - 1) * 32 + 16);
  EXPECT_EQ(y_span(v), (2 * 9 - 1) * 24 + 24);
  EXPECT_EQ(filter_elements(v), 24 * 9 * 16);
}

}  // namespace
}  // namespace sluice
