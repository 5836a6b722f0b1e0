// SPDX-License-Identifier: Apache-2.0
// The convolutions of call.h: torch's order of dimensions, and channels_last strides. Checks run in this
// order: shapes, layouts, the rules of the kernels, the epilogue's arrays.
#include <sluice/c_api/call.h>

#include <string>

#include <sluice/conv.h>
#include <sluice/run/ops/gemm.h>
#include <sluice/try.h>

namespace sluice::c_api {
namespace {

/// Which operands of a call are x, w and y of its convolution.
struct Roles {
  sluice_operand x, w, y;
};
Roles roles_of(int32_t op) {
  if (op == SLUICE_DGRAD) return {SLUICE_D, SLUICE_B, SLUICE_A};
  if (op == SLUICE_WGRAD) return {SLUICE_B, SLUICE_D, SLUICE_A};
  return {SLUICE_A, SLUICE_B, SLUICE_D};
}

/// The three arrays of a convolution.
struct Images {
  Named x, w, y;
};
Images images_of(const sluice_call& v) {
  const Roles roles = roles_of(v.problem.conv.op);
  return {named(v, roles.x), named(v, roles.w), named(v, roles.y)};
}

enum class Use { read, written };

/// Returns the end of an error message: how to make the array channels_last, in torch's terms.
std::string remedy_for(const Named& x, Use use) {
  const std::string format = x->ndim == 5 ? "torch.channels_last_3d" : "torch.channels_last";
  if (x->ndim == 3)
    return use == Use::read ? "pass " + x.name() + ".transpose(1, 2).contiguous().transpose(1, 2)"
                            : "make it as torch.empty(images, pixels, channels).transpose(1, 2)";
  return use == Use::read ? "pass " + x.name() + ".contiguous(memory_format=" + format + ")"
                          : "make it with torch.empty(..., memory_format=" + format + ")";
}

Error not_channels_last(const Named& x, Use use) {
  constexpr const char* kOrders[] = {"NCW", "NCHW", "NCDHW"};
  const std::string seen = is_packed(*x.array) ? std::string("these are those of ") + kOrders[x->ndim - 3]
                                               : "these are not those of channels_last";
  return wrong_layout(x, seen + "; its channels must be contiguous: " + remedy_for(x, use));
}

/// Returns the distance of adjacent pixels in elements, for an array with channels_last strides; 0 if there
/// are no gaps or the array has one pixel. Strides of dimensions of size 1 are ignored. Error:
/// invalid_stride.
Result<i64> pixel_pitch(const Named& x, Use use) {
  const i64 channels = x->shape[1];
  if (count_of(*x.array) == 0) return i64{0};
  if (channels > 1 && stride(*x.array, 1) != 1) return not_channels_last(x, use);
  i64 pitch = 0, pixels = 1;
  for (int i = x->ndim - 1; i >= 0; --i) {
    if (i == 1 || x->shape[i] == 1) continue;
    const i64 step = stride(*x.array, i);
    i64 wanted = 0;
    if (pixels == 1) {
      pitch = step;
    } else if (__builtin_mul_overflow(pitch, pixels, &wanted) || step != wanted) {
      return not_channels_last(x, use);
    }
    if (pitch < channels)
      return wrong_layout(x, "its pixels are " + std::to_string(pitch) + " elements apart and have " +
                                 std::to_string(channels) + " channels, so they would overlap; " +
                                 remedy_for(x, use));
    pixels *= x->shape[i];
  }
  return pitch == channels ? i64{0} : pitch;
}

Result<void> check_dimensions(const Named& x, int spatial) {
  SLUICE_TRY(check_present(x));
  SLUICE_TRY(check_element(x));
  if (x->ndim != spatial + 2)
    return Error{ErrorCode::invalid_size, x.name() + " has shape " + shape_text(*x.array) +
                                              " and must have " + std::to_string(spatial + 2) +
                                              " dimensions: images (of a weight: filters), channels, " +
                                              std::to_string(spatial) + (spatial == 1 ? " axis" : " axes") +
                                              "; add one that is missing with unsqueeze"};
  return {};
}

/// Returns the shape of y as Python prints a tuple, with "*" for each spatial size.
std::string y_shape_text(const Named& x, const Named& w) {
  std::string text = "(" + std::to_string(x->shape[0]) + ", " + std::to_string(w->shape[0]);
  for (int i = 2; i < x->ndim; ++i) text += ", *";
  return text + ")";
}

/// Checks the types of x, w and y, and their shapes as far as stride, padding and dilation do not matter.
Result<void> check_shapes(const sluice_call& v) {
  const auto [x, w, y] = images_of(v);
  for (const Named& each : {x, w, y}) SLUICE_TRY(check_dimensions(each, v.problem.conv.spatial));
  if (w->shape[1] != x->shape[1])
    return Error{ErrorCode::invalid_size, w.name() + " has shape " + shape_text(*w.array) + " and " +
                                              x.name() + " has " + std::to_string(x->shape[1]) +
                                              " channels: both must have the same; groups are not taken"};
  if (y->shape[0] != x->shape[0] || y->shape[1] != w->shape[0])
    return wrong_shape(
        y, y_shape_text(x, w) + ": the images of " + x.name() + " and the filters of " + w.name());
  const Named a = named(v, SLUICE_A), b = named(v, SLUICE_B);
  if (a->dtype != b->dtype)
    return wrong_type(b, type_text(a->dtype) + " as " + a.name() + " is: convert one");
  return {};
}

/// Checks the spatial sizes of y against those that stride, padding and dilation give.
Result<void> check_y(const Named& y, const Conv& conv) {
  for (int axis = 0; axis < conv.spatial; ++axis)
    if (y->shape[1 + conv.spatial - axis] != long_output_size(conv, axis)) {
      i64 wanted[2 + kMostSpatial] = {conv.images, conv.filters};
      for (int i = 0; i < conv.spatial; ++i) wanted[1 + conv.spatial - i] = long_output_size(conv, i);
      return wrong_shape(y, list(wanted, 2 + conv.spatial) + " by the sizes, stride, padding and dilation");
    }
  return {};
}

/// Returns whether the arrays have equal shapes. Requires that check_shape() passed for both.
bool same_shape(const Named& x, const Named& y) {
  bool same = x->ndim == y->ndim;
  for (int i = 0; same && i < x->ndim; ++i) same = x->shape[i] == y->shape[i];
  return same;
}

/// Checks that a residual has the shape and the strides of the result.
Result<void> check_residual(const sluice_call& v) {
  const Named c = named(v, SLUICE_C), d = named(v, SLUICE_D);
  SLUICE_TRY(check_present(c));
  SLUICE_TRY(check_element(c));
  if (!same_shape(c, d)) return wrong_shape(c, shape_text(*d.array) + " as " + d.name() + " has");
  SLUICE_TAKE(const i64 pitch, pixel_pitch(c, Use::read));
  SLUICE_TAKE(const i64 wanted, pixel_pitch(d, Use::written));
  if (pitch != wanted)
    return wrong_layout(c, "its pixels must be as far apart as those of " + d.name() +
                               ", which has strides " + strides_text(*d.array) + "; copy one of them");
  return {};
}

/// Returns the mode of an fp32 scale: one value (tensor), or `vector` values (one per filter of w).
Result<ScaleMode> scale_of(const Named& scale, i64 vector) {
  if (scale.array == nullptr) return ScaleMode::none;
  SLUICE_TRY(check_present(scale));
  const i64 count = count_of(*scale.array);
  const bool is_vector = vector > 1 && count == vector && scale->ndim > 0 && scale->shape[0] == vector;
  if (count != 1 && !is_vector)
    return wrong_shape(scale, vector > 0 ? "one value, or " + list(&vector, 1) + ", one for each filter"
                                         : "one value for all of its array");
  if (scale->dtype != SLUICE_FP32) return wrong_type(scale, "fp32; convert it");
  SLUICE_TRY(check_no_gaps(scale));
  return is_vector ? ScaleMode::vector : ScaleMode::tensor;
}

const float* floats(const Named& x) {
  return x.array != nullptr ? static_cast<const float*>(x->data) : nullptr;
}

/// Refuses arrays and choices that the op lacks.
Result<void> refuse_extras(const sluice_call& v) {
  const int32_t op = v.problem.conv.op;
  const auto refuse = [&](const std::string& given, const char* remedy) {
    return Error{ErrorCode::invalid_argument,
                 given + " and op is " + name_of(static_cast<ConvOp>(op)) + ": " + remedy};
  };
  if (v.problem.packed.type != SLUICE_NOT_PACKED)
    return refuse("packed.type = " + std::to_string(v.problem.packed.type),
                  "a convolution's filters cannot be packed; leave it out");
  if (v.problem.gated != 0) return refuse("gated = 1", "a convolution has no gate; leave it out");
  if (const Named gamma = named(v, SLUICE_GAMMA); gamma.array != nullptr)
    return refuse(gamma.name() + " is given", "a convolution norms nothing; leave it out");
  for (const sluice_operand which : {SLUICE_SCALE_OUT, SLUICE_ROW_FACTORS})
    if (const Named x = named(v, which); x.array != nullptr)
      return refuse(x.name() + " is given", "a convolution takes no such array; leave it out");
  if (const Named table = named(v, SLUICE_GROUPS); table.array != nullptr || v.problem.groups != 0)
    return refuse(
        table.array != nullptr ? table.name() + " is given" : "groups = " + std::to_string(v.problem.groups),
        "a convolution has no groups of rows; leave it out");
  if (op == SLUICE_FPROP) return {};
  for (const sluice_operand which : {SLUICE_BIAS, SLUICE_SCALE_A, SLUICE_SCALE_B, SLUICE_SCALE_D})
    if (const Named x = named(v, which); x.array != nullptr)
      return refuse(x.name() + " is given", "only fprop takes it; leave it out");
  return {};
}

/// Adds the arrays of the epilogue.
Result<void> add_epilogue(const sluice_call& v, Call& call) {
  const Named c = named(v, SLUICE_C), scale_x = named(v, SLUICE_SCALE_A), scale_w = named(v, SLUICE_SCALE_B);
  const i64 filters = images_of(v).w->shape[0];
  Epilogue& e = call.problem.epilogue;
  SLUICE_TRY(refuse_extras(v));
  SLUICE_TRY(add_bias_and_scale_d(v, filters, call));
  if (c.array != nullptr) {
    SLUICE_TRY(check_residual(v));
    e.residual = true;
    e.c_type = static_cast<DType>(c->dtype);
    call.args.c = c->data;
  }
  SLUICE_TAKE(e.scale_a, scale_of(scale_x, 0));
  SLUICE_TAKE(e.scale_b, scale_of(scale_w, filters));
  call.args.scale_a = floats(scale_x);
  call.args.scale_b = floats(scale_w);
  return {};
}

}  // namespace

Result<sluice_conv> conv_of_arrays(const sluice_call& v) {
  const auto [x, w, y] = images_of(v);
  sluice_conv conv = v.problem.conv;
  conv.images = x->shape[0];
  conv.channels = x->shape[1];
  conv.filters = w->shape[0];
  for (int i = 0; i < conv.spatial; ++i) {
    conv.size[i] = x->shape[2 + i];
    conv.filter[i] = w->shape[2 + i];
    if (conv.uneven_padding == 0) conv.padding_after[i] = conv.padding[i];
  }
  const auto use = [&](sluice_conv_op written) { return conv.op == written ? Use::written : Use::read; };
  SLUICE_TAKE(conv.x_pitch, pixel_pitch(x, use(SLUICE_DGRAD)));
  SLUICE_TAKE(conv.y_pitch, pixel_pitch(y, use(SLUICE_FPROP)));
  SLUICE_TAKE(const i64 w_pitch, pixel_pitch(w, use(SLUICE_WGRAD)));
  if (w_pitch != 0)
    return wrong_layout(w, "its taps are " + std::to_string(w_pitch) + " elements apart and must be " +
                               std::to_string(conv.channels) + ": a weight has no gaps; " +
                               remedy_for(w, use(SLUICE_WGRAD)));
  return conv;
}

Result<void> add_convolution(const sluice_call& v, Call& call) {
  SLUICE_TRY(check_spatial(v.problem.conv.spatial));
  SLUICE_TRY(check_shapes(v));
  SLUICE_TAKE(const sluice_conv arrays, conv_of_arrays(v));
  SLUICE_TRY(add_epilogue(v, call));
  const Result<Conv> conv = conv_of(arrays);
  const auto named_error = [&](const Error& error) {
    return gemm::with_names(error, names_of({.op = static_cast<ConvOp>(arrays.op)}), v.names);
  };
  if (!conv) return named_error(conv.error());
  const Named a = named(v, SLUICE_A), b = named(v, SLUICE_B), d = named(v, SLUICE_D);
  Result<Problem> problem =
      conv::problem(*conv, static_cast<DType>(a->dtype), static_cast<DType>(d->dtype), call.problem.epilogue);
  if (!problem) return named_error(problem.error());
  SLUICE_TRY(check_y(images_of(v).y, *conv));
  problem->accumulate = call.problem.accumulate;
  problem->deterministic = call.problem.deterministic;
  call.problem = *problem;
  call.args.a = a->data;
  call.args.b = b->data;
  call.args.d = d->data;
  return {};
}

}  // namespace sluice::c_api
