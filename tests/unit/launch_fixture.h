// SPDX-License-Identifier: Apache-2.0
// The fixture of tests of prepare, launch and run: a fake driver, a device opened on it, and arguments of the
// right size for a problem. Tests that expect a refusal use `refused`. It also checks that nothing was
// launched and that the message contains more than the error code.
#pragma once

#include <gtest/gtest.h>

#include <sluice/gemm.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/ops/gemm.h>

#include "fake_driver.h"

namespace sluice {

/// Returns 256 x 512 x 128 in bf16, without padding.
inline Problem small_problem() {
  return {.m = 256, .n = 512, .k = 128};
}

/// Returns a problem whose epilogue reads everything that it can.
inline Problem full_problem() {
  Problem p = small_problem();
  p.epilogue = {.scale_a = ScaleMode::vector,
                .scale_b = ScaleMode::tensor,
                .bias = Bias::column,
                .bias_type = DType::fp32,
                .activation = Activation::gelu,
                .residual = true,
                .c_type = DType::bf16};
  return p;
}

class LaunchTest : public ::testing::Test {
 protected:
  LaunchTest() : device_(open()) {}

  const Device& device() const { return device_; }

  gemm::Kernel prepared(const Problem& problem, const PlanOverrides& overrides = {}) {
    const Result<Plan> plan = gemm::plan(problem, device().info(), overrides);
    EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message);
    const Result<gemm::Kernel> kernel = gemm::prepare(device(), *plan);
    EXPECT_TRUE(kernel.ok()) << (kernel.ok() ? "" : kernel.error().message);
    return *kernel;
  }

  /// Allocates every operand on device `ordinal`. C is not D.
  gemm::Args args_for(const Problem& packed, int ordinal = 0) {
    const Problem p = with_strides(packed);
    const auto matrix = [&](const Matrix& x, i64 outer, DType type) {
      const i64 elements = p.batch * x.batch_stride + outer * x.ld + 16;
      return driver.memory(elements * bytes_of(type), ordinal);
    };
    return {.a = matrix(p.a, outer_extent(p.a, p.m, p.k), p.a.type),
            .b = matrix(p.b, outer_extent(p.b, p.n, p.k), p.b.type),
            .c = matrix(p.c, p.m, p.epilogue.c_type),
            .d = matrix(p.d, p.m, p.d.type),
            .scale_a = static_cast<const float*>(driver.memory(p.m * 4 + 4, ordinal)),
            .scale_b = static_cast<const float*>(driver.memory(p.n * 4 + 4, ordinal)),
            .scale_d = static_cast<const float*>(driver.memory(4, ordinal)),
            .bias = driver.memory(p.n * 4 + 4, ordinal),
            .alpha = 1.0f,
            .beta = 1.0f};
  }

  void refused(const Result<void>& result, ErrorCode code, const std::string& mention) {
    ASSERT_FALSE(result.ok()) << "expected a refusal that mentions " << mention;
    EXPECT_EQ(result.error().code, code) << result.error().message;
    EXPECT_NE(result.error().message.find(mention), std::string::npos) << result.error().message;
    EXPECT_EQ(driver.launches(), 0) << "a refused call must launch nothing";
    EXPECT_EQ(driver.alive().pushed, 0);
  }

  void launched(const Result<void>& result, int launches) {
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(driver.launches(), launches);
    EXPECT_EQ(driver.alive().pushed, 0);
  }

  FakeDriver driver;

 private:
  static Device open() {
    Result<Device> device = open_fake_device();
    EXPECT_TRUE(device.ok()) << (device.ok() ? "" : device.error().message);
    return *std::move(device);
  }

  Device device_;
};

/// Returns `pointer` plus this number of bytes.
template <class T>
T* shifted(T* pointer, i64 bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<u64>(pointer) + static_cast<u64>(bytes));
}

}  // namespace sluice
