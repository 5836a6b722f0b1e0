// SPDX-License-Identifier: Apache-2.0
// See companions.h.
#include <sluice/c_api/companions.h>

#include <string>

#include <sluice/c_api/experts.h>
#include <sluice/c_api/values.h>
#include <sluice/try.h>

namespace sluice::c_api {
namespace {

static_assert(SLUICE_SILU_GATE == static_cast<int>(Gate::silu));
static_assert(SLUICE_PER_SQUARE_BLOCK == static_cast<int>(Granularity::square_block));

Result<void> check_matrix(const Named& x) {
  SLUICE_TRY(check_present(x));
  if (x->ndim != 2) return wrong_shape(x, "two dimensions");
  return {};
}

/// Checks that `x` has the shape and the type of `other`.
Result<void> check_like(const Named& x, const Named& other) {
  SLUICE_TRY(check_present(x));
  if (x->ndim != 2 || x->shape[0] != other->shape[0] || x->shape[1] != other->shape[1])
    return wrong_shape(x, shape_text(*other.array) + " as " + other.name() + " has");
  if (x->dtype != other->dtype)
    return wrong_type(x, type_text(other->dtype) + " as " + other.name() + " is; convert it");
  return {};
}

/// Checks that `scales` are fp32, contiguous, and as many as `granularity` needs for the matrix `of`.
Result<void> check_scales(const Named& scales, Granularity granularity, const Named& of) {
  return check_values(scales, scale_count(granularity, of->shape[0], of->shape[1]),
                      "for output " + shape_text(*of.array) + " by " + name_of(granularity));
}

/// Checks that the output has the input's rows and columns, or half the columns if the input holds gate and
/// up.
Result<void> check_quantized(const Named& output, const Named& input, Gate gate) {
  SLUICE_TRY(check_present(output));
  const i64 columns = input->shape[1];
  const bool fits = output->ndim == 2 && output->shape[0] == input->shape[0] &&
                    (gate == Gate::none ? output->shape[1] == columns
                                        : columns % 2 == 0 && output->shape[1] == columns / 2);
  if (fits) return {};
  return wrong_shape(output,
                     "that of input, " + shape_text(*input.array) +
                         (gate == Gate::none ? "" : " with half the columns (gate and up side by side)") +
                         ", two dimensions");
}

}  // namespace

Result<QuantizeCall> quantization_of(const sluice_quantization& what) {
  const Enumerator enumerators[] = {{"granularity", what.granularity, 4}, {"gate", what.gate, 2}};
  SLUICE_TRY(check_enumerators(enumerators));
  const Named input{"input", what.input}, output{"output", what.output}, scales{"scales", what.scales};
  QuantizeCall call{.gate = static_cast<Gate>(what.gate)};
  SLUICE_TRY(check_matrix(input));
  SLUICE_TRY(check_quantized(output, input, call.gate));
  const bool is_16bit = input->dtype == SLUICE_BF16 || input->dtype == SLUICE_FP16;
  if (!is_16bit && input->dtype != SLUICE_FP32) return wrong_type(input, "bf16, fp16 or fp32; convert it");
  const bool quantizes = what.scales != nullptr || call.gate == Gate::none || !is_16bit;
  if (!quantizes && output->dtype != input->dtype)
    return wrong_type(output, type_text(input->dtype) + " as input is, or e4m3 with scales");
  if (quantizes) {
    if (output->dtype != SLUICE_E4M3) return wrong_type(output, "e4m3 (float8_e4m3fn)");
    call.granularity = static_cast<Granularity>(what.granularity);
    SLUICE_TRY(check_scales(scales, *call.granularity, output));
    call.args.scales = static_cast<float*>(scales->data);
  }
  call.input = static_cast<DType>(input->dtype);
  call.shape = {.rows = output->shape[0], .columns = output->shape[1]};
  SLUICE_TAKE(call.shape.input_ld, pitch_of(input));
  SLUICE_TAKE(call.shape.output_ld, pitch_of(output));
  SLUICE_TAKE(call.memory, one_memory({input, output, scales}));
  call.args.input = input->data;
  call.args.output = output->data;
  call.args.scale_given = what.scale_given != 0;
  return call;
}

Result<NormCall> normalization_of(const sluice_normalization& what) {
  const Enumerator enumerators[] = {{"granularity", what.granularity, 4}};
  SLUICE_TRY(check_enumerators(enumerators));
  const Named input{"input", what.input}, gamma{"gamma", what.gamma}, residual{"residual", what.residual},
      sum{"sum", what.sum}, output{"output", what.output}, scales{"scales", what.scales};
  SLUICE_TRY(check_matrix(input));
  if (input->dtype != SLUICE_BF16 && input->dtype != SLUICE_FP16)
    return wrong_type(input, "bf16 or fp16; convert it");
  NormCall call{.options = {.input = static_cast<DType>(input->dtype)},
                .shape = {.rows = input->shape[0], .columns = input->shape[1]},
                .args = {.input = input->data, .epsilon = what.epsilon}};
  SLUICE_TRY(check_present(gamma));
  if (gamma->ndim != 1 || gamma->shape[0] != call.shape.columns)
    return wrong_shape(gamma, list(&call.shape.columns, 1) + ", a factor for each column");
  if (gamma->dtype != input->dtype)
    return wrong_type(gamma, type_text(input->dtype) + " as input is; convert it");
  SLUICE_TRY(check_no_gaps(gamma));
  call.args.gamma = gamma->data;
  for (const Named& x : {residual, sum})
    if (x.array != nullptr) SLUICE_TRY(check_like(x, input));
  SLUICE_TRY(check_present(output));
  if (output->dtype == SLUICE_E4M3) {
    SLUICE_TRY(check_quantized(output, input, Gate::none));
    call.options.quantize = static_cast<Granularity>(what.granularity);
    SLUICE_TRY(check_scales(scales, *call.options.quantize, output));
    call.args.scales = static_cast<float*>(scales->data);
  } else {
    SLUICE_TRY(check_like(output, input));
    if (scales.array != nullptr)
      return Error{ErrorCode::invalid_argument, "scales are given and output is " + type_text(output->dtype) +
                                                    ": only an e4m3 output has scales; leave them out"};
  }
  SLUICE_TAKE(call.shape.input_ld, pitch_of(input));
  SLUICE_TAKE(call.shape.output_ld, pitch_of(output));
  if (residual.array != nullptr) {
    SLUICE_TAKE(call.shape.residual_ld, pitch_of(residual));
    call.args.residual = residual->data;
  }
  if (sum.array != nullptr) {
    SLUICE_TAKE(call.shape.sum_ld, pitch_of(sum));
    call.args.sum = sum->data;
  }
  call.args.output = output->data;
  SLUICE_TAKE(call.memory, one_memory({input, gamma, residual, sum, output, scales}));
  return call;
}

Result<QuantizeCall> gathering_of(const sluice_gathering& what) {
  const Enumerator enumerators[] = {{"granularity", what.granularity, 4}};
  SLUICE_TRY(check_enumerators(enumerators));
  const Named input{"input", what.input}, index{"token_of_row", what.token_of_row},
      output{"output", what.output}, scales{"scales", what.scales};
  SLUICE_TRY(check_matrix(input));
  SLUICE_TRY(check_rows(index, 1));
  SLUICE_TRY(check_present(output));
  const i64 shape[] = {index->shape[0], input->shape[1]};
  if (output->ndim != 2 || output->shape[0] != shape[0] || output->shape[1] != shape[1])
    return wrong_shape(output, list(shape, 2) + ": a row for each of token_of_row, the columns of input");
  const bool is_16bit = input->dtype == SLUICE_BF16 || input->dtype == SLUICE_FP16;
  QuantizeCall call{.gathered = true};
  if (output->dtype == SLUICE_E4M3) {
    if (!is_16bit && input->dtype != SLUICE_FP32) return wrong_type(input, "bf16, fp16 or fp32; convert it");
    call.granularity = static_cast<Granularity>(what.granularity);
    SLUICE_TRY(check_scales(scales, *call.granularity, output));
    call.args.scales = static_cast<float*>(scales->data);
  } else {
    if (!is_16bit) return wrong_type(input, "bf16 or fp16, or the output e4m3; convert it");
    if (output->dtype != input->dtype)
      return wrong_type(output, type_text(input->dtype) + " as input is, or e4m3 with scales");
    if (scales.array != nullptr)
      return Error{ErrorCode::invalid_argument, "scales are given and output is " + type_text(output->dtype) +
                                                    ": only an e4m3 output has scales; leave them out"};
  }
  call.input = static_cast<DType>(input->dtype);
  call.shape = {.rows = shape[0], .columns = shape[1], .input_rows = input->shape[0]};
  SLUICE_TAKE(call.shape.input_ld, pitch_of(input));
  SLUICE_TAKE(call.shape.output_ld, pitch_of(output));
  SLUICE_TAKE(call.memory, one_memory({input, index, output, scales}));
  call.args.input = input->data;
  call.args.output = output->data;
  call.args.scale_given = what.scale_given != 0;
  call.args.row_index = static_cast<const int*>(index->data);
  return call;
}

}  // namespace sluice::c_api
