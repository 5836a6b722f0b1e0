// SPDX-License-Identifier: Apache-2.0
// Configs of plain kernels for tests. The registry contains search spaces for them instead of configs. Used
// by the compile gate and tests/unchanged.
#pragma once

#include <vector>

#include <sluice/kernels/registry.h>

namespace sluice::test {

/// Returns every ring of the plain search spaces with every number of tokens. Heavy and light epilogues
/// alternate.
inline std::vector<KernelConfig> plain_configs() {
  std::vector<KernelConfig> configs;
  int turn = 0;
  const auto add = [&](Schedule schedule, int tile_n, int warps, const auto& stages_of) {
    for (const int tokens : {8, 16, 32, 48, 64, 96, 128})
      for (const DType type : {DType::e4m3, DType::bf16}) {
        Problem p{.a = {.type = type}, .b = {.type = type}, .accumulate = Accumulate::fast};
        const int kind = turn / 4 % 3;  // each kind of epilogue occurs with all four splits
        if (kind == 0)
          p.epilogue = {.scale_a = ScaleMode::vector, .scale_b = ScaleMode::vector, .bias = Bias::column};
        if (kind == 1) p.epilogue = {.activation = Activation::silu, .gated = true};
        KernelConfig c = config_for(p, {schedule, tokens, tile_n}, {1, 1, 1 << turn % 4}, StorePath::direct);
        c.warps = warps;
        c.stages = stages_of(c);
        if (kind == 0) c.overlap = {Wait::weights_first, Trigger::after_loads, Spacing::registers};
        if (kind == 1) c.overlap = {Wait::weights_first, Trigger::after_loads};
        ++turn;
        if (validate(c) == nullptr) configs.push_back(c);
      }
  };
  for (const PlainBase& base : kPlainSpace)
    add(Schedule::plain, base.tile_n, base.warps, [&](const KernelConfig&) { return base.stages; });
  for (const PlainWgmmaBase& base : kPlainWgmmaSpace)
    add(Schedule::plain_wgmma, base.tile_n, base.warps,
        [&](const KernelConfig& c) { return plain_stages(c, base.ctas); });
  // Block scales and slots, each with a gate or not.
  for (const PlainBase& base : kPlainSpace)
    for (const int tokens : {8, 16, 32, 64}) {
      const bool gated = turn % 2 == 1, blocks = tokens > 8 || turn % 4 < 3;
      const DType type = blocks || turn % 8 < 4 ? DType::e4m3 : DType::bf16;
      Problem p{.batch = 8, .a = {.type = type}, .b = {.type = type}};
      if (blocks) p.epilogue = {.scale_a = ScaleMode::block, .scale_b = ScaleMode::block};
      if (gated) p.epilogue.activation = Activation::silu, p.epilogue.gated = true;
      p.epilogue.bias = turn % 3 == 0 ? Bias::column : Bias::none;
      if (blocks && turn % 5 == 0) p.scale_a_ld = 1;
      if (tokens == 8 && turn % 3 != 1) p.groups.kind = GroupKind::slots;
      KernelConfig c =
          config_for(p, {Schedule::plain, tokens, base.tile_n}, {1, 1, 1 << turn % 3}, StorePath::direct);
      c.warps = base.warps;
      c.stages = base.stages;
      if (!by_slots(p)) c.overlap = {Wait::weights_first, Trigger::after_loads};
      ++turn;
      if (validate(c) == nullptr) configs.push_back(c);
    }
  // Widths that the planner may fit to a problem.
  for (const int width : {40, 56, 72, 88, 120, 136, 208, 248})
    add(Schedule::plain_wgmma, width, 8, [&](const KernelConfig& c) { return plain_stages(c, 2); });
  return configs;
}

}  // namespace sluice::test
