// SPDX-License-Identifier: Apache-2.0
#include <sluice/plan/dense/tuned_choice.h>

#include <algorithm>
#include <iterator>

#include <sluice/kernels/registry.h>

namespace sluice {

TunedChoice choice_of(const Plan& plan, double measured_us) {
  const KernelConfig& c = plan.config;
  const WorkSplit& split = plan.split;
  return {.schedule = c.schedule,
          .tile_m = c.tile.m,
          .tile_n = c.tile.n,
          .cluster = c.cluster,
          .swapped = is_swapped(c),
          .raster = split.raster,
          .raster_group = split.group,
          .numbering = split.numbering,
          .clusters = split.clusters,
          .slices = split.slices,
          .combine = split.slices > 1 ? c.combine : Combine::last_arriver,
          .warps = c.warps,
          .stages = is_plain(c.schedule) || decodes(c.schedule) ? c.stages : 0,
          .ctas = c.ctas,
          .w_stages = c.w_stages,
          .k_groups = c.k_groups,
          .measured_us = measured_us};
}

KernelConfig config_of(const TunedChoice& c) {
  KernelConfig config{.schedule = c.schedule,
                      .tile = {c.tile_m, c.tile_n, kPackedTileK},
                      .stages = c.stages,
                      .cluster = c.cluster};
  config.warps = c.warps;
  config.ctas = c.ctas;
  config.w_stages = c.w_stages;
  config.k_groups = c.k_groups;
  return config;
}

bool is_listed(const TunedChoice& choice) {
  if (decodes(choice.schedule)) return false;
  if (choice.schedule == Schedule::plain_wgmma) {
    const KernelConfig c{.schedule = choice.schedule,
                         .tile = {choice.tile_m, choice.tile_n, kPlainRowBytes},
                         .cluster = choice.cluster,
                         .warps = choice.warps};
    // Any width is listed, with the number of stages that some number of CTAs per SM allows. validate()
    // refuses impossible widths.
    for (int ctas = 1; ctas <= kMaxPlainCtas; ++ctas)
      if (plain_stages(c, ctas) == choice.stages) return true;
    return false;
  }
  if (choice.schedule == Schedule::plain) {
    const PlainBase base{choice.tile_n, choice.warps, choice.stages};
    return std::find(std::begin(kPlainSpace), std::end(kPlainSpace), base) != std::end(kPlainSpace);
  }
  if (std::find(std::begin(kClusterSpace), std::end(kClusterSpace), choice.cluster) ==
      std::end(kClusterSpace))
    return false;
  // Any width is listed; validate() refuses impossible ones.
  return std::any_of(std::begin(kHeights), std::end(kHeights), [&](const BaseConfig& x) {
    return x.schedule == choice.schedule && x.tile_m == choice.tile_m;
  });
}

}  // namespace sluice
