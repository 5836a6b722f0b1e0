// SPDX-License-Identifier: Apache-2.0
// Time to compile a kernel and to load it from a warm cache: medians over a set of configs, against the bars
// of docs/jit.md. Compile time is this process's CPU time, which other work on the machine still stretches
// (0.4 s became 0.74 s on a slow day). So the verifier's unit, which does not change, is compiled in between.
// If it is slower than when the bar was set, the bar grows alike. Can fail: one cuda::std header in device
// code adds 0.4 s (docs/dependencies.md), past the bar.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <vector>

#include <sluice/check/verify_units.h>
#include <sluice/host/jit/cache.h>
#include <sluice/host/jit/compiler.h>
#include <sluice/host/jit/source.h>
#include <sluice/kernels/registry.h>
#include <sluice/plan.h>

#include "tests/skip_or_fail.h"

namespace sluice {
namespace {

constexpr double kColdSeconds = 0.5;
constexpr double kWarmSeconds = 0.001;
constexpr double kReferenceSeconds = 0.085;  // verify_unit_text(VerifyUnit::fill) when the bar was set
constexpr int kStride = 13;                  // every 13th registered config: coprime to the lists' periods

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}
double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

TEST(JitTime, half_a_second_cold_and_a_millisecond_warm) {
  std::string pattern = testing::TempDir() + "sluice_time_XXXXXX";
  const Options options{
      .cache_dir = mkdtemp(pattern.data()), .cache_read_only = false, .nvrtc_path = {}, .jobs = 1};
  static const ConfigList list = registered_configs();
  std::vector<double> cold, cold_wall, warm, reference;
  const auto compiler = Compiler::load("");
  const KernelCache maker(options);
  for (int i = 0; i < list.count; i += kStride) {
    const double cpu = cpu_seconds(), wall = wall_seconds();
    const auto made = maker.get(unit_text(list.items[i]));
    if (!made && i == 0) SLUICE_SKIP_OR_FAIL(made.error().message);
    ASSERT_TRUE(made) << made.error().message;
    if (i == 0) continue;  // the first compile also loads NVRTC
    if (i % (4 * kStride) == 0) {
      const double before = cpu_seconds();
      ASSERT_TRUE((*compiler)->compile(verify_unit_text(VerifyUnit::fill)));
      reference.push_back(cpu_seconds() - before);
    }
    cold.push_back(cpu_seconds() - cpu);
    cold_wall.push_back(wall_seconds() - wall);
    std::printf("%6.3f s  %s\n", cold.back(), short_name(list.items[i]).c_str());
  }
  const KernelCache user(options);
  for (int i = 0; i < list.count; i += kStride) {
    const std::string unit = unit_text(list.items[i]);
    const double wall = wall_seconds();
    ASSERT_TRUE(user.get(unit));
    warm.push_back(wall_seconds() - wall);
  }
  EXPECT_EQ(user.stats().compiles, 0);
  std::printf(
      "%zu configs: cold median %.3f s CPU (%.3f s wall), longest %.3f s; warm median %.0f us, first %.0f "
      "us; reference median %.3f s CPU\n",
      cold.size(), median(cold), median(cold_wall), *std::max_element(cold.begin(), cold.end()),
      median(warm) * 1e6, warm[0] * 1e6, median(reference));
  EXPECT_LE(median(cold), kColdSeconds * std::max(1.0, median(reference) / kReferenceSeconds));
  EXPECT_LE(median(warm), kWarmSeconds);
  std::filesystem::remove_all(options.cache_dir);
}

}  // namespace
}  // namespace sluice
