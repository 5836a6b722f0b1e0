// SPDX-License-Identifier: Apache-2.0
#include "cli/packed_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include <sluice/tools.h>
#include <sluice/try.h>

#include "cli/parse.h"
#include "cli/value_checks.h"

namespace sluice::cli {
namespace {

/// Of the flags of dense products, those that mean the same here.
constexpr std::array kShared = {"--shape",      "--m",        "--n",         "--k",       "--dtype",
                                "--d",          "--bias",     "--bias-type", "--ld-a",    "--activation",
                                "--ld-d",       "--scale-a",  "--gated",     "--scale-d", "--stages",
                                "--no-records", "--residual", "--ld-c"};

}  // namespace

Result<WeightFormat> format_of(const PackedFlags& flags) {
  SLUICE_TAKE(const DType scale, parse_dtype(flags.weight_scale));
  SLUICE_TAKE(const ScaleZero zero, parse_scale_zero(flags.zero));
  WeightFormat format{.group = flags.group, .scale = scale, .zero = zero};
  if (flags.weights == "int4" && zero != ScaleZero::none)
    return Error{
        ErrorCode::invalid_argument,
        "--weights int4 are signed and --zero is per_group: zeros are for uint4 and int8; say --zero none"};
  if (flags.weights == "int4" || flags.weights == "uint4") return format;
  for (const WeightType type : {WeightType::int8, WeightType::e4m3})
    if (flags.weights == name_of(type)) {
      format.type = type;
      return format;
    }
  return Error{ErrorCode::invalid_argument,
               fmt::format("--weights {} is not one of: int4, uint4, int8, e4m3", in_quotes(flags.weights))};
}

void add_format_flags(CLI::App& app, PackedFlags& f) {
  const char* group = "Packed weights";
  f.format_options = {
      app.add_option("--weights", f.weights, "B is packed: int4 (zero 8), uint4, int8, e4m3")->group(group),
      app.add_option("--group", f.group, "k that share a scale: 32, 64, 128; 0: all")
          ->group(group)
          ->capture_default_str(),
      app.add_option("--weight-scale", f.weight_scale, "Type of scales and zeros: fp16, bf16, fp32")
          ->group(group)
          ->capture_default_str(),
      app.add_option("--zero", f.zero, "none or per_group")->group(group)->capture_default_str()};
}

void add_packed_flags(CLI::App& app, PackedFlags& f) {
  add_format_flags(app, f);
  f.format_options.push_back(
      app.add_flag("--norm-x", f.norm_x,
                   "X is normed first: its rows over their root mean square, times gamma")
          ->group("Packed weights"));
  const char* narrow = "Packed weights: of the narrow kernel (--stages too)";
  const char* strip = "Packed weights: of the strip kernel (--tokens-tile, --parts and --stages too)";
  const char* wide = "Packed weights: of the wide kernel";
  const std::vector<CLI::Option*> options = {
      app.add_option("--token-blocks", f.token_blocks, "Tokens of a tile / 8: 1, 2, 4")->group(narrow),
      app.add_option("--row-blocks", f.row_blocks, "Outputs of a tile / 16: 2, 4, 8")->group(narrow),
      app.add_option("--warps", f.warps, "Of a CTA: 1 to 16")->group(narrow),
      app.add_option("--parts", f.parts, "CTAs of a cluster, which share k: 1, 2, 4, 8 (strip: 1 to 8)")
          ->group(narrow),
      app.add_option("--ctas", f.ctas, "That share an SM")->group(narrow),
      app.add_option("--tokens-tile", f.tokens_tile, "Tokens of a tile: 32, 64, 128, 256 (strip: 8 to 128)")
          ->group(wide),
      app.add_option("--cluster-n", f.cluster_n, "CTAs of a cluster, which share tokens: 1, 2")->group(wide),
      app.add_option("--cluster-k", f.cluster_k, "CTAs of a cluster, which share k: 1, 2")->group(wide),
      app.add_option("--x-stages", f.x_stages, "Slots of the tokens' ring, 64 k each: 2 to 16")->group(wide),
      app.add_option("--w-stages", f.w_stages, "Slots of the weights' ring, 128 k each: 1 to 16")
          ->group(wide),
      app.add_option("--tail-parts", f.tail_parts,
                     "Units that each tile of the last wave is split into, by tokens: 1, 2")
          ->group(wide),
      app.add_option("--strips", f.strips, "64 outputs each, of a CTA: 1 to 4")->group(strip),
      app.add_option("--k-groups", f.k_groups, "Warpgroups that share a strip")->group(strip)};
  constexpr const char* kNames[] = {"token_blocks", "row_blocks", "warps",     "parts",    "ctas",
                                    "tokens",       "cluster_n",  "cluster_k", "x_stages", "w_stages",
                                    "tail_parts",   "strips",     "k_groups"};
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    check_range(options[i], *range_of_packed_override(kNames[i]));
  f.override_options.assign(options.begin(), options.end());
}

bool is_shared_flag(const std::string& name) {
  return std::find(kShared.begin(), kShared.end(), name) != kShared.end();
}

bool is_packed(const PackedFlags& flags) {
  return !flags.weights.empty();
}

packed::Overrides packed_overrides_of(const ProblemFlags& problem, const PackedFlags& flags) {
  return {.token_blocks = flags.token_blocks,
          .row_blocks = flags.row_blocks,
          .warps = flags.warps,
          .stages = problem.stages,
          .parts = flags.parts,
          .ctas = flags.ctas,
          .tokens = flags.tokens_tile,
          .cluster_n = flags.cluster_n,
          .cluster_k = flags.cluster_k,
          .x_stages = flags.x_stages,
          .w_stages = flags.w_stages,
          .tail_parts = flags.tail_parts,
          .strips = flags.strips,
          .k_groups = flags.k_groups,
          .ignore_records = problem.no_records};
}

Result<bench::PackedRequest> packed_request_of(const ProblemFlags& problem, const PackedFlags& flags) {
  SLUICE_TAKE(WeightFormat format, format_of(flags));
  ProblemFlags shared = problem;
  if (shared.dtype.empty()) shared.dtype = "fp16";
  SLUICE_TAKE(const Problem p, problem_of(shared));
  const Epilogue& e = p.epilogue;
  if (p.a.type == DType::e4m3 && format.type == WeightType::uint4) format.order = FragmentOrder::byte;
  return bench::PackedRequest{
      .problem = {.m = p.m,
                  .n = p.n,
                  .k = p.k,
                  .x = p.a.type,
                  .scale_x = e.scale_a,
                  .d = p.d.type,
                  .weights = format,
                  .bias = e.bias,
                  .bias_type = e.bias == Bias::none ? PackedProblem{}.bias_type : e.bias_type,
                  .activation = e.activation,
                  .gated = e.gated,
                  .scale_d = e.scale_d,
                  .norm_x = flags.norm_x,
                  .residual = e.residual,
                  .ld_x = p.a.ld,
                  .ld_d = p.d.ld,
                  .ld_c = e.residual ? p.c.ld : 0},
      .overrides = packed_overrides_of(problem, flags)};
}

}  // namespace sluice::cli
