// SPDX-License-Identifier: Apache-2.0
// State shared by copies of a Device handle: driver, primary context, kernel cache, loaded modules. Constant
// after open(), or guarded by `mutex`. For the host room, the CLI, bench and tests.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include <sluice/gemm.h>
#include <sluice/host/device/calibration.h>
#include <sluice/host/device/device_facts.h>
#include <sluice/host/device/gpc_order.h>
#include <sluice/host/device/workspace_lender.h>
#include <sluice/host/driver/context.h>
#include <sluice/host/driver/module.h>
#include <sluice/host/jit/cache.h>

namespace sluice {

struct Device::Impl {
  Impl(std::shared_ptr<const PrimaryContext> context_owner, const GpuFacts& first_facts,
       const Options& device_options);

  const std::shared_ptr<const PrimaryContext> primary;
  const DriverApi* const api;
  const Options options;
  const RecordBook records;
  KernelCache cache;  // tests without a compiler replace it before the first prepare

  /// Asks driver and NVML on the first call. Unknown facts are assumed, which is no error.
  const DeviceInfo& info();
  /// The card's identity, and the calibration that info() has taken. Both ask as info() does.
  const Card& card();
  const FoundCalibration& calibration();

  /// Returns the loaded module of a unit, shared while it is in use. The pointer also keeps the context.
  /// Errors: toolchain, driver.
  Result<std::shared_ptr<const Module>> load_unit(const std::string& unit, int dynamic_smem_bytes);
  /// Loads as load_unit(), from a cubin that the caller has.
  Result<std::shared_ptr<const Module>> load_cubin(const std::string& unit, const Cubin& cubin,
                                                   int dynamic_smem_bytes);

  std::shared_ptr<const Module> find_module(const std::string& key);

  std::mutex mutex;  // never held over a call of the driver
  std::unordered_map<std::string, std::weak_ptr<const Module>> modules;  // by unit and shared memory
  /// Held while locating clusters, since two threads would see each other's. Only prepare() on this device
  /// waits for it.
  std::mutex gpc_order_mutex;
  std::shared_ptr<const GpcOrder> gpc_order;  // null until first asked for (host/device/locate.h)
  WorkspaceLender lender;                     // for run() and the C interface

  /// The device's one T, made at the first call: state of an operation, which the device need not know. Safe
  /// from any thread; takes no lock once made.
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
  static constexpr std::size_t kMostSlots = 32;  // two for each operation of the process
  static std::size_t next_slot();
  template <class T>
  static std::size_t slot_of() {
    static const std::size_t slot = next_slot();
    return slot;
  }
  std::array<Slot, kMostSlots> slots_;

  std::once_flag asked_;
  GpuFacts facts_;  // written once under asked_, like info_
  DeviceInfo info_;
  Card card_;
  FoundCalibration calibration_;
};

}  // namespace sluice
