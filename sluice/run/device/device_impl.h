// SPDX-License-Identifier: Apache-2.0
// The state that all copies of a Device handle share: driver table, primary context, kernel cache, loaded
// modules. It is constant after open(), or guarded by `mutex`. For run/, the tool, bench and tests.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include <sluice/gemm.h>
#include <sluice/plan/device_facts.h>
#include <sluice/run/device/calibration.h>
#include <sluice/run/device/gpc_order.h>
#include <sluice/run/device/workspace_lender.h>
#include <sluice/run/driver/context.h>
#include <sluice/run/driver/module.h>
#include <sluice/run/jit/cache.h>

namespace sluice {

struct Device::Impl {
  Impl(std::shared_ptr<const PrimaryContext> context_owner, const GpuFacts& first_facts,
       const Options& device_options);

  const std::shared_ptr<const PrimaryContext> primary;
  const DriverApi* const api;
  const Options options;
  const RecordBook records;
  KernelCache cache;  // tests without a compiler replace it before the first prepare

  /// Returns the GPU's facts. Queries the driver and NVML on the first call. Facts that they do not report
  /// are assumed; that is not an error.
  const DeviceInfo& info();
  /// Return the card's identity, and the calibration that info() uses. The first call queries as info() does.
  const Card& card();
  const FoundCalibration& calibration();

  /// Returns the loaded module of a unit; users share it. The pointer also keeps the CUDA context alive.
  /// Errors: toolchain, driver.
  Result<std::shared_ptr<const Module>> load_unit(const std::string& unit, int dynamic_smem_bytes);
  /// Returns the loaded module of a unit whose cubin the caller has. As load_unit() otherwise.
  Result<std::shared_ptr<const Module>> load_cubin(const std::string& unit, const Cubin& cubin,
                                                   int dynamic_smem_bytes);

  std::shared_ptr<const Module> find_module(const std::string& key);

  std::mutex mutex;                                                      // not held during driver calls
  std::unordered_map<std::string, std::weak_ptr<const Module>> modules;  // keyed by unit and shared memory
  /// Locked while cluster places are measured on the GPU: two threads doing so at once would disturb each
  /// other. Only prepare() on this device waits for it.
  std::mutex gpc_order_mutex;
  std::shared_ptr<const GpcOrder> gpc_order;  // null until the first request (run/device/locate.h)
  WorkspaceLender lender;                     // for run() and the C interface

  /// Returns the device's only T, constructed on the first call: the state of an operation, whose type this
  /// header need not know. Safe from any thread; without a lock after the first call.
  template <class T>
  T& of() {
    Slot& slot = slots_[slot_of<T>()];
    std::call_once(slot.made, [&] { slot.holding = std::make_shared<T>(); });
    return *static_cast<T*>(slot.holding.get());
  }

 private:
  struct Slot {
    std::once_flag made;
    std::shared_ptr<void> holding;
  };
  static constexpr std::size_t kMostSlots = 32;  // two per operation of the process
  static std::size_t next_slot();
  template <class T>
  static std::size_t slot_of() {
    static const std::size_t slot = next_slot();
    return slot;
  }
  std::array<Slot, kMostSlots> slots_;

  std::once_flag asked_;
  GpuFacts facts_;  // written once by the call under asked_, like info_
  DeviceInfo info_;
  Card card_;
  FoundCalibration calibration_;
};

}  // namespace sluice
