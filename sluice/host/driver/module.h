// SPDX-License-Identifier: Apache-2.0
// A cubin loaded into the current context, with its one entry ready to launch. Loading happens in prepare;
// nothing here is called by a launch. Who shares a Module keeps its context too (Device::Impl::load_unit).
#pragma once

#include <memory>

#include <sluice/host/driver/api.h>
#include <sluice/spec/base.h>

namespace sluice {

struct Cubin;

/// A variable of a module; it lives as long.
struct ModuleGlobal {
  CUdeviceptr address = 0;
  i64 bytes = 0;
};

class Module {
 public:
  /// Loads into the context that is current, finds kEntryName and raises its dynamic shared memory limit.
  /// Errors: driver; internal (a cubin without the entry).
  static Result<std::shared_ptr<const Module>> load(const DriverApi& api, const Cubin& cubin,
                                                    int dynamic_smem_bytes);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module();

  CUfunction function() const { return function_; }
  int registers() const { return registers_; }  // per thread at launch, as the driver reports it
  /// Error internal: its code has no griddepcontrol.wait, so that a launch of it must not begin before those
  /// before it have ended (LaunchShape::dependent).
  Result<void> check_waits() const;
  /// 0 bytes: it has none of this name. Error driver.
  Result<ModuleGlobal> global(const char* name) const;

 private:
  Module(const DriverApi& api, CUcontext context) : api_(api), context_(context) {}

  const DriverApi& api_;
  CUcontext context_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  int registers_ = 0;
  bool waits_ = false;
};

}  // namespace sluice
