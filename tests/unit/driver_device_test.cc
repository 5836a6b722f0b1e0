// SPDX-License-Identifier: Apache-2.0
// Device::open: the facts that it reads, the machines that it refuses, and that everything is freed if any
// driver call fails. To see it fail: check the architecture after retaining the context, or leave out the
// release.
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/events.h>

#include "fake_driver.h"

namespace sluice {
namespace {

void expect_refusal(const Result<Device>& device, ErrorCode code, const std::string& mention) {
  ASSERT_FALSE(device.ok()) << mention;
  EXPECT_EQ(device.error().code, code);
  EXPECT_NE(device.error().message.find(mention), std::string::npos) << device.error().message;
}

TEST(driver_device, opens_and_reads_facts) {
  FakeDriver driver;
  {
    const Result<Device> device = Device::open(1, {.jobs = 3});
    ASSERT_TRUE(device.ok()) << device.error().message;
    EXPECT_EQ(device->ordinal(), 1);
    EXPECT_EQ(device->options().jobs, 3);
    EXPECT_EQ(device->info().name, "Fake H200");
    EXPECT_EQ(device->info().sm_count, 132);
    EXPECT_EQ(device->info().l2_bytes, 50 << 20);
    EXPECT_EQ(device->info().max_clusters_of_2, 66);
    EXPECT_EQ(device->info().max_clusters_of_4, DeviceInfo{}.max_clusters_of_4);
    EXPECT_DOUBLE_EQ(device->info().rates.fp16_flops_per_us, DeviceInfo{}.rates.fp16_flops_per_us);
    EXPECT_EQ(driver.alive().contexts, 1);
    EXPECT_EQ(driver.alive().pushed, 0) << "open leaves the thread's context alone";
  }
  EXPECT_EQ(driver.alive(), Alive{});
}

TEST(driver_device, asks_for_clusters_clocks_and_power) {
  FakeDriver driver;
  driver.machine.name = "NVIDIA H100 80GB HBM3";
  driver.machine.memory_khz = 2619000;
  driver.machine.bus_bits = 5120;
  driver.machine.clusters_of_4 = 32;
  driver.machine.power_limit_mw = 500000;
  const Result<Device> device = Device::open(0, {});
  ASSERT_TRUE(device.ok());
  const DeviceInfo& info = device->info();
  EXPECT_NEAR(info.hbm_peak_bytes_per_us, 3.352e6, 1e3);
  EXPECT_EQ(info.max_clusters_of_4, 32);
  EXPECT_EQ(info.power_limit_w, 500);
  EXPECT_EQ(info.sources.clusters, FactSource::driver);
  EXPECT_EQ(info.sources.power_limit, FactSource::driver);
  EXPECT_LT(info.rates.fp16_flops_per_us, 0.9 * DeviceInfo{}.rates.fp16_flops_per_us);
  EXPECT_EQ(driver.alive().modules, 0) << "the kernel that was asked about is unloaded";
  EXPECT_EQ(driver.alive().pushed, 0);
}

TEST(driver_device, an_h200_is_what_plans_without_a_gpu_are_for) {
  FakeDriver driver;
  driver.machine.name = "NVIDIA H200";
  driver.machine.l2_bytes = 60 << 20;
  const Result<Device> device = Device::open(0, {});
  ASSERT_TRUE(device.ok());
  DeviceInfo info = device->info();
  info.sources = {};
  info.hbm_peak_bytes_per_us = DeviceInfo{}.hbm_peak_bytes_per_us;  // the fake's memory clock differs
  EXPECT_EQ(info, DeviceInfo{});
}

TEST(driver_device, asks_once_and_not_before_it_is_asked) {
  FakeDriver driver;
  driver.fail_nothing();
  const Result<Device> device = Device::open(0, {});
  ASSERT_TRUE(device.ok());
  const int opened = driver.calls();
  device->info();
  const int asked = driver.calls();
  EXPECT_GT(asked, opened);
  device->info();
  EXPECT_EQ(driver.calls(), asked);
}

TEST(driver_device, a_gpu_without_nvml_or_the_count_of_clusters_is_assumed_to_be_usual) {
  FakeDriver driver;
  driver.machine.has_nvml = false;
  driver.machine.has_occupancy = false;
  driver.machine.memory_khz = 0;
  driver.machine.sm_count = 66;
  const Result<Device> device = Device::open(0, {});
  ASSERT_TRUE(device.ok());
  const DeviceInfo& info = device->info();
  EXPECT_EQ(info.sources.clusters, FactSource::assumed);
  EXPECT_EQ(info.sources.power_limit, FactSource::assumed);
  EXPECT_EQ(info.sources.hbm_rate, FactSource::assumed);
  EXPECT_EQ(info.sources.tensor_rate, FactSource::assumed);
  EXPECT_EQ(info.max_clusters_of_2, 33);
  EXPECT_EQ(info.max_clusters_of_4, DeviceInfo{}.max_clusters_of_4 / 2);
}

TEST(driver_device, a_question_that_fails_costs_a_fact_and_leaks_nothing) {
  FakeDriver driver;
  driver.fail_nothing();
  {
    const Result<Device> device = Device::open(0, {});
    ASSERT_TRUE(device.ok());
    driver.fail_nothing();
    device->info();
  }
  const int questions = driver.calls() - 1;  // the last call is the release
  ASSERT_GE(questions, 8);
  for (int call = 0; call < questions; ++call) {
    {
      const Result<Device> device = Device::open(0, {});
      ASSERT_TRUE(device.ok());
      driver.fail_call(call, CUDA_ERROR_UNKNOWN);
      EXPECT_EQ(device->info().sm_count, 132);
      driver.fail_nothing();
    }
    EXPECT_EQ(driver.alive(), Alive{}) << call;
  }
}

TEST(driver_device, clusters_are_counted_beside_a_capture_too) {
  FakeDriver driver;
  const Result<Device> device = Device::open(0, {});
  const Result<Device> other = Device::open(1, {});
  ASSERT_TRUE(device.ok() && other.ok());
  const Result<StreamHandle> stream = StreamHandle::create(*device);
  ASSERT_TRUE(stream.ok());
  const DriverApi& api = *device->impl().api;
  ASSERT_EQ(
      api.cuStreamBeginCapture(reinterpret_cast<CUstream>(stream->get()), CU_STREAM_CAPTURE_MODE_GLOBAL),
      CUDA_SUCCESS);
  EXPECT_EQ(device->info().sources.clusters, FactSource::driver);
  EXPECT_EQ(other->info().sources.clusters, FactSource::driver);
  CUgraph graph = nullptr;
  ASSERT_EQ(api.cuStreamEndCapture(reinterpret_cast<CUstream>(stream->get()), &graph), CUDA_SUCCESS);
  api.cuGraphDestroy(graph);
}

TEST(driver_device, refuses_a_device_that_does_not_exist) {
  FakeDriver driver;
  expect_refusal(Device::open(2, {}), ErrorCode::driver, "device 2 does not exist: this process sees 2");
  expect_refusal(Device::open(-1, {}), ErrorCode::driver, "device -1");
  driver.machine.device_count = 0;
  expect_refusal(Device::open(0, {}), ErrorCode::driver, "sees 0");
}

TEST(driver_device, refuses_a_driver_that_is_too_old_for_its_kernels) {
  FakeDriver driver;
  driver.machine.driver_version = 12080;
  expect_refusal(Device::open(0, {}), ErrorCode::driver, "for CUDA 12.8: it must be for 13.0 or newer");
  EXPECT_EQ(driver.alive(), Alive{});
}

TEST(driver_device, refuses_what_is_not_hopper_without_touching_its_context) {
  FakeDriver driver;
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 9}, {10, 0}, {12, 0}}) {
    driver.machine.compute_major = major;
    driver.machine.compute_minor = minor;
    expect_refusal(Device::open(0, {}), ErrorCode::unsupported_arch,
                   "compute capability " + std::to_string(major) + "." + std::to_string(minor));
    driver.fail_function("cuDevicePrimaryCtxRetain", CUDA_ERROR_UNKNOWN);
    expect_refusal(Device::open(0, {}), ErrorCode::unsupported_arch, "9.0");
    driver.fail_nothing();
  }
}

TEST(driver_device, every_failing_call_is_an_error_and_leaks_nothing) {
  FakeDriver driver;
  driver.fail_nothing();
  ASSERT_TRUE(Device::open(0, {}).ok());
  const int calls = driver.calls() - 1;  // the last call is the release
  ASSERT_GE(calls, 8);
  for (int call = 0; call < calls; ++call) {
    driver.fail_call(call, CUDA_ERROR_UNKNOWN);
    const Result<Device> device = Device::open(0, {});
    expect_refusal(device, ErrorCode::driver, driver.last_failed());
    expect_refusal(device, ErrorCode::driver, "CUDA_ERROR_FAKE, made up");
    EXPECT_EQ(driver.alive(), Alive{}) << driver.last_failed();
  }
}

TEST(driver_device, names_the_remedy_for_well_known_failures) {
  FakeDriver driver;
  driver.fail_function("cuInit", CUDA_ERROR_NO_DEVICE);
  expect_refusal(Device::open(0, {}), ErrorCode::driver, "nvidia-smi");
  driver.fail_function("cuDevicePrimaryCtxRetain", CUDA_ERROR_OUT_OF_MEMORY);
  expect_refusal(Device::open(0, {}), ErrorCode::driver, "free GPU memory");
}

TEST(driver_device, without_a_driver_says_so) {
  if (void* library = dlopen("libcuda.so.1", RTLD_NOW)) {
    dlclose(library);
    GTEST_SKIP() << "this machine has a driver";
  }
  expect_refusal(Device::open(0, {}), ErrorCode::driver, "cannot load the CUDA driver: libcuda.so.1");
}

}  // namespace
}  // namespace sluice
