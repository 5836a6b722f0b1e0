// SPDX-License-Identifier: Apache-2.0
// Every registered config compiles for sm_90a and passes the kernel gate. Cubins are kept under the build
// folder by content, so only what a change touched is compiled again; SLUICE_GATE_FORCE=1 compiles all.
// gate_catches_test.cc shows that the gate can fail.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include <sluice/host/jit/cache.h>
#include <sluice/host/jit/source.h>
#include <sluice/kernels/registry.h>
#include <sluice/plan.h>
#include <sluice/spec/part_sums.h>

#include "tests/compile/kernel_gate.h"

namespace sluice::test {
namespace {

TEST(registry_gate, every_config_is_as_it_promises) {
  const Result<std::shared_ptr<const Compiler>> compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  const Result<OpcodeTable> opcodes = OpcodeTable::calibrate(**compiler);
  ASSERT_TRUE(opcodes) << opcodes.error().message;

  const ConfigList configs = registered_configs();
  ASSERT_GT(configs.size(), 100);
  std::vector<std::string> units;
  for (const KernelConfig& config : configs) units.push_back(unit_text(config));

  Options options;
  if (std::getenv("SLUICE_GATE_FORCE") == nullptr) options.cache_dir = SLUICE_BINARY_DIR "/gate-cache";
  const KernelCache cache(options);
  const auto cubins = cache.get_all(units, /*jobs=*/0, {});

  std::vector<double> seconds;
  for (int i = 0; i < configs.size(); ++i) {
    ASSERT_TRUE(cubins[i]) << cubins[i].error().message;
    const std::vector<std::string> faults = kernel_faults(configs.items[i], **cubins[i], *opcodes);
    EXPECT_TRUE(faults.empty()) << short_name(configs.items[i]) << ": "
                                << fmt::format("{}", fmt::join(faults, "; "));
    seconds.push_back((*cubins[i])->report.seconds);
  }
  for (const KernelConfig& config : configs) {
    if (config.combine != Combine::separate) continue;
    const auto sums = cache.get(sum_unit_text(config));
    ASSERT_TRUE(sums) << sums.error().message;
    const BuildReport& report = (*sums)->report;
    EXPECT_EQ(report.spill_bytes + report.stack_bytes, 0) << "summing " << short_name(config);
    EXPECT_LE(report.registers, 64) << "two CTAs of " << kMostSumThreads << " threads an SM";
  }
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  fmt::print("{} configs with {}, {} compiled now; compile time: median {:.2f} s\n", configs.size(),
             (*compiler)->version(), cache.stats().compiles, seconds[seconds.size() / 2]);
}

/// Every ring of the plain spaces at every number of tokens, a heavy and a light epilogue in turn.
std::vector<KernelConfig> plain_configs() {
  std::vector<KernelConfig> configs;
  int turn = 0;
  const auto add = [&](Schedule schedule, int tile_n, int warps, const auto& stages_of) {
    for (const int tokens : {8, 16, 32, 48, 64, 96, 128})
      for (const DType type : {DType::e4m3, DType::bf16}) {
        Problem p{.a = {.type = type}, .b = {.type = type}};
        const int kind = turn / 4 % 3;  // of each kind all four splits come by
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
  return configs;
}

TEST(registry_gate, plain_configs_fit_as_often_on_an_sm_as_they_say) {
  Options options;
  if (std::getenv("SLUICE_GATE_FORCE") == nullptr) options.cache_dir = SLUICE_BINARY_DIR "/gate-cache";
  const KernelCache cache(options);
  const std::vector<KernelConfig> configs = plain_configs();
  ASSERT_GT(configs.size(), 180u);
  std::vector<std::string> units;
  for (const KernelConfig& config : configs) units.push_back(unit_text(config));
  const auto cubins = cache.get_all(units, /*jobs=*/0, {});
  for (size_t i = 0; i < configs.size(); ++i) {
    ASSERT_TRUE(cubins[i]) << cubins[i].error().message;
    const BuildReport& report = (*cubins[i])->report;
    EXPECT_EQ(report.spill_bytes + report.stack_bytes, 0) << short_name(configs[i]);
    const int registers = round_up(report.registers, 8) * threads_of(configs[i]) * plain_ctas(configs[i]);
    EXPECT_LE(registers, 65536) << short_name(configs[i]);
  }
}

}  // namespace
}  // namespace sluice::test
