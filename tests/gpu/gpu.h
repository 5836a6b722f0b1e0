// SPDX-License-Identifier: Apache-2.0
// The device shared by all tests here, opened once. Without a Hopper GPU every test skips, with the reason.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include <sluice/check/verify.h>
#include <sluice/gemm.h>
#include <sluice/host/jit/cache.h>

namespace sluice::testing {

/// The cache of all kernels of this process. SLUICE_CHANGE (kernel_changes.cc) names a change to make in
/// them. Error invalid_argument: no such change.
Result<KernelCache> kernel_cache(const Options& options);
/// The first GPU, with that cache, or the reason for its absence.
const Result<Device>& gpu();

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gpu()) GTEST_SKIP() << gpu().error().message;
  }
  const Device& device() const { return *gpu(); }
};

/// An integer from the environment, to replay a failure or extend a run.
i64 setting(const char* name, i64 otherwise);

/// Sets a property of the running test for tools/certify.py. It adds up "cases" (judged products, launches,
/// replays) and "elements" over a section's tests, and takes the maximum of "kernels".
void record(const char* key, i64 value);

/// Counts a result of data that are too large to be exact, which is neither right nor wrong: the running
/// test's property "not_judged", and a line "[NOT JUDGED] WHAT". Any thread.
void note_not_judged(const std::string& what);
/// For EXPECT_TRUE(is_right(*found)): false if D is wrong. Results that are not judged are noted.
bool is_right(const Comparison& found);

/// For ASSERT_TRUE(ok(result)): true, or the error's text.
template <class T>
::testing::AssertionResult ok(const Result<T>& result) {
  if (result) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << name_of(result.error().code) << ": " << result.error().message;
}

}  // namespace sluice::testing
