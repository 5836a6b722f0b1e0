// SPDX-License-Identifier: Apache-2.0
// Implements problem_checks.h. Each check may rely on the checks before it, so that no arithmetic here
// overflows.
#include <sluice/plan/dense/problem_checks.h>

#include <algorithm>

#include <sluice/kernels/registry.h>
#include <sluice/plan/dense/conv_checks.h>
#include <sluice/plan/field_checks.h>
#include <sluice/plan/limits.h>
#include <sluice/plan/packed/packed_problem_checks.h>
#include <sluice/spec/conv_problem.h>
#include <sluice/try.h>

namespace sluice {
namespace {

/// One matrix with its names in messages. `inner`: its contiguous extent; `outer`: its number of rows in
/// memory.
struct Operand {
  const char* name;        // "A"
  const char* ld_name;     // "a.ld"
  const char* inner_name;  // the size that is the packed ld
  Matrix matrix;
  DType type;
  i64 inner, outer, batch;
  bool must_be_aligned;  // true for fp8 inputs, which only TMA can load

  bool empty() const { return inner == 0 || outer == 0 || batch == 0; }
  i64 ld() const { return ld_of(matrix, inner); }
  std::string batch_name() const { return std::string(ld_name, 2) + "batch_stride"; }
};

bool multiply(i64 a, i64 b, i64& product) {
  return !__builtin_mul_overflow(a, b, &product);
}
bool add(i64 a, i64 b, i64& sum) {
  return !__builtin_add_overflow(a, b, &sum);
}

Result<void> check_sizes(const Problem& p) {
  const struct {
    const char* name;
    i64 value;
  } sizes[] = {{"m", p.m}, {"n", p.n}, {"k", p.k}, {"batch", p.batch}};
  for (const auto& [name, value] : sizes) {
    if (value < 0)
      return Error{ErrorCode::invalid_size, std::string(name) + " = " + std::to_string(value) +
                                                " must not be negative: give 0 or more"};
    if (value > kMaxDenseExtent)
      return Error{ErrorCode::invalid_size, std::string(name) + " = " + std::to_string(value) +
                                                " must be at most " + std::to_string(kMaxDenseExtent) +
                                                " (2^31 - 4096: tile offsets are 32-bit); split the problem"};
  }
  return {};
}

Error bad_type(const std::string& message) {
  return Error{ErrorCode::invalid_type, message};
}

/// Checks groups along k, whose rows are zeroed in shared memory where a group ends.
Result<void> check_groups_along_k(const Problem& p) {
  const Epilogue& e = p.epilogue;
  if (!is_16bit(p.a.type))
    return bad_type(std::string("A is ") + name_of(p.a.type) +
                    " and groups.kind is along_k: it must be bf16 or fp16; convert it");
  for (const auto& [name, matrix] : {std::pair{"A", &p.a}, {"B", &p.b}})
    if (matrix->major != Major::mn)
      return bad_type(std::string(name) +
                      " is k-major and groups.kind is along_k: it must be mn-major, with a row "
                      "in memory for each k; store its transpose");
  if (e.bias != Bias::none || e.gated || e.scale_a == ScaleMode::vector || e.scale_b == ScaleMode::vector)
    return bad_type(
        "groups.kind is along_k: the epilogue has no bias, no gate and no vectors of scales then; "
        "leave them out");
  return {};
}

/// Checks groups by slots, which plain kernels multiply.
Result<void> check_slots(const Problem& p) {
  if (p.b.major != Major::k)
    return bad_type("B is mn-major and groups.kind is slots: it must be k-major; store B as n rows of k");
  if (writes_scales(p.epilogue) || p.epilogue.row_factors)
    return bad_type(
        "groups.kind is slots: the epilogue computes no block scales of D and has no row_factors then; "
        "quantise D in a kernel of its own, and weight rows where they are added up");
  return {};
}

/// Checks the groups of rows. Their numbers are on the device, and the kernel clamps them.
Result<void> check_groups(const Problem& p) {
  SLUICE_TRY(check_group_numbers(p));
  if (!reads_table(p)) return {};
  if (sums_groups(p)) return check_groups_along_k(p);
  if (p.a.major != Major::k)
    return bad_type("A is mn-major and its rows are groups: it must be k-major; store A as m rows of k");
  if (adds(p.epilogue))
    return bad_type(
        "D is updated and its rows are groups: it must be overwritten; add in a kernel of its own");
  if (by_slots(p)) return check_slots(p);
  return {};
}

/// Checks that nothing is asked for that only kernels for packed weights do.
Result<void> check_not_packed(const Problem& p) {
  for (const Matrix* x : {&p.a, &p.c, &p.d})
    if (x->packed.type != WeightType::none) return bad_type("A, C or D is packed: only B can be; unpack it");
  if (p.norm_a)
    return bad_type("norm_a is for packed weights, and B is not packed: norm A by a Norm in front");
  if (p.epilogue.residual_last)
    return bad_type(
        "residual_last is for packed weights, and B is not packed: leave it out, and C is added before the "
        "activation");
  return {};
}

Result<void> check_gated(const Problem& p) {
  if (clamps(p.epilogue.activation) && !p.epilogue.gated)
    return bad_type(
        "activation is clamped_swiglu and the product is not gated: it must be, with gate and up in the two "
        "halves of B's rows; set gated, or use another activation");
  if (!p.epilogue.gated) return {};
  if (p.n % kGatedGroup != 0)
    return Error{ErrorCode::invalid_size,
                 "n = " + std::to_string(p.n) + " of a gated product must be a multiple of " +
                     std::to_string(kGatedGroup) + ": it is the rows of B, gate and up; pad both halves"};
  if (p.epilogue.residual || adds(p.epilogue))
    return bad_type(
        "the product is gated and D takes a residual or an update: it must be overwritten; add in a kernel "
        "of its "
        "own");
  if (is_block_scaled(p.epilogue) && p.n % kGatedScaleUnit != 0)
    return Error{ErrorCode::invalid_size,
                 "n = " + std::to_string(p.n) +
                     " of a gated product with block scales must be a multiple of " +
                     std::to_string(kGatedScaleUnit) +
                     ": no 128 rows of B may have some of the gate and some of up; pad both halves"};
  if (p.b.major != Major::k)
    return bad_type("the product is gated and B is mn-major: it must be k-major; store B as n rows of k");
  return {};
}

/// Checks the scales of D and the factors of rows.
Result<void> check_results(const Problem& p) {
  const ScaleMode scale_d = p.epilogue.scale_d;
  if (scale_d == ScaleMode::vector || scale_d == ScaleMode::vector128)
    return bad_type(
        std::string("scale_d is ") + name_of(scale_d) +
        ": it must be none, tensor (one for all of D) or block (computed for each 128 columns of a "
        "row); quantise whole rows by a kernel of their own");
  if (scale_d != ScaleMode::none && p.d.type != DType::e4m3)
    return bad_type(std::string("D is ") + name_of(p.d.type) +
                    " and there is a scale_d: it must be e4m3; leave out the scale, or store e4m3");
  if (writes_scales(p.epilogue) && is_conv(p.conv))
    return bad_type(
        "scale_d is block and the product is a convolution: it must be none or tensor; quantise y by a "
        "kernel "
        "of its own");
  if (!p.epilogue.row_factors) return {};
  if (is_conv(p.conv))
    return bad_type(
        "the product is a convolution and has row_factors: leave them out, or multiply y by them");
  if (adds(p.epilogue))
    return bad_type(
        "update is add and there are row_factors: the result must be stored; multiply rows of A instead, or "
        "use "
        "set");
  return {};
}

/// Checks scales of B that each column has. Call before the other checks of scales.
Result<void> check_each_column(const Problem& p) {
  const Epilogue& e = p.epilogue;
  if (e.scale_a == ScaleMode::vector128)
    return bad_type("scale_a is vector128: that is B's; set scale_a to block, which has a scale per row");
  if (!scales_each_column(e)) return {};
  const auto refuse = [](const std::string& what) { return bad_type("scale_b is vector128 and " + what); };
  if (!is_block_scaled(e))
    return refuse(std::string("scale_a is ") + name_of(e.scale_a) + ": it must be block");
  if (!scales_by_columns(p))
    return refuse("scale_a lies by rows (scale_a_ld = 0): it must lie by columns; store it as its transpose");
  if (has_groups(p)) return refuse("rows belong to groups: it must be block; or multiply group by group");
  if (e.gated) return refuse("the product is gated: scale_b must be block");
  return {};
}

/// Checks the scales of A that are stored by columns. Call behind the checks of sizes, groups and scales.
Result<void> check_scale_columns(const Problem& p) {
  if (!scales_by_columns(p)) return {};
  const std::string given = "scale_a_ld = " + std::to_string(p.scale_a_ld);
  if (!is_block_scaled(p.epilogue))
    return Error{ErrorCode::invalid_argument,
                 given + " and scale_a is " + name_of(p.epilogue.scale_a) +
                     ": only block scales are stored by columns; leave it out, or set scale_a to block"};
  const i64 rows = scale_a_rows(p), columns = scale_a_matrices(p) * scale_blocks(p.k);
  if (p.scale_a_ld < std::max<i64>(rows, 1))
    return Error{ErrorCode::invalid_stride,
                 given + " must be " +
                     (scales_each_column(p.epilogue) ? "at least " : "0 (scales by rows), or at least ") +
                     std::to_string(std::max<i64>(rows, 1)) +
                     (groups_have_scales(p) ? ", the rows of a group" : ", the rows of A") +
                     ": columns of scale_a would overlap"};
  if (i64 all = 0; !multiply(p.scale_a_ld, columns, all) || !multiply(all, bytes_of(DType::fp32), all))
    return Error{ErrorCode::invalid_size,
                 "scale_a spans more than 2^63 bytes (" + given + ", " + std::to_string(columns) +
                     " columns): move the columns closer together, or split the problem"};
  return {};
}

Result<void> check_types(const Problem& p) {
  const std::string a = name_of(p.a.type), b = name_of(p.b.type), d = name_of(p.d.type);
  if (!is_input(p.a.type) || !is_input(p.b.type))
    return bad_type("A is " + a + " and B is " + b + ": each must be bf16, fp16, e4m3 or e5m2; convert it");
  if (!is_output(p.d.type)) return bad_type("D is " + d + ": it must be bf16, fp16, fp32 or e4m3");
  if (is_fp8(p.a.type) != is_fp8(p.b.type))
    return bad_type("A is " + a + " and B is " + b + ": both must be 8-bit or both 16-bit; convert one");
  if (is_16bit(p.a.type) && p.a.type != p.b.type)
    return bad_type("A is " + a + " and B is " + b + ": 16-bit A and B must have one type; convert one");
  if (is_fp8(p.a.type) && p.a.major != Major::k)
    return bad_type("A is " + a + " and mn-major: fp8 operands must be k-major; store A as m rows of k");
  if (is_fp8(p.b.type) && p.b.major != Major::k)
    return bad_type("B is " + b + " and mn-major: fp8 operands must be k-major; store B as n rows of k");
  if (p.c.major != Major::k || p.d.major != Major::k)
    return bad_type("C and D must be row-major (leave major at k): for a column-major D swap A with B");
  const ScaleMode scale_a = p.epilogue.scale_a, scale_b = p.epilogue.scale_b;
  SLUICE_TRY(check_each_column(p));
  if ((scale_a == ScaleMode::block) != scales_128_of_k(scale_b))
    return bad_type(std::string("scale_a is ") + name_of(scale_a) + " and scale_b is " + name_of(scale_b) +
                    ": block scales must be on both; repeat the other's for every 128 of k");
  if (scale_a == ScaleMode::block && !is_fp8(p.a.type))
    return bad_type("A is " + a + ": block scales must be on fp8 inputs; fold them into the 16-bit values");
  if (p.epilogue.bias == Bias::row)
    return bad_type("bias is row: it must be none or column, one value for each column of D");
  if (p.epilogue.bias != Bias::none && !is_addend(p.epilogue.bias_type))
    return bad_type(std::string("bias is ") + name_of(p.epilogue.bias_type) +
                    ": it must be bf16, fp16 or fp32");
  if (p.epilogue.residual && !is_addend(p.epilogue.c_type))
    return bad_type(std::string("C is ") + name_of(p.epilogue.c_type) + ": it must be bf16, fp16 or fp32");
  if (adds(p.epilogue)) {
    if (p.d.type != DType::fp32)
      return bad_type("D is " + d +
                      " and update is add: it must be fp32; convert it, or use residual C with beta");
    if (p.epilogue.residual)
      return bad_type(
          "update is add and there is a residual C: add to one of the two; leave out C, or use set");
    if (p.epilogue.bias != Bias::none || p.epilogue.activation != Activation::none)
      return bad_type(
          "update is add and there is a bias or activation: it must be D += the scaled product; use "
          "residual C with beta for more");
  }
  SLUICE_TRY(check_scale_columns(p));
  SLUICE_TRY(check_results(p));
  SLUICE_TRY(check_gated(p));
  if (!gemm_supports(p)) return bad_type("no kernel takes " + a + " x " + b + " -> " + d);
  return {};
}

Error misaligned(const Operand& x, const std::string& what, i64 stride) {
  const i64 unit = kTmaUnit / bytes_of(x.type);
  const std::string rule = what + " = " + std::to_string(stride) + " must be a multiple of " +
                           std::to_string(unit) + " for " + name_of(x.type);
  return Error{ErrorCode::misaligned, rule};
}

/// Checks that a tensor map can represent the strides and the alignment.
Result<void> check_tma_strides(const Operand& x) {
  const i64 bytes = bytes_of(x.type), unit = kTmaUnit / bytes, limit = kTmaStrideLimit / bytes;
  const auto refuse = [&](const std::string& what, const char* field, const char* step, i64 stride) {
    if (stride >= limit)
      return Error{ErrorCode::misaligned, what + " = " + std::to_string(stride) + " must be less than " +
                                              std::to_string(limit) + " for " + name_of(x.type) +
                                              ": TMA strides are below 2^40 bytes; move the " + step +
                                              " closer together"};
    Error error = misaligned(x, what, stride);
    error.message += std::string(" (") + step + " of " + x.name + " are " + std::to_string(stride * bytes) +
                     " bytes apart; TMA needs a multiple of 16): pad " + field + " to " +
                     std::to_string(ceil_div(stride, unit) * unit);
    return error;
  };
  if (x.matrix.unaligned)
    return Error{ErrorCode::misaligned, std::string(x.ld_name, 2) + "unaligned = true and " + x.name +
                                            " is " + name_of(x.type) +
                                            ": it must begin at a multiple of 16 bytes, " +
                                            "as TMA needs; move it, or use 16-bit inputs without groups"};
  const i64 ld = x.ld();
  if (x.outer > 1 && (ld % unit != 0 || ld >= limit))
    return refuse(x.matrix.ld == 0 ? std::string(x.ld_name) + " = " + x.inner_name : x.ld_name, x.ld_name,
                  "rows", ld);
  const i64 batch_stride = batch_stride_of(x.matrix, x.inner, x.outer);
  if (x.batch > 1 && (batch_stride % unit != 0 || batch_stride >= limit)) {
    const std::string field = x.batch_name();
    return refuse(field, field.c_str(), "matrices", batch_stride);
  }
  return {};
}

Result<void> check_strides(const Operand& x) {
  const std::string name = x.name;
  if (x.matrix.ld < 0 || x.matrix.batch_stride < 0)
    return Error{ErrorCode::invalid_stride,
                 std::string(x.ld_name) + " = " + std::to_string(x.matrix.ld) + " and " + x.batch_name() +
                     " = " + std::to_string(x.matrix.batch_stride) + " must not be negative (0 = packed)"};
  // Computes the end of the matrix first in elements and then in bytes; each step may overflow 63 bits.
  i64 matrix = 0, all = 0;
  const bool matrix_fits = multiply(x.ld(), x.outer, matrix);
  const i64 stride = x.matrix.batch_stride != 0 ? x.matrix.batch_stride : matrix;
  if (!matrix_fits || !multiply(stride, x.batch, all) || !add(all, matrix, all) ||
      !multiply(all, bytes_of(x.type), all))
    return Error{ErrorCode::invalid_size,
                 name + " spans more than 2^63 bytes (" + x.ld_name + " = " + std::to_string(x.ld()) +
                     ", batch stride = " + std::to_string(x.matrix.batch_stride) +
                     ", batch = " + std::to_string(x.batch) + "): split the problem"};
  if (x.empty()) return {};
  if (x.outer > 1 && x.ld() < x.inner)
    return Error{ErrorCode::invalid_stride,
                 std::string(x.ld_name) + " = " + std::to_string(x.ld()) + " must be at least " +
                     x.inner_name + " = " + std::to_string(x.inner) + ": rows of " + name + " would overlap"};
  return x.must_be_aligned ? check_tma_strides(x) : Result<void>{};
}

/// Checks that no two matrices of D overlap, so that only one tile writes each element.
Result<void> check_d_batches(const Operand& d) {
  if (d.empty() || d.batch == 1) return {};
  const i64 ld = d.ld(), stride = batch_stride_of(d.matrix, d.inner, d.outer);
  const i64 matrix_span = (d.outer - 1) * ld + d.inner;
  const bool one_after_another = stride >= matrix_span;
  // D[m][batch][n]: the matrices are column ranges of wider rows
  const bool side_by_side = stride >= d.inner && (d.outer == 1 || ld >= (d.batch - 1) * stride + d.inner);
  if (one_after_another || side_by_side) return {};
  return Error{ErrorCode::invalid_stride,
               "d.batch_stride = " + std::to_string(stride) + " must be at least " +
                   std::to_string(matrix_span) + " (d.ld = " + std::to_string(ld) +
                   ", m = " + std::to_string(d.outer) + ", n = " + std::to_string(d.inner) +
                   "): the matrices of D would overlap"};
}

}  // namespace

Result<void> check_group_numbers(const Problem& p) {
  const auto refused = [](const std::string& message) { return Error{ErrorCode::invalid_argument, message}; };
  if (!reads_table(p)) {
    if (p.groups == Groups{}) return {};
    return refused(
        "groups.pitch = " + std::to_string(p.groups.pitch) +
        " and groups.kind is none: a pitch belongs to a kind; set the kind, or leave the pitch out");
  }
  const std::string kind = name_of(p.groups.kind);
  if (is_conv(p.conv))
    return refused("groups.kind = " + kind + " of a convolution: rows of groups must be those of a product");
  if (p.batch > kMostGroups)
    return Error{ErrorCode::invalid_size, "batch = " + std::to_string(p.batch) + " groups must be at most " +
                                              std::to_string(kMostGroups) + ": split the problem"};
  if (p.groups.pitch < 1 || p.groups.pitch > kMaxDenseExtent)
    return refused("groups.pitch = " + std::to_string(p.groups.pitch) + " must be in 1.." +
                   std::to_string(kMaxDenseExtent) +
                   (p.groups.kind == GroupKind::counts  ? ": rows from one group to the next"
                    : p.groups.kind == GroupKind::slots ? ": rows of D per row of A"
                                                        : ": a group begins at a multiple of it"));
  if (!by_slots(p)) return {};
  if (p.m % p.groups.pitch != 0)
    return Error{ErrorCode::invalid_size,
                 "m = " + std::to_string(p.m) + " slots must be a multiple of groups.pitch = " +
                     std::to_string(p.groups.pitch) + ", the slots that read a row of A: add slots of -1"};
  if (p.m > kMaxGridY)
    return Error{ErrorCode::invalid_size, "m = " + std::to_string(p.m) + " slots must be at most " +
                                              std::to_string(kMaxGridY) +
                                              ": they are for few rows; sort them (route) and use ends"};
  return {};
}

Result<void> check_device(const DeviceInfo& device) {
  if (device.compute_major != 9 || device.compute_minor != 0)
    return Error{ErrorCode::unsupported_arch, device.name + " has compute capability " +
                                                  std::to_string(device.compute_major) + "." +
                                                  std::to_string(device.compute_minor) +
                                                  ": the kernels need 9.0 (Hopper: H100, H200, GH200)"};
  if (device.sm_count < 1)
    return Error{ErrorCode::invalid_argument,
                 "sm_count = " + std::to_string(device.sm_count) + " must be at least 1"};
  return {};
}

/// Checking the convolution is enough: sizes, layouts and strides follow from it.
Result<Problem> conv::problem(const Conv& conv, DType inputs, DType output, const Epilogue& epilogue) {
  SLUICE_TRY(check_conv(conv, inputs, output, epilogue));
  const Problem p = product_of_conv(conv, inputs, output, epilogue);
  if (!is_conv(p.conv)) return check_problem(p);  // a 1 x 1 convolution is a plain product
  SLUICE_TRY(check_enumerators(p));
  SLUICE_TRY(check_sizes(p));
  SLUICE_TRY(check_types(p));
  return p;
}

Result<Problem> check_problem(const Problem& problem) {
  if (is_packed(problem)) return packed::check_packed(problem);
  Problem p = problem;
  if (!p.epilogue.residual) p.c = Matrix{};  // C is not read, so equal products must be equal problems
  SLUICE_TRY(check_enumerators(p));
  SLUICE_TRY(check_not_packed(p));
  SLUICE_TRY(check_sizes(p));
  if (is_conv(p.conv)) SLUICE_TRY(check_conv_problem(p));
  if (is_pointwise(p.conv)) p.conv = {};  // nothing is gathered: a plain product
  SLUICE_TRY(check_groups(p));
  SLUICE_TRY(check_types(p));
  if (is_conv(p.conv)) return p;
  p.c.unaligned = false;  // C is loaded element by element
  if (p.epilogue.residual && p.c.type != p.epilogue.c_type && p.c.type != Matrix{}.type)
    return bad_type(std::string("c.type is ") + name_of(p.c.type) + " and epilogue.c_type " +
                    name_of(p.epilogue.c_type) + ": the second counts; set it, and leave c.type alone");
  const Operand operands[] = {
      {.name = "A",
       .ld_name = "a.ld",
       .inner_name = p.a.major == Major::k ? "k" : "m",
       .matrix = p.a,
       .type = p.a.type,
       .inner = inner_extent(p.a, a_rows(p), p.k),
       .outer = outer_extent(p.a, a_rows(p), p.k),
       .batch = a_matrices(p),
       .must_be_aligned = is_fp8(p.a.type) || reads_table(p)},
      {.name = "B",
       .ld_name = "b.ld",
       .inner_name = p.b.major == Major::k ? "k" : "n",
       .matrix = p.b,
       .type = p.b.type,
       .inner = inner_extent(p.b, p.n, p.k),
       .outer = outer_extent(p.b, p.n, p.k),
       .batch = b_matrices(p),
       .must_be_aligned = is_fp8(p.b.type) || reads_table(p)},
      {.name = "C",
       .ld_name = "c.ld",
       .inner_name = "n",
       .matrix = p.c,
       .type = p.epilogue.c_type,
       .inner = p.epilogue.residual ? p.n : 0,
       .outer = p.epilogue.residual ? p.m : 0,
       .batch = d_matrices(p),
       .must_be_aligned = false},
      {.name = "D",
       .ld_name = "d.ld",
       .inner_name = p.epilogue.gated ? "n / 2" : "n",
       .matrix = p.d,
       .type = p.d.type,
       .inner = d_columns(p),
       .outer = p.m,
       .batch = d_matrices(p),
       .must_be_aligned = false},
  };
  for (const Operand& operand : operands) SLUICE_TRY(check_strides(operand));
  SLUICE_TRY(check_d_batches(operands[3]));
  return with_strides(p);
}

const char* why_not_tma_store(const Problem& p) {
  const bool by_rows = p.d.major == Major::k;  // false for swapped operands, where D is stored as n x m
  const i64 rows = by_rows ? p.m : p.n, columns = by_rows ? d_columns(p) : p.m;
  // Compares elements, not bytes: the strides of a D with at most one row or matrix may be anything, and
  // their bytes may not fit in 63 bits.
  const i64 bytes = bytes_of(p.d.type), unit = kTmaUnit / bytes, limit = kTmaStrideLimit / bytes;
  if (p.d.unaligned) return "D may begin at any element, and TMA needs a multiple of 16 bytes";
  // TMA stores do not end inside 16 bytes: docs/findings/tma-store-tail.md.
  if (columns % unit != 0)
    return "a row of D is not a multiple of 16 bytes long, and TMA would write past its end";
  if (rows > 1 && p.d.ld % unit != 0) return "rows of D are not a multiple of 16 bytes apart";
  if (rows > 1 && p.d.ld >= limit) return "rows of D are 2^40 bytes or more apart";
  if (d_matrices(p) > 1 && p.d.batch_stride % unit != 0)
    return "matrices of D are not a multiple of 16 bytes apart";
  if (d_matrices(p) > 1 && p.d.batch_stride >= limit) return "matrices of D are 2^40 bytes or more apart";
  return nullptr;
}

}  // namespace sluice
