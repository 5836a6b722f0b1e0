// SPDX-License-Identifier: Apache-2.0
// Bounds of the planner's search, and the lists of values that it tries; the constants of its models are in
// costs.h. The table in constants.cc gives each one's value, unit, meaning and source. Facts of a GPU are in
// device_info.h; rules of the kernels are in spec.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <sluice/plan/constant.h>

namespace sluice {

/// Terms of estimate_registers(): registers per thread that ptxas uses in the narrow kernel.
struct RegisterCosts {
  int base, row_block, second_strip, group_32, more_base, more_sums, more_group_32;
};

/// Corrections of the estimates of kernels that serve a range of rows (row_plans.cc).
struct RowCosts {
  double unused_split, row_too_many;
};

/// Bounds of what the search tries.
struct SearchBounds {
  i64 swapped_rows, fitted_waves, fitted_width, splits_of_config, run_k_tiles;
  i64 gpc_sms, gpc_tensor_share, gpc_parts;
  i64 two_wave_rows, borrowed_rows;
  i64 narrow_tokens, strip_tokens, strip_stages, strip_group_tokens, part_k_tiles, more_token_tiles;
};

struct PlannerConstants {
  RegisterCosts narrow_registers;
  RowCosts rows;
  SearchBounds search;
};
extern const PlannerConstants kPlanner;

/// Lists of values to try. Of plans with equal estimates the earlier value wins.
namespace tried {
inline constexpr int kRasterGroups[] = {1, 2, 4, 8, 16, 32};
inline constexpr int kSplits[] = {2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64};
inline constexpr int kPlainParts[] = {1, 2, 4, 8};
inline constexpr int kRangeRows[] = {
    8,    16,   24,   32,   40,   48,   56,   64,   72,   80,   88,   96,   104,  112,  120,  128,  144,
    160,  176,  192,  208,  224,  240,  256,  272,  288,  304,  320,  336,  352,  368,  384,  400,  416,
    432,  448,  464,  480,  496,  512,  576,  640,  704,  768,  832,  896,  960,  1024, 1152, 1280, 1408,
    1536, 1664, 1792, 1920, 2048, 2560, 3072, 3584, 4096, 4608, 5120, 5632, 6144, 6656, 7168, 7680, 8192};
inline constexpr int kRowBlocks[] = {4, 2, 8};
inline constexpr int kWarps[] = {4, 8, 12, 16};
inline constexpr int kStages[] = {3, 4, 2, 5, 6};
inline constexpr int kParts[] = {1, 2, 4, 8};
inline constexpr int kCtas[] = {1, 2, 3};
inline constexpr int kWideTokens[] = {32, 64, 128, 256};
inline constexpr int kWideClusters[] = {1, 2};
inline constexpr int kXRings[] = {8, 6, 6, 5, 5, 4, 3, 3};
inline constexpr int kWRings[] = {4, 3, 2, 4, 2, 2, 2, 1};
inline constexpr int kStripTokens[] = {8, 16, 32, 64, 128};
inline constexpr int kStrips[] = {4, 2, 1, 3};
inline constexpr int kKGroups[] = {4, 2, 1};
inline constexpr int kHalfKGroups[] = {4, 2, 1, 3};
inline constexpr int kHalfParts[] = {1, 2, 4, 8, 5};
}  // namespace tried

/// A row as text. `value`: one number, or a list of numbers.
struct ConstantText {
  std::string set, name, value, unit, origin, meaning, source;
};
/// Returns the whole table: costs, search constants and lists.
std::vector<ConstantText> all_constants();

}  // namespace sluice
