// SPDX-License-Identifier: Apache-2.0
// See products.h. Checks run in this order: sizes, layouts, scales. Each may rely on those before it.
#include <sluice/c_api/products.h>

#include <string>

#include <sluice/host/ops/problem_key.h>
#include <sluice/spec/packed.h>
#include <sluice/try.h>

namespace sluice::c_api {
namespace {

constexpr i64 kTmaStep = 16;  // bytes
constexpr const char* kFieldNames[] = {"a", "b", "c", "d", "bias", "scale_a", "scale_b", "scale_d", "gamma"};

/// A matrix as its last two indices, with the batch index before them.
struct View {
  i64 rows, columns, batch;
  i64 row_stride, column_stride, batch_stride;
};
View view_of(const Named& x) {
  const int r = x->ndim - 2, c = x->ndim - 1;
  const bool batched = x->ndim == 3;
  return {.rows = x->shape[r],
          .columns = x->shape[c],
          .batch = batched ? x->shape[0] : 1,
          .row_stride = stride(*x.array, r),
          .column_stride = stride(*x.array, c),
          .batch_stride = batched ? stride(*x.array, 0) : 0};
}

/// Returns the leading dimension for an index with `count` values and this stride. It is 0 (packed) if count
/// is 1, because the stride is arbitrary then in some frameworks.
i64 ld(i64 count, i64 stride) {
  return count <= 1 ? 0 : stride;
}
/// Returns the batch stride in elements; 0 for a batch of one.
i64 batch_stride(const View& v) {
  return v.batch <= 1 ? 0 : v.batch_stride;
}

Result<void> check_matrix(const Named& x) {
  SLUICE_TRY(check_present(x));
  SLUICE_TRY(check_element(x));
  if (x->ndim != 2 && x->ndim != 3)
    return Error{ErrorCode::invalid_size, x.name() + " has shape " + shape_text(*x.array) +
                                              ": it must be a matrix, or a batch of them (three dimensions)"};
  return {};
}

/// Returns whether the batch stride is not positive: an expanded batch (all matrices at one address) or a
/// reversed one. A Problem cannot express it, because a stride of 0 means packed there.
bool batch_does_not_step(const View& v) {
  return v.batch > 1 && v.rows > 0 && v.columns > 0 && v.batch_stride <= 0;
}

/// Returns the array as matrix A or B of a problem.
Result<Matrix> input(const Named& x, bool is_a) {
  const View v = view_of(x);
  const auto pass = [&] { return "pass " + x.name(); };
  if (batch_does_not_step(v))
    return wrong_layout(x, "the batch must step from matrix to matrix; " + pass() + ".contiguous()");
  const i64 k_stride = is_a ? v.column_stride : v.row_stride, k = is_a ? v.columns : v.rows;
  const i64 mn_stride = is_a ? v.row_stride : v.column_stride, mn = is_a ? v.rows : v.columns;
  const DType type = static_cast<DType>(x->dtype);
  const bool k_major = (k_stride == 1 || k <= 1) && (mn <= 1 || mn_stride >= k);
  const bool mn_major = (mn_stride == 1 || mn <= 1) && (k <= 1 || k_stride >= mn);
  // A matrix with a single row or column fits both layouts, but TMA may be able to address only one of them.
  const bool k_addressable = mn <= 1 || mn_stride % (kTmaStep / bytes_of(type)) == 0;
  if (k_major && (k_addressable || !mn_major || !is_16bit(type)))
    return Matrix{type, Major::k, ld(mn, mn_stride), batch_stride(v)};
  if (mn_major && is_16bit(type)) return Matrix{type, Major::mn, ld(k, k_stride), batch_stride(v)};
  if (mn_major)
    return wrong_layout(x,
                        "fp8 operands are multiplied with k contiguous: " +
                            (is_a ? "row-major; " + pass() + ".contiguous()"
                                  : "column-major, as weight.t() is; " + pass() + ".t().contiguous().t()"));
  return wrong_layout(x,
                      "one index must be contiguous and the other step over it; " + pass() + ".contiguous()");
}

/// Returns the array as matrix C or D of a problem; it must be row-major.
Result<Matrix> output(const Named& x) {
  const View v = view_of(x);
  if (batch_does_not_step(v))
    return wrong_layout(x, "the batch must step from matrix to matrix; give each its own memory");
  if ((v.column_stride != 1 && v.columns > 1) || (v.rows > 1 && v.row_stride < v.columns))
    return wrong_layout(x, "it must be row-major, columns contiguous and rows apart");
  return Matrix{static_cast<DType>(x->dtype), Major::k, ld(v.rows, v.row_stride), batch_stride(v)};
}

/// Returns the expected shape for messages: "(rows, columns)", preceded by the batch if A has one.
std::string wanted_shape(const Named& a, i64 rows, i64 columns) {
  const i64 wanted[] = {view_of(a).batch, rows, columns};
  return list(a->ndim == 3 ? wanted : wanted + 1, a->ndim);
}

Result<void> add_c(const sluice_product& p, ProductCall& call) {
  const Named c = named(p, kNameC), d = named(p, kNameD);
  if (c.array == nullptr) return {};
  SLUICE_TRY(check_matrix(c));
  const View v = view_of(c), of_d = view_of(d);
  if (c->ndim != d->ndim || v.rows != of_d.rows || v.columns != of_d.columns || v.batch != of_d.batch)
    return wrong_shape(c, shape_text(*d.array) + " as " + d.name() + " has");
  SLUICE_TAKE(const Matrix matrix, output(c));
  call.problem.c = matrix;
  call.problem.epilogue.residual = true;
  call.problem.epilogue.c_type = matrix.type;
  call.args.c = c->data;
  return {};
}

Result<void> add_bias_and_scale_d(const sluice_product& p, ProductCall& call) {
  const Named bias = named(p, kNameBias), scale_d = named(p, kNameScaleD);
  if (bias.array != nullptr) {
    SLUICE_TRY(check_bias(bias, call.problem.n));
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

/// Adds the sizes and layouts of A, B and D to the call.
Result<void> add_matrices(const sluice_product& p, ProductCall& call) {
  const Named a = named(p, kNameA), b = named(p, kNameB), d = named(p, kNameD);
  for (const Named& x : {a, b, d}) SLUICE_TRY(check_matrix(x));
  const View of_a = view_of(a), of_b = view_of(b), of_d = view_of(d);
  Problem& problem = call.problem;
  problem.m = of_a.rows;
  problem.k = of_a.columns;
  problem.n = of_b.columns;
  problem.batch = of_a.batch;
  if (of_b.rows != problem.k || b->ndim != a->ndim || of_b.batch != problem.batch)
    return wrong_shape(b, wanted_shape(a, problem.k, problem.n) + ": its rows are the " +
                              std::to_string(problem.k) + " columns of " + a.name());
  if (of_d.rows != problem.m || of_d.columns != d_columns(problem) || d->ndim != a->ndim ||
      of_d.batch != problem.batch)
    return wrong_shape(d, wanted_shape(a, problem.m, d_columns(problem)) +
                              (problem.epilogue.gated ? ": half of the columns of " + b.name() : ""));
  SLUICE_TAKE(problem.a, input(a, true));
  SLUICE_TAKE(problem.b, input(b, false));
  SLUICE_TAKE(problem.d, output(d));
  call.args.a = a->data;
  call.args.b = b->data;
  call.args.d = d->data;
  return {};
}

Result<ProductCall> dense_call_of(const sluice_product& p) {
  if (p.gamma != nullptr)
    return Error{ErrorCode::invalid_argument,
                 named(p, kNameGamma).name() +
                     " is given and the weights are not packed: norm the tokens before (sluice_norm, "
                     "rms_norm), or leave it out"};
  ProductCall call;
  Problem& problem = call.problem;
  problem.accumulate = accumulate_of(p.accumulate);
  problem.epilogue.activation = static_cast<Activation>(p.activation);
  problem.epilogue.gated = p.gated != 0;
  problem.epilogue.update = static_cast<Update>(p.update);
  problem.deterministic = p.any_order == 0;
  call.args.alpha = p.alpha;
  call.args.beta = p.beta;
  SLUICE_TRY(add_matrices(p, call));
  SLUICE_TRY(add_c(p, call));
  SLUICE_TRY(add_bias_and_scale_d(p, call));
  SLUICE_TRY(add_scales(p, call));
  problem = at_addresses(problem, call.args);
  return call;
}

// ---- packed weights

Result<void> check_tokens(const Named& x, i64 k) {
  SLUICE_TRY(check_present(x));
  if (x->ndim != 2 || x->shape[1] != k)
    return wrong_shape(x,
                       "two dimensions, m x " + std::to_string(k) + ": a column for each k of the weights");
  if (x->dtype == SLUICE_FP16 || x->dtype == SLUICE_BF16 || x->dtype == SLUICE_E4M3) return {};
  return wrong_type(x, "fp16, bf16 or e4m3; pass " + x.name() + ".half() or .bfloat16()");
}

/// Checks D, or a C with D's layout.
Result<void> check_rows(const Named& x, i64 m, i64 columns) {
  SLUICE_TRY(check_present(x));
  const i64 wanted[] = {m, columns};
  if (x->ndim != 2 || x->shape[0] != m || x->shape[1] != columns) return wrong_shape(x, list(wanted, 2));
  return {};
}

/// Returns `tensor` for one value and `vector` for one value per token. With a single token it is `vector`.
Result<ScaleMode> token_scales(const Named& scales, const Named& x) {
  if (scales.array == nullptr) return ScaleMode::none;
  SLUICE_TRY(check_present(scales));
  const sluice_array& s = *scales.array;
  const i64 m = x->shape[0], count = count_of(s), column[] = {m, 1};
  if (x->dtype != SLUICE_E4M3)
    return Error{ErrorCode::invalid_argument, scales.name() + " is given and " + x.name() + " is " +
                                                  type_text(x->dtype) +
                                                  ": only e4m3 tokens have scales; leave it out"};
  const bool of_tokens = count == m && (s.ndim == 1 || (s.ndim > 1 && s.shape[s.ndim - 1] == 1));
  if (count != 1 && !of_tokens)
    return wrong_shape(scales, list(&m, 1) + " or " + list(column, 2) +
                                   ", a scale for each token, or hold one value for all");
  if (s.dtype != SLUICE_FP32) return wrong_type(scales, "fp32; convert it");
  SLUICE_TRY(check_no_gaps(scales));
  return of_tokens ? ScaleMode::vector : ScaleMode::tensor;
}

/// Refuses fields that products with packed weights do not support.
Result<void> refuse_dense_parts(const sluice_product& p) {
  if (p.scale_b != nullptr)
    return Error{ErrorCode::invalid_argument,
                 named(p, kNameScaleB).name() +
                     " is given and the weights are packed: their scales are in the blob; leave it out"};
  if (p.update != SLUICE_SET || (p.alpha != 1.0f && p.alpha != 0.0f) || (p.c != nullptr && p.beta != 1.0f))
    return Error{ErrorCode::invalid_argument,
                 "a product of packed weights is D = act(scale_a A W^T + bias) + C: alpha and beta must be 1 "
                 "and update SLUICE_SET"};
  return {};
}

/// Adds the optional arrays of a packed product: bias, C, gamma and scales.
Result<void> add_extras(const sluice_product& p, ProductCall& call) {
  Problem& problem = call.problem;
  const Named c = named(p, kNameC), gamma = named(p, kNameGamma), d = named(p, kNameD);
  SLUICE_TRY(add_bias_and_scale_d(p, call));
  if (c.array != nullptr) {
    SLUICE_TRY(check_rows(c, problem.m, problem.n));
    if (c->dtype != d->dtype)
      return wrong_type(c, type_text(d->dtype) + " as " + d.name() + " is; convert it");
    SLUICE_TAKE(problem.c.ld, pitch_of(c));
    add_residual(problem);
    call.args.c = c->data;
  }
  if (gamma.array != nullptr) {
    SLUICE_TRY(check_present(gamma));
    if (gamma->ndim != 1 || gamma->shape[0] != problem.k)
      return wrong_shape(gamma, list(&problem.k, 1) + ", a factor for each column of the tokens");
    if (gamma->dtype != SLUICE_BF16) return wrong_type(gamma, "bf16; convert it");
    SLUICE_TRY(check_no_gaps(gamma));
    problem.norm_a = true;
    call.args.gamma = gamma->data;
    call.args.epsilon = p.epsilon;
  }
  return {};
}

Result<ProductCall> packed_call_of(const sluice_product& p) {
  const auto& [given_format, n, k] = *p.packed;
  SLUICE_TAKE(const WeightFormat format, format_of(given_format));
  SLUICE_TRY(numbers_of(format, n, k));
  SLUICE_TRY(refuse_dense_parts(p));
  const Named x = named(p, kNameA), blob = named(p, kNameB), d = named(p, kNameD);
  SLUICE_TRY(check_tokens(x, k));
  SLUICE_TRY(check_blob(blob, format, {n, k, p.gated != 0}));
  ProductCall call{.problem = {.m = x->shape[0], .n = n, .k = k}, .args = {.a = x->data, .b = blob->data}};
  Problem& problem = call.problem;
  problem.a.type = problem.b.type = static_cast<DType>(x->dtype);
  problem.b.packed = format;
  problem.epilogue.activation = static_cast<Activation>(p.activation);
  problem.epilogue.gated = p.gated != 0;
  SLUICE_TRY(check_rows(d, problem.m, d_columns(problem)));
  SLUICE_TRY(check_element(d));
  problem.d.type = static_cast<DType>(d->dtype);
  call.args.d = d->data;
  SLUICE_TAKE(problem.a.ld, pitch_of(x));
  SLUICE_TAKE(problem.d.ld, pitch_of(d, "give it its own memory"));
  SLUICE_TRY(add_extras(p, call));
  const Named scale_a = named(p, kNameScaleA);
  SLUICE_TAKE(problem.epilogue.scale_a, token_scales(scale_a, x));
  call.args.scale_a = scale_a.array != nullptr ? static_cast<const float*>(scale_a->data) : nullptr;
  return call;
}

}  // namespace

Named named(const sluice_product& p, ProductName which) {
  const sluice_array* const arrays[] = {p.a, p.b, p.c, p.d, p.bias, p.scale_a, p.scale_b, p.scale_d, p.gamma};
  const char* given = p.names != nullptr ? p.names[which] : nullptr;
  return {given != nullptr ? given : kFieldNames[which], arrays[which]};
}

Result<ProductCall> call_of(const sluice_product& p) {
  const Enumerator enumerators[] = {{"accumulate", p.accumulate, 2},
                                    {"activation", p.activation, SLUICE_SILU + 1},
                                    {"gated", p.gated, 2},
                                    {"update", p.update, 2},
                                    {"any_order", p.any_order, 2}};
  SLUICE_TRY(check_enumerators(enumerators));
  ProductCall found;
  SLUICE_TAKE(found, p.packed != nullptr ? packed_call_of(p) : dense_call_of(p));
  SLUICE_TAKE(found.memory, one_memory({named(p, kNameA), named(p, kNameB), named(p, kNameD),
                                        named(p, kNameC), named(p, kNameBias), named(p, kNameScaleA),
                                        named(p, kNameScaleB), named(p, kNameScaleD), named(p, kNameGamma)}));
  return found;
}

Error with_names(const sluice_product& p, Error error) {
  error = in_c_names(std::move(error));
  if (p.names == nullptr) return error;
  const std::string a = named(p, kNameA).name(), b = named(p, kNameB).name(), d = named(p, kNameD).name();
  error.message += " [A is " + a + ", B is " + b + ", D is " + d + "]";
  return error;
}

}  // namespace sluice::c_api
