// SPDX-License-Identifier: Apache-2.0
#include <sluice/host/ops/problem_key.h>

#include <sluice/host/hash.h>
#include <sluice/host/limits.h>
#include <sluice/host/planner/dense/problem_checks.h>
#include <sluice/host/planner/packed/packed_problem_checks.h>

namespace sluice {
namespace {

/// Returns the stride, or 0 if it leaves no gap. A single row or matrix may have any stride.
i64 without_default(i64 stride, i64 gapless, bool is_lone) {
  return stride == gapless || is_lone ? 0 : stride;
}

/// Returns `x` with 0 in place of each stride that leaves no gap. On entry its strides are filled in.
Matrix without_defaults(const Matrix& x, const Problem& p, i64 rows, i64 columns) {
  const bool one_row = x.major == Major::k && rows == 1;
  const i64 inner = x.major == Major::k ? columns : rows, outer = x.major == Major::k ? rows : columns;
  Matrix form = x;
  form.ld = without_default(x.ld, inner, one_row);
  form.batch_stride = without_default(x.batch_stride, x.ld * outer, p.batch == 1);
  return form;
}

/// Returns the key of a product with packed weights. What the planner refuses stays in the key, so that it is
/// refused at the call too. The scale of a single row is a vector, whose kernel has no code for one value.
Problem packed_key(Problem p) {
  if (p.m <= 1) p.a.ld = p.c.ld = p.d.ld = 0;
  if (p.m == 1 && p.epilogue.scale_a == ScaleMode::tensor) p.epilogue.scale_a = ScaleMode::vector;
  return packed::one_spelling(p);
}

}  // namespace

Problem key_of(const Problem& problem) {
  if (is_packed(problem)) return packed_key(problem);
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
  if (is_conv(problem.conv) || is_packed(problem)) return problem;
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

std::vector<Problem> row_forms(const Problem& problem) {
  const Problem key = key_of(problem);
  Problem form = key;
  form.a = without_defaults(key.a, key, key.m, key.k);
  form.b = without_defaults(key.b, key, key.n, key.k);
  form.c = key.epilogue.residual ? without_defaults(key.c, key, key.m, key.n) : Matrix{};
  form.d = without_defaults(key.d, key, key.m, d_columns(key));
  form.m = 0;
  std::vector<Problem> forms{form};
  const ScaleMode scale = form.epilogue.scale_a;
  if (key.m == 1 && (scale == ScaleMode::tensor || scale == ScaleMode::vector)) {
    form.epilogue.scale_a = scale == ScaleMode::tensor ? ScaleMode::vector : ScaleMode::tensor;
    forms.push_back(form);
  }
  return forms;
}

std::size_t key_hash(const Problem& p) {
  return hash_of({p.m,
                  p.n,
                  p.k,
                  p.batch,
                  p.a.ld,
                  p.b.ld,
                  p.d.ld,
                  static_cast<i64>(p.a.type),
                  static_cast<i64>(p.d.type),
                  static_cast<i64>(p.epilogue.activation),
                  static_cast<i64>(p.epilogue.update),
                  static_cast<i64>(p.epilogue.gated),
                  i64{p.a.unaligned},
                  i64{p.b.unaligned},
                  i64{p.d.unaligned},
                  static_cast<i64>(p.conv.op),
                  p.conv.channels,
                  p.conv.size.w,
                  p.conv.size.h,
                  static_cast<i64>(p.b.packed.type),
                  p.b.packed.group,
                  static_cast<i64>(p.b.packed.scale),
                  static_cast<i64>(p.epilogue.scale_a),
                  i64{p.norm_a},
                  static_cast<i64>(p.epilogue.bias)});
}

}  // namespace sluice
