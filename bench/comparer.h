// SPDX-License-Identifier: Apache-2.0
// Are two blocks of device memory equal? Asked in stream order, answered later: for chains that are replayed
// a hundred thousand times. Used by chain/session.cc.
#pragma once

#include <memory>

#include <sluice/tools.h>

#include "bench/lab.h"

namespace sluice::bench {

/// Pieces of 16 bytes that differ between two blocks of equal size, counted on the GPU.
class Comparer {
 public:
  static Result<Comparer> create(const Lab& lab);
  static const char* unit_text();

  /// Adds to a counter in stream order; nothing waits.
  Result<void> enqueue(const DeviceBuffer& a, const DeviceBuffer& b, Stream stream) const;
  /// Waits, returns how many 16-byte pieces differed since the last time, and zeroes the counter.
  Result<i64> take(Stream stream) const;

 private:
  Comparer(const Device& device, std::shared_ptr<const Module> module, DeviceBuffer counter)
      : device_(device), module_(std::move(module)), counter_(std::move(counter)) {}
  Device device_;
  std::shared_ptr<const Module> module_;
  DeviceBuffer counter_;
};

}  // namespace sluice::bench
