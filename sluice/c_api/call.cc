// SPDX-License-Identifier: Apache-2.0
// See call.h. Checks run in this order: sizes, layouts, scales. Each may rely on those before it.
#include <sluice/c_api/call.h>

#include <string>

#include <sluice/c_api/handles.h>
#include <sluice/c_api/packing.h>
#include <sluice/run/ops/gemm.h>
#include <sluice/spec/packed.h>
#include <sluice/try.h>

namespace sluice::c_api {
namespace {

constexpr i64 kTmaStep = 16;  // bytes
/// The names of arrays without names, for a product and for the three convolutions.
constexpr const char* kNames[][SLUICE_OPERANDS] = {
    {"a", "b", "c", "d", "bias", "scale_a", "scale_b", "scale_d", "gamma", "groups", "scale_out",
     "row_factors"},
    {"x", "w", "c", "y", "bias", "scale_x", "scale_w", "scale_d", "gamma", "groups", "scale_out",
     "row_factors"},
    {"y", "w", "c", "x", "bias", "scale_x", "scale_w", "scale_d", "gamma", "groups", "scale_out",
     "row_factors"},
    {"y", "x", "c", "w", "bias", "scale_x", "scale_w", "scale_d", "gamma", "groups", "scale_out",
     "row_factors"}};
static_assert(gemm::kA == int{SLUICE_A} && gemm::kBias == int{SLUICE_BIAS} &&
              gemm::kScaleD == int{SLUICE_SCALE_D} && gemm::kGamma == int{SLUICE_GAMMA} &&
              gemm::kNamed == int{SLUICE_OPERANDS});

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

Result<void> add_c(const sluice_call& p, Call& call) {
  const Named c = named(p, SLUICE_C), d = named(p, SLUICE_D);
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

/// Adds the kind of groups. Returns whether there are groups. Error invalid_argument: a table without a kind.
Result<bool> add_kind_of_groups(const sluice_call& p, Call& call) {
  const Named table = named(p, SLUICE_GROUPS);
  call.problem.groups = groups_of(p.problem);
  if (reads_table(call.problem) || table.array == nullptr) return reads_table(call.problem);
  return Error{
      ErrorCode::invalid_argument,
      table.name() + " is given and groups = 0: say how it is read, as ends, counts, along k or slots"};
}
/// Adds the table of groups, which has a number for each of the first dimension's parts of `each`: matrices,
/// or with slots rows.
Result<void> add_table(const sluice_call& p, const Named& each, Call& call) {
  const Named table = named(p, SLUICE_GROUPS);
  SLUICE_TRY(check_present(table));
  if (table->dtype != SLUICE_INT32) return wrong_type(table, "int32: pass " + table.name() + ".int()");
  if (table->ndim != 1 || table->shape[0] != each->shape[0])
    return wrong_shape(table, list(each->shape, 1) + ", a number for each " +
                                  (by_slots(call.problem) ? "row of " : "matrix of ") + each.name());
  SLUICE_TRY(check_no_gaps(table));
  call.args.groups = static_cast<const int*>(table->data);
  return {};
}

/// Adds the groups of a product that is not packed. With groups of rows, A and D are one matrix and B has a
/// matrix per group. With groups along k, D has a matrix per group.
Result<void> add_groups(const sluice_call& p, Call& call) {
  SLUICE_TAKE(const bool grouped, add_kind_of_groups(p, call));
  if (!grouped) return {};
  const bool along_k = sums_groups(call.problem);
  const sluice_operand each = along_k ? SLUICE_D : SLUICE_B;  // has a matrix per group
  for (const sluice_operand which : {SLUICE_A, SLUICE_B, SLUICE_D}) {
    const Named x = named(p, which);
    if (x->ndim == (which == each ? 3 : 2)) continue;
    return wrong_shape(x, which == each ? "three dimensions: a matrix for each group"
                                        : "two dimensions: its rows are those of all groups");
  }
  return by_slots(call.problem) ? Result<void>() : add_table(p, named(p, each), call);
}

/// Returns the rows of D whose A has `rows` rows.
Result<i64> rows_of_d(const Named& a, i64 rows, const Problem& problem) {
  if (!by_slots(problem)) return rows;
  i64 slots = 0;
  if (problem.groups.pitch >= 1 && !__builtin_mul_overflow(rows, i64{problem.groups.pitch}, &slots))
    return slots;
  return Error{ErrorCode::invalid_argument, "group_pitch = " + std::to_string(problem.groups.pitch) +
                                                " and " + a.name() + " has " + std::to_string(rows) +
                                                " rows: it is the number of slots of each, at least 1"};
}

/// Adds the sizes and layouts of A, B and D to the call.
Result<void> add_matrices(const sluice_call& p, Call& call) {
  const Named a = named(p, SLUICE_A), b = named(p, SLUICE_B), d = named(p, SLUICE_D);
  for (const Named& x : {a, b, d}) SLUICE_TRY(check_matrix(x));
  SLUICE_TRY(add_groups(p, call));
  const View of_a = view_of(a), of_b = view_of(b), of_d = view_of(d);
  Problem& problem = call.problem;
  SLUICE_TAKE(problem.m, rows_of_d(a, of_a.rows, problem));
  problem.k = of_a.columns;
  problem.n = of_b.columns;
  const bool grouped = reads_table(problem);
  problem.batch = has_groups(problem) ? of_b.batch : sums_groups(problem) ? of_d.batch : of_a.batch;
  const bool as_a = grouped || (b->ndim == a->ndim && of_b.batch == problem.batch);
  if (of_b.rows != problem.k || !as_a) {
    const i64 each[] = {problem.batch, problem.k, problem.n};
    return wrong_shape(b, (has_groups(problem) ? list(each, 3) : wanted_shape(a, problem.k, problem.n)) +
                              ": its rows are the " + std::to_string(problem.k) + " columns of " + a.name());
  }
  const bool d_as_a = grouped || (d->ndim == a->ndim && of_d.batch == of_a.batch);
  if (of_d.rows != problem.m || of_d.columns != d_columns(problem) || !d_as_a)
    return wrong_shape(d, wanted_shape(a, problem.m, d_columns(problem)) +
                              (problem.epilogue.gated ? ": half of the columns of " + b.name() : ""));
  if (by_slots(problem)) SLUICE_TRY(add_table(p, d, call));  // which has a number for each row of D
  SLUICE_TAKE(problem.a, input(a, true));
  SLUICE_TAKE(problem.b, input(b, false));
  SLUICE_TAKE(problem.d, output(d));
  call.args.a = a->data;
  call.args.b = b->data;
  call.args.d = d->data;
  return {};
}

Result<void> add_dense(const sluice_call& p, Call& call) {
  if (p.operands[SLUICE_GAMMA] != nullptr)
    return Error{ErrorCode::invalid_argument,
                 named(p, SLUICE_GAMMA).name() +
                     " is given and the weights are not packed: norm the tokens before (sluice_norm, "
                     "rms_norm), or leave it out"};
  SLUICE_TRY(add_matrices(p, call));
  SLUICE_TRY(add_c(p, call));
  SLUICE_TRY(add_bias_and_scale_d(p, call.problem.n, call));
  SLUICE_TRY(add_scale_out(p, call));
  SLUICE_TRY(add_row_factors(p, call));
  return add_scales(p, call);
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

/// Refuses what products with packed weights do not support.
Result<void> refuse_dense_parts(const sluice_call& p) {
  for (const sluice_operand which : {SLUICE_SCALE_OUT, SLUICE_ROW_FACTORS})
    if (p.operands[which] != nullptr)
      return Error{ErrorCode::invalid_argument,
                   named(p, which).name() +
                       " is given and the weights are packed: quantise, or multiply, D "
                       "behind the product; leave it out"};
  if (p.operands[SLUICE_SCALE_B] != nullptr)
    return Error{ErrorCode::invalid_argument,
                 named(p, SLUICE_SCALE_B).name() +
                     " is given and the weights are packed: their scales are in the blob; leave it out"};
  if (p.problem.update != SLUICE_SET || p.alpha != 1.0f ||
      (p.operands[SLUICE_C] != nullptr && p.beta != 1.0f))
    return Error{ErrorCode::invalid_argument,
                 "a product of packed weights is D = act(scale_a A W^T + bias) + C: alpha and beta must be 1 "
                 "and update SLUICE_SET"};
  return {};
}

/// Adds the optional arrays of a packed product: bias, C, gamma and scales.
Result<void> add_extras(const sluice_call& p, Call& call) {
  Problem& problem = call.problem;
  const Named c = named(p, SLUICE_C), gamma = named(p, SLUICE_GAMMA), d = named(p, SLUICE_D);
  SLUICE_TRY(add_bias_and_scale_d(p, problem.n, call));
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

Result<void> add_packed(const sluice_call& p, Call& call) {
  const i64 n = p.problem.n, k = p.problem.k;
  Problem& problem = call.problem;
  SLUICE_TAKE(const WeightFormat format, format_of(p.problem.packed));
  SLUICE_TRY(numbers_of(format, n, k));
  SLUICE_TRY(refuse_dense_parts(p));
  const Named x = named(p, SLUICE_A), blob = named(p, SLUICE_B), d = named(p, SLUICE_D);
  SLUICE_TRY(check_tokens(x, k));
  SLUICE_TAKE(const bool grouped, add_kind_of_groups(p, call));
  SLUICE_TRY(check_blob(blob, format, {n, k, problem.epilogue.gated}, grouped));
  SLUICE_TAKE(problem.m, rows_of_d(x, x->shape[0], problem));
  problem.n = n;
  problem.k = k;
  problem.a.type = problem.b.type = static_cast<DType>(x->dtype);
  problem.b.packed = format;
  SLUICE_TRY(check_rows(d, problem.m, d_columns(problem)));
  SLUICE_TRY(check_element(d));
  if (grouped) {
    SLUICE_TRY(add_table(p, by_slots(problem) ? d : blob, call));
    problem.batch = blob->shape[0];
  }
  problem.d.type = static_cast<DType>(d->dtype);
  SLUICE_TAKE(problem.a.ld, pitch_of(x));
  SLUICE_TAKE(problem.d.ld, pitch_of(d, "give it its own memory"));
  call.args.a = x->data;
  call.args.b = blob->data;
  call.args.d = d->data;
  SLUICE_TRY(add_extras(p, call));
  const Named scale_a = named(p, SLUICE_SCALE_A);
  SLUICE_TAKE(problem.epilogue.scale_a, token_scales(scale_a, x));
  call.args.scale_a = scale_a.array != nullptr ? static_cast<const float*>(scale_a->data) : nullptr;
  return {};
}

}  // namespace

Result<void> check_element(const Named& x) {
  if (x->dtype >= 0 && x->dtype < kDTypeCount) return {};
  return Error{ErrorCode::invalid_type,
               x.name() +
                   " has an element type that no kernel takes: it must be bf16, fp16, fp32, e4m3 or e5m2; "
                   "convert it"};
}

Named named(const sluice_call& p, sluice_operand which) {
  const char* given = p.names[which];
  const int32_t op = p.problem.conv.op;
  const bool known = op > SLUICE_PRODUCT && op <= SLUICE_WGRAD;
  return {given != nullptr ? given : kNames[known ? op : SLUICE_PRODUCT][which], p.operands[which]};
}

Result<void> check_call(const sluice_call* call) {
  if (call == nullptr) return null_argument("call");
  if (call->bytes == sizeof(sluice_call)) return {};
  return Error{ErrorCode::invalid_argument,
               "call.bytes = " + std::to_string(call->bytes) + " must be " +
                   std::to_string(sizeof(sluice_call)) +
                   ", the size of this library's sluice_call: begin with sluice_new_call(), and compile "
                   "against the library's own c_api.h"};
}

Result<Problem> problem_of(const sluice_call* call) {
  SLUICE_TRY(check_call(call));
  return problem_of(call->problem);
}

Result<Call> call_of(const sluice_call& p) {
  const sluice_problem& given = p.problem;
  const Enumerator enumerators[] = {{"accumulate", given.accumulate, 2},
                                    {"activation", given.activation, SLUICE_ACTIVATIONS},
                                    {"gated", given.gated, 2},
                                    {"update", given.update, 2},
                                    {"any_order", given.any_order, 2},
                                    {"packed.type", given.packed.type, kWeightTypes + 1},
                                    {"groups", given.groups, SLUICE_SLOTS + 1},
                                    {"op", given.conv.op, SLUICE_WGRAD + 1}};
  SLUICE_TRY(check_enumerators(enumerators));
  Call call;
  Epilogue& epilogue = call.problem.epilogue;
  epilogue.activation = static_cast<Activation>(given.activation);
  epilogue.gated = given.gated != 0;
  epilogue.update = static_cast<Update>(given.update);
  call.problem.accumulate = accumulate_of(given.accumulate);
  call.problem.deterministic = given.any_order == 0;
  call.args.alpha = p.alpha;
  call.args.beta = p.beta;
  call.args.names = p.names;
  if (p.workspace != nullptr) call.args.workspace = p.workspace->workspace.view();
  SLUICE_TRY(given.conv.op != SLUICE_PRODUCT          ? add_convolution(p, call)
             : given.packed.type != SLUICE_NOT_PACKED ? add_packed(p, call)
                                                      : add_dense(p, call));
  const Named first = named(p, SLUICE_A);
  call.memory = ordinal_of(*first.array);
  for (int i = 0; i < SLUICE_OPERANDS; ++i)
    if (const Named x = named(p, static_cast<sluice_operand>(i)); x.array != nullptr)
      SLUICE_TRY(check_same_memory(x, first));
  return call;
}

Result<Call> checked_call(const sluice_call& from) {
  SLUICE_TAKE(Call call, call_of(from));
  call.problem = at_addresses(call.problem, call.args);
  const Result<Problem> checked = check_problem(call.problem);
  if (!checked) return gemm::with_names(checked.error(), names_of(call.problem.conv), from.names);
  return call;
}

Result<sluice_problem> described(const sluice_call& from) {
  SLUICE_TAKE(const Call call, checked_call(from));
  sluice_problem values = values_of(call.problem);
  if (from.problem.conv.op != SLUICE_PRODUCT) {
    // Also where the product itself is a plain one without im2col.
    SLUICE_TAKE(values.conv, conv_of_arrays(from));
  }
  return values;
}

Result<void> run(sluice_device& device, const sluice_call& from, Stream stream) {
  SLUICE_TAKE(const Call call, call_of(from));
  const Device& on = device.session.device();
  SLUICE_TRY(check_on(named(from, SLUICE_A), call.memory, on.ordinal()));
  return ops::run<ops::Gemm>(on, call.problem, call.args, stream,
                             "call prepare() (sluice_make_ready) for it, or run it once, before the capture");
}

}  // namespace sluice::c_api
