// SPDX-License-Identifier: Apache-2.0
#include "cli/packed_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include <sluice/tools.h>
#include <sluice/try.h>

#include "bench/names.h"
#include "cli/value_checks.h"

namespace sluice::cli {
namespace {

/// Flags of dense products that have the same meaning for packed ones.
constexpr std::array kShared = {
    "--shape", "--m",          "--n",    "--k",       "--dtype", "--d",       "--bias",     "--bias-type",
    "--ld-a",  "--activation", "--ld-d", "--scale-a", "--gated", "--scale-d", "--residual", "--ld-c"};

}  // namespace

Result<WeightFormat> format_named(const std::string& weights, ScaleZero zero) {
  if (weights == "int4" && zero != ScaleZero::none)
    return bad_argument(
        "--weights int4 are signed and --zero is per_group: zeros are for uint4 and int8; say --weights "
        "uint4, or --zero none");
  const std::optional<WeightType> type =
      weights == "int4" ? WeightType::uint4 : enumerator_named<WeightType>(weights);
  if (type && *type != WeightType::none) return default_format(*type);
  return bad_argument("--weights {} is not one of: {}", in_quotes(weights), kWeightNames);
}

Result<WeightFormat> format_of(const PackedFlags& flags) {
  SLUICE_TAKE(const ScaleZero zero, bench::parse_name<ScaleZero>("zero", flags.zero));
  SLUICE_TAKE(WeightFormat format, format_named(flags.weights, zero));
  if (flags.weight_scale) {
    SLUICE_TAKE(const DType scale, bench::parse_name<DType>("type", *flags.weight_scale));
    format.scale = scale;
  }
  format.zero = zero;
  format.group = flags.group.value_or(format.group);
  return format;
}

void add_format_flags(CLI::App& app, PackedFlags& f) {
  const char* group = "Packed weights";
  f.format_options = {
      app.add_option("--weights", f.weights, std::string("B is packed: ") + kWeightNames)->group(group),
      app.add_option("--group", f.group, kGroupHelp)->group(group),
      app.add_option("--weight-scale", f.weight_scale, kScaleHelp)->group(group),
      app.add_option("--zero", f.zero, "none or per_group")->group(group)->capture_default_str()};
}

void add_packed_flags(CLI::App& app, PackedFlags& f) {
  add_format_flags(app, f);
  f.format_options.push_back(
      app.add_flag("--norm-a", f.norm_a,
                   "A is normed first: its rows over their root mean square, times gamma")
          ->group("Packed weights"));
}

bool is_shared_flag(const std::string& name) {
  return std::find(kShared.begin(), kShared.end(), name) != kShared.end();
}

bool is_packed(const PackedFlags& flags) {
  return !flags.weights.empty();
}

Result<bench::Request> packed_request_of(const ProblemFlags& problem, const PackedFlags& flags) {
  SLUICE_TAKE(WeightFormat format, format_of(flags));
  SLUICE_TAKE(bench::Request request, product_request_of(problem));
  Problem& p = request.problem;
  if (p.a.type == DType::e4m3 && format.type == WeightType::uint4) format.order = FragmentOrder::byte;
  p.b = {.type = p.a.type, .packed = format};
  p.norm_a = flags.norm_a;
  if (p.epilogue.residual) add_residual(p);
  return request;
}

}  // namespace sluice::cli
