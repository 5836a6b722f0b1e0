// SPDX-License-Identifier: Apache-2.0
// See quantization.h.
#include <sluice/c_api/quantization.h>

#include <string>

#include <sluice/c_api/array_shape.h>

namespace sluice::c_api {
namespace {

static_assert(SLUICE_SILU_GATE == static_cast<int>(Gate::silu));

/// The distance of rows; columns must lie side by side.
Result<i64> pitch_of(const char* name, const sluice_array& x) {
  const i64 column_stride = x.strides != nullptr ? x.strides[1] : 1;
  if (column_stride != 1 && x.shape[1] > 1)
    return Error{ErrorCode::invalid_stride, std::string(name) + " has shape " + shape_text(x) +
                                                " and columns " + std::to_string(column_stride) +
                                                " elements apart: it must be row-major; "
                                                "pass " +
                                                name + ".contiguous() (nothing is copied silently)"};
  if (x.shape[0] <= 1 || x.strides == nullptr) return i64{0};
  if (x.strides[0] < x.shape[1])  // 0 too, which is packed in a QuantizeShape
    return Error{ErrorCode::invalid_stride, std::string(name) + " has shape " + shape_text(x) + " and rows " +
                                                std::to_string(x.strides[0]) +
                                                " elements apart: they must be at least " +
                                                std::to_string(x.shape[1]) + " apart; pass " + name +
                                                ".contiguous() (nothing is copied silently)"};
  return static_cast<i64>(x.strides[0]);
}

Result<void> check_scales(const sluice_quantization& what, i64 wanted) {
  const sluice_array& x = *what.scales;
  if (x.dtype != SLUICE_FP32)
    return Error{ErrorCode::invalid_type,
                 "scales are " + type_text(x.dtype) + " and must be fp32; convert them"};
  if (count_of(x) != wanted || !is_packed(x))
    return Error{ErrorCode::invalid_size,
                 "scales have shape " + shape_text(x) + " and must hold " + std::to_string(wanted) +
                     " values for output " + shape_text(*what.output) + " by " +
                     name_of(static_cast<Granularity>(what.granularity)) + ", contiguous and row-major"};
  return {};
}

}  // namespace

Result<QuantizeCall> quantization_of(const sluice_quantization& what) {
  const struct {
    const char* name;
    const sluice_array* array;
  } arrays[] = {{"input", what.input}, {"output", what.output}, {"scales", what.scales}};
  for (const auto& [name, array] : arrays) {
    if (array == nullptr)
      return Error{ErrorCode::invalid_argument, std::string(name) + " is missing: pass an array"};
    if (Result<void> shape = check_shape(name, *array); !shape) return shape.error();
    if (ordinal_of(*array) != ordinal_of(*what.input))
      return Error{ErrorCode::wrong_device, std::string(name) + " is in " + place_text(ordinal_of(*array)) +
                                                " and input in " + place_text(ordinal_of(*what.input)) +
                                                ": all must be on one GPU; move it"};
  }
  if (what.granularity < SLUICE_PER_TENSOR || what.granularity > SLUICE_PER_SQUARE_BLOCK)
    return Error{ErrorCode::invalid_argument,
                 "granularity = " + std::to_string(what.granularity) + " must be in 0..3"};
  if (what.gate != SLUICE_NO_GATE && what.gate != SLUICE_SILU_GATE)
    return Error{ErrorCode::invalid_argument, "gate = " + std::to_string(what.gate) + " must be 0 or 1"};
  const Gate gate = static_cast<Gate>(what.gate);
  const sluice_array &in = *what.input, &out = *what.output;
  if (in.ndim != 2 || out.ndim != 2 || out.shape[0] != in.shape[0] ||
      (gate == Gate::none ? out.shape[1] != in.shape[1]
                          : in.shape[1] % 2 != 0 || out.shape[1] != in.shape[1] / 2))
    return Error{ErrorCode::invalid_size,
                 "output has shape " + shape_text(out) + " and must have that of input, " + shape_text(in) +
                     (gate == Gate::none ? "" : " with half the columns (gate and up side by side)") +
                     ", two dimensions"};
  if (in.dtype != SLUICE_BF16 && in.dtype != SLUICE_FP16 && in.dtype != SLUICE_FP32)
    return Error{ErrorCode::invalid_type,
                 "input is " + type_text(in.dtype) + " and must be bf16, fp16 or fp32; convert it"};
  if (out.dtype != SLUICE_E4M3)
    return Error{ErrorCode::invalid_type,
                 "output is " + type_text(out.dtype) + " and must be e4m3 (float8_e4m3fn)"};
  const Result<i64> input_ld = pitch_of("input", in), output_ld = pitch_of("output", out);
  if (!input_ld) return input_ld.error();
  if (!output_ld) return output_ld.error();
  QuantizeCall call{.input = static_cast<DType>(in.dtype),
                    .granularity = static_cast<Granularity>(what.granularity),
                    .gate = gate,
                    .shape = {out.shape[0], out.shape[1], *input_ld, *output_ld},
                    .args = {.input = in.data,
                             .output = out.data,
                             .scales = static_cast<float*>(what.scales->data),
                             .scale_given = what.scale_given != 0}};
  if (const Result<void> scales =
          check_scales(what, scale_count(*call.granularity, out.shape[0], out.shape[1]));
      !scales)
    return scales.error();
  return call;
}

}  // namespace sluice::c_api
