// SPDX-License-Identifier: Apache-2.0
// The fixture of tests that call the C interface on the fake driver: a device handle, and arrays in the
// device's memory.
#pragma once

#include <sluice/c_api.h>
#include <sluice/c_api/handles.h>

#include <vector>

#include "c_api_calls.h"
#include "launch_fixture.h"

namespace sluice {

/// Returns a bf16 product.
inline sluice_problem dense_problem(int64_t m, int64_t n, int64_t k) {
  sluice_problem p{};
  p.m = m, p.n = n, p.k = k, p.batch = 1;
  return p;
}
/// Returns a bf16 product with int4 weights in groups of 128.
inline sluice_problem packed_problem(int64_t m, int64_t n, int64_t k) {
  sluice_problem p = dense_problem(m, n, k);
  p.packed = {.type = SLUICE_UINT4, .group = 128, .scale = SLUICE_FP16, .order = SLUICE_ORDER_HALF};
  return p;
}

/// An array in memory of the fake device.
struct TestArray {
  std::vector<int64_t> shape, strides;
  sluice_array array{};
};

class CApiTest : public LaunchTest {
 protected:
  CApiTest() : handle_(new sluice_device{c_api::Session(device()), "fake"}) {}
  ~CApiTest() override { sluice_device_close(handle_); }

  TestArray array(sluice_dtype type, std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
    i64 bytes = 4;
    for (const int64_t extent : shape) bytes *= extent;
    TestArray x{std::move(shape), std::move(strides), {}};
    x.array = {.data = driver.memory(bytes),
               .dtype = type,
               .ndim = static_cast<int32_t>(x.shape.size()),
               .device_type = SLUICE_ON_CUDA,
               .device = 0};
    return x;
  }
  static const sluice_array* at(TestArray& x) {
    x.array.shape = x.shape.data();
    x.array.strides = x.strides.empty() ? nullptr : x.strides.data();
    return &x.array;
  }

  sluice_holdings held() {
    sluice_holdings holdings{};
    EXPECT_EQ(sluice_device_holdings(handle_, &holdings), SLUICE_OK) << sluice_error_message();
    return holdings;
  }
  /// Plans with the overrides `choices` and makes that plan current. Returns the bytes of workspace that it
  /// needs.
  int64_t use(const sluice_problem& problem, const std::string& choices) {
    sluice_plan* plan = nullptr;
    EXPECT_EQ(sluice_plan_create(handle_, AsCall(problem), choices.c_str(), &plan), SLUICE_OK)
        << sluice_error_message();
    EXPECT_EQ(sluice_use_plan(handle_, plan), SLUICE_OK) << sluice_error_message();
    const int64_t bytes = sluice_plan_workspace_bytes(plan);
    sluice_plan_free(plan);
    return bytes;
  }
  /// Expects that a call failed with this status and launched nothing. `launches`: the number before the
  /// call.
  void failed(sluice_status got, sluice_status status, const std::string& mention, int launches) {
    const std::string message = sluice_error_message();
    EXPECT_EQ(got, status) << message;
    EXPECT_NE(message.find(mention), std::string::npos) << message;
    EXPECT_EQ(driver.launches(), launches);
  }

  sluice_device* handle_;  // handle of the device that loads cubins without compiling
};

}  // namespace sluice
