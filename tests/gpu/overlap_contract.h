// SPDX-License-Identifier: Apache-2.0
// Tests the contract of dependent launches (spec/overlap.h) for any kernel. Its producer releases it at once,
// sleeps, and only then writes its input; the kernel must give the bits that it gives alone. A launch two
// before it reads outputs late, and the kernel must not have overwritten them. A kernel without the wait
// breaks both.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <sluice/host/driver/memory.h>
#include <sluice/host/driver/module.h>

namespace sluice::testing {

/// A kernel that releases its dependents, waits for its prerequisites if it is `chained`, sleeps, then
/// copies. It is small, to leave room for the kernel under test.
class LateCopy {
 public:
  static Result<LateCopy> create(const Device& device);
  struct Job {
    const void* from = nullptr;
    void* to = nullptr;
    i64 bytes = 0;
    int sleep_us = 0;
    bool chained = false;
  };
  Result<void> launch(const Job& job, Stream stream) const;

 private:
  LateCopy(const Device& device, std::shared_ptr<const Module> first, std::shared_ptr<const Module> chained)
      : device_(device), first_(std::move(first)), chained_(std::move(chained)) {}
  Device device_;
  std::shared_ptr<const Module> first_, chained_;
};

/// A launch under test and its memory.
struct Chained {
  std::function<Result<void>(Stream)> launch;
  const DeviceBuffer* input = nullptr;         // written by the launch before; may be an output too
  std::vector<const DeviceBuffer*> outputs{};  // everything it writes
};

/// Bytes of the outputs that differ between `alone`, launched after its input is complete, and `chained`,
/// launched after a producer of equal input. Outputs are poisoned before each. `in_graph`: captured and
/// replayed.
Result<i64> bytes_that_differ(const Device& device, const Chained& alone, const Chained& chained,
                              bool in_graph);

/// Bytes of the outputs' old contents that a late reader two launches before `chained` did not see.
Result<i64> bytes_written_early(const Device& device, const Chained& chained);

}  // namespace sluice::testing
