// SPDX-License-Identifier: Apache-2.0
// The device that all tests here share, opened once. Without a Hopper GPU every test skips and says why.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include <sluice/gemm.h>
#include <sluice/host/jit/cache.h>

namespace sluice::testing {

/// The cache of every kernel of this process. SLUICE_CHANGE (kernel_changes.cc) names what is changed in
/// them. Error invalid_argument: there is no such change.
Result<KernelCache> kernel_cache(const Options& options);
/// The first GPU, with that cache, or why there is none.
const Result<Device>& gpu();

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gpu()) GTEST_SKIP() << gpu().error().message;
  }
  const Device& device() const { return *gpu(); }
};

/// A whole number from the environment: how a failing run is replayed, or a run made longer.
i64 setting(const char* name, i64 otherwise);

/// A property of the running test, for tools/certify.py, which adds up "cases" (products, launches, replays:
/// what was judged) and "elements" of a section's tests, and takes the most "kernels" of one.
void record(const char* key, i64 value);

/// For ASSERT_TRUE(ok(result)): true, or the error's text.
template <class T>
::testing::AssertionResult ok(const Result<T>& result) {
  if (result) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << name_of(result.error().code) << ": " << result.error().message;
}

}  // namespace sluice::testing
