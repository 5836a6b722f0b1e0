// SPDX-License-Identifier: Apache-2.0
// The scales and the bias of a call (call.h): which mode an array's shape stands for.
#include <string>

#include <sluice/c_api/call.h>
#include <sluice/try.h>

namespace sluice::c_api {
namespace {

/// The scale modes that an array's shape allows.
struct ScaleFit {
  bool tensor = false, vector = false, block = false, vector128 = false;
  bool by_rows = false;  // blocks of A
  i64 ld = 0;            // Problem::scale_a_ld, if blocks of A may be read by columns

  bool blocks() const { return block || vector128; }
};

bool has_shape(const sluice_array& x, i64 batch, i64 rows, i64 columns) {
  if (x.ndim == 3) return x.shape[0] == batch && x.shape[1] == rows && x.shape[2] == columns;
  return x.ndim == 2 && batch == 1 && x.shape[0] == rows && x.shape[1] == columns;
}

/// Returns whether x is stored as [batch][rows][columns], passed with that shape or transposed.
bool is_stored_as(const sluice_array& x, i64 batch, i64 rows, i64 columns) {
  if (has_shape(x, batch, rows, columns) && is_packed(x)) return true;
  if (!has_shape(x, batch, columns, rows)) return false;
  const int r = x.ndim - 2, c = x.ndim - 1;
  return (rows <= 1 || stride(x, c) == columns) && (columns <= 1 || stride(x, r) == 1) &&
         (batch <= 1 || stride(x, 0) == rows * columns);
}

/// Returns the distance of columns if x holds blocks of A by columns; 0 if it does not.
i64 columns_ld(const sluice_array& x, const Problem& p) {
  Problem by_columns = p;
  by_columns.scale_a_ld = 1;
  const i64 matrices = scale_a_matrices(by_columns), columns = scale_blocks(p.k);
  const i64 rows = groups_have_scales(by_columns) ? i64{p.groups.pitch} : a_rows(p);
  if (!has_shape(x, matrices, rows, columns) || matrices <= 0 || rows <= 0 || columns <= 0) return 0;
  if (groups_have_scales(by_columns) && (p.m % rows != 0 || p.m / rows != matrices)) return 0;
  const int r = x.ndim - 2, c = x.ndim - 1;
  const i64 ld = columns > 1 ? stride(x, c) : matrices > 1 ? stride(x, 0) : rows;
  const bool lies = (rows <= 1 || stride(x, r) == 1) && ld >= rows &&
                    (matrices <= 1 || columns <= 1 || stride(x, 0) / columns == ld);
  return lies && (matrices <= 1 || stride(x, 0) % columns == 0) ? ld : 0;
}

/// Returns whether x has a value per row: rows, or rows x 1.
bool is_vector_a(const sluice_array& x, i64 rows) {
  if (!is_packed(x) || x.ndim < 1 || x.ndim > 2) return false;
  return x.shape[0] == rows && (x.ndim == 1 || x.shape[1] == 1);
}
/// Returns whether x has a value per column of each vector of B: n, or vectors x n.
bool is_vector_b(const sluice_array& x, i64 vectors, i64 n) {
  if (!is_packed(x)) return false;
  if (x.ndim == 1) return vectors == 1 && x.shape[0] == n;
  return x.ndim == 2 && x.shape[0] == vectors && x.shape[1] == n;
}
/// Returns the shape of an array with a value per column, for messages.
std::string columns_text(i64 vectors, i64 n) {
  const i64 shape[] = {vectors, n};
  return vectors == 1 ? list(&n, 1) : list(shape, 2);
}
/// Returns the shape of the blocks of a side, for messages; `turned`: as a view of B's is transposed.
std::string blocks_text(const Problem& p, bool is_a, bool turned) {
  const i64 k_blocks = scale_blocks(p.k), n_blocks = scale_blocks(p.n);
  const i64 shape[] = {p.batch,
                       is_a     ? a_rows(p)
                       : turned ? k_blocks
                                : n_blocks,
                       turned ? n_blocks : k_blocks};
  const bool batched = (is_a ? a_matrices(p) : p.batch) > 1;
  return batched ? list(shape, 3) : list(shape + 1, 2);
}

/// Returns how scales of each column of B may be stored, for messages; "" with groups, which have none.
std::string each_column_words(const Named& x, const Problem& p) {
  const i64 shape[] = {p.batch, scale_blocks(p.k), p.n};
  if (has_groups(p)) return "";
  return ", or " + (p.batch > 1 ? list(shape, 3) : list(shape + 1, 2)) +
         " for blocks of 1 x 128 of both sides, row-major, or its .mT: pass " + x.name() +
         ".mT.contiguous() if each row has the scales of a column of B";
}
/// Returns how blocks of A may be stored, for messages.
std::string columns_words(const Named& x, const Problem& p) {
  const i64 shape[] = {p.batch, p.groups.pitch, scale_blocks(p.k)};
  const bool of_groups = p.groups.kind == GroupKind::counts;
  return std::string(", row-major or by columns") + (of_groups ? " (then " + list(shape, 3) + ")" : "") +
         ": pass " + x.name() + ".contiguous() if it has other strides";
}

Error wrong_scale(const Named& x, bool is_a, const Problem& p) {
  const i64 one[] = {1}, rows[] = {a_rows(p), 1}, columns[] = {column_vectors(p), p.n};
  return {ErrorCode::invalid_size,
          x.name() + " has shape " + shape_text(*x.array) + " and strides " + strides_text(*x.array) +
              " and must be fp32 of one of these: " + list(one, 1) + " for the whole matrix, " +
              list(is_a ? rows : columns, 2) + " one for each " + (is_a ? "row" : "column") + ", or (fp8) " +
              blocks_text(p, is_a, false) + " for blocks of " + (is_a ? "1 x 128" : "128 x 128") +
              (is_a ? columns_words(x, p)
                    : ", row-major, or its .t(), which is " + blocks_text(p, is_a, true) +
                          each_column_words(x, p))};
}

Result<ScaleFit> fit_of(const Named& scale, bool is_a, const Problem& problem) {
  SLUICE_TRY(check_present(scale));
  SLUICE_TRY(check_element(scale));
  const sluice_array& x = *scale.array;
  if (x.dtype != SLUICE_FP32) return wrong_type(scale, "fp32: pass " + scale.name() + ".float()");
  ScaleFit fit;
  fit.tensor = count_of(x) == 1;
  fit.vector = is_a ? is_vector_a(x, a_rows(problem)) : is_vector_b(x, column_vectors(problem), problem.n);
  const i64 k_blocks = scale_blocks(problem.k);
  if (is_fp8(problem.a.type) && is_a) {
    fit.by_rows = has_shape(x, a_matrices(problem), a_rows(problem), k_blocks) && is_packed(x);
    fit.ld = columns_ld(x, problem);
    fit.block = fit.by_rows || fit.ld != 0;
  } else if (is_fp8(problem.a.type)) {
    fit.block = is_stored_as(x, problem.batch, scale_blocks(problem.n), k_blocks);
    fit.vector128 = !has_groups(problem) && is_stored_as(x, problem.batch, k_blocks, problem.n);
  }
  if (!fit.tensor && !fit.vector && !fit.blocks()) return wrong_scale(scale, is_a, problem);
  return fit;
}

/// Returns the simplest mode that fits. If several modes fit, they give equal results.
ScaleMode mode_of(const ScaleFit& fit) {
  if (fit.tensor) return ScaleMode::tensor;
  if (fit.vector) return ScaleMode::vector;
  return fit.block ? ScaleMode::block : ScaleMode::vector128;
}

/// Adds the scales of A or of B to the call, and returns the modes that fit. Without scales, no mode fits.
Result<ScaleFit> add_scale(const Named& scale, bool is_a, Call& call) {
  if (scale.array == nullptr) return ScaleFit{};
  SLUICE_TAKE(const ScaleFit fit, fit_of(scale, is_a, call.problem));
  (is_a ? call.args.scale_a : call.args.scale_b) = static_cast<const float*>(scale->data);
  (is_a ? call.problem.epilogue.scale_a : call.problem.epilogue.scale_b) = mode_of(fit);
  return fit;
}

Result<void> check_bias(const Named& bias, i64 vectors, i64 n) {
  SLUICE_TRY(check_present(bias));
  const bool one_dimension = bias->ndim == 1 && vectors == 1;
  const bool fits = one_dimension || (bias->ndim == 2 && bias->shape[0] == vectors);
  if (!fits || count_of(*bias.array) != vectors * n)
    return wrong_shape(bias, columns_text(vectors, n) + ", a value for each column");
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

}  // namespace

Result<void> add_scales(const sluice_call& p, Call& call) {
  const Named of_a = named(p, SLUICE_SCALE_A), of_b = named(p, SLUICE_SCALE_B);
  SLUICE_TAKE(const ScaleFit a, add_scale(of_a, true, call));
  SLUICE_TAKE(const ScaleFit b, add_scale(of_b, false, call));
  Epilogue& epilogue = call.problem.epilogue;
  // Block scales of one operand need block scales of the other. A small array may fit several modes, so block
  // is chosen if the other operand needs it.
  const bool a_blocks = scales_128_of_k(epilogue.scale_a), b_blocks = scales_128_of_k(epilogue.scale_b);
  if (b_blocks && !a_blocks && a.block) epilogue.scale_a = ScaleMode::block;
  if (a_blocks && !b_blocks && b.blocks())
    epilogue.scale_b = b.block ? ScaleMode::block : ScaleMode::vector128;
  const bool by_columns = scales_each_column(epilogue) || !a.by_rows;
  call.problem.scale_a_ld = is_block_scaled(epilogue) && by_columns ? a.ld : 0;
  if (scales_128_of_k(epilogue.scale_a) == scales_128_of_k(epilogue.scale_b)) {
    if (!scales_each_column(epilogue) || call.problem.scale_a_ld != 0) return {};
    return Error{ErrorCode::invalid_stride,
                 of_a.name() + " lies by rows and " + of_b.name() + " has a scale per column and 128 of k: " +
                     of_a.name() + " must lie by columns then; pass " + of_a.name() + ".mT.contiguous().mT"};
  }
  const Named blocks = a_blocks ? of_a : of_b, other = a_blocks ? of_b : of_a;
  if (other.array == nullptr)
    return Error{ErrorCode::invalid_argument, other.name() + " is missing and " + blocks.name() +
                                                  " holds block scales: pass those of the other side too"};
  return Error{ErrorCode::invalid_size, wrong_scale(other, b_blocks, call.problem).message + "; " +
                                            blocks.name() + " holds block scales, so this must too"};
}

Result<void> add_scale_out(const sluice_call& p, Call& call) {
  const Named scales = named(p, SLUICE_SCALE_OUT);
  if (scales.array == nullptr) return {};
  SLUICE_TRY(check_present(scales));
  if (p.operands[SLUICE_SCALE_D] != nullptr)
    return Error{ErrorCode::invalid_argument,
                 scales.name() + " and " + named(p, SLUICE_SCALE_D).name() +
                     " are given: D has computed scales or a given one; leave one out"};
  const Problem& problem = call.problem;
  const i64 wanted[] = {d_matrices(problem), problem.m, scale_blocks(d_columns(problem))};
  if (!has_shape(*scales.array, wanted[0], wanted[1], wanted[2]))
    return wrong_shape(scales, (wanted[0] > 1 ? list(wanted, 3) : list(wanted + 1, 2)) +
                                   ", a scale for each 128 columns of a row of D");
  if (scales->dtype != SLUICE_FP32) return wrong_type(scales, "fp32; give it fp32 memory");
  SLUICE_TRY(check_no_gaps(scales));
  call.problem.epilogue.scale_d = ScaleMode::block;
  call.args.scale_out = static_cast<float*>(scales->data);
  return {};
}

Result<void> add_row_factors(const sluice_call& p, Call& call) {
  const Named factors = named(p, SLUICE_ROW_FACTORS);
  if (factors.array == nullptr) return {};
  SLUICE_TRY(check_present(factors));
  if (!is_vector_a(*factors.array, call.problem.m))
    return wrong_shape(factors, list(&call.problem.m, 1) + ", a factor for each row, without gaps");
  if (factors->dtype != SLUICE_FP32) return wrong_type(factors, "fp32; convert it");
  call.problem.epilogue.row_factors = true;
  call.args.row_factors = static_cast<const float*>(factors->data);
  return {};
}

Result<void> add_bias_and_scale_d(const sluice_call& p, i64 n, Call& call) {
  const Named bias = named(p, SLUICE_BIAS), scale_d = named(p, SLUICE_SCALE_D);
  if (bias.array != nullptr) {
    SLUICE_TRY(check_bias(bias, column_vectors(call.problem), n));
    call.problem.epilogue.bias = Bias::column;
    call.problem.epilogue.bias_type = static_cast<DType>(bias->dtype);
    call.args.bias = bias->data;
  }
  if (scale_d.array != nullptr) {
    SLUICE_TRY(check_scale_d(scale_d));
    call.problem.epilogue.scale_d = ScaleMode::tensor;
    call.args.scale_d = static_cast<const float*>(scale_d->data);
  }
  return {};
}

}  // namespace sluice::c_api
