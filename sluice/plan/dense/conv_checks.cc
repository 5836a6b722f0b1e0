// SPDX-License-Identifier: Apache-2.0
// Implements conv_checks.h. Each check may rely on the checks before it, so that no arithmetic overflows.
#include <sluice/plan/dense/conv_checks.h>

#include <algorithm>

#include <sluice/plan/limits.h>
#include <sluice/spec/conv_problem.h>
#include <sluice/try.h>

namespace sluice {
namespace {

constexpr const char* kAxes[] = {"w", "h", "d"};
constexpr int kMostFilter = 1 << 15;  // per axis, so that the product over all axes fits in 63 bits
constexpr i64 kMostPitch = i64{1} << 24;

Error bad_size(const std::string& message) {
  return Error{ErrorCode::invalid_size, message};
}
std::string along(const char* what, i64 value, int axis) {
  return std::string(what) + " = " + std::to_string(value) + " along " + kAxes[axis];
}

Result<void> check_axis(const Conv& v, int axis) {
  constexpr i64 kMostSize = kMaxInt / 4;  // an axis of x may be longer than one of a filter
  const struct {
    const char* name;
    i64 value, least, most;
  } fields[] = {
      {"size", v.size[axis], 1, kMostSize},         {"filter", v.filter[axis], 1, kMostFilter},
      {"stride", v.stride[axis], 1, kMostFilter},   {"dilation", v.dilation[axis], 1, kMostFilter},
      {"padding", v.padding[axis], 0, kMostFilter}, {"padding_after", v.padding_after[axis], 0, kMostFilter}};
  const bool unused = axis >= v.spatial;
  for (const auto& [name, value, least, most] : fields) {
    if (unused && value != least)
      return bad_size(along(name, value, axis) + " must be " + std::to_string(least) +
                      ": the convolution has " + std::to_string(v.spatial) +
                      (v.spatial == 1 ? " axis" : " axes"));
    if (value < least || value > most)
      return bad_size(along(name, value, axis) + " must be in " + std::to_string(least) + ".." +
                      std::to_string(most));
  }
  const i64 reach = i64{v.dilation[axis]} * (v.filter[axis] - 1) + 1;
  const i64 padded = i64{v.size[axis]} + v.padding[axis] + v.padding_after[axis];
  if (padded < reach)
    return bad_size("the output would have 0 rows along " + std::string(kAxes[axis]) + ": size " +
                    std::to_string(v.size[axis]) + " + padding " + std::to_string(v.padding[axis]) + " + " +
                    std::to_string(v.padding_after[axis]) + " is less than the filter's reach of " +
                    std::to_string(reach) + "; pad x, or take a smaller filter");
  return {};
}

Result<void> check_counts_of(const Conv& v) {
  const struct {
    const char* name;
    i64 value;
  } counts[] = {{"images", v.images}, {"channels", v.channels}, {"filters", v.filters}};
  for (const auto& [name, value] : counts)
    if (value < 1 || value > kMaxDenseExtent)
      return bad_size(std::string(name) + " = " + std::to_string(value) + " must be in 1.." +
                      std::to_string(kMaxDenseExtent));
  for (int axis = 0; axis < kMostSpatial; ++axis) SLUICE_TRY(check_axis(v, axis));
  i64 x = v.images, y = v.images;
  for (int axis = 0; axis < v.spatial; ++axis)
    if (__builtin_mul_overflow(x, i64{v.size[axis]}, &x) ||
        __builtin_mul_overflow(y, long_output_size(v, axis), &y) || x > kMaxDenseExtent ||
        y > kMaxDenseExtent)
      return bad_size("x or y has more than " + std::to_string(kMaxDenseExtent) +
                      " pixels (2^31 - 4096: tile offsets are 32-bit); give fewer images at once");
  return {};
}

/// A number of channels (of x or of y), and how many elements of `type` it must be a multiple of for TMA.
struct Channels {
  const char* name;
  const char* tensor;
  i64 value, pitch, unit;
  DType type;
};
Result<void> check_multiple(const Channels& c) {
  if (c.value % c.unit == 0) return {};
  return bad_size(std::string(c.name) + " = " + std::to_string(c.value) + " must be a multiple of " +
                  std::to_string(c.unit) + " for " + name_of(c.type) +
                  " (TMA steps from pixel to pixel by 16 bytes): pad " + c.tensor +
                  " and w with zero channels to " + std::to_string(round_up(c.value, c.unit)));
}

Result<void> check_channels(const Conv& v, DType inputs, DType output) {
  const i64 unit = kTmaUnit / bytes_of(inputs), out_unit = kTmaUnit / bytes_of(output);
  const bool writes_x = v.op == ConvOp::dgrad, writes_y = v.op == ConvOp::fprop;
  // The filter has one row of channels per tap, so their number must suit TMA in every convolution.
  SLUICE_TRY(check_multiple({"channels", "x", v.channels, x_pitch_of(v), unit, inputs}));
  const Channels checks[] = {
      {"channels", "x", v.channels, x_pitch_of(v), writes_x ? out_unit : unit, writes_x ? output : inputs},
      {"filters", "y", v.filters, y_pitch_of(v), writes_y ? out_unit : unit, writes_y ? output : inputs}};
  for (const Channels& c : checks) {
    SLUICE_TRY(check_multiple(c));
    const auto& [name, tensor, value, pitch, step, type] = c;
    if (pitch < value)
      return Error{ErrorCode::invalid_stride, std::string("the pixels of ") + tensor + " are " +
                                                  std::to_string(pitch) + " elements apart and it has " +
                                                  std::to_string(value) + " " + name +
                                                  ": they would overlap; give 0, or at least that"};
    if (pitch % step != 0 || pitch > kMostPitch)
      return Error{ErrorCode::misaligned,
                   std::string("the pixels of ") + tensor + " are " + std::to_string(pitch) +
                       " elements apart: must be a multiple of " + std::to_string(step) + " for " +
                       name_of(type) + " and at most " + std::to_string(kMostPitch) +
                       "; copy it to packed pixels"};
  }
  return {};
}

Result<void> check_conv_types(const Conv& v, DType inputs, DType output, const Epilogue& e) {
  const auto bad_type = [](const std::string& message) { return Error{ErrorCode::invalid_type, message}; };
  const std::string op = name_of(v.op);
  if (!is_input(inputs))
    return bad_type(
        std::string("the inputs are ") + name_of(inputs) +
        ": convolutions take bf16 and fp16, and fp8 forward; convert them, or use torch.autocast");
  if (is_fp8(inputs) && v.op != ConvOp::fprop)
    return bad_type("the convolution is " + op + " and its inputs are " + name_of(inputs) +
                    ": they must be bf16 or fp16, because WGMMA reads fp8 along k only; keep 16-bit copies");
  if (v.op != ConvOp::fprop && is_fp8(output))
    return bad_type("the convolution is " + op + " and its result is " + name_of(output) +
                    ": it must be bf16, fp16 or fp32");
  if (e.gated || scales_128_of_k(e.scale_a) || scales_128_of_k(e.scale_b))
    return bad_type("a convolution takes no gate and no block scales: leave them out");
  if (writes_scales(e) || e.row_factors)
    return bad_type(
        "a convolution computes no scales of its result and takes no row_factors: quantise, or multiply, the "
        "result by a kernel of its own");
  const bool plain = e.bias == Bias::none && e.activation == Activation::none &&
                     e.scale_a == ScaleMode::none && e.scale_b == ScaleMode::none;
  if (v.op != ConvOp::fprop && !plain)
    return bad_type(
        "the convolution is " + op +
        " and has a bias, activation or scale: these must be none but forward; apply them before");
  if (v.op == ConvOp::wgrad && e.residual)
    return bad_type("the convolution is wgrad and has a residual: it must have none; use update = add");
  if (v.op != ConvOp::wgrad && adds(e))
    return bad_type("the convolution is " + op +
                    " and update is add: only wgrad adds to its result; use a residual with beta");
  if (is_phased(v) && e.residual)
    return bad_type(
        "the convolution is dgrad with a stride and has a residual: it must have none; add it after");
  return {};
}

Result<void> check_gather(const Conv& v) {
  if (taps_of(v) > kMostTaps)
    return bad_size("the filter has " + std::to_string(v.filter.w) + " x " + std::to_string(v.filter.h) +
                    " x " + std::to_string(v.filter.d) + " = " + std::to_string(taps_of(v)) +
                    " taps and at most " + std::to_string(kMostTaps) +
                    " are kept in a launch's parameters; split it along an axis and add the results");
  if (phase_count(v) > kMostPhases)
    return bad_size("strides " + std::to_string(v.stride.w) + " x " + std::to_string(v.stride.h) + " x " +
                    std::to_string(v.stride.d) + " make " + std::to_string(phase_count(v)) +
                    " phases of dx and at most " + std::to_string(kMostPhases) +
                    " are launched at once; use smaller strides, or scatter dy and take stride 1");
  const Phases all = phases_of(v);
  const int corner = corner_limit(v.spatial), most_offset = offset_limit(v.spatial);
  for (int i = 0; i < all.count; ++i) {
    if (all.items[i].taps() == 0) continue;
    for (int axis = 0; axis < v.spatial; ++axis) {
      const GatherAxis& a = all.items[i].axes[axis];
      if (a.step > kMostStep)
        return bad_size(along("stride", a.step, axis) +
                        " must be at most 8 (TMA's largest step): if it is the filter's size, reshape x to "
                        "patches and multiply");
      const i64 reach = i64{a.taps - 1} * v.dilation[axis];
      if (std::max(a.offset_first, a.offset_first + (a.taps - 1) * a.offset_step) > most_offset)
        return bad_size(along("dilation", v.dilation[axis], axis) + " x " + std::to_string(a.taps - 1) +
                        " taps reach offset " + std::to_string(reach) + ", which must be at most " +
                        std::to_string(most_offset) + " for " + std::to_string(v.spatial) +
                        " axes; use fewer taps or a smaller dilation");
      for (const int at : {a.lower, upper_corner(a)})
        if (at < -corner || at >= corner)
          return bad_size(along("padding", v.padding[axis], axis) + " puts a corner of the gather at " +
                          std::to_string(at) + ", which must be in -" + std::to_string(corner) + ".." +
                          std::to_string(corner - 1) + " for " + std::to_string(v.spatial) +
                          " axes; pad x in memory, or split the filter");
    }
  }
  return {};
}

}  // namespace

Result<void> check_conv(const Conv& v, DType inputs, DType output, const Epilogue& epilogue) {
  if (!is_conv(v) || v.op > ConvOp::wgrad)
    return Error{ErrorCode::invalid_argument,
                 "the convolution has no op: it must be fprop, dgrad or wgrad; set conv.op"};
  if (v.spatial < 1 || v.spatial > kMostSpatial)
    return bad_size("spatial = " + std::to_string(v.spatial) + " must be 1, 2 or 3, the axes of an image");
  SLUICE_TRY(check_counts_of(v));
  SLUICE_TRY(check_conv_types(v, inputs, output, epilogue));
  SLUICE_TRY(check_channels(v, inputs, output));
  return is_pointwise(v) ? Result<void>{} : check_gather(v);
}

Result<void> check_conv_problem(const Problem& p) {
  SLUICE_TRY(check_conv(p.conv, p.a.type, p.d.type, p.epilogue));
  Problem made = product_of_conv(p.conv, p);
  made.conv = p.conv;  // a pointwise one has none in its product
  if (!p.epilogue.residual) made.c = p.c;
  if (made == p) return {};
  return Error{ErrorCode::invalid_argument,
               "the problem's sizes and layouts must be those of its convolution, " + to_string(made) +
                   ", and are " + to_string(p) + ": make it with conv::problem"};
}

}  // namespace sluice
