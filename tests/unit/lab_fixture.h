// SPDX-License-Identifier: Apache-2.0
// A bench lab on the fake driver, where kernels compute nothing and any two events are 0.25 ms apart. For
// tests of measurements and their failures.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include <sluice/bench/session.h>
#include "bench/lab.h"
#include "fake_driver.h"

namespace sluice::bench {

/// A progress callback that prints nothing.
inline const Phase kSilent = [](const std::string&) {};
inline constexpr const char* kNoCublasLt = "/no/such/libcublasLt.so";

class LabFixture : public testing::Test {
 protected:
  explicit LabFixture(Method method) : method_(method) { method_.rest_ms = 0; }

  void SetUp() override {
    driver_.machine.memory_bytes = i64{4} << 30;
    const Result<Device> device = open_fake_device();
    ASSERT_TRUE(device) << device.error().message;
    const auto lab = open_lab(*device, {.method = method_, .cublaslt = kNoCublasLt});
    ASSERT_TRUE(lab) << lab.error().message;
    lab_ = std::const_pointer_cast<Lab>(*lab);
  }

  FakeDriver driver_;
  std::shared_ptr<Lab> lab_;

 private:
  Method method_;
};

}  // namespace sluice::bench
