// SPDX-License-Identifier: Apache-2.0
// Every switch lists all enumerators, so that a new mode does not compile until its cost is stated.
#include <sluice/records/recipe.h>

#include <sluice/host/ops/hash.h>
#include <sluice/host/planner/dense/problem_checks.h>

namespace sluice {
namespace {

/// True if the epilogue reads one scale for each row or column.
bool is_vector(ScaleMode mode) {
  switch (mode) {
    case ScaleMode::vector: return true;
    case ScaleMode::none:
    case ScaleMode::tensor:
    case ScaleMode::block: return false;  // these are Sums::block
  }
  return false;
}

Adding adding_of(const Problem& p) {
  if (!adds(p.epilogue)) return Adding::none;
  return adds_in_any_order(p) ? Adding::any_order : Adding::ordered;
}

Sums sums_of(const Problem& p) {
  if (is_block_scaled(p.epilogue)) return Sums::block;
  return is_promoted(p) ? Sums::promoted : Sums::fast;
}

}  // namespace

ActivationCost cost_of(Activation activation) {
  switch (activation) {
    case Activation::none:
    case Activation::relu: return ActivationCost::cheap;
    case Activation::gelu: return ActivationCost::gelu;
    case Activation::silu: return ActivationCost::silu;
  }
  return ActivationCost::cheap;
}

Activation activation_of(ActivationCost cost) {
  switch (cost) {
    case ActivationCost::cheap: return Activation::none;
    case ActivationCost::gelu: return Activation::gelu;
    case ActivationCost::silu: return Activation::silu;
  }
  return Activation::none;
}

Recipe recipe_of(const Problem& problem) {
  const Problem p = with_strides(problem);
  const Epilogue& e = p.epilogue;
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .batch = p.batch,
          .a = p.a.type,
          .b = p.b.type,
          .d = p.d.type,
          .a_major = p.a.major,
          .b_major = p.b.major,
          .sums = sums_of(p),
          .store = why_not_tma_store(p) == nullptr ? StorePath::tma : StorePath::direct,
          .vectors = is_vector(e.scale_a) || is_vector(e.scale_b),
          .bias = e.bias,
          .activation = cost_of(e.activation),
          .residual_bytes = e.residual ? bytes_of(e.c_type) : 0,
          .adding = adding_of(p),
          .gated = e.gated};
}

Problem example_of(const Recipe& r) {
  Problem p{.m = r.m, .n = r.n, .k = r.k, .batch = r.batch};
  p.a = {.type = r.a, .major = r.a_major};
  p.b = {.type = r.b, .major = r.b_major};
  p.d.type = r.d;
  p.accumulate = r.sums == Sums::promoted ? Accumulate::promoted : Accumulate::fast;
  if (r.sums == Sums::block) p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::block;
  if (r.vectors) p.epilogue.scale_a = ScaleMode::vector;
  p.epilogue.bias = r.bias;
  p.epilogue.update = r.adding == Adding::none ? Update::set : Update::add;
  p.deterministic = r.adding != Adding::any_order;
  p.epilogue.activation = activation_of(r.activation);
  p.epilogue.gated = r.gated;
  p.epilogue.residual = r.residual_bytes != 0;
  p.epilogue.c_type = r.residual_bytes == bytes_of(DType::fp32) ? DType::fp32 : DType::bf16;
  // Rows that are no multiple of 16 bytes apart rule out TMA.
  if (r.store == StorePath::direct && why_not_tma_store(with_strides(p)) == nullptr) p.d.ld = r.n + 1;
  return p;
}

std::size_t hash_of(const Recipe& r) {
  return hash_of({r.m, r.n, r.k, r.batch, static_cast<i64>(r.a), static_cast<i64>(r.d),
                  static_cast<i64>(r.sums), static_cast<i64>(r.activation), static_cast<i64>(r.vectors),
                  static_cast<i64>(r.bias), i64{r.residual_bytes}, static_cast<i64>(r.adding),
                  static_cast<i64>(r.gated)});
}

}  // namespace sluice
