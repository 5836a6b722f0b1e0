// SPDX-License-Identifier: Apache-2.0
// Half of all sizes come from a list of hard ones. Leading dimensions are padded to TMA's 16 bytes, and
// sometimes more. A third of the 16-bit problems have any strides and addresses instead.
#include "lab/random/problem.h"

#include <algorithm>

#include <sluice/plan/packed/packed_problem_checks.h>

#include "lab/random/choices.h"

namespace sluice::lab {
namespace {

constexpr std::array<i64, 22> kHardSizes = {0,  1,  2,   7,   8,   15,  16,  17,  31,  63,  64,
                                            65, 96, 127, 128, 129, 191, 255, 256, 257, 384, 511};

i64 random_size(Dice& dice, i64 largest) {
  if (dice.one_in(2)) return std::min(dice.any_of(kHardSizes), largest);
  return 1 + dice.below(static_cast<int>(largest));
}

i64 padded_ld(Dice& dice, i64 inner, DType type) {
  const i64 step = kTmaUnit / bytes_of(type);
  return ceil_div(std::max<i64>(inner, 1), step) * step + (dice.one_in(4) ? step : 0);
}

/// Gives the operands random strides and alignment, as kernels with strided loads accept them.
void scatter(Dice& dice, Problem& p) {
  const auto any = [&](Matrix& x, i64 inner, i64 outer) {
    x.ld = std::max<i64>(inner, 1) + (dice.one_in(3) ? 0 : dice.below(11));
    if (dice.one_in(2)) x.batch_stride = x.ld * std::max<i64>(outer, 1) + dice.below(9);
    x.unaligned = dice.one_in(2);
  };
  const bool a = !dice.one_in(4), b = !a || !dice.one_in(4);  // both operands or only one of them
  if (a) any(p.a, inner_extent(p.a, a_rows(p), p.k), outer_extent(p.a, a_rows(p), p.k));
  if (b) any(p.b, inner_extent(p.b, p.n, p.k), outer_extent(p.b, p.n, p.k));
  if (dice.one_in(2)) any(p.d, d_columns(p), p.m);
  p.c.ld = std::max<i64>(p.n, 1) + dice.below(5);
}

/// Divides k into groups. Requires 16-bit inputs and no gate.
void group_k(Dice& dice, Problem& p) {
  p.batch = 1 + dice.below(dice.one_in(4) ? 40 : 6);
  p.groups = {GroupKind::along_k, dice.one_in(2) ? 1 : 1 << dice.below(8)};
  p.a.major = p.b.major = Major::mn;
  p.a.ld = padded_ld(dice, p.m, p.a.type);
  p.b.ld = padded_ld(dice, p.n, p.b.type);
  p.a.batch_stride = p.b.batch_stride = 0;
  Epilogue& e = p.epilogue;
  e.bias = Bias::none;
  if (e.scale_a == ScaleMode::vector) e.scale_a = ScaleMode::tensor;
  if (e.scale_b == ScaleMode::vector) e.scale_b = ScaleMode::tensor;
}

/// Makes the rows those of groups. Requires what products of groups require.
void group_rows(Dice& dice, Problem& p, bool slots) {
  p.batch = 1 + dice.below(dice.one_in(4) ? 40 : 6);
  p.a.batch_stride = p.c.batch_stride = p.d.batch_stride = 0;
  if (slots && p.b.major == Major::k && !writes_scales(p.epilogue) && !p.epilogue.row_factors &&
      dice.one_in(2)) {
    p.groups = {GroupKind::slots, 1 + dice.below(9)};
    p.m = std::max<i64>(p.m / p.groups.pitch, 1) * p.groups.pitch;
    return;
  }
  if (dice.one_in(2))
    p.groups = {GroupKind::ends, dice.one_in(2) ? 1 : 1 << dice.below(8)};
  else
    p.groups = {GroupKind::counts, 1 + dice.below(40)};
}

/// Stores the scales of A by columns, without gaps, as TMA needs them, or with a wider gap.
void scale_by_columns(Dice& dice, Problem& p) {
  p.scale_a_ld = 1;  // the rows follow from the order
  const i64 rows = std::max<i64>(scale_a_rows(p), 1), gap = dice.below(3);
  p.scale_a_ld = gap == 0 ? rows : gap == 1 ? round_up(rows, i64{4}) : rows + 1 + dice.below(9);
}

WeightFormat random_format(Dice& dice, const FormatSpec& formats) {
  WeightFormat f = formats.fixed;
  if (formats.any_group) f.group = dice.any_of(std::array{0, 32, 64, 128});
  if (formats.any_scale) f.scale = dice.any_of(kVectorTypes);
  if (formats.any_zero && dice.one_in(2)) f.zero = ScaleZero::per_group;
  if (validate(f) != nullptr) f.zero = ScaleZero::none;  // e4m3 weights have no zero points
  return validate(f) == nullptr ? f : formats.fixed;     // e2m1 weights have one format
}

}  // namespace

Problem random_problem(const RandomSpec& spec, int index) {
  Dice dice = dice_of(spec, index);
  Problem p;
  p.m = random_size(dice, spec.largest);
  p.n = random_size(dice, spec.largest);
  p.k = random_size(dice, spec.largest);
  p.batch = dice.one_in(5) ? 2 + dice.below(2) : 1;

  constexpr std::array<DType, 4> kInputs = {DType::bf16, DType::fp16, DType::e4m3, DType::e5m2};
  p.a.type = spec.scattered ? kInputs[static_cast<size_t>(dice.below(2))] : dice.any_of(kInputs);
  const bool fp8 = is_fp8(p.a.type);
  p.b.type = fp8 && dice.one_in(2) ? (dice.one_in(2) ? DType::e4m3 : DType::e5m2) : p.a.type;
  p.d.type = dice.any_of(std::array<DType, 4>{DType::bf16, DType::fp16, DType::fp32, DType::e4m3});
  if (!fp8 && dice.one_in(3)) p.a.major = Major::mn;
  if (!fp8 && dice.one_in(3)) p.b.major = Major::mn;
  if (fp8) p.accumulate = dice.one_in(2) ? Accumulate::promoted : Accumulate::fast;

  constexpr std::array<ScaleMode, 3> kScales = {ScaleMode::none, ScaleMode::tensor, ScaleMode::vector};
  Epilogue& e = p.epilogue;
  e.scale_a = dice.any_of(kScales);
  e.scale_b = dice.any_of(kScales);
  if (fp8 && dice.one_in(4)) e.scale_a = e.scale_b = ScaleMode::block;
  e.bias = dice.one_in(2) ? Bias::column : Bias::none;
  e.bias_type = dice.any_of(kVectorTypes);
  e.residual = dice.one_in(3);
  e.c_type = dice.any_of(kVectorTypes);
  e.activation = random_activation(dice, spec);
  if (p.d.type == DType::e4m3 && dice.one_in(2))
    e.scale_d = dice.one_in(2) ? ScaleMode::block : ScaleMode::tensor;
  if (p.n >= kGatedGroup && p.b.major == Major::k && dice.one_in(4)) {
    e.gated = true;
    e.residual = false;
    p.n -= p.n % kGatedGroup;
    // At least one block of each half, even if that is more than the largest size.
    if (is_block_scaled(e)) p.n = std::max<i64>(p.n - p.n % kGatedScaleUnit, kGatedScaleUnit);
  }
  if (!e.gated && p.d.type == DType::fp32 && dice.one_in(3)) {  // as weight gradients are added
    e = {.scale_a = e.scale_a, .scale_b = e.scale_b, .update = Update::add};
    p.deterministic = dice.one_in(2);
  }
  e.row_factors = !adds(e) && dice.one_in(6);

  p.a.ld = padded_ld(dice, inner_extent(p.a, a_rows(p), p.k), p.a.type);
  p.b.ld = padded_ld(dice, inner_extent(p.b, p.n, p.k), p.b.type);
  p.d.ld = dice.one_in(4) ? std::max<i64>(d_columns(p), 1)
                          : padded_ld(dice, d_columns(p), p.d.type);  // a pitch that TMA can store
  p.c.type = e.c_type;
  p.c.ld = std::max<i64>(p.n, 1);
  const bool scattered = !fp8 && (spec.scattered || dice.one_in(3));
  if (scattered) scatter(dice, p);
  if (spec.groups && !scattered && dice.one_in(6)) {
    if (is_16bit(p.a.type) && !e.gated && dice.one_in(2))
      group_k(dice, p);
    else if (p.a.major == Major::k && !adds(e))
      group_rows(dice, p, spec.slots);
  }
  if (is_block_scaled(e) && dice.one_in(2)) scale_by_columns(dice, p);
  if (e.gated && !spec.exact && dice.one_in(4)) e.activation = Activation::clamped_swiglu;
  if (scales_by_columns(p) && !has_groups(p) && !e.gated && dice.one_in(2)) e.scale_b = ScaleMode::vector128;
  return p;
}

Problem random_packed_problem(const RandomSpec& spec, const FormatSpec& formats, int index) {
  Dice dice = dice_of(spec, index);
  Problem p;
  p.m = random_size(dice, spec.largest);
  p.n = random_size(dice, spec.largest);
  p.k = random_size(dice, spec.largest);
  p.b.packed = random_format(dice, formats);
  p.a.type = dice.one_in(2) ? DType::fp16 : DType::bf16;
  if (p.b.packed.type == WeightType::uint4 && dice.one_in(3)) {
    p.a.type = DType::e4m3;
    p.b.packed.order = FragmentOrder::byte;
    p.epilogue.scale_a = dice.any_of(std::array{ScaleMode::none, ScaleMode::tensor, ScaleMode::vector});
  }
  p.d.type = dice.any_of(kVectorTypes);
  if (dice.one_in(2)) {
    p.epilogue.bias = Bias::column;
    p.epilogue.bias_type = dice.any_of(kVectorTypes);
  }
  p.epilogue.activation = random_activation(dice, spec);
  p.a.ld = padded_ld(dice, p.k, p.a.type);
  p.d.ld = dice.one_in(2) ? padded_ld(dice, p.n, p.d.type) : p.n + dice.below(4);
  p.norm_a = p.a.type == DType::bf16 && p.m <= kNormTokens && dice.one_in(2);
  const bool residual = is_16bit(p.a.type) && p.m <= packed::kMaxResidualTokens && dice.one_in(3);
  if (residual) p.c.ld = dice.one_in(2) ? p.d.ld : p.n + dice.below(4);
  const bool few = !is_16bit(p.a.type) || p.m <= packed::kMaxGatedTokens;
  if (few && !residual && p.n >= kGatedUnit && dice.one_in(3)) {
    p.epilogue.gated = true;
    p.n -= p.n % kGatedUnit;
    p.d.ld = d_columns(p) + dice.below(4);
  }
  p.b.type = p.a.type;
  if (residual) add_residual(p);
  return p;
}

}  // namespace sluice::lab
