// SPDX-License-Identifier: Apache-2.0
// Every registered config must compile for sm_90a and pass the kernel gate. Cubins are cached (gate_cache.h).
// gate_catches_test.cc proves that the gate can fail. Each suite is a process of its own that compiles in one
// thread: NVRTC 13.0.88 has crashed in two (docs/findings/what-is-left.md).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <sluice/host/jit/source.h>
#include <sluice/plan.h>
#include <sluice/spec/part_sums.h>

#include "tests/compile/gate_cache.h"
#include "tests/compile/kernel_gate.h"
#include "tests/compile/plain_configs.h"
#include "tests/registered_configs.h"

namespace sluice::test {
namespace {

TEST(registry_gate, every_config_is_as_it_promises) {
  const KernelCache cache = gate_cache();
  const Result<OpcodeTable> opcodes = OpcodeTable::calibrate(cache);
  ASSERT_TRUE(opcodes) << opcodes.error().message;

  const ConfigList configs = registered_configs();
  ASSERT_GT(configs.size(), 100);
  std::vector<std::string> units;
  for (const KernelConfig& config : configs) units.push_back(unit_text(config));

  const auto cubins = cache.get_all(units, /*jobs=*/1, {});

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
             (*cubins[0])->report.compiler, cache.stats().compiles, seconds[seconds.size() / 2]);
}

TEST(plain_gate, configs_fit_as_often_on_an_sm_as_they_say) {
  const KernelCache cache = gate_cache();
  const std::vector<KernelConfig> configs = plain_configs();
  ASSERT_GT(configs.size(), 180u);
  std::vector<std::string> units;
  for (const KernelConfig& config : configs) units.push_back(unit_text(config));
  const auto cubins = cache.get_all(units, /*jobs=*/1, {});
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
