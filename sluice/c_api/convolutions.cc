// SPDX-License-Identifier: Apache-2.0
// See convolutions.h. Checks run in this order: shapes, layouts, the rules of the kernels, the epilogue's
// arrays.
#include <sluice/c_api/convolutions.h>

#include <string>

#include <sluice/c_api/products.h>
#include <sluice/try.h>

namespace sluice::c_api {
namespace {

constexpr const char* kConvFieldNames[] = {"x", "w", "y", "bias", "c", "scale_x", "scale_w", "scale_d"};
static_assert(sizeof(kConvFieldNames) / sizeof(kConvFieldNames[0]) == kConvArrays);

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
Result<void> check_shapes(const sluice_convolution& v) {
  const Named x = named(v, kConvX), w = named(v, kConvW), y = named(v, kConvY);
  for (const Named& each : {x, w, y}) SLUICE_TRY(check_dimensions(each, v.spatial));
  if (w->shape[1] != x->shape[1])
    return Error{ErrorCode::invalid_size, w.name() + " has shape " + shape_text(*w.array) + " and " +
                                              x.name() + " has " + std::to_string(x->shape[1]) +
                                              " channels: both must have the same; groups are not taken"};
  if (y->shape[0] != x->shape[0] || y->shape[1] != w->shape[0])
    return wrong_shape(
        y, y_shape_text(x, w) + ": the images of " + x.name() + " and the filters of " + w.name());
  const ConvRoles roles = roles_of(v.op);
  const Named a = named(v, roles.a), b = named(v, roles.b);
  if (a->dtype != b->dtype)
    return wrong_type(b, type_text(a->dtype) + " as " + a.name() + " is: convert one");
  return {};
}

/// Returns the convolution's sizes. Requires that check_shapes() passed. Error: invalid_stride.
Result<sluice_conv_sizes> sizes_of(const sluice_convolution& v) {
  const Named x = named(v, kConvX), w = named(v, kConvW), y = named(v, kConvY);
  sluice_conv_sizes sizes{};
  sizes.op = v.op;
  sizes.spatial = v.spatial;
  sizes.images = x->shape[0];
  sizes.channels = x->shape[1];
  sizes.filters = w->shape[0];
  for (int i = 0; i < v.spatial; ++i) {
    sizes.size[i] = x->shape[2 + i];
    sizes.filter[i] = w->shape[2 + i];
    sizes.stride[i] = v.stride != nullptr ? v.stride[i] : 1;
    sizes.dilation[i] = v.dilation != nullptr ? v.dilation[i] : 1;
    sizes.padding[i] = v.padding != nullptr ? v.padding[i] : 0;
    sizes.padding_after[i] = v.padding_after != nullptr ? v.padding_after[i] : sizes.padding[i];
  }
  const auto use = [&](sluice_conv_op written) { return v.op == written ? Use::written : Use::read; };
  SLUICE_TAKE(sizes.x_pitch, pixel_pitch(x, use(SLUICE_DGRAD)));
  SLUICE_TAKE(sizes.y_pitch, pixel_pitch(y, use(SLUICE_FPROP)));
  SLUICE_TAKE(const i64 w_pitch, pixel_pitch(w, use(SLUICE_WGRAD)));
  if (w_pitch != 0)
    return wrong_layout(w, "its taps are " + std::to_string(w_pitch) + " elements apart and must be " +
                               std::to_string(sizes.channels) + ": a weight has no gaps; " +
                               remedy_for(w, use(SLUICE_WGRAD)));
  return sizes;
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
Result<void> check_residual(const sluice_convolution& v) {
  const Named c = named(v, kConvC), d = named(v, roles_of(v.op).d);
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

/// Refuses the arrays that only the forward convolution reads.
Result<void> refuse_extras(const sluice_convolution& v) {
  if (v.op == SLUICE_FPROP) return {};
  for (const ConvName which : {kConvBias, kConvScaleX, kConvScaleW, kConvScaleD})
    if (const Named x = named(v, which); x.array != nullptr)
      return Error{ErrorCode::invalid_argument, x.name() + " is given and op is " +
                                                    name_of(static_cast<ConvOp>(v.op)) +
                                                    ": only fprop takes it; leave it out"};
  return {};
}

Result<Epilogue> epilogue_of(const sluice_convolution& v) {
  const Named bias = named(v, kConvBias), c = named(v, kConvC), scale_d = named(v, kConvScaleD);
  const i64 filters = v.w->shape[0];
  SLUICE_TRY(refuse_extras(v));
  Epilogue e{.activation = static_cast<Activation>(v.activation), .update = static_cast<Update>(v.update)};
  if (bias.array != nullptr) {
    SLUICE_TRY(check_bias(bias, filters));
    e.bias = Bias::column;
    e.bias_type = static_cast<DType>(bias->dtype);
  }
  if (c.array != nullptr) {
    SLUICE_TRY(check_residual(v));
    e.residual = true;
    e.c_type = static_cast<DType>(c->dtype);
  }
  if (scale_d.array != nullptr) {
    SLUICE_TRY(check_scale_d(scale_d));
    e.scale_d = ScaleMode::tensor;
  }
  SLUICE_TAKE(e.scale_a, scale_of(named(v, kConvScaleX), 0));
  SLUICE_TAKE(e.scale_b, scale_of(named(v, kConvScaleW), filters));
  return e;
}

gemm::Args args_of(const sluice_convolution& v, const Conv& conv) {
  const Named bias = named(v, kConvBias), c = named(v, kConvC);
  gemm::Args args = conv::args(conv, {.x = v.x->data,
                                      .w = v.w->data,
                                      .y = v.y->data,
                                      .result = named(v, roles_of(v.op).d)->data,
                                      .bias = bias.array != nullptr ? bias->data : nullptr,
                                      .c = c.array != nullptr ? c->data : nullptr,
                                      .scale_x = floats(named(v, kConvScaleX)),
                                      .scale_w = floats(named(v, kConvScaleW)),
                                      .alpha = v.alpha,
                                      .beta = v.beta});
  args.scale_d = floats(named(v, kConvScaleD));
  return args;
}

Result<void> check_numbers(const sluice_convolution& v) {
  if (v.op < SLUICE_FPROP || v.op > SLUICE_WGRAD)
    return Error{
        ErrorCode::invalid_argument,
        "op = " + std::to_string(v.op) + " must be SLUICE_FPROP, SLUICE_DGRAD or SLUICE_WGRAD, 1..3"};
  SLUICE_TRY(check_spatial(v.spatial));
  const Enumerator enumerators[] = {{"accumulate", v.accumulate, 2},
                                    {"activation", v.activation, SLUICE_SILU + 1},
                                    {"update", v.update, 2},
                                    {"any_order", v.any_order, 2}};
  return check_enumerators(enumerators);
}

/// Sets the matrix product that computes the convolution. Requires that check_shapes() passed.
Result<void> add_product(const sluice_convolution& v, ConvCall& call) {
  SLUICE_TAKE(const sluice_conv_sizes sizes, sizes_of(v));
  SLUICE_TAKE(const Epilogue epilogue, epilogue_of(v));
  const Result<Conv> conv = conv_of(sizes);
  if (!conv) return with_names(v, conv.error());
  call.conv = *conv;
  const ConvRoles roles = roles_of(v.op);
  const DType inputs = static_cast<DType>(named(v, roles.a)->dtype);
  const Result<Problem> problem =
      conv::problem(call.conv, inputs, static_cast<DType>(named(v, roles.d)->dtype), epilogue);
  if (!problem) return with_names(v, problem.error());
  SLUICE_TRY(check_y(named(v, kConvY), call.conv));
  call.problem = *problem;
  call.problem.accumulate = accumulate_of(v.accumulate);
  call.problem.deterministic = v.any_order == 0;
  return {};
}

}  // namespace

Named named(const sluice_convolution& v, ConvName which) {
  const sluice_array* const arrays[] = {v.x, v.w, v.y, v.bias, v.c, v.scale_x, v.scale_w, v.scale_d};
  const char* given = v.names != nullptr ? v.names[which] : nullptr;
  return {given != nullptr ? given : kConvFieldNames[which], arrays[which]};
}

ConvRoles roles_of(int32_t op) {
  if (op == SLUICE_DGRAD) return {kConvY, kConvW, kConvX};
  if (op == SLUICE_WGRAD) return {kConvY, kConvX, kConvW};
  return {kConvX, kConvW, kConvY};
}

Result<ConvCall> call_of(const sluice_convolution& v) {
  SLUICE_TRY(check_numbers(v));
  SLUICE_TRY(check_shapes(v));
  ConvCall call;
  SLUICE_TRY(add_product(v, call));
  call.args = args_of(v, call.conv);
  const ConvRoles roles = roles_of(v.op);
  SLUICE_TAKE(call.memory, one_memory({named(v, roles.a), named(v, roles.b), named(v, roles.d),
                                       named(v, kConvBias), named(v, kConvC), named(v, kConvScaleX),
                                       named(v, kConvScaleW), named(v, kConvScaleD)}));
  return call;
}

sluice_problem values_of(const ConvCall& call) {
  sluice_problem values = values_of(call.problem);
  values.conv = values_of(call.conv);  // also if the product itself is a plain one without im2col
  return values;
}

Error with_names(const sluice_convolution& v, Error error) {
  error = in_c_names(std::move(error));
  if (v.names == nullptr) return error;
  const ConvRoles roles = roles_of(v.op);
  const auto text = [&](ConvName which) {
    return named(v, which).name() + " (" + kConvFieldNames[which] + ")";
  };
  error.message += " [A is " + text(roles.a) + ", B is " + text(roles.b) + ", D is " + text(roles.d) + "]";
  return error;
}

}  // namespace sluice::c_api
