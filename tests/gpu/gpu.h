// SPDX-License-Identifier: Apache-2.0
// The device that all tests here share, opened once. Without a Hopper GPU every test is skipped, with the
// reason.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <sluice/check/verify.h>
#include <sluice/gemm.h>
#include <sluice/run/jit/cache.h>

namespace sluice::testing {

/// Returns the kernel cache of this process. If SLUICE_CHANGE names a change (kernel_changes.cc), all kernels
/// are compiled with it. Error invalid_argument: there is no such change.
Result<KernelCache> kernel_cache(const Options& options);
/// Returns the first GPU, with that cache; if there is none, an error that says why.
const Result<Device>& gpu();

/// A product, and what the planner must take.
struct ProductCase {
  Problem problem;
  PlanOverrides overrides{};
};

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gpu()) GTEST_SKIP() << gpu().error().message;
  }
  const Device& device() const { return *gpu(); }
  /// Expects that the kernel of each product computes what the verifier does, and leaves its workspace clean.
  /// Up to a quarter may have no plan, for a reason that contains `no_room`.
  void expect_right(const std::vector<ProductCase>& all, Judge judge, const char* no_room = nullptr);
};

/// Returns an integer from the environment variable `name`, or `otherwise`. Used to replay a failure or
/// lengthen a run.
i64 setting(const char* name, i64 otherwise);

/// Sets a property of the running test, which tools/certify.py reads. Over the tests of a section it adds up
/// "cases" (checked products, launches or replays) and "elements", and takes the maximum of "kernels".
void record(const char* key, i64 value);

/// Counts a result that is neither right nor wrong, because its data are too large to be exact. Increments
/// the running test's property "not_judged", and prints "[NOT JUDGED] WHAT". May be called by any thread.
void note_not_judged(const std::string& what);
/// For EXPECT_TRUE(is_right(*found)): returns false if D is wrong. A result that cannot be judged is counted
/// by note_not_judged().
bool is_right(const Comparison& found);

/// For ASSERT_TRUE(ok(result)): returns true, or a failure with the error's message.
template <class T>
::testing::AssertionResult ok(const Result<T>& result) {
  if (result) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << name_of(result.error().code) << ": " << result.error().message;
}

}  // namespace sluice::testing
