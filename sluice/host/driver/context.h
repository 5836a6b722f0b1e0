// SPDX-License-Identifier: Apache-2.0
// The primary context of a device, shared with the CUDA runtime and PyTorch, and the scope in which it is
// current. Everything that must be given back to the driver (modules, memory, events) shares ownership of the
// PrimaryContext, so that the context outlives it whatever the order of destruction.
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

  /// Pointers that were seen to be this device's memory, so that a launch need not ask the driver again
  /// (about 0.1 us each, of 0.6 that a launch may cost). Memory that was freed, and allocated again at its
  /// place on another device or the host, is not noticed: the check finds mistakes of a first call, it is no
  /// guard. The driver's id of an allocation would tell, at the price of asking.
  bool is_known_memory(const void* pointer) const {
    for (const std::atomic<const void*>& known : known_[row_of(pointer)])
      if (known.load(std::memory_order_relaxed) == pointer) return true;
    return false;
  }
  /// The last four of a row stay: a launch's own operands do not drive each other out. Two threads at a time
  /// may lose one, which is asked about again.
  void remember_memory(const void* pointer) const {
    KnownRow& row = known_[row_of(pointer)];
    for (std::size_t i = row.size() - 1; i > 0; --i)
      row[i].store(row[i - 1].load(std::memory_order_relaxed), std::memory_order_relaxed);
    row[0].store(pointer, std::memory_order_relaxed);
  }

 private:
  using KnownRow = std::array<std::atomic<const void*>, 4>;
  static constexpr int kKnownRowBits = 8;  // with four each: a model's weights and buffers
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

/// Makes a context current for its lifetime on this thread, and puts back what was. Costs one query if it
/// already is. Allocates nothing.
class ContextScope {
 public:
  ContextScope(const DriverApi& api, CUcontext context);
  explicit ContextScope(const PrimaryContext& primary) : ContextScope(primary.api(), primary.handle()) {}
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope();

  /// Error driver: the context is not current.
  Result<void> entered() const;

 private:
  const DriverApi& api_;
  const char* call_ = "cuCtxGetCurrent";  // that status_ is from
  CUresult status_ = CUDA_SUCCESS;
  bool pushed_ = false;
};

/// Gives a handle back through one entry of the table, with its context current; for std::unique_ptr.
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
