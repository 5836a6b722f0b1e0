// SPDX-License-Identifier: Apache-2.0
// Configs that must not compile: one for each rule of spec/validate.h and spec/plain.h. Host and NVRTC must
// report the same rule, and the kernel's static_assert must point to the rules. Fails if a rule has no case
// here, or if the kernel loses its static_assert.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include <sluice/plan.h>
#include <sluice/plan/text/units.h>
#include <sluice/run/jit/compiler.h>
#include <sluice/run/jit/embedded_files.h>
#include <sluice/spec/validate.h>

namespace sluice::test {
namespace {

struct Impossible {
  std::string rule;
  KernelConfig config;
};

constexpr TileShape kFp8Tile{128, 128, 128};
constexpr Epilogue kBlockScales{.scale_a = ScaleMode::block, .scale_b = ScaleMode::block};
constexpr Epilogue kEachColumn{.scale_a = ScaleMode::block, .scale_b = ScaleMode::vector128};
constexpr Epilogue kScalesOfD{.scale_d = ScaleMode::block}, kFactors{.row_factors = true};

constexpr ConvKind kFprop{.op = ConvOp::fprop}, kDgrad{.op = ConvOp::dgrad}, kWgrad{.op = ConvOp::wgrad};
constexpr ConvKind kPhases{.op = ConvOp::dgrad, .phased = true};

/// Returns `c` with the layouts of a wgrad or dgrad.
KernelConfig wgrad(KernelConfig c) {
  c.a_major = c.b_major = Major::mn;
  c.conv = kWgrad;
  return c;
}
KernelConfig dgrad(KernelConfig c, const ConvKind& kind = kDgrad) {
  c.b_major = Major::mn;
  c.conv = kind;
  return c;
}

/// Turns `c` into Schedule::plain.
KernelConfig plain(KernelConfig c) {
  c.schedule = Schedule::plain;
  c.store = StorePath::direct;
  if (c.warps == 0) c.warps = 8;
  return c;
}

/// Turns `c` into Schedule::plain_wgmma.
KernelConfig plain_wgmma(KernelConfig c) {
  c = plain(c);
  c.schedule = Schedule::plain_wgmma;
  return c;
}

const std::vector<Impossible>& impossible_configs() {
  using enum DType;
  constexpr GroupConfig kEnds{GroupKind::ends, 128};
  constexpr GroupConfig kAlongK{GroupKind::along_k, 128};
  constexpr GroupConfig kSlots{GroupKind::slots, kMostGroups};
  static const std::vector<Impossible> kAll = {
      {"A and B must be bf16, fp16, e4m3 or e5m2", {.a = fp32, .b = fp32}},
      {"the schedules narrow, wide and strip are for packed weights", {.schedule = Schedule::strip}},
      {"packed, norm_a, ctas, held_rows, k_groups, w_stages and residual_last are for packed weights",
       {.held_rows = 1}},
      {"D must be bf16, fp16, fp32 or e4m3", {.d = e5m2}},
      {"A and B must both be 8-bit or both be 16-bit", {.a = bf16, .b = e4m3}},
      {"16-bit A and B must have the same type", {.a = bf16, .b = fp16}},
      {"fp8 operands must be K-major: WGMMA has no transposed form for them",
       {.tile = kFp8Tile, .a = e4m3, .b = e4m3, .b_major = Major::mn}},
      {"tile.k must be one 128-byte row: 64 for 16-bit inputs, 128 for fp8", {.tile = kFp8Tile}},
      {"ping_pong needs tile.m of 64 or 128", {.schedule = Schedule::ping_pong, .tile = {256, 64, 64}}},
      {"cooperative needs tile.m of 128 or 256", {.tile = {64, 128, 64}}},
      {"tile.n must be a multiple of 8 in 8..256", {.tile = {128, 12, 64}}},
      {"a TMA store needs rows of a multiple of 16 bytes: widen tile.n or store direct",
       {.tile = {128, 8, 128}, .a = e4m3, .b = e4m3, .d = e4m3}},
      {"stages must be in 2..16", {.stages = 1}},
      {"the cluster must hold 1 to 8 CTAs", {.cluster = {4, 4}}},
      {"cluster.m, cluster.n and cluster.k must be powers of two", {.cluster = {3, 1}}},
      {"a cluster along k must be 1 along m and n", {.cluster = {2, 1, 2}}},
      {"each CTA of a cluster along k needs 8 of the tile's columns",
       {.tile = {128, 24, 64}, .cluster = {1, 1, 2}}},
      {"more than 144 sums a thread leave no room to add up the slots of a split: narrow tile.n",
       {.tile = {256, 160, 64}, .stages = 3, .combine = Combine::last_arriver}},
      {"a multicast slice of B must be a multiple of 8 rows", {.tile = {128, 8, 64}, .cluster = {2, 1}}},
      {"promotion is for fp8 inputs; 16-bit sums are kept in fp32", {.promotes = true}},
      {"block scales come on both inputs or on neither",
       {.tile = kFp8Tile, .a = e4m3, .b = e4m3, .promotes = true, .epilogue = {.scale_a = ScaleMode::block}}},
      {"vector128 is a scale of B; A's is block", {.epilogue = {.scale_a = ScaleMode::vector128}}},
      {"vector128 scales of B need those of A by columns",
       {.tile = kFp8Tile, .a = e4m3, .b = e4m3, .promotes = true, .epilogue = kEachColumn}},
      {"plain schedules take no vector128 scales of B",
       {.schedule = Schedule::plain, .epilogue = kEachColumn, .scale_a_columns = true}},
      {"groups take no vector128 scales of B",
       {.epilogue = kEachColumn, .groups = {.kind = GroupKind::ends, .most = 8}, .scale_a_columns = true}},
      {"gated products take no vector128 scales of B",
       {.epilogue = {.scale_a = ScaleMode::block, .scale_b = ScaleMode::vector128, .gated = true},
        .scale_a_columns = true}},
      {"scale_a_columns is for block scales: others have one value for a row", {.scale_a_columns = true}},
      {"block scales need promotion", {.tile = kFp8Tile, .a = e4m3, .b = e4m3, .epilogue = kBlockScales}},
      {"block scales need tile.m of at most 128: the warps that bring them hold those of some k-tiles",
       {.tile = {256, 64, 128}, .a = e4m3, .b = e4m3, .promotes = true, .epilogue = kBlockScales}},
      {"block scales need tile.n to be a multiple of 32: a thread holds one for each part of 128 columns",
       {.tile = {128, 80, 128}, .a = e4m3, .b = e4m3, .promotes = true, .epilogue = kBlockScales}},
      {"promoted sums in two halves need tile.n to be a multiple of 16",
       {.tile = {128, 216, 128}, .a = e4m3, .b = e4m3, .promotes = true}},
      {"the accumulators need more than 208 registers a thread and would spill", {.tile = {256, 216, 64}}},
      {"more than 192 accumulator registers leave no room for a heavy epilogue: narrow tile.n",
       {.tile = {256, 208, 64}, .stages = 3, .epilogue = {.activation = Activation::silu}}},
      {"more than 176 accumulator registers leave no room for a residual: narrow tile.n",
       {.tile = {256, 184, 64}, .stages = 3, .epilogue = {.residual = true}}},
      {"bias must be bf16, fp16 or fp32", {.epilogue = {.bias = Bias::column, .bias_type = e4m3}}},
      {"C must be bf16, fp16 or fp32", {.epilogue = {.residual = true, .c_type = e5m2}}},
      {"Combine::add adds the parts of a tile to D: it needs Update::add",
       {.d = fp32, .combine = Combine::add}},
      {"Combine::separate has a second kernel, so it cannot overlap with other launches",
       {.combine = Combine::separate, .overlap = {.wait = Wait::first}}},
      {"Update::add needs an fp32 D", {.epilogue = {.update = Update::add}}},
      {"Update::add takes no bias, residual or activation: it is D += the scaled product",
       {.d = fp32, .epilogue = {.residual = true, .update = Update::add}}},
      {"scale_d must be none, tensor or block: a vector of scales of D is neither read nor computed",
       {.d = e4m3, .epilogue = {.scale_d = ScaleMode::vector}}},
      {"scale_d is for an e4m3 D", {.epilogue = {.scale_d = ScaleMode::tensor}}},
      {"clamped_swiglu needs a gated product: it clamps gate and up",
       {.epilogue = {.activation = Activation::clamped_swiglu}}},
      {"a gated product takes no residual and no Update::add",
       {.epilogue = {.residual = true, .gated = true}}},
      {"block scales of a gated product need tile.n to be a multiple of 64: a part is of one half of B",
       {.tile = {128, 96, 128},
        .a = e4m3,
        .b = e4m3,
        .promotes = true,
        .epilogue = {.scale_a = ScaleMode::block, .scale_b = ScaleMode::block, .gated = true}}},
      {"plain schedules compute no scales of D: several warps have a row's columns",
       plain({.tile = {8, 32, 64}, .d = e4m3, .epilogue = kScalesOfD})},
      {"a convolution computes no scales of D", {.d = e4m3, .epilogue = kScalesOfD, .conv = kFprop}},
      {"block scales of D need combine = none: sums that are added up leave no room for 128 results",
       {.d = e4m3, .combine = Combine::last_arriver, .epilogue = kScalesOfD}},
      {"block scales of D need cluster.k = 1: a thread keeps 128 columns in registers",
       {.cluster = {1, 1, 2}, .d = e4m3, .epilogue = kScalesOfD}},
      {"block scales of D need tile.n of 128 or 256, with a gate of 256: a tile has whole blocks",
       {.tile = {128, 192, 64}, .d = e4m3, .epilogue = kScalesOfD}},
      {"block scales of D and more than 176 accumulator registers need cluster.m = 1: one would spill",
       {.tile = {128, 256, 128},
        .cluster = {2, 1},
        .a = e4m3,
        .b = e4m3,
        .d = e4m3,
        .promotes = true,
        .epilogue = {.scale_a = ScaleMode::block, .scale_b = ScaleMode::block, .scale_d = ScaleMode::block}}},
      {"block scales of D without a gate or promotion leave room for 64 sums a thread: lower the tile",
       {.tile = {256, 128, 64}, .d = e4m3, .epilogue = kScalesOfD}},
      {"factors of rows and Update::add: the result must be stored as it is",
       {.d = fp32, .epilogue = {.update = Update::add, .row_factors = true}}},
      {"plain schedules take no factors of rows: their rows are columns",
       plain({.tile = {8, 32, 64}, .epilogue = kFactors})},
      {"swapped operands take no factors of rows", {.d_major = Major::mn, .epilogue = kFactors}},
      {"a convolution takes no factors of rows", {.epilogue = kFactors, .conv = kFprop}},
      {"factors of rows have no Combine::separate", {.combine = Combine::separate, .epilogue = kFactors}},
      {"a gated product needs a K-major B: a tile takes rows from both of its halves",
       {.b_major = Major::mn, .epilogue = {.gated = true}}},
      {"a gated product has no Combine::separate: its CTAs do not hold both halves",
       {.combine = Combine::separate, .epilogue = {.gated = true}}},
      {"a gated product needs whole groups of 16 columns for each CTA of a tile",
       {.tile = {128, 24, 64}, .epilogue = {.gated = true}}},
      {"more than 176 accumulators leave no room for a gate with gelu, a clamp or a bias: narrow tile.n",
       {.tile = {256, 192, 64}, .stages = 3, .epilogue = {.bias = Bias::column, .gated = true}}},
      {"plain schedules do not swap operands", plain({.tile = {8, 32, 64}, .d_major = Major::mn})},
      {"swapped operands need a 16-bit D: its fragments are transposed by stmatrix",
       {.d = fp32, .d_major = Major::mn}},
      {"swapped operands need store = tma: their pairs are not neighbours in D",
       {.d_major = Major::mn, .store = StorePath::direct}},
      {"a bias of rows is for swapped operands", {.epilogue = {.bias = Bias::row}}},
      {"swapped operands have a bias of rows: columns are the caller's",
       {.d_major = Major::mn, .epilogue = {.bias = Bias::column}}},
      {"swapped operands take no residual and no gate",
       {.d_major = Major::mn, .epilogue = {.residual = true}}},
      {"swapped operands take no block scales",
       {.tile = kFp8Tile,
        .a = e4m3,
        .b = e4m3,
        .d_major = Major::mn,
        .promotes = true,
        .epilogue = kBlockScales}},
      {"swapped operands have no Combine::separate: the second kernel writes rows of D",
       {.d_major = Major::mn, .combine = Combine::separate}},
      {"conv.spatial and conv.phased are for a conv.op: leave them out", {.conv = {.spatial = 3}}},
      {"plain schedules do not gather: use ping_pong or cooperative",
       plain({.tile = {8, 32, 64}, .conv = kFprop})},
      {"conv.spatial must be 1, 2 or 3", {.conv = {.op = ConvOp::fprop, .spatial = 4}}},
      {"majors of A and B must be k, k (fprop), k, mn (dgrad) or mn, mn (wgrad)", {.conv = kDgrad}},
      {"a convolution's operands are not swapped", {.d_major = Major::mn, .conv = kFprop}},
      {"a convolution takes no gate and no block scales", {.epilogue = {.gated = true}, .conv = kFprop}},
      {"more than 192 accumulator registers leave too few to a load thread that gathers: narrow tile.n",
       {.tile = {256, 208, 64}, .stages = 3, .conv = kFprop}},
      {"tile.n of a wgrad must be a multiple of 64: its columns are 64 channels at a tap",
       wgrad({.tile = {128, 96, 64}})},
      {"a wgrad needs a 16-bit or fp32 D: 128 bytes lie at one tap", wgrad({.d = e4m3})},
      {"a wgrad takes no bias, residual, activation or scale",
       wgrad({.epilogue = {.scale_a = ScaleMode::vector}})},
      {"a wgrad reads no weights: wait = weights_first must be another",
       wgrad({.overlap = {.wait = Wait::weights_first}})},
      {"a dgrad needs a 16-bit or fp32 D", dgrad({.d = e4m3})},
      {"a dgrad takes no bias, activation or scale", dgrad({.epilogue = {.bias = Bias::column}})},
      {"Update::add of a convolution is for wgrad",
       {.d = fp32, .epilogue = {.update = Update::add}, .conv = kFprop}},
      {"phases are those of a dgrad with a stride", {.conv = {.op = ConvOp::fprop, .phased = true}}},
      {"phases need clusters of 1 x 1 or 1 x 2 and combine = none: they differ in k",
       dgrad({.cluster = {2, 1}}, kPhases)},
      {"phases take no residual", dgrad({.epilogue = {.residual = true}}, kPhases)},
      {"phases need store = tma: their pixels lie apart", dgrad({.store = StorePath::direct}, kPhases)},
      {"stages and buffers need more than 227 KB of shared memory", {.stages = 16}},
      {"warps is for plain schedules: the others have 12", {.warps = 8}},
      {"plain needs K-major operands", plain({.tile = {8, 32, 64}, .b_major = Major::mn})},
      {"plain needs tile.m of 8, 16, 32 or 64 rows of A", plain({.tile = {24, 32, 64}})},
      {"plain needs tile.n of 16, 32, 64 or 128", plain({.tile = {8, 24, 64}})},
      {"plain has registers for at most 64 x 64 sums", plain({.tile = {64, 128, 64}})},
      {"plain has registers for 64 x 32 sums of fp8, which needs some to become fp16",
       plain({.tile = {64, 64, 128}, .stages = 2, .a = e4m3, .b = e4m3, .warps = 4})},
      {"plain has registers for 128 rows of B with up to 16 of A: fp8 needs some to become fp16",
       plain({.tile = {32, 128, 64}})},
      {"plain_wgmma needs tile.n to be a multiple of 16 in 16..256, or of 8 above 32 without a gate",
       plain_wgmma({.tile = {8, 24, 64}})},
      {"plain_wgmma needs tile.m of 8 rows of A, or a multiple of 16 in 16..128",
       plain_wgmma({.tile = {24, 32, 64}})},
      {"plain_wgmma has registers for 128 sums a thread, for 64 of 16 warps: fewer rows of A or of B",
       plain_wgmma({.tile = {128, 192, 64}, .stages = 2, .warps = 4})},
      {"plain_wgmma has registers for 128 sums a thread, for 64 of 16 warps: fewer rows of A or of B",
       plain_wgmma({.tile = {64, 144, 64}, .stages = 2, .warps = 16})},
      {"plain_wgmma does not promote: take Schedule::plain, whose sums are all in fp32",
       plain_wgmma({.tile = {8, 32, 128}, .a = e4m3, .b = e4m3, .promotes = true})},
      {"plain needs 4, 8 or 16 warps", plain({.tile = {8, 32, 64}, .warps = 6})},
      {"plain has clusters along k only", plain({.tile = {8, 32, 64}, .cluster = {2, 1}})},
      {"cluster.k must be 1, 2, 4 or 8", plain({.tile = {8, 32, 64}, .cluster = {1, 1, 3}})},
      {"plain has registers for 64 x 16 sums with block scales, beside those of one block",
       plain({.tile = {16, 128, 128}, .a = e4m3, .b = e4m3, .epilogue = kBlockScales})},
      {"plain_wgmma has no block scales: take Schedule::plain",
       plain_wgmma({.tile = {8, 32, 128}, .a = e4m3, .b = e4m3, .epilogue = kBlockScales})},
      {"plain keeps all sums in fp32: promotes says nothing there",
       plain({.tile = {8, 32, 128}, .a = e4m3, .b = e4m3, .promotes = true})},
      {"plain stores direct",
       {.schedule = Schedule::plain, .tile = {8, 32, 64}, .store = StorePath::tma, .warps = 8}},
      {"plain splits k inside a cluster only",
       plain({.tile = {8, 32, 64}, .combine = Combine::last_arriver})},
      {"a convolution's operands come by TMA: load_a and load_b must be tma",
       {.conv = kFprop, .load_a = Load::strided}},
      {"strided loads are for 16-bit operands",
       {.tile = kFp8Tile, .a = e4m3, .b = e4m3, .load_b = Load::strided}},
      {"plain schedules copy 16 bytes at a time: strided loads need roles",
       plain({.tile = {8, 32, 64}, .load_b = Load::strided})},
      {"strided loads are not multicast: cluster.m and cluster.n must be 1",
       {.cluster = {1, 2}, .load_a = Load::strided}},
      {"more than 128 sums a thread leave too few registers to warps that load strided operands",
       {.tile = {256, 136, 64}, .stages = 3, .load_a = Load::strided}},
      {"groups.most is for a groups.kind: leave it out", {.groups = {GroupKind::none, 5}}},
      {"groups.most must be in 1..1024", {.groups = {GroupKind::ends, 0}}},
      {"groups by ends, counts or along k need roles: use ping_pong or cooperative",
       plain({.tile = {8, 32, 64}, .groups = kEnds})},
      {"groups by slots need schedule = plain: a tile has one row", {.groups = kSlots}},
      {"groups by slots need tile.m of 8, of which one row is used",
       plain({.tile = {16, 32, 64}, .groups = kSlots})},
      {"groups by slots need four of the tile's columns for each CTA of the cluster",
       plain({.tile = {8, 16, 64}, .cluster = {1, 1, 8}, .groups = kSlots})},
      {"groups are not swapped: their rows are rows of tiles", {.d_major = Major::mn, .groups = kEnds}},
      {"groups are loaded by TMA, and are no convolution", {.load_b = Load::strided, .groups = kEnds}},
      {"groups need a K-major A: their rows end anywhere", {.a_major = Major::mn, .groups = kEnds}},
      {"groups need cluster.m = 1: their tiles along m are neighbours in no matrix",
       {.cluster = {2, 1}, .groups = kEnds}},
      {"groups need combine = none: their sizes are on the device",
       {.combine = Combine::last_arriver, .groups = kEnds}},
      {"groups of rows need Update::set",
       {.d = DType::fp32, .epilogue = {.update = Update::add}, .groups = kEnds}},
      {"groups along k need MN-major operands: the rows that are summed over must be rows in memory",
       {.a_major = Major::mn, .groups = kAlongK}},
      {"groups along k need cluster.k = 1: their sizes are on the device",
       {.cluster = {1, 1, 2}, .a_major = Major::mn, .b_major = Major::mn, .groups = kAlongK}},
      {"groups along k have no bias, no vectors of scales and no gate",
       {.a_major = Major::mn, .b_major = Major::mn, .epilogue = {.bias = Bias::column}, .groups = kAlongK}},
      {"more than 192 accumulator registers leave too few to the roles that search groups: narrow tile.n",
       {.tile = {256, 200, 64}, .stages = 3, .groups = kEnds}},
      {"groups read their table before weights: wait = weights_first must be another",
       {.overlap = {.wait = Wait::weights_first}, .groups = kEnds}},
      {"the rings need more than 227 KB of shared memory", plain({.tile = {64, 64, 64}, .warps = 16})},
  };
  return kAll;
}

/// Rules that can never be the first to fail, because earlier rules fail too. They still matter if the
/// earlier rules change. shadowed_rules_stay_so proves this over all tiles and clusters.
const std::set<std::string> kShadowed = {"a multicast slice of A must be a multiple of 8 rows",
                                         "cluster.m must divide tile.n"};

/// Reads from its source all messages that validate() can return.
std::set<std::string> rules_in_source() {
  std::set<std::string> rules;
  for (const EmbeddedFile& file : embedded_files()) {
    if (std::string_view(file.path) != "sluice/spec/validate.h" &&
        std::string_view(file.path) != "sluice/spec/plain.h")
      continue;
    constexpr std::string_view kReturn = "return \"";
    for (size_t at = file.text.find(kReturn); at != std::string_view::npos;
         at = file.text.find(kReturn, at)) {
      at += kReturn.size();
      rules.emplace(file.text.substr(at, file.text.find('"', at) - at));
    }
  }
  return rules;
}

const Compiler& compiler() {
  static const Result<std::shared_ptr<const Compiler>> kCompiler = Compiler::load("");
  if (!kCompiler) ADD_FAILURE() << kCompiler.error().message;
  return **kCompiler;
}

/// Returns a unit that compiles only if validate(), compiled by NVRTC, returns `rule` for `config`.
std::string same_rule_unit(const Impossible& impossible) {
  return fmt::format(R"(#include <sluice/spec/validate.h>
SLUICE_HD constexpr bool same(const char* x, const char* y) {{
  for (; *x == *y; ++x, ++y)
    if (*x == 0) return true;
  return false;
}}
inline constexpr sluice::KernelConfig kConfig = {};
static_assert(same(sluice::validate(kConfig), "{}"));
extern "C" __global__ void {}() {{}}
)",
                     to_string(impossible.config), impossible.rule, kEntryName);
}

TEST(impossible_configs, host_names_the_rule) {
  for (const Impossible& impossible : impossible_configs()) {
    SCOPED_TRACE(to_string(impossible.config));
    const char* rule = validate(impossible.config);
    EXPECT_EQ(rule == nullptr ? "(possible)" : rule, impossible.rule);
  }
}

TEST(impossible_configs, every_rule_has_a_case) {
  std::set<std::string> cases;
  for (const Impossible& impossible : impossible_configs()) cases.insert(impossible.rule);
  for (const std::string& rule : kShadowed) EXPECT_TRUE(cases.insert(rule).second) << rule;
  EXPECT_EQ(cases, rules_in_source());
}

TEST(impossible_configs, shadowed_rules_stay_so) {
  KernelConfig c;
  for (c.schedule = Schedule::ping_pong;; c.schedule = Schedule::cooperative) {
    for (const Major major : {Major::k, Major::mn})
      for (const int tile_m : {64, 128, 256})
        for (c.tile.n = 8; c.tile.n <= 256; c.tile.n += 8)
          for (c.cluster.m = 1; c.cluster.m <= 8; ++c.cluster.m)
            for (c.cluster.n = 1; c.cluster.n <= 8; ++c.cluster.n) {
              c.tile.m = tile_m;
              c.a_major = c.b_major = major;
              const char* rule = validate(c);
              ASSERT_FALSE(rule != nullptr && kShadowed.contains(rule)) << rule << ": " << to_string(c);
            }
    if (c.schedule == Schedule::cooperative) break;
  }
}

TEST(impossible_configs, device_compiler_names_the_same_rule) {
  for (const Impossible& impossible : impossible_configs()) {
    const Result<Cubin> unit = compiler().compile(same_rule_unit(impossible));
    EXPECT_TRUE(unit) << unit.error().message;
  }
  Impossible wrong = impossible_configs().front();
  wrong.rule += "?";  // proves that the comparison can fail
  EXPECT_FALSE(compiler().compile(same_rule_unit(wrong)));
}

TEST(impossible_configs, kernel_does_not_compile_and_says_where_the_rules_are) {
  for (const Impossible& impossible : impossible_configs()) {
    SCOPED_TRACE(impossible.rule);
    // There is no WGMMA header for such a width, so no unit either.
    if (unit_columns(impossible.config) % 8 != 0) continue;
    if (decodes(impossible.config.schedule)) continue;  // its unit is a kernel for packed weights
    const Result<Cubin> unit = compiler().compile(unit_text(impossible.config));
    ASSERT_FALSE(unit);
    EXPECT_EQ(unit.error().code, ErrorCode::toolchain);
    EXPECT_NE(unit.error().message.find("impossible config: spec/validate.h names the rule"),
              std::string::npos)
        << unit.error().message;
  }
}

}  // namespace
}  // namespace sluice::test
