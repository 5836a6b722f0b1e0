// SPDX-License-Identifier: Apache-2.0
// The primary context of a device, shared with the CUDA runtime and PyTorch, and a scope that makes it
// current. Modules, memory and events share ownership of the PrimaryContext, so it outlives them in any order
// of destruction.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include <sluice/host/driver/api.h>

namespace sluice {

class PrimaryContext {
 public:
  /// `device` belongs to `ordinal`. Error driver.
  static Result<std::shared_ptr<const PrimaryContext>> retain(const DriverApi& api, CUdevice device,
                                                              int ordinal);
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;
  ~PrimaryContext();

  const DriverApi& api() const { return api_; }
  CUcontext handle() const { return context_; }
  CUdevice device() const { return device_; }
  int ordinal() const { return ordinal_; }

  /// Remembers pointers already checked to be this device's memory. Asking the driver costs about 0.1 us
  /// each, of 0.6 us a launch may cost. A pointer freed and reallocated on another device goes unnoticed: the
  /// check finds mistakes of a first call and is no guard.
  bool is_known_memory(const void* pointer) const {
    for (const std::atomic<const void*>& known : known_[row_of(pointer)])
      if (known.load(std::memory_order_relaxed) == pointer) return true;
    return false;
  }
  /// Keeps the last four pointers of a row, so that one launch's operands do not evict each other. A race of
  /// two threads may lose one; the driver is then asked again.
  void remember_memory(const void* pointer) const {
    KnownRow& row = known_[row_of(pointer)];
    for (std::size_t i = row.size() - 1; i > 0; --i)
      row[i].store(row[i - 1].load(std::memory_order_relaxed), std::memory_order_relaxed);
    row[0].store(pointer, std::memory_order_relaxed);
  }

 private:
  using KnownRow = std::array<std::atomic<const void*>, 4>;
  static constexpr int kKnownRowBits = 8;  // rows of four: enough for a model's weights and buffers
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

/// Makes a context current on this thread and restores the previous one. Costs one query if it is current
/// already. Allocates nothing.
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
  const char* call_ = "cuCtxGetCurrent";  // the call that gave status_
  CUresult status_ = CUDA_SUCCESS;
  bool pushed_ = false;
};

/// Deleter for std::unique_ptr: destroys a handle by one driver call, with its context current.
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
