// SPDX-License-Identifier: Apache-2.0
// Checks single arrays of a product, and derives the scale mode from the shapes of the scales. See
// products.h.
#include <string>

#include <sluice/c_api/products.h>
#include <sluice/try.h>

namespace sluice::c_api {
namespace {

/// The scale modes that an array's shape allows.
struct ScaleFit {
  bool tensor = false, vector = false, block = false;
};

bool has_shape(const sluice_array& x, i64 batch, i64 rows, i64 columns) {
  if (x.ndim == 3) return x.shape[0] == batch && x.shape[1] == rows && x.shape[2] == columns;
  return x.ndim == 2 && batch == 1 && x.shape[0] == rows && x.shape[1] == columns;
}

/// Returns whether x is stored as [n/128][k/128], passed with that shape or transposed.
bool is_block_b(const sluice_array& x, const Problem& p) {
  const i64 rows = scale_blocks(p.n), columns = scale_blocks(p.k);
  if (has_shape(x, p.batch, rows, columns) && is_packed(x)) return true;
  if (!has_shape(x, p.batch, columns, rows)) return false;
  const int r = x.ndim - 2, c = x.ndim - 1;
  return (rows <= 1 || stride(x, c) == columns) && (columns <= 1 || stride(x, r) == 1) &&
         (p.batch <= 1 || stride(x, 0) == rows * columns);
}

/// Returns whether x is a vector of `length` values: m for scale_a, n for scale_b.
bool is_vector(const sluice_array& x, i64 length, bool as_column) {
  if (!is_packed(x)) return false;
  if (x.ndim == 1) return x.shape[0] == length;
  return x.ndim == 2 && x.shape[as_column ? 0 : 1] == length && x.shape[as_column ? 1 : 0] == 1;
}

Error wrong_scale(const Named& x, bool is_a, const Problem& problem) {
  const i64 k_blocks = scale_blocks(problem.k), n_blocks = scale_blocks(problem.n);
  const i64 block_shape[] = {is_a ? problem.m : n_blocks, k_blocks};
  const i64 turned_shape[] = {k_blocks, n_blocks}, one[] = {1};
  const i64 vector_shape[] = {is_a ? problem.m : 1, is_a ? 1 : problem.n};
  return {ErrorCode::invalid_size,
          x.name() + " has shape " + shape_text(*x.array) + " and strides " + strides_text(*x.array) +
              " and must be fp32 of one of these: " + list(one, 1) + " for the whole matrix, " +
              list(vector_shape, 2) + " one for each " + (is_a ? "row" : "column") + ", or (fp8) " +
              list(block_shape, 2) + " for blocks of " + (is_a ? "1 x 128" : "128 x 128") +
              (is_a ? ", row-major: pass " + x.name() + ".contiguous() if it is stored by columns"
                    : ", row-major, or its .t(), which is " + list(turned_shape, 2))};
}

Result<ScaleFit> fit_of(const Named& scale, bool is_a, const Problem& problem) {
  SLUICE_TRY(check_present(scale));
  SLUICE_TRY(check_element(scale));
  const sluice_array& x = *scale.array;
  if (x.dtype != SLUICE_FP32) return wrong_type(scale, "fp32: pass " + scale.name() + ".float()");
  ScaleFit fit;
  fit.tensor = count_of(x) == 1;
  fit.vector = is_vector(x, is_a ? problem.m : problem.n, is_a);
  fit.block = is_fp8(problem.a.type) &&
              (is_a ? has_shape(x, problem.batch, problem.m, scale_blocks(problem.k)) && is_packed(x)
                    : is_block_b(x, problem));
  if (!fit.tensor && !fit.vector && !fit.block) return wrong_scale(scale, is_a, problem);
  return fit;
}

/// Returns the simplest mode that fits. If several modes fit, they give equal results.
ScaleMode mode_of(const ScaleFit& fit) {
  if (fit.tensor) return ScaleMode::tensor;
  return fit.vector ? ScaleMode::vector : ScaleMode::block;
}

/// Adds the scales of A or of B to the call, and returns the modes that fit. Without scales, no mode fits.
Result<ScaleFit> add_scale(const Named& scale, bool is_a, ProductCall& call) {
  if (scale.array == nullptr) return ScaleFit{};
  SLUICE_TAKE(const ScaleFit fit, fit_of(scale, is_a, call.problem));
  (is_a ? call.args.scale_a : call.args.scale_b) = static_cast<const float*>(scale->data);
  (is_a ? call.problem.epilogue.scale_a : call.problem.epilogue.scale_b) = mode_of(fit);
  return fit;
}

}  // namespace

Result<void> check_element(const Named& x) {
  if (x->dtype >= 0 && x->dtype < kDTypeCount) return {};
  return Error{ErrorCode::invalid_type,
               x.name() +
                   " has an element type that no kernel takes: it must be bf16, fp16, fp32, e4m3 or e5m2; "
                   "convert it"};
}

Result<void> check_bias(const Named& bias, i64 n) {
  SLUICE_TRY(check_present(bias));
  if (count_of(*bias.array) != n || !(bias->ndim == 1 || (bias->ndim == 2 && bias->shape[0] == 1)))
    return wrong_shape(bias, list(&n, 1) + ", a value for each column");
  if (bias->dtype != SLUICE_FP16 && bias->dtype != SLUICE_BF16 && bias->dtype != SLUICE_FP32)
    return wrong_type(bias, "bf16, fp16 or fp32; convert it");
  return check_no_gaps(bias);
}

Result<void> check_scale_d(const Named& scale) {
  SLUICE_TRY(check_present(scale));
  if (count_of(*scale.array) != 1) return wrong_shape(scale, "one value, by which all of D is divided");
  if (scale->dtype != SLUICE_FP32) return wrong_type(scale, "fp32; convert it");
  return {};
}

Result<void> add_scales(const sluice_product& p, ProductCall& call) {
  const Named of_a = named(p, kNameScaleA), of_b = named(p, kNameScaleB);
  SLUICE_TAKE(const ScaleFit a, add_scale(of_a, true, call));
  SLUICE_TAKE(const ScaleFit b, add_scale(of_b, false, call));
  Epilogue& epilogue = call.problem.epilogue;
  // Block scales of one operand need block scales of the other. A small array may fit several modes, so block
  // is chosen if the other operand needs it.
  const bool a_blocks = epilogue.scale_a == ScaleMode::block, b_blocks = epilogue.scale_b == ScaleMode::block;
  if (a_blocks == b_blocks) return {};
  if (a_blocks ? b.block : a.block) {
    epilogue.scale_a = epilogue.scale_b = ScaleMode::block;
    return {};
  }
  const Named blocks = a_blocks ? of_a : of_b, other = a_blocks ? of_b : of_a;
  if (other.array == nullptr)
    return Error{ErrorCode::invalid_argument, other.name() + " is missing and " + blocks.name() +
                                                  " holds block scales: pass those of the other side too"};
  return Error{ErrorCode::invalid_size, wrong_scale(other, b_blocks, call.problem).message + "; " +
                                            blocks.name() + " holds block scales, so this must too"};
}

}  // namespace sluice::c_api
