// SPDX-License-Identifier: Apache-2.0
// The primary context of a device, which the CUDA runtime and PyTorch also use, and a scope that makes it
// current. Modules, memory and events share ownership of the PrimaryContext, so it outlives them in any order
// of destruction.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include <sluice/run/driver/api.h>

namespace sluice {

class PrimaryContext {
 public:
  /// Retains the primary context. `device` is the handle of device number `ordinal`. Error driver.
  static Result<std::shared_ptr<const PrimaryContext>> retain(const DriverApi& api, CUdevice device,
                                                              int ordinal);
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;
  ~PrimaryContext();

  const DriverApi& api() const { return api_; }
  CUcontext handle() const { return context_; }
  CUdevice device() const { return device_; }
  int ordinal() const { return ordinal_; }

  /// Returns whether the pointer was already checked to be this device's memory. That saves asking the
  /// driver, about 0.1 us of the 0.6 us that a launch may cost. A pointer that was freed and allocated again
  /// on another device is not noticed: the check finds mistakes at a first call, and is not a safeguard.
  bool is_known_memory(const void* pointer) const {
    for (const std::atomic<const void*>& known : known_[row_of(pointer)])
      if (known.load(std::memory_order_relaxed) == pointer) return true;
    return false;
  }
  /// Stores the pointer. A row holds the last four, so that one launch's operands do not evict each other. If
  /// two threads store at once, one pointer may be lost; the driver is then asked again.
  void remember_memory(const void* pointer) const {
    KnownRow& row = known_[row_of(pointer)];
    for (std::size_t i = row.size() - 1; i > 0; --i)
      row[i].store(row[i - 1].load(std::memory_order_relaxed), std::memory_order_relaxed);
    row[0].store(pointer, std::memory_order_relaxed);
  }

 private:
  using KnownRow = std::array<std::atomic<const void*>, 4>;
  static constexpr int kKnownRowBits = 8;  // rows of four pointers: enough for a model's weights and buffers
  static std::size_t row_of(const void* pointer) {
    return (reinterpret_cast<std::uintptr_t>(pointer) >> 4) * 0x9E3779B97F4A7C15u >> (64 - kKnownRowBits);
  }

  PrimaryContext(const DriverApi& api, CUdevice device, int ordinal)
      : api_(api), device_(device), ordinal_(ordinal) {}

  const DriverApi& api_;
  CUdevice device_;
  int ordinal_;
  CUcontext context_ = nullptr;
  mutable std::array<KnownRow, 1 << kKnownRowBits> known_{};
};

/// Makes a context current on this thread and restores the previous one afterwards. Costs one query if the
/// context is already current. Allocates nothing.
class ContextScope {
 public:
  ContextScope(const DriverApi& api, CUcontext context);
  explicit ContextScope(const PrimaryContext& primary) : ContextScope(primary.api(), primary.handle()) {}
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope();

  /// Error driver: the context could not be made current.
  Result<void> entered() const;

 private:
  const DriverApi& api_;
  const char* call_ = "cuCtxGetCurrent";  // the call that returned status_
  CUresult status_ = CUDA_SUCCESS;
  bool pushed_ = false;
};

/// A deleter for std::unique_ptr: destroys a handle by one driver call while its context is current.
template <auto kDestroy>
struct HandleDeleter {
  std::shared_ptr<const PrimaryContext> primary;

  template <class Handle>
  void operator()(Handle* handle) const {
    const ContextScope scope(*primary);
    (primary->api().*kDestroy)(handle);
  }
};

}  // namespace sluice
