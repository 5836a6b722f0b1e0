// SPDX-License-Identifier: Apache-2.0
// What of a problem decides which configuration is fastest, and nothing else: problems with equal recipes
// share a tuning record. Made from a checked problem; the key of record_book.h.
//   in:  sizes and batch; the types of A, B and D and the layouts (bytes moved, WGMMA rate); how sums are
//        kept (registers, extra adds); whether D leaves through TMA (its strides); what the epilogue costs.
//        Whether it is added to D, and whether in any order, too.
//        Whether it is gated: half of the outputs, and tiles of whole groups of 16 columns.
//   out: a scale of D (one load and one multiplication); strides (rows are read in whole 128-byte lines
//   whatever their distance); scales per tensor (two
//        scalar loads a thread), relu (one instruction) and the types of bias and C beyond their width.
// A vector of scales takes shared memory and a multiplication for each sum, a bias the same and an addition;
// silu or a residual in fp32 takes an epilogue out of the light ones (spec/epilogue.h is_light), which also
// rules some tiles out; gelu is a dozen instructions an element, and a residual adds bytes of HBM. Each may
// move the best tile. Adding a field that every record must have makes old ones unreadable: raise
// kRecordVersion (record.h). `bias`, `adding` and `gated` are left out of records where they are none, so
// they did not.
#pragma once

#include <compare>
#include <cstddef>

#include <sluice/spec/config.h>
#include <sluice/spec/packed.h>

namespace sluice {

/// How the k-sum is kept, as far as speed goes: 16-bit `promoted` sums are `fast` ones. block: promoted with
/// scales of their own every 128 of k.
enum class Sums : u8 { fast, promoted, block };
/// Instructions of the activation for each element: cheap is none or relu.
enum class ActivationCost : u8 { cheap, gelu, silu };
/// Is the product added to D, and may the parts of a split one be as they come (Combine::add)?
enum class Adding : u8 { none, ordered, any_order };

struct Recipe {
  i64 m = 0, n = 0, k = 0, batch = 1;
  DType a = DType::bf16, b = DType::bf16, d = DType::bf16;
  Major a_major = Major::k, b_major = Major::k;
  Sums sums = Sums::fast;
  StorePath store = StorePath::tma;
  bool vectors = false;  // a scale for each row or column
  Bias bias = Bias::none;
  ActivationCost activation = ActivationCost::cheap;
  int residual_bytes = 0;  // of an element of C; 0: none
  Adding adding = Adding::none;
  bool gated = false;

  constexpr auto operator<=>(const Recipe&) const = default;
};

/// The same of a product of packed weights (packed_recipe.cc). Formats decide bytes and instructions.
struct PackedRecipe {
  i64 m = 0, n = 0, k = 0;
  DType x = DType::fp16, d = DType::fp16;
  ScaleMode scale_x = ScaleMode::none;  // vector, or none: one for all tokens costs nothing
  WeightType weights = WeightType::uint4;
  int group = 0;
  DType weight_scale = DType::fp16;
  ScaleZero zero = ScaleZero::none;
  FragmentOrder order = FragmentOrder::half;
  StorePath store = StorePath::tma;  // where the kernel can: are D's rows for the copy engine?
  Bias bias = Bias::none;
  ActivationCost activation = ActivationCost::cheap;

  constexpr auto operator<=>(const PackedRecipe&) const = default;
};

/// `problem` is one that gemm::plan, or packed::plan, accepts.
Recipe recipe_of(const Problem& problem);
PackedRecipe recipe_of(const PackedProblem& problem);
/// A problem that has this recipe: packed, per-tensor scales left out; for tests.
Problem example_of(const Recipe& recipe);
PackedProblem example_of(const PackedRecipe& recipe);
std::size_t hash_of(const Recipe& recipe);
std::size_t hash_of(const PackedRecipe& recipe);

ActivationCost cost_of(Activation activation);
/// One that costs so much.
Activation activation_of(ActivationCost cost);

constexpr const char* name_of(Sums sums) {
  return sums == Sums::fast ? "fast" : sums == Sums::promoted ? "promoted" : "block";
}
constexpr const char* name_of(ActivationCost cost) {
  return cost == ActivationCost::cheap ? "cheap" : cost == ActivationCost::gelu ? "gelu" : "silu";
}
constexpr const char* name_of(Adding adding) {
  return adding == Adding::none ? "none" : adding == Adding::ordered ? "ordered" : "any_order";
}

}  // namespace sluice
