// SPDX-License-Identifier: Apache-2.0
// The quantiser of both orders in the C interface: checks its arrays (companions.h) and runs it.
#include <sluice/c_api/companions.h>

#include <sluice/c_api/error.h>
#include <sluice/c_api/handles.h>
#include <sluice/c_api/values.h>
#include <sluice/run/ops/training/quantize_both.h>
#include <sluice/try.h>

namespace sluice::c_api {
Result<QuantizeBothCall> quantization_both_of(const sluice_quantization_both& what) {
  const Enumerator enumerators[] = {{"granularity", what.granularity, 4}, {"gate", what.gate, 2}};
  SLUICE_TRY(check_enumerators(enumerators));
  const Named input{"input", what.input}, rows{"rows", what.rows}, columns{"columns_t", what.columns_t},
      row_scales{"row_scales", what.row_scales}, column_scales{"column_scales", what.column_scales},
      sums{"sums", what.sums}, gradient{"gradient", what.gradient};
  const auto granularity = static_cast<Granularity>(what.granularity);
  SLUICE_TRY(check_present(input));
  if (input->ndim != 2) return wrong_shape(input, "two dimensions");
  if (input->dtype != SLUICE_BF16 && input->dtype != SLUICE_FP16 && input->dtype != SLUICE_FP32)
    return wrong_type(input, "bf16, fp16 or fp32; convert it");
  const Named& codes = rows.array != nullptr ? rows : columns;
  SLUICE_TRY(check_present(codes));
  if (codes->dtype != SLUICE_E4M3 && codes->dtype != SLUICE_E5M2)
    return wrong_type(codes, "e4m3 (float8_e4m3fn) or e5m2 (float8_e5m2)");
  const bool gated = what.gate != SLUICE_NO_GATE, halves = gated && gradient.array == nullptr;
  if (!gated && gradient.array != nullptr)
    return Error{
        ErrorCode::invalid_argument,
        "gradient is given without a gate: it is that of silu(gate) * up; leave it out, or set gate"};
  if (gated && input->dtype == SLUICE_FP32) return wrong_type(input, "bf16 or fp16 with a gate; convert it");
  const i64 unit = halves ? 32 : 16, count = input->shape[0], width = input->shape[1] / (halves ? 2 : 1);
  if (input->shape[1] % unit != 0)
    return wrong_shape(input, "a multiple of " + std::to_string(unit) +
                                  " columns, since rows of fp8 lie 16 bytes apart; pad " +
                                  (gated ? "gate and up with zeros, each by itself" : "it with zeros"));
  QuantizeBothCall call{.options = {.input = static_cast<DType>(input->dtype),
                                    .output = static_cast<DType>(codes->dtype),
                                    .granularity = granularity,
                                    .powers_of_two = what.powers_of_two != 0,
                                    .source = !gated   ? BothSource::matrix
                                              : halves ? BothSource::swiglu
                                                       : BothSource::swiglu_gradient},
                        .shape = {.rows = count, .columns = width}};
  const std::string by = name_of(granularity);
  const bool by_tensor = granularity == Granularity::tensor;
  if (rows.array != nullptr)
    SLUICE_TRY(check_size(rows, count, width, size_text(count, width) + ": a code for each value"));
  if (rows.array != nullptr || by_tensor)
    SLUICE_TRY(check_values(row_scales, scale_count(granularity, count, width), "for rows by " + by));
  if (columns.array != nullptr) {
    SLUICE_TRY(check_size(columns, width, rows_up(call.shape),
                          size_text(width, rows_up(call.shape)) +
                              ": the transpose, whose rows are filled up to a multiple of 128"));
    if (columns->dtype != codes->dtype)
      return wrong_type(columns, type_text(codes->dtype) + " as rows are; convert them");
    // A matrix in the order of the other granularities would be taken for its transpose.
    if (granularity == Granularity::row_block && column_scales.array != nullptr && column_scales->ndim == 2)
      SLUICE_TRY(check_size(column_scales, scale_blocks(count), width,
                            size_text(scale_blocks(count), width) + ": a row for each 128 rows of input"));
    if (!by_tensor)
      SLUICE_TRY(check_values(column_scales, scale_count(granularity, width, count), "for columns by " + by));
  }
  if (sums.array != nullptr)
    SLUICE_TRY(check_values(sums, scale_blocks(count) * width, "of sums, a row for each 128 rows"));
  SLUICE_TAKE(call.shape.input_ld, pitch_of(input));
  if (rows.array != nullptr) {
    SLUICE_TAKE(call.shape.rows_ld, pitch_of(rows));
  }
  if (columns.array != nullptr) {
    SLUICE_TAKE(call.shape.columns_t_ld, pitch_of(columns));
  }
  if (gradient.array != nullptr) {
    SLUICE_TRY(
        check_size(gradient, count, width / 2, size_text(count, width / 2) + ": half of input's columns"));
    if (gradient->dtype != input->dtype)
      return wrong_type(gradient, type_text(input->dtype) + " as input is; convert it");
    SLUICE_TAKE(call.shape.gradient_ld, pitch_of(gradient));
  }
  SLUICE_TAKE(call.memory, one_memory({input, rows, columns, row_scales, column_scales, sums, gradient}));
  const auto memory_of = [](const Named& x) { return x.array == nullptr ? nullptr : x->data; };
  call.args = {.input = input->data,
               .rows = memory_of(rows),
               .columns_t = memory_of(columns),
               .row_scales = static_cast<float*>(memory_of(row_scales)),
               .column_scales = static_cast<float*>(memory_of(column_scales)),
               .sums = static_cast<float*>(memory_of(sums)),
               .gradient = memory_of(gradient)};
  return call;
}

}  // namespace sluice::c_api

using namespace sluice;
using namespace sluice::c_api;

extern "C" {

sluice_status sluice_quantize_both(sluice_device* device, const sluice_quantization_both* what,
                                   sluice_stream stream) {
  return guarded([&] {
    if (const sluice_status null = check_both(device, what); null != SLUICE_OK) return null;
    return run_on(device, what, quantization_both_of, {"input", what->input},
                  [&](Session& session, const QuantizeBothCall& call) {
                    QuantizeBothArgs args = call.args;
                    if (what->workspace != nullptr) args.workspace = what->workspace->workspace.view();
                    return ops::run<ops::QuantizeBothOp>(session.device(), call.options, {call.shape, args},
                                                         stream, "run it once before the capture");
                  });
  });
}

}  // extern "C"
