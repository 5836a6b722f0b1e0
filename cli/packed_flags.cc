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
constexpr std::array kShared = {"--shape",      "--m",        "--n",         "--k",       "--dtype",
                                "--d",          "--bias",     "--bias-type", "--ld-a",    "--activation",
                                "--ld-d",       "--scale-a",  "--gated",     "--scale-d", "--stages",
                                "--no-records", "--residual", "--ld-c"};

/// Adds one flag per field of Config that the caller may choose, unless a flag of that name exists.
template <class Config>
void add_kernel_flags(CLI::App& app, const char* group, PackedFlags& f) {
  const auto add = [&]<class Member>(const Field<Config, Member>& row) {
    const std::string name = row.name;
    if (row.overrule == nullptr || name == "stages") return;
    const std::string flag = flag_of(name == "tokens" ? "tokens_tile" : name);
    if (app.get_option_no_throw(flag) != nullptr) return;
    CLI::Option* option = app.add_option(flag, f.overrides.*row.overrule, row.help)->group(group);
    check_range(option, *range_of_packed_override(name));
    f.override_options.push_back(option);
  };
  std::apply([&](const auto&... rows) { (add(rows), ...); }, FieldsOf<Config>::kTable);
}

}  // namespace

Result<WeightFormat> format_of(const PackedFlags& flags) {
  SLUICE_TAKE(const DType scale, bench::parse_name<DType>("type", flags.weight_scale));
  SLUICE_TAKE(const ScaleZero zero, bench::parse_name<ScaleZero>("zero", flags.zero));
  WeightFormat format{.group = flags.group, .scale = scale, .zero = zero};
  if (flags.weights == "int4" && zero != ScaleZero::none)
    return bad_argument(
        "--weights int4 are signed and --zero is per_group: zeros are for uint4 and int8; say --zero none");
  if (flags.weights == "int4" || flags.weights == "uint4") return format;
  for (const WeightType type : {WeightType::int8, WeightType::e4m3})
    if (flags.weights == name_of(type)) {
      format.type = type;
      return format;
    }
  return bad_argument("--weights {} is not one of: int4, uint4, int8, e4m3", in_quotes(flags.weights));
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
  add_kernel_flags<NarrowConfig>(app, "Packed weights: of the narrow kernel (--stages too)", f);
  add_kernel_flags<WideConfig>(app, "Packed weights: of the wide kernel", f);
  add_kernel_flags<StripConfig>(
      app, "Packed weights: of the strip kernel (--tokens-tile, --parts and --stages too)", f);
}

bool is_shared_flag(const std::string& name) {
  return std::find(kShared.begin(), kShared.end(), name) != kShared.end();
}

bool is_packed(const PackedFlags& flags) {
  return !flags.weights.empty();
}

packed::Overrides packed_overrides_of(const ProblemFlags& problem, const PackedFlags& flags) {
  packed::Overrides overrides = flags.overrides;
  overrides.stages = problem.overrides.stages;
  overrides.ignore_records = problem.overrides.ignore_records;
  return overrides;
}

Result<bench::PackedRequest> packed_request_of(const ProblemFlags& problem, const PackedFlags& flags) {
  SLUICE_TAKE(WeightFormat format, format_of(flags));
  SLUICE_TAKE(const Problem p, problem_of(problem));
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
