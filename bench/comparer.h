// SPDX-License-Identifier: Apache-2.0
// Compares blocks of device memory on the GPU, in stream order. The result is read later, so a hundred
// thousand replays can be compared without waiting. Used by chain/session.cc.
#pragma once

#include <memory>

#include <sluice/run/driver/memory.h>

#include "bench/lab.h"

namespace sluice::bench {

/// Counts the 16-byte pieces that differ between two blocks of equal size.
class Comparer {
 public:
  static Result<Comparer> create(const Lab& lab);
  static const char* unit_text();

  /// Compares in stream order and adds to the counter. Does not wait for the GPU.
  Result<void> enqueue(const DeviceBuffer& a, const DeviceBuffer& b, Stream stream) const;
  /// Waits for the stream. Returns the 16-byte pieces that differed since the last call, and resets the
  /// counter.
  Result<i64> take(Stream stream) const;

 private:
  Comparer(const Device& device, std::shared_ptr<const Module> module, DeviceBuffer counter)
      : device_(device), module_(std::move(module)), counter_(std::move(counter)) {}
  Device device_;
  std::shared_ptr<const Module> module_;
  DeviceBuffer counter_;
};

}  // namespace sluice::bench
