// SPDX-License-Identifier: Apache-2.0
// A cubin loaded into the current context, with its one entry ready to launch. prepare loads it; a launch
// calls nothing here. Device::Impl::load_unit ties a Module to its context.
#pragma once

#include <memory>

#include <sluice/run/driver/api.h>

namespace sluice {

struct Cubin;

class Module {
 public:
  /// Loads into the current context, finds kEntryName and raises its limit of dynamic shared memory. Errors:
  /// driver; internal (the cubin lacks the entry).
  static Result<std::shared_ptr<const Module>> load(const DriverApi& api, const Cubin& cubin,
                                                    int dynamic_smem_bytes);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module();

  CUfunction function() const { return function_; }
  int registers() const { return registers_; }  // per thread at launch, as the driver reports it
  /// Error internal: the code has no griddepcontrol.wait, so it must not start before earlier launches end
  /// (LaunchShape::dependent).
  Result<void> check_waits() const;

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
