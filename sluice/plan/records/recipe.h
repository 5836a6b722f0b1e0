// SPDX-License-Identifier: Apache-2.0
// A recipe holds the properties of a problem that decide which configuration is fastest; problems with equal
// recipes share a tuning record. It is made from a checked problem, and is part of record_book.h's key. It
// holds:
// - sizes and batch; types and layouts of A, B and D, which decide the bytes moved and the rate of WGMMA;
// - the accumulation mode (registers, extra additions), and whether TMA can load A and B and store D
//   (strides, addresses);
// - the cost of the epilogue; whether slices are added to D, in order or in any order;
// - gating, which halves the outputs and needs tiles of whole groups of 16 columns;
// - whether block scales of A lie by columns, which the load warps read in other pieces.
//
// It does not hold:
// - a scale of D (one load, one multiplication), and scales per tensor (two scalar loads per thread);
// - other strides: rows are read in whole 128-byte lines whatever the row pitch;
// - relu (one instruction), and the types of bias and C beyond their width.
//
// Scale vectors take shared memory and one multiplication per accumulator; a bias takes shared memory and one
// addition. An epilogue with silu or an fp32 residual is not light (spec/epilogue.h is_light), which rules
// out some tiles. gelu takes a dozen instructions per element; a residual adds HBM traffic. Each may change
// the best tile.
//
// A new required field makes old records unreadable: raise kRecordVersion (record.h). `bias`, `adding`,
// `gated`, `strided_a` and `conv` needed no new version, because records omit their default values.
#pragma once

#include <array>
#include <compare>
#include <cstddef>

#include <sluice/spec/config.h>

namespace sluice {

/// How sums along k are accumulated. 16-bit inputs always count as `fast`, because `promoted` costs them
/// nothing. block: promoted, with scales per 128 of k. vector128: the same, where B's are per column, too.
enum class Sums : u8 { fast, promoted, block, vector128 };
/// Cost class of the activation, in instructions per element. cheap: exact ones. silu: those that divide.
enum class ActivationCost : u8 { cheap, gelu, silu };
/// Whether the product is added to D, and whether slices may be added in any order (Combine::add).
enum class Adding : u8 { none, ordered, any_order };

/// A convolution's sizes, without pitches. Default for a pointwise convolution, which counts as a plain
/// product.
struct ConvRecipe {
  ConvOp op = ConvOp::none;
  int spatial = 2;
  i64 images = 0, channels = 0, filters = 0;
  std::array<int, kMostSpatial> size{}, filter{}, stride{}, dilation{}, padding{}, padding_after{};

  constexpr auto operator<=>(const ConvRecipe&) const = default;
};

struct Recipe {
  i64 m = 0, n = 0, k = 0, batch = 1;
  DType a = DType::bf16, b = DType::bf16, d = DType::bf16;
  Major a_major = Major::k, b_major = Major::k;
  Sums sums = Sums::fast;
  StorePath store = StorePath::tma;
  bool vectors = false;  // one scale per row or column
  Bias bias = Bias::none;
  ActivationCost activation = ActivationCost::cheap;
  int residual_bytes = 0;  // bytes of an element of C; 0 without C
  Adding adding = Adding::none;
  bool gated = false;
  bool strided_a = false, strided_b = false;  // no TMA for an operand
  ConvRecipe conv{};
  GroupKind groups = GroupKind::none;  // `batch` groups of rows; where they lie changes little
  bool scale_columns = false;          // block scales of A are stored by columns
  // Packed weights; none: B is not packed. The format decides bytes and instructions.
  WeightType weights = WeightType::none;
  int group = 0;
  DType weight_scale = DType::fp16;
  ScaleZero zero = ScaleZero::none;
  FragmentOrder order = FragmentOrder::half;
  // In recipes of chain steps only: work that a product with packed weights does beside. By itself the
  // product takes as long with it.
  bool norm_a = false;

  constexpr auto operator<=>(const Recipe&) const = default;
};

/// Returns the recipe. `problem` must be one that gemm::plan accepts.
Recipe recipe_of(const Problem& problem);
/// Returns the recipe of a step of a chain.
Recipe step_recipe_of(const Problem& problem);
/// Returns a problem with this recipe, without gaps in memory and without per-tensor scales; for tests.
Problem example_of(const Recipe& recipe);
std::size_t hash_of(const Recipe& recipe);

ActivationCost cost_of(Activation activation);
Activation activation_of(ActivationCost cost);

constexpr const char* name_of(Sums sums) {
  switch (sums) {
    case Sums::fast: return "fast";
    case Sums::promoted: return "promoted";
    case Sums::block: return "block";
    case Sums::vector128: return "vector128";
  }
  return "?";
}
constexpr const char* name_of(ActivationCost cost) {
  return cost == ActivationCost::cheap ? "cheap" : cost == ActivationCost::gelu ? "gelu" : "silu";
}
constexpr const char* name_of(Adding adding) {
  return adding == Adding::none ? "none" : adding == Adding::ordered ? "ordered" : "any_order";
}

}  // namespace sluice
