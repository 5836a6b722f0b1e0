// SPDX-License-Identifier: Apache-2.0
// See arrays.h. Sizes come first, then layouts, then scales, so that each check may rely on those before it.
#include <sluice/c_api/arrays.h>

#include <string>

#include <sluice/c_api/array_shape.h>
#include <sluice/host/text/quoted.h>

namespace sluice::c_api {
namespace {

static_assert(SLUICE_BF16 == static_cast<int>(DType::bf16) && SLUICE_FP16 == static_cast<int>(DType::fp16) &&
              SLUICE_FP32 == static_cast<int>(DType::fp32) && SLUICE_E4M3 == static_cast<int>(DType::e4m3) &&
              SLUICE_E5M2 == static_cast<int>(DType::e5m2) && kDTypeCount == 5);
static_assert(SLUICE_SCALE_TENSOR == static_cast<int>(ScaleMode::tensor) &&
              SLUICE_SCALE_VECTOR == static_cast<int>(ScaleMode::vector) &&
              SLUICE_SCALE_BLOCK == static_cast<int>(ScaleMode::block));
static_assert(SLUICE_SILU == static_cast<int>(Activation::silu) &&
              SLUICE_PROMOTED == static_cast<int>(Accumulate::promoted) &&
              SLUICE_ADD == static_cast<int>(Update::add) && SLUICE_MN_MAJOR == static_cast<int>(Major::mn));

constexpr i64 kTmaStep = 16;  // bytes

enum Name { kNameA, kNameB, kNameC, kNameD, kNameBias, kNameScaleA, kNameScaleB };
constexpr const char* kFieldNames[] = {"a", "b", "c", "d", "bias", "scale_a", "scale_b"};

std::string name(const sluice_product& product, Name which) {
  const char* given = product.names != nullptr ? product.names[which] : nullptr;
  return escaped(given != nullptr ? given : kFieldNames[which]);
}

std::string strides_text(const sluice_array& x) {
  return x.strides != nullptr ? list(x.strides, x.ndim) : "packed";
}

/// The last two indices of a matrix, and the batch before them.
struct View {
  i64 rows, columns, batch;
  i64 row_stride, column_stride, batch_stride;
};
View view_of(const sluice_array& x) {
  const int r = x.ndim - 2, c = x.ndim - 1;
  const bool batched = x.ndim == 3;
  return {.rows = x.shape[r],
          .columns = x.shape[c],
          .batch = batched ? x.shape[0] : 1,
          .row_stride = stride(x, r),
          .column_stride = stride(x, c),
          .batch_stride = batched ? stride(x, 0) : 0};
}

/// Distance between neighbours of the strided index, for a matrix whose other index has stride 1: 0 (packed)
/// where there is but one, since frameworks leave any number there.
i64 ld(i64 count, i64 stride) {
  return count <= 1 ? 0 : stride;
}
/// The same for the batch.
i64 batch_stride(const View& v) {
  return v.batch <= 1 ? 0 : v.batch_stride;
}

Result<void> check_array(const sluice_product& p, const sluice_array* x, Name which) {
  if (x == nullptr) return Error{ErrorCode::invalid_argument, name(p, which) + " is missing: pass an array"};
  if (Result<void> shape = check_shape(name(p, which), *x); !shape) return shape;
  if (x->dtype < 0 || x->dtype >= kDTypeCount)
    return Error{ErrorCode::invalid_type, name(p, which) +
                                              " has an element type that no kernel takes: it must be "
                                              "bf16, fp16, fp32, e4m3 or e5m2; convert it"};
  return {};
}

Result<void> check_matrix(const sluice_product& p, const sluice_array* x, Name which) {
  if (Result<void> array = check_array(p, x, which); !array) return array;
  if (x->ndim != 2 && x->ndim != 3)
    return Error{ErrorCode::invalid_size, name(p, which) + " has shape " + shape_text(*x) +
                                              ": it must be a matrix, or a batch of them (three dimensions)"};
  return {};
}

Error wrong_shape(const sluice_product& p, Name which, const sluice_array& got, const std::string& wanted) {
  return {ErrorCode::invalid_size,
          name(p, which) + " has shape " + shape_text(got) + " and must have " + wanted};
}

Error wrong_layout(const sluice_product& p, Name which, const sluice_array& got, const std::string& rule) {
  return {ErrorCode::invalid_stride, name(p, which) + " has shape " + shape_text(got) + " and strides " +
                                         strides_text(got) + ": " + rule + " (nothing is copied silently)"};
}

/// A batch that was expanded, all of whose matrices lie in one place: 0 is packed in a Problem. Also one that
/// runs backwards.
bool batch_does_not_step(const View& v) {
  return v.batch > 1 && v.rows > 0 && v.columns > 0 && v.batch_stride <= 0;
}

/// A or B of a problem.
Result<Matrix> input(const sluice_product& p, Name which, const sluice_array& x, bool is_a) {
  const View v = view_of(x);
  if (batch_does_not_step(v))
    return wrong_layout(
        p, which, x, "the batch must step from matrix to matrix; pass " + name(p, which) + ".contiguous()");
  const i64 k_stride = is_a ? v.column_stride : v.row_stride, k = is_a ? v.columns : v.rows;
  const i64 mn_stride = is_a ? v.row_stride : v.column_stride, mn = is_a ? v.rows : v.columns;
  const DType type = static_cast<DType>(x.dtype);
  const bool k_major = (k_stride == 1 || k <= 1) && (mn <= 1 || mn_stride >= k);
  const bool mn_major = (mn_stride == 1 || mn <= 1) && (k <= 1 || k_stride >= mn);
  // A single row or column can be seen either way, and the copy engine may be able to address but one.
  const bool k_addressable = mn <= 1 || mn_stride % (kTmaStep / bytes_of(type)) == 0;
  if (k_major && (k_addressable || !mn_major || !is_16bit(type)))
    return Matrix{type, Major::k, ld(mn, mn_stride), batch_stride(v)};
  if (mn_major && is_16bit(type)) return Matrix{type, Major::mn, ld(k, k_stride), batch_stride(v)};
  const std::string n = name(p, which);
  if (mn_major)
    return wrong_layout(p, which, x,
                        std::string("fp8 operands are multiplied with k contiguous: ") +
                            (is_a ? "row-major; pass " + n + ".contiguous()"
                                  : "column-major, as weight.t() is; pass " + n + ".t().contiguous().t()"));
  return wrong_layout(p, which, x,
                      "one index must be contiguous and the other step over it; pass " + n + ".contiguous()");
}

/// C or D: row-major.
Result<Matrix> output(const sluice_product& p, Name which, const sluice_array& x) {
  const View v = view_of(x);
  if (batch_does_not_step(v))
    return wrong_layout(p, which, x, "the batch must step from matrix to matrix; give each its own memory");
  if ((v.column_stride != 1 && v.columns > 1) || (v.rows > 1 && v.row_stride < v.columns))
    return wrong_layout(p, which, x, "it must be row-major, columns contiguous and rows apart");
  return Matrix{static_cast<DType>(x.dtype), Major::k, ld(v.rows, v.row_stride), batch_stride(v)};
}

/// What a scale's shape allows.
struct ScaleFit {
  bool tensor = false, vector = false, block = false;
};

bool has_shape(const sluice_array& x, i64 batch, i64 rows, i64 columns) {
  if (x.ndim == 3) return x.shape[0] == batch && x.shape[1] == rows && x.shape[2] == columns;
  return x.ndim == 2 && batch == 1 && x.shape[0] == rows && x.shape[1] == columns;
}

/// [n/128][k/128] in memory, whichever way round the caller looks at it.
bool is_block_b(const sluice_array& x, const Problem& p) {
  const i64 rows = scale_blocks(p.n), columns = scale_blocks(p.k);
  if (has_shape(x, p.batch, rows, columns) && is_packed(x)) return true;
  if (!has_shape(x, p.batch, columns, rows)) return false;
  const View v = view_of(x);
  return (v.columns <= 1 || v.column_stride == v.rows) && (v.rows <= 1 || v.row_stride == 1) &&
         (v.batch <= 1 || v.batch_stride == v.rows * v.columns);
}

/// `length`: m of scale_a, n of scale_b.
bool is_vector(const sluice_array& x, i64 length, bool as_column) {
  if (!is_packed(x)) return false;
  if (x.ndim == 1) return x.shape[0] == length;
  return x.ndim == 2 && x.shape[as_column ? 0 : 1] == length && x.shape[as_column ? 1 : 0] == 1;
}

Error wrong_scale(const sluice_product& p, Name which, const sluice_array& got, const Problem& problem) {
  const bool is_a = which == kNameScaleA;
  const i64 k_blocks = scale_blocks(problem.k), n_blocks = scale_blocks(problem.n);
  const i64 block_shape[] = {is_a ? problem.m : n_blocks, k_blocks};
  const i64 turned_shape[] = {k_blocks, n_blocks}, one[] = {1};
  const i64 vector_shape[] = {is_a ? problem.m : 1, is_a ? 1 : problem.n};
  return {ErrorCode::invalid_size,
          name(p, which) + " has shape " + shape_text(got) + " and strides " + strides_text(got) +
              " and must be fp32 of one of these: " + list(one, 1) + " for the whole matrix, " +
              list(vector_shape, 2) + " one for each " + (is_a ? "row" : "column") + ", or (fp8) " +
              list(block_shape, 2) + " for blocks of " + (is_a ? "1 x 128" : "128 x 128") +
              (is_a ? ", row-major: pass " + name(p, which) + ".contiguous() if it is stored by columns"
                    : ", row-major, or its .t(), which is " + list(turned_shape, 2))};
}

Result<ScaleFit> fit_of(const sluice_product& p, Name which, const sluice_array& x, const Problem& problem) {
  if (Result<void> array = check_array(p, &x, which); !array) return array.error();
  if (x.dtype != SLUICE_FP32)
    return Error{ErrorCode::invalid_type, name(p, which) + " is " + name_of(static_cast<DType>(x.dtype)) +
                                              " and must be fp32: pass " + name(p, which) + ".float()"};
  const bool is_a = which == kNameScaleA;
  ScaleFit fit;
  fit.tensor = count_of(x) == 1;
  fit.vector = is_vector(x, is_a ? problem.m : problem.n, is_a);
  fit.block = is_fp8(problem.a.type) &&
              (is_a ? has_shape(x, problem.batch, problem.m, scale_blocks(problem.k)) && is_packed(x)
                    : is_block_b(x, problem));
  if (!fit.tensor && !fit.vector && !fit.block) return wrong_scale(p, which, x, problem);
  return fit;
}

/// The plainest way to read both: values mean the same wherever two ways are possible.
ScaleMode mode_of(const ScaleFit& fit) {
  if (fit.tensor) return ScaleMode::tensor;
  return fit.vector ? ScaleMode::vector : ScaleMode::block;
}

Result<void> add_scales(const sluice_product& p, ProblemAndArgs& result) {
  Problem& problem = result.problem;
  ScaleFit a, b;
  struct Side {
    Name name;
    const sluice_array* array;
    ScaleFit& fit;
    const float*& values;
    ScaleMode& mode;
  };
  const Side sides[] = {{kNameScaleA, p.scale_a, a, result.args.scale_a, problem.epilogue.scale_a},
                        {kNameScaleB, p.scale_b, b, result.args.scale_b, problem.epilogue.scale_b}};
  for (const Side& side : sides) {
    if (side.array == nullptr) continue;
    const Result<ScaleFit> fit = fit_of(p, side.name, *side.array, problem);
    if (!fit) return fit.error();
    side.fit = *fit;
    side.values = static_cast<const float*>(side.array->data);
    side.mode = mode_of(*fit);
  }
  // Blocks on one side need blocks on the other; a side of few values may be read either way.
  const bool a_blocks = problem.epilogue.scale_a == ScaleMode::block;
  const bool b_blocks = problem.epilogue.scale_b == ScaleMode::block;
  if (a_blocks == b_blocks) return {};
  if (a_blocks ? b.block : a.block) {
    problem.epilogue.scale_a = problem.epilogue.scale_b = ScaleMode::block;
    return {};
  }
  const Name blocks = a_blocks ? kNameScaleA : kNameScaleB, other = a_blocks ? kNameScaleB : kNameScaleA;
  const sluice_array* got = a_blocks ? p.scale_b : p.scale_a;
  if (got == nullptr)
    return Error{ErrorCode::invalid_argument, name(p, other) + " is missing and " + name(p, blocks) +
                                                  " holds block scales: pass those of the other side too"};
  return Error{ErrorCode::invalid_size, wrong_scale(p, other, *got, problem).message + "; " +
                                            name(p, blocks) + " holds block scales, so this must too"};
}

Result<void> add_bias(const sluice_product& p, ProblemAndArgs& result) {
  if (p.bias == nullptr) return {};
  const sluice_array& bias = *p.bias;
  if (Result<void> array = check_array(p, p.bias, kNameBias); !array) return array;
  const i64 n = result.problem.n;
  if (count_of(bias) != n || !(bias.ndim == 1 || (bias.ndim == 2 && bias.shape[0] == 1)))
    return wrong_shape(p, kNameBias, bias, list(&n, 1) + ", a value for each column");
  if (!is_packed(bias)) return wrong_layout(p, kNameBias, bias, "it must be contiguous");
  if (is_fp8(static_cast<DType>(bias.dtype)))
    return Error{ErrorCode::invalid_type, name(p, kNameBias) + " is " +
                                              name_of(static_cast<DType>(bias.dtype)) +
                                              " and must be bf16, fp16 or fp32; convert it"};
  result.problem.epilogue.bias = Bias::column;
  result.problem.epilogue.bias_type = static_cast<DType>(bias.dtype);
  result.args.bias = bias.data;
  return {};
}

Result<void> add_residual(const sluice_product& p, ProblemAndArgs& result) {
  if (p.c == nullptr) return {};
  if (Result<void> matrix = check_matrix(p, p.c, kNameC); !matrix) return matrix;
  const View c = view_of(*p.c);
  if (p.c->ndim != p.d->ndim || c.rows != result.problem.m || c.columns != result.problem.n ||
      c.batch != result.problem.batch)
    return wrong_shape(p, kNameC, *p.c, shape_text(*p.d) + " as " + name(p, kNameD) + " has");
  Result<Matrix> matrix = output(p, kNameC, *p.c);
  if (!matrix) return matrix.error();
  result.problem.c = *matrix;
  result.problem.epilogue.residual = true;
  result.problem.epilogue.c_type = matrix->type;
  result.args.c = p.c->data;
  return {};
}

struct Present {
  const sluice_array* array;
  Name name;
};

/// One GPU for all, or none.
Result<int> device_of(const sluice_product& p) {
  const Present present[] = {{p.a, kNameA},           {p.b, kNameB},       {p.d, kNameD},
                             {p.c, kNameC},           {p.bias, kNameBias}, {p.scale_a, kNameScaleA},
                             {p.scale_b, kNameScaleB}};
  const int first = ordinal_of(*p.a);
  for (const Present& x : present) {
    if (x.array == nullptr || ordinal_of(*x.array) == first) continue;
    return Error{ErrorCode::wrong_device, name(p, x.name) + " is in " + place_text(ordinal_of(*x.array)) +
                                              " and " + name(p, kNameA) + " in " + place_text(first) +
                                              ": all must be on one GPU; move it"};
  }
  return first;
}

}  // namespace

Result<ProblemAndArgs> problem_of(const sluice_product& p) {
  const Present matrices[] = {{p.a, kNameA}, {p.b, kNameB}, {p.d, kNameD}};
  for (const Present& x : matrices)
    if (const Result<void> matrix = check_matrix(p, x.array, x.name); !matrix) return matrix.error();
  const View a = view_of(*p.a), b = view_of(*p.b), d = view_of(*p.d);
  ProblemAndArgs result;
  Problem& problem = result.problem;
  problem.m = a.rows;
  problem.k = a.columns;
  problem.n = b.columns;
  problem.batch = a.batch;
  if (b.rows != problem.k || p.b->ndim != p.a->ndim || b.batch != problem.batch) {
    const i64 wanted[] = {a.batch, a.columns, b.columns};
    return wrong_shape(p, kNameB, *p.b,
                       list(p.a->ndim == 3 ? wanted : wanted + 1, p.a->ndim) + ": its rows are the " +
                           std::to_string(problem.k) + " columns of " + name(p, kNameA));
  }
  if (d.rows != problem.m || d.columns != problem.n || p.d->ndim != p.a->ndim || d.batch != problem.batch) {
    const i64 wanted[] = {a.batch, a.rows, b.columns};
    return wrong_shape(p, kNameD, *p.d, list(p.a->ndim == 3 ? wanted : wanted + 1, p.a->ndim));
  }
  const Result<Matrix> a_matrix = input(p, kNameA, *p.a, true);
  if (!a_matrix) return a_matrix.error();
  const Result<Matrix> b_matrix = input(p, kNameB, *p.b, false);
  if (!b_matrix) return b_matrix.error();
  const Result<Matrix> d_matrix = output(p, kNameD, *p.d);
  if (!d_matrix) return d_matrix.error();
  problem.a = *a_matrix;
  problem.b = *b_matrix;
  problem.d = *d_matrix;
  const struct {
    const char* name;
    i32 value, last;
  } enumerators[] = {{"accumulate", p.accumulate, SLUICE_PROMOTED},
                     {"activation", p.activation, SLUICE_SILU},
                     {"update", p.update, SLUICE_ADD},
                     {"any_order", p.any_order, 1}};
  for (const auto& e : enumerators)
    if (e.value < 0 || e.value > e.last)
      return Error{ErrorCode::invalid_argument, std::string(e.name) + " = " + std::to_string(e.value) +
                                                    " must be in 0.." + std::to_string(e.last)};
  problem.accumulate = static_cast<Accumulate>(p.accumulate);
  problem.epilogue.activation = static_cast<Activation>(p.activation);
  problem.epilogue.update = static_cast<Update>(p.update);
  problem.deterministic = p.any_order == 0;
  result.args.a = p.a->data;
  result.args.b = p.b->data;
  result.args.d = p.d->data;
  result.args.alpha = p.alpha;
  result.args.beta = p.beta;
  if (const Result<void> added = add_residual(p, result); !added) return added.error();
  if (const Result<void> added = add_bias(p, result); !added) return added.error();
  if (const Result<void> added = add_scales(p, result); !added) return added.error();
  const Result<int> device = device_of(p);
  if (!device) return device.error();
  result.device = *device;
  return result;
}

Result<void> check_device_of(const sluice_product& p, int ordinal) {
  const sluice_array& a = *p.a;
  if (a.device_type == SLUICE_ON_CUDA && a.device == ordinal) return {};
  if (a.device_type != SLUICE_ON_CUDA)
    return Error{ErrorCode::wrong_device,
                 name(p, kNameA) +
                     " is in host memory, and products are computed on a GPU: move all "
                     "arrays to one"};
  return Error{ErrorCode::wrong_device, name(p, kNameA) + " is on cuda:" + std::to_string(a.device) +
                                            " and the call is for cuda:" + std::to_string(ordinal)};
}

Error with_names(const sluice_product& p, Error error) {
  if (p.names != nullptr)
    error.message +=
        " [A is " + name(p, kNameA) + ", B is " + name(p, kNameB) + ", D is " + name(p, kNameD) + "]";
  return error;
}

}  // namespace sluice::c_api
