// SPDX-License-Identifier: Apache-2.0
// Short forms for tests of packed weights, in the words of the three kernels: a problem, its overrides, and
// the kernels' configs as one type. They convert to the library's Problem, PlanOverrides and
// KernelConfig.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include <sluice/gemm.h>
#include <sluice/plan/text/units.h>
#include <sluice/spec/packed_config.h>

namespace sluice {

struct PackedProblem {
  i64 m = 0, n = 0, k = 0;
  DType x = DType::bf16;
  ScaleMode scale_x = ScaleMode::none;
  DType d = DType::bf16;
  WeightFormat weights{};
  Bias bias = Bias::none;
  DType bias_type = DType::bf16;
  Activation activation = Activation::none;
  bool gated = false;
  ScaleMode scale_d = ScaleMode::none;
  bool norm_a = false;
  bool residual = false;
  i64 ld_x = 0, ld_d = 0, ld_c = 0;

  constexpr bool operator==(const PackedProblem&) const = default;

  constexpr operator Problem() const {
    Problem p = packed_problem(m, n, k, x, d, weights);
    p.a.ld = ld_x;
    p.c.ld = ld_c;
    p.d.ld = ld_d;
    p.epilogue.scale_a = scale_x;
    p.epilogue.bias = bias;
    p.epilogue.bias_type = bias_type;
    p.epilogue.activation = activation;
    p.epilogue.gated = gated;
    p.epilogue.scale_d = scale_d;
    p.norm_a = norm_a;
    if (residual) add_residual(p);
    return p;
  }
};

struct PackedOverrides {
  std::optional<int> token_blocks{}, row_blocks{}, warps{}, stages{}, parts{}, ctas{};  // narrow
  std::optional<int> tokens{}, cluster_n{}, x_stages{}, w_stages{};  // wide, and strip's tokens
  std::optional<int> strips{}, k_groups{};                           // strip
  bool ignore_records = false;
  Overlap overlap{};

  operator PlanOverrides() const {
    PlanOverrides o{.stages = stages,
                    .warps = warps,
                    .w_stages = w_stages,
                    .k_groups = k_groups,
                    .ctas = ctas,
                    .ignore_records = ignore_records,
                    .overlap = overlap};
    if (token_blocks || row_blocks) o.schedule = Schedule::narrow;
    if (cluster_n || x_stages) o.schedule = Schedule::wide;
    if (strips) o.schedule = Schedule::strip;
    if (token_blocks) o.tile_m = kTokenBlock * *token_blocks;
    if (tokens) o.tile_m = tokens;
    if (row_blocks) o.tile_n = kBlockRows * *row_blocks;
    if (strips) o.tile_n = kStripRows * *strips;
    if (x_stages) o.stages = x_stages;
    if (cluster_n || parts) o.cluster = ClusterShape{.n = cluster_n.value_or(1), .k = parts.value_or(1)};
    return o;
  }
};

using PackedConfig = std::variant<NarrowConfig, WideConfig, StripConfig>;

inline KernelConfig config_of(const PackedConfig& config) {
  return std::visit([](const auto& c) { return config_of(c); }, config);
}
inline PackedConfig packed_config_of(const KernelConfig& config) {
  return visit_decoder(config, [](const auto& c) { return PackedConfig(c); });
}
inline std::string to_string(const PackedConfig& config) {
  return to_string(config_of(config));
}
inline std::string short_name(const PackedConfig& config) {
  return short_name(config_of(config));
}
inline std::string unit_text(const PackedConfig& config) {
  return unit_text(config_of(config));
}

}  // namespace sluice
