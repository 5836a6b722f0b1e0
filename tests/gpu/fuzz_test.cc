// SPDX-License-Identifier: Apache-2.0
// At least 20,000 random problems with whole numbers, over every type, layout, schedule, cluster, store path
// and epilogue. Every bit must be right, and no byte outside of D may change. A failure prints the command
// that runs this case on its own.
//   SLUICE_FUZZ_FIRST, SLUICE_FUZZ_COUNT   cases to run (default 0, 20000)
//   SLUICE_FUZZ_SEED                       seed of the sequence of cases (default 17)
//   SLUICE_FUZZ_SCHEDULE                   only kernels of this schedule, like plain_wgmma, or only
//                                          those with swapped operands: "swapped" (default: all)
//   SLUICE_TEST_BATCH                      cases between waits (default 500; 1 finds the one that hangs)
// verify_kernels_test proves on a CPU that the verifier finds each kind of damage.
#include <sluice/kernels/verify_arith.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "batch_runner.h"
#include "config_pool.h"
#include "gpu.h"
#include "kernel_pool.h"

namespace sluice::testing {
namespace {

constexpr i64 kCases = 20'000;
constexpr i64 kArenaBytes = i64{512} << 20;
constexpr int kShownFailures = 10;

class fuzz : public GpuTest {};

/// The schedule to test; empty: all.
std::string wanted_schedule() {
  const char* name = std::getenv("SLUICE_FUZZ_SCHEDULE");
  return name == nullptr ? "" : name;
}

i64 fuzz_seed() {
  return setting("SLUICE_FUZZ_SEED", 17);
}

std::string replay_line(i64 index) {
  const std::string schedule = wanted_schedule();
  return "SLUICE_FUZZ_SEED=" + std::to_string(fuzz_seed()) + " " +
         (schedule.empty() ? "" : "SLUICE_FUZZ_SCHEDULE=" + schedule + " ") +
         "SLUICE_FUZZ_FIRST=" + std::to_string(index) +
         " SLUICE_FUZZ_COUNT=1 sluice_gpu_tests --gtest_filter=fuzz.random_problems_are_exact";
}

TEST_F(fuzz, random_problems_are_exact) {
  const i64 first = setting("SLUICE_FUZZ_FIRST", 0), count = setting("SLUICE_FUZZ_COUNT", kCases);
  std::vector<KernelConfig> all = exact_pool();
  if (const std::string wanted = wanted_schedule(); !wanted.empty())
    all.erase(std::remove_if(all.begin(), all.end(),
                             [&](const KernelConfig& c) {
                               return wanted == "swapped" ? !is_swapped(c) : name_of(c.schedule) != wanted;
                             }),
              all.end());
  ASSERT_FALSE(all.empty()) << "SLUICE_FUZZ_SCHEDULE=" << wanted_schedule()
                            << " is no schedule, nor \"swapped\"";
  const auto config_of = [&](i64 index) { return static_cast<size_t>(index % static_cast<i64>(all.size())); };
  std::vector<KernelConfig> wanted = all;
  if (count == 1) wanted = {all[config_of(first)]};  // to replay one case, only its kernel is compiled
  const auto pool = KernelPool::prepare(device(), wanted);
  ASSERT_TRUE(ok(pool));
  auto runner =
      BatchRunner::create(device(), static_cast<int>(setting("SLUICE_TEST_BATCH", 500)), kArenaBytes);
  ASSERT_TRUE(ok(runner));

  for (i64 index = first; index < first + count; ++index) {
    const RandomCase made = random_case(all[config_of(index)], device().info(),
                                        verify::hash(static_cast<u64>(fuzz_seed()), index), {});
    const auto kernel = gemm::prepare(device(), made.plan);
    ASSERT_TRUE(ok(kernel)) << replay_line(index) << "\n" << to_string(made.plan.problem);
    const Result<void> ran = runner->run(*kernel, made.data, Judge::exact, replay_line(index));
    ASSERT_TRUE(ok(ran)) << replay_line(index) << "\n" << to_string(made.plan.problem);
    if (runner->failures().size() >= kShownFailures) break;
  }
  ASSERT_TRUE(ok(runner->flush()));
  for (const Failure& failure : runner->failures()) ADD_FAILURE() << describe(failure);
  record("cases", runner->passed());
  record("kernels", static_cast<i64>(wanted.size()));
  record("elements", runner->elements());
  record("seed", fuzz_seed());
  std::printf("%d problems on %zu kernels, %lld elements of D, all exact: %s\n", runner->passed(),
              wanted.size(), runner->elements(), runner->failures().empty() ? "yes" : "NO");
}

}  // namespace
}  // namespace sluice::testing
