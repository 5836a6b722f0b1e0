// SPDX-License-Identifier: Apache-2.0
#include <sluice/host/ops/problem_key.h>

#include <sluice/host/limits.h>
#include <sluice/host/ops/hash.h>
#include <sluice/host/planner/dense/problem_checks.h>

namespace sluice {
namespace {

/// Returns the stride, or 0 if it is the packed one. A single row or matrix may have any stride and counts as
/// packed.
i64 unpacked(i64 stride, i64 packed, bool is_lone) {
  return stride == packed || is_lone ? 0 : stride;
}

/// Returns `x` with 0 in place of each packed stride. On entry its strides are filled in.
Matrix unpacked(const Matrix& x, const Problem& p, i64 rows, i64 columns) {
  const bool one_row = x.major == Major::k && rows == 1;
  const i64 inner = x.major == Major::k ? columns : rows, outer = x.major == Major::k ? rows : columns;
  Matrix form = x;
  form.ld = unpacked(x.ld, inner, one_row);
  form.batch_stride = unpacked(x.batch_stride, x.ld * outer, p.batch == 1);
  return form;
}

}  // namespace

Problem key_of(const Problem& problem) {
  Problem key = with_strides(problem);
  if (!is_fp8(key.a.type) || is_block_scaled(key.epilogue)) key.accumulate = Problem{}.accumulate;
  if (!key.epilogue.residual) key.c = {};
  if (!adds(key.epilogue)) key.deterministic = true;
  // With a single row, a vector of scales is one value, so both spellings get the same key.
  Epilogue& e = key.epilogue;
  if (key.m == 1 && e.scale_a == ScaleMode::vector) e.scale_a = ScaleMode::tensor;
  if (key.n == 1 && e.scale_b == ScaleMode::vector) e.scale_b = ScaleMode::tensor;
  return key;
}

Problem at_addresses(Problem problem, const gemm::Args& args) {
  if (is_conv(problem.conv)) return problem;
  const auto see = [](Matrix& x, const void* address, bool by_tma) {
    if (by_tma && reinterpret_cast<u64>(address) % u64{kTmaUnit} != 0) x.unaligned = true;
  };
  // `unaligned` is set only if TMA could access the operand at some other address. Otherwise the address
  // changes nothing.
  const Problem p = with_strides(problem);
  const auto taken = [&](const Matrix& x, i64 rows) {
    return is_16bit(x.type) && tma_addresses(x, outer_extent(x, rows, p.k), p.batch);
  };
  see(problem.a, args.a, taken(p.a, p.m));
  see(problem.b, args.b, taken(p.b, p.n));
  see(problem.d, args.d, why_not_tma_store(p) == nullptr);
  return problem;
}

PackedProblem key_of(const PackedProblem& problem) {
  PackedProblem key = problem;
  if (key.ld_x == 0 || key.m <= 1 || key.k == 0) key.ld_x = key.k;
  if (key.ld_d == 0 || key.m <= 1) key.ld_d = key.gated ? key.n / 2 : key.n;
  if (key.bias == Bias::none) key.bias_type = PackedProblem{}.bias_type;
  if (key.m == 1 && key.scale_x == ScaleMode::tensor) key.scale_x = ScaleMode::vector;
  return key;
}

std::vector<Problem> row_forms(const Problem& problem) {
  const Problem key = key_of(problem);
  Problem form = key;
  form.a = unpacked(key.a, key, key.m, key.k);
  form.b = unpacked(key.b, key, key.n, key.k);
  form.c = key.epilogue.residual ? unpacked(key.c, key, key.m, key.n) : Matrix{};
  form.d = unpacked(key.d, key, key.m, d_columns(key));
  form.m = 0;
  std::vector<Problem> forms{form};
  if (key.m == 1 && form.epilogue.scale_a == ScaleMode::tensor) {
    form.epilogue.scale_a = ScaleMode::vector;
    forms.push_back(form);
  }
  return forms;
}

std::vector<PackedProblem> row_forms(const PackedProblem& problem) {
  const PackedProblem key = key_of(problem);
  PackedProblem form = key;
  const bool lone = key.m == 1;
  form.ld_x = unpacked(key.ld_x, key.k, lone);
  form.ld_d = unpacked(key.ld_d, key.gated ? key.n / 2 : key.n, lone);
  form.ld_c = key.residual ? unpacked(key.ld_c, key.n, lone) : 0;
  form.m = 0;
  std::vector<PackedProblem> forms{form};
  if (lone && form.scale_x == ScaleMode::vector) {
    form.scale_x = ScaleMode::tensor;
    forms.push_back(form);
  }
  return forms;
}

std::size_t key_hash(const Problem& p) {
  return hash_of({p.m, p.n, p.k, p.batch, p.a.ld, p.b.ld, p.d.ld, static_cast<i64>(p.a.type),
                  static_cast<i64>(p.d.type), static_cast<i64>(p.epilogue.activation),
                  static_cast<i64>(p.epilogue.update), static_cast<i64>(p.epilogue.gated), i64{p.a.unaligned},
                  i64{p.b.unaligned}, i64{p.d.unaligned}, static_cast<i64>(p.conv.op), p.conv.channels,
                  p.conv.size.w, p.conv.size.h});
}

std::size_t key_hash(const PackedProblem& p) {
  const WeightFormat& w = p.weights;
  return hash_of({p.m,
                  p.n,
                  p.k,
                  p.ld_x,
                  p.ld_d,
                  static_cast<i64>(p.x),
                  static_cast<i64>(p.d),
                  static_cast<i64>(p.scale_x),
                  static_cast<i64>(w.type),
                  w.group,
                  static_cast<i64>(w.scale),
                  static_cast<i64>(w.zero),
                  static_cast<i64>(w.order),
                  static_cast<i64>(p.bias),
                  static_cast<i64>(p.bias_type),
                  static_cast<i64>(p.activation),
                  p.gated,
                  static_cast<i64>(p.scale_d),
                  p.norm_x,
                  p.residual,
                  p.ld_c});
}

}  // namespace sluice
