// SPDX-License-Identifier: Apache-2.0
// Every registered config must compile for sm_90a and pass the kernel gate. Cubins are cached (gate_cache.h).
// gate_catches_test.cc proves that the gate can fail.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include <sluice/plan.h>
#include <sluice/plan/text/units.h>
#include <sluice/spec/params.h>
#include <sluice/spec/part_sums.h>

#include "tests/compile/gate_cache.h"
#include "tests/compile/kernel_gate.h"
#include "tests/compile/plain_configs.h"
#include "tests/registered_configs.h"

namespace sluice::test {
namespace {

/// Shares of the registered configs. Each is a suite, and so a row of ctest with its own time limit.
constexpr int kShares = 6;

void check_share(int share) {
  const KernelCache cache = gate_cache();
  const Result<OpcodeTable> opcodes = OpcodeTable::calibrate(cache);
  ASSERT_TRUE(opcodes) << opcodes.error().message;

  const ConfigList all = registered_configs();
  std::vector<KernelConfig> configs;
  for (int i = share; i < all.size(); i += kShares) configs.push_back(all.items[i]);
  ASSERT_GT(configs.size(), 50u);
  std::vector<std::string> units;
  for (const KernelConfig& config : configs) units.push_back(unit_text(config));

  const auto cubins = gate_cubins(cache, units);

  std::vector<double> seconds;
  for (size_t i = 0; i < configs.size(); ++i) {
    ASSERT_TRUE(cubins[i]) << cubins[i].error().message;
    const std::vector<std::string> faults = kernel_faults(configs[i], **cubins[i], *opcodes);
    EXPECT_TRUE(faults.empty()) << short_name(configs[i]) << ": "
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
  fmt::print("{} configs with {}; compile time: median {:.2f} s\n", configs.size(),
             (*cubins[0])->report.compiler, seconds[seconds.size() / 2]);
}

TEST(registry_gate_0, configs_are_as_they_promise) {
  check_share(0);
}
TEST(registry_gate_1, configs_are_as_they_promise) {
  check_share(1);
}
TEST(registry_gate_2, configs_are_as_they_promise) {
  check_share(2);
}
TEST(registry_gate_3, configs_are_as_they_promise) {
  check_share(3);
}
TEST(registry_gate_4, configs_are_as_they_promise) {
  check_share(4);
}
TEST(registry_gate_5, configs_are_as_they_promise) {
  check_share(5);
}

TEST(gate_cache, a_child_follows_one_that_crashed) {
  int ran[2] = {};
  ASSERT_EQ(pipe(ran), 0);
  // The first child, which finds the pipe empty, crashes: a byte in it is from an earlier child.
  const auto crashes_once = [&] {
    pollfd earlier{.fd = ran[0], .events = POLLIN, .revents = 0};
    const bool first = poll(&earlier, 1, 0) == 0;
    if (write(ran[1], "x", 1) != 1 || first) raise(SIGSEGV);
  };
  EXPECT_EQ(crashes_of(crashes_once), 1);
  EXPECT_EQ(crashes_of(crashes_once), 0);
  EXPECT_EQ(crashes_of([] { raise(SIGSEGV); }), 3);
  close(ran[0]);
  close(ran[1]);
}

/// To see it fail, let plain_unit_text() take GemmParams for slots.
TEST(plain_gate, configs_fit_as_often_on_an_sm_as_they_say) {
  const KernelCache cache = gate_cache();
  const Result<OpcodeTable> opcodes = OpcodeTable::calibrate(cache);
  ASSERT_TRUE(opcodes) << opcodes.error().message;
  const std::vector<KernelConfig> configs = plain_configs();
  ASSERT_GT(configs.size(), 180u);
  std::vector<std::string> units;
  for (const KernelConfig& config : configs) units.push_back(unit_text(config));
  const auto cubins = gate_cubins(cache, units);
  for (size_t i = 0; i < configs.size(); ++i) {
    ASSERT_TRUE(cubins[i]) << cubins[i].error().message;
    const BuildReport& report = (*cubins[i])->report;
    EXPECT_EQ(report.spill_bytes + report.stack_bytes, 0) << short_name(configs[i]);
    const Result<int> parameters = opcodes->parameter_bytes((*cubins[i])->image, kEntryName);
    ASSERT_TRUE(parameters) << parameters.error().message;
    EXPECT_EQ(*parameters, params_bytes(configs[i])) << short_name(configs[i]);
    const int registers = round_up(report.registers, 8) * threads_of(configs[i]) * plain_ctas(configs[i]);
    EXPECT_LE(registers, 65536) << short_name(configs[i]);
  }
}

}  // namespace
}  // namespace sluice::test
