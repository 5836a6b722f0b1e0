// SPDX-License-Identifier: Apache-2.0
#include "gpu.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include <sluice/run/device/device_impl.h>

#include "kernel_changes.h"

namespace sluice::testing {

Result<KernelCache> kernel_cache(const Options& options) {
  const char* const name = std::getenv("SLUICE_CHANGE");
  if (name == nullptr) return KernelCache(options);
  const Change* const change = find_change(name);
  if (change == nullptr)
    return Error{ErrorCode::invalid_argument, std::string("SLUICE_CHANGE: no change is called ") + name};
  return changed_cache(options, *change, {"--generate-line-info"});
}

namespace {
Result<Device> opened() {
  Result<Device> device = Device::open(0, options_from_environment());
  if (!device) return device;
  Result<KernelCache> cache = kernel_cache(device->options());
  if (!cache) return cache.error();
  device->impl().cache = *std::move(cache);
  return device;
}
}  // namespace

const Result<Device>& gpu() {
  static const Result<Device> device = opened();
  return device;
}

i64 setting(const char* name, i64 otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoll(text) : otherwise;
}

void record(const char* key, i64 value) {
  ::testing::Test::RecordProperty(key, std::to_string(value));
}

void note_not_judged(const std::string& what) {
  static std::mutex mutex;
  static std::map<const ::testing::TestInfo*, i64> counts;
  const std::scoped_lock lock(mutex);
  std::printf("[NOT JUDGED] %s\n", what.c_str());
  record("not_judged", ++counts[::testing::UnitTest::GetInstance()->current_test_info()]);
}

bool is_right(const Comparison& found) {
  if (found.verdict() == Verdict::not_judged) note_not_judged(describe(found));
  return found.verdict() != Verdict::wrong;
}

void GpuTest::expect_right(const std::vector<ProductCase>& all, Judge judge, const char* no_room) {
  const auto verifier = Verifier::create(device());
  ASSERT_TRUE(ok(verifier));
  std::vector<Plan> plans;
  for (const ProductCase& one : all) {
    const Result<Plan> plan = gemm::plan(one.problem, device().info(), one.overrides);
    if (!plan && no_room != nullptr && plan.error().message.find(no_room) != std::string::npos) continue;
    ASSERT_TRUE(ok(plan)) << to_string(one.problem);
    plans.push_back(*plan);
  }
  ASSERT_GT(4 * plans.size(), 3 * all.size());
  const std::vector<Result<gemm::Kernel>> kernels = gemm::prepare(device(), plans);
  u64 seed = 1;
  for (const Result<gemm::Kernel>& kernel : kernels) {
    ASSERT_TRUE(ok(kernel));
    const Plan& plan = kernel->plan();
    const Problem& p = plan.problem;
    ++seed;
    const DataSpec spec = judge == Judge::exact ? exact_data(p, seed) : real_data(p, seed);
    const auto data = verifier->make_data(p, spec, nullptr);
    const auto workspace = Workspace::create(device(), plan.workspace_bytes);
    ASSERT_TRUE(ok(data) && ok(workspace));
    gemm::Args args = data->args();
    args.workspace = workspace->view();
    ASSERT_TRUE(ok(gemm::launch(*kernel, args, nullptr))) << short_name(plan.config);
    const auto found = verifier->check(*data, {.judge = judge}, nullptr);
    ASSERT_TRUE(ok(found));
    EXPECT_TRUE(is_right(*found)) << short_name(plan.config) << ": " << describe(*found) << "\n"
                                  << to_string(p);
    EXPECT_TRUE(ok(workspace->verify()));
  }
  record("cases", static_cast<i64>(kernels.size()));
  std::printf("             %zu products\n", kernels.size());
}

}  // namespace sluice::testing
