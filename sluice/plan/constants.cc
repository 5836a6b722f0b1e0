// SPDX-License-Identifier: Apache-2.0
// The table of the search's constants. A member without a row does not compile. Changing a value changes
// plans (tests/plans).
#include <sluice/plan/constants.h>

#include <sluice/plan/costs.h>
#include <sluice/plan/text/lines.h>

namespace sluice {
namespace {

using enum Origin;

constexpr const char* kGpc = "docs/findings/gpc.md";
constexpr const char* kPlain = "docs/findings/plain-loads.md";
constexpr const char* kFewBits = "docs/findings/few-bit-weights.md";
constexpr const char* kWidths = "docs/findings/int4-widths.md";
constexpr const char* kPtxas = "77 configs, ptxas 13.0";

using R = RegisterCosts;
constexpr Constant<R, int> kRegisters[] = {
    {"base", &R::base, 79, "registers", sm, "tiles of 8 tokens: all but sums", kPtxas},
    {"row_block", &R::row_block, 4, "registers", sm, "each 16 rows, four at most", kPtxas},
    {"second_strip", &R::second_strip, 30, "registers", sm, "8 blocks of rows: codes that come early",
     kPtxas},
    {"group_32", &R::group_32, 5, "registers", sm, "groups of 32, each 16 rows", kPtxas},
    {"more_base", &R::more_base, 84, "registers", sm, "tiles of 16 and 32 tokens: all but sums", kPtxas},
    {"more_sums", &R::more_sums, 2, "ratio", sm, "registers for each sum there", kPtxas},
    {"more_group_32", &R::more_group_32, 20, "registers", sm, "groups of 32 there", kPtxas},
};

using O = RowCosts;
constexpr Constant<O> kRows[] = {
    {"unused_split", &O::unused_split, 1.005, "ratio", model,
     "a kernel that can split k where it does not: registers, and a branch for each tile",
     "H200, 2026-11-25"},
    {"row_too_many", &O::row_too_many, 0.005, "ratio / row", model,
     "a plain tile taller than need be reads a row that is there for each that is not",
     "4096 x 14336: 77 rows in tiles of 128 for 96 lost 12 to 22 %, 95 rows 5 to 7"},
};

using B = SearchBounds;
constexpr Constant<B, i64> kSearch[] = {
    {"swapped_rows", &B::swapped_rows, 1024, "rows", search,
     "swapped operands: widths that cut up to so many rows of A into equal parts are tried",
     "docs/findings/swapped.md"},
    {"fitted_waves", &B::fitted_waves, 3, "waves", search, "widths that fill up to so many waves are tried",
     "docs/findings/fitted-widths.md"},
    {"fitted_width", &B::fitted_width, 64, "columns", search,
     "least of those widths; narrower tiles are for few rows", "docs/findings/fitted-widths.md"},
    {"splits_of_config", &B::splits_of_config, 2, "plans", search,
     "splits of one config among candidates: a tuner shall see different configs", "chosen"},
    {"run_k_tiles", &B::run_k_tiles, 2, "k-tiles", search, "shortest slice of a split", "chosen"},
    {"gpc_sms", &B::gpc_sms, 16, "SMs", sm, "SMs of a GPC that share an operand", kGpc},
    {"gpc_tensor_share", &B::gpc_tensor_share, 2, "ratio", search,
     "tensor time over HBM's from which on numbering by GPC gains: 0.6 % at 2, 2 to 3.6 at 4", kGpc},
    {"gpc_parts", &B::gpc_parts, 4, "parts", search,
     "parts of a tile from which on it gains 2.5 to 15 %; two parts lost 0.3 to 90", kGpc},
    {"two_wave_rows", &B::two_wave_rows, 64, "rows", search,
     "plain schedules: more rows of A in two waves lost to schedules with roles", kPlain},
    {"borrowed_rows", &B::borrowed_rows, 64, "rows", search,
     "gated: rows up to which a record of another epilogue serves a direct store; 164 us for 158 with 1024",
     "docs/findings/gated.md"},
    {"narrow_tokens", &B::narrow_tokens, 16, "tokens", search,
     "up to so many are the narrow kernel's: 8 % faster than the strip kernel", kFewBits},
    {"strip_tokens", &B::strip_tokens, 640, "tokens", search, "16-bit tokens: more are the wide kernel's",
     kWidths},
    {"strip_stages", &B::strip_stages, 32, "stages", search, "deepest ring of the strip kernel", kFewBits},
    {"strip_group_tokens", &B::strip_group_tokens, 64, "tokens", search,
     "tokens of a tile from which two warpgroups may beat four", kFewBits},
    {"part_k_tiles", &B::part_k_tiles, 8, "k-tiles", search,
     "least for a second warpgroup or a part of a cluster: fewer were slower", kFewBits},
    {"more_token_tiles", &B::more_token_tiles, 2, "tiles", search,
     "packed: tokens in so many equal tiles more than must be are tried", kWidths},
};

/// A list of values that the search tries.
struct ListRow {
  const char* name;
  std::span<const int> values;
  const char* unit;
  const char* meaning;
  const char* source;
};
constexpr ListRow kLists[] = {
    {"raster_groups", tried::kRasterGroups, "tiles", "widths of a band of the walk", "chosen"},
    {"splits", tried::kSplits, "parts",
     "parts of k; past a wave each costs a slot and shortens runs by little", "docs/findings/splits.md"},
    {"plain_parts", tried::kPlainParts, "CTAs", "plain schedules: clusters along k", kPlain},
    {"range_rows", tried::kRangeRows, "rows", "ranges of rows: numbers whose kernels serve the others",
     "docs/decisions/0031-kernels-of-fixed-rows.md"},
    {"row_blocks", tried::kRowBlocks, "16 rows", "narrow: rows of a tile", kFewBits},
    {"warps", tried::kWarps, "warps", "narrow: warps of a CTA", kFewBits},
    {"stages", tried::kStages, "stages", "narrow: ring of a warp", kFewBits},
    {"parts", tried::kParts, "CTAs", "narrow, and strip with e4m3 tokens: parts of k", kFewBits},
    {"ctas", tried::kCtas, "CTAs", "narrow: CTAs that share an SM", kFewBits},
    {"wide_tokens", tried::kWideTokens, "tokens", "wide: tokens of a tile, beside fitted ones", kFewBits},
    {"wide_clusters", tried::kWideClusters, "CTAs", "wide: clusters along n", kFewBits},
    {"x_rings", tried::kXRings, "stages",
     "wide: rings of X that have won, the best first; with the weights' beside it, the first that fits is "
     "taken",
     kFewBits},
    {"w_rings", tried::kWRings, "stages", "wide: rings of weights, as many as of X", kFewBits},
    {"strip_tokens", tried::kStripTokens, "tokens", "strip: tokens of a tile, beside fitted ones", kFewBits},
    {"strips", tried::kStrips, "64 rows", "strip: strips of a CTA", kFewBits},
    {"k_groups", tried::kKGroups, "warpgroups", "strip: warpgroups that share k, e4m3 tokens", kFewBits},
    {"half_k_groups", tried::kHalfKGroups, "warpgroups",
     "the same of 16-bit tokens, whose stages are twice as long: fewer groups win", kFewBits},
    {"half_parts", tried::kHalfParts, "CTAs", "16-bit tokens: parts of k, five where strips are few",
     kFewBits},
};

template <class Set, class Number, std::size_t kCount>
constexpr Set filled(const Constant<Set, Number> (&rows)[kCount]) {
  static_assert(sizeof(Set) == kCount * sizeof(Number), "a member has no row");
  Set set{};
  for (const Constant<Set, Number>& row : rows) set.*row.member = row.value;
  return set;
}
}  // namespace

constinit const PlannerConstants kPlanner{
    .narrow_registers = filled(kRegisters), .rows = filled(kRows), .search = filled(kSearch)};

const char* name_of(Origin origin) {
  switch (origin) {
    case device: return "device";
    case sm: return "sm";
    case model: return "model";
    case search: return "search";
  }
  return "?";
}

std::vector<ConstantText> all_constants() {
  std::vector<ConstantText> all;
  const auto add = [&](const char* set, const auto& row, double value) {
    all.push_back(
        {set, row.name, formatted("%.10g", value), row.unit, name_of(row.origin), row.meaning, row.source});
  };
  const auto add_all = [&](const char* set, const auto& rows) {
    for (const auto& row : rows) add(set, row, static_cast<double>(row.value));
  };
  add_all("costs", cost_constants());
  add_all("narrow_registers", kRegisters);
  add_all("rows", kRows);
  add_all("search", kSearch);
  for (const ListRow& list : kLists) {
    std::string values;
    for (const int value : list.values) values += (values.empty() ? "" : " ") + std::to_string(value);
    all.push_back({"tried", list.name, values, list.unit, name_of(search), list.meaning, list.source});
  }
  return all;
}

}  // namespace sluice
