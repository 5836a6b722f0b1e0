// SPDX-License-Identifier: Apache-2.0
// The configs of the three kernels for packed weights (NarrowConfig, WideConfig, StripConfig) as a
// KernelConfig, and back. Plans, records and overrides hold KernelConfigs; units hold the kernels' own.
// tile.m is the kernel's tokens, tile.n its outputs, cluster.k its parts. Host code only.
#pragma once

#include <sluice/spec/config.h>
#include <sluice/spec/strip.h>
#include <sluice/spec/wide.h>

namespace sluice {

namespace detail {
/// Returns the formats and the epilogue, which the three kernels name alike.
template <class Config>
SLUICE_HD constexpr KernelConfig shared_of(const Config& c, Schedule schedule) {
  KernelConfig k{.schedule = schedule, .a = c.x, .b = c.x, .d = c.d, .store = StorePath::direct};
  k.tile.k = kPackedTileK;
  k.packed = c.weights;
  k.overlap = c.overlap;
  k.epilogue.bias = c.bias;
  if (c.bias != Bias::none) k.epilogue.bias_type = c.bias_type;
  k.epilogue.activation = c.activation;
  return k;
}
template <class Config>
SLUICE_HD constexpr Config shared_from(const KernelConfig& k) {
  Config c{};
  c.weights = k.packed;
  c.x = k.a;
  c.d = k.d;
  c.bias = k.epilogue.bias;
  if (c.bias != Bias::none) c.bias_type = k.epilogue.bias_type;
  c.activation = k.epilogue.activation;
  c.overlap = k.overlap;
  return c;
}
}  // namespace detail

SLUICE_HD constexpr KernelConfig config_of(const NarrowConfig& c) {
  KernelConfig k = detail::shared_of(c, Schedule::narrow);
  k.tile.m = tile_tokens(c);
  k.tile.n = tile_rows(c);
  k.stages = c.stages;
  k.cluster.k = c.parts;
  k.warps = c.warps;
  k.ctas = c.ctas;
  k.held_rows = c.held_tokens;
  k.epilogue.gated = c.gated;
  k.epilogue.residual = k.epilogue.residual_last = c.residual;
  if (c.residual) k.epilogue.c_type = c.d;
  k.norm_a = c.norm_a;
  k.groups = c.groups;
  return k;
}
SLUICE_HD constexpr KernelConfig config_of(const WideConfig& c) {
  KernelConfig k = detail::shared_of(c, Schedule::wide);
  k.tile.m = c.tokens;
  k.tile.n = kWideRows;
  k.cluster.n = c.cluster_n;
  k.stages = c.x_stages;
  k.w_stages = c.w_stages;
  return k;
}
SLUICE_HD constexpr KernelConfig config_of(const StripConfig& c) {
  KernelConfig k = detail::shared_of(c, Schedule::strip);
  k.tile.m = c.tokens;
  k.tile.n = tile_rows(c);
  k.stages = c.stages;
  k.cluster.k = c.parts;
  k.k_groups = c.k_groups;
  k.epilogue.gated = c.gated;
  k.epilogue.scale_a = c.scale_x;
  k.epilogue.scale_d = c.scale_d;
  return k;
}

SLUICE_HD constexpr NarrowConfig narrow_of(const KernelConfig& k) {
  NarrowConfig c = detail::shared_from<NarrowConfig>(k);
  c.gated = k.epilogue.gated;
  c.norm_a = k.norm_a;
  c.residual = k.epilogue.residual;
  c.held_tokens = k.held_rows;
  c.token_blocks = k.tile.m / kTokenBlock;
  c.row_blocks = k.tile.n / kBlockRows;
  c.warps = k.warps;
  c.stages = k.stages;
  c.parts = k.cluster.k;
  c.ctas = k.ctas;
  c.groups = k.groups;
  return c;
}
SLUICE_HD constexpr WideConfig wide_of(const KernelConfig& k) {
  WideConfig c = detail::shared_from<WideConfig>(k);
  c.tokens = k.tile.m;
  c.cluster_n = k.cluster.n;
  c.x_stages = k.stages;
  c.w_stages = k.w_stages;
  return c;
}
SLUICE_HD constexpr StripConfig strip_of(const KernelConfig& k) {
  StripConfig c = detail::shared_from<StripConfig>(k);
  c.scale_x = k.epilogue.scale_a;
  c.gated = k.epilogue.gated;
  c.scale_d = k.epilogue.scale_d;
  c.tokens = k.tile.m;
  c.strips = k.tile.n / kStripRows;
  c.k_groups = k.k_groups;
  c.parts = k.cluster.k;
  c.stages = k.stages;
  return c;
}

/// Calls visit() with the config of the kernel that `k.schedule` names. decodes(k.schedule) must hold.
template <class Visit>
SLUICE_HD constexpr decltype(auto) visit_decoder(const KernelConfig& k, const Visit& visit) {
  switch (k.schedule) {
    case Schedule::narrow: return visit(narrow_of(k));
    case Schedule::wide: return visit(wide_of(k));
    default: return visit(strip_of(k));
  }
}
namespace detail {
struct RuleOf {
  const KernelConfig& k;

  template <class C>
  SLUICE_HD constexpr const char* operator()(const C& c) const {
    if (clamps(c.activation)) return "kernels of packed weights have no clamped_swiglu";
    if (const char* rule = validate(c)) return rule;
    return config_of(c) == k ? nullptr : "the schedule has no such tile, cluster, store or epilogue";
  }
};
}  // namespace detail
/// Returns nullptr, or the rule that the config of a kernel for packed weights breaks.
SLUICE_HD constexpr const char* validate_decoder(const KernelConfig& k) {
  return visit_decoder(k, detail::RuleOf{k});
}

}  // namespace sluice
