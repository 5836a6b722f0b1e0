// SPDX-License-Identifier: Apache-2.0
// State shared by copies of a Device handle: driver, primary context, kernel cache, loaded modules. Constant
// after open(), or guarded by `mutex`. For the host room, the CLI, bench and tests.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include <sluice/gemm.h>
#include <sluice/host/device/device_facts.h>
#include <sluice/host/device/gpc_order.h>
#include <sluice/host/device/workspace_lender.h>
#include <sluice/host/driver/context.h>
#include <sluice/host/driver/module.h>
#include <sluice/host/jit/cache.h>
#include <sluice/host/ops/prepared_kernels.h>
#include <sluice/host/ops/prepared_rows.h>

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
  PreparedGemms prepared_by_run;              // for gemm::run
  PreparedPacked prepared_by_packed;          // for packed::run
  PreparedGemmRows gemm_rows;                 // ranges of m for run() and sessions
  PreparedPackedRows packed_rows;
  WorkspaceLender lender;  // for gemm::run and the C interface

 private:
  std::once_flag asked_;
  GpuFacts facts_;  // written once under asked_, like info_
  DeviceInfo info_;
};

}  // namespace sluice
