// SPDX-License-Identifier: Apache-2.0
// Plans with nothing of the library but its planning half (sluice_plan): no driver, compiler, file or GPU is
// linked. A call from there to the half that runs does not link. Also forks while a thread makes the
// process's first plan. Prints one plan. To see it fail, include sluice/gemm.h in a file of that half and
// call Device::open(); or make shipped() in record_book.cc return a local static.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include <sluice/plan.h>
#include <sluice/records.h>
#include <sluice/rows.h>

namespace {

using namespace sluice;

int failures = 0;

/// Plans the problem and compares the kernel's schedule.
void expect(const char* what, const Result<Problem>& problem, bool decodes_weights) {
  const Result<Plan> plan = problem ? gemm::plan(*problem, DeviceInfo{}) : Result<Plan>(problem.error());
  if (!plan) {
    std::printf("%s: %s\n", what, plan.error().message.c_str());
    ++failures;
  } else if (decodes(plan->config.schedule) != decodes_weights || plan->estimate.total_us <= 0) {
    std::printf("%s: its plan is %s\n", what, short_name(plan->config).c_str());
    ++failures;
  }
}

constexpr unsigned kHangs = 30;  // seconds after which a child counts as hanging

/// Forks while another thread parses the shipped records, and plans in the child.
void expect_child_plans(const Problem& problem) {
  std::thread first([&] { static_cast<void>(gemm::plan(problem, DeviceInfo{})); });
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kHangs);
    ::_exit(gemm::plan(problem, DeviceInfo{}) ? 0 : 1);
  }
  first.join();
  int status = -1;
  if (::waitpid(child, &status, 0) == child && status == 0) return;
  std::printf("a child that was forked during the first plan ended with status %d\n", status);
  ++failures;
}

}  // namespace

int main() {
  const Problem dense{.m = 4096, .n = 4096, .k = 4096};
  expect_child_plans(dense);
  Problem packed{.m = 8, .n = 4096, .k = 4096};
  packed.b.packed = {.type = WeightType::uint4, .group = 128};
  const Conv conv{.op = ConvOp::fprop,
                  .images = 8,
                  .channels = 64,
                  .filters = 64,
                  .size = {56, 56, 1},
                  .filter = {3, 3, 1},
                  .padding = {1, 1, 0},
                  .padding_after = {1, 1, 0}};
  expect("dense", dense, false);
  expect("packed", packed, true);
  expect("convolution", conv::problem(conv, DType::bf16, DType::bf16), false);
  const auto rows = gemm::plan_rows(dense, {.low = 1, .high = 16}, DeviceInfo{});
  if (!rows || rows->kernels.empty()) std::printf("the range of rows has no kernels\n"), ++failures;
  const Result<Plan> recorded = gemm::plan(dense, DeviceInfo{});
  if (!recorded || recorded->source != PlanSource::record)
    std::printf("the shipped records have no plan of 4096 x 4096 x 4096\n"), ++failures;
  else
    std::printf("%s", describe(*recorded).c_str());
  return failures == 0 ? 0 : 1;
}
