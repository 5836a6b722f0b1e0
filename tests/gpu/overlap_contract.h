// SPDX-License-Identifier: Apache-2.0
// Tests the contract of dependent launches (spec/overlap.h) for any kernel. A producer triggers the kernel's
// launch at once, sleeps, and only then writes the kernel's input. The kernel must give the same bits as
// without overlap. A launch before the producer reads the kernel's outputs late, and the kernel must not have
// overwritten them. A kernel without the wait violates both.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <sluice/run/driver/memory.h>
#include <sluice/run/driver/module.h>

namespace sluice::testing {

/// A kernel that triggers its dependents at once, waits for its prerequisites if `chained`, sleeps, then
/// copies. It uses few resources, so that the kernel under test can run at the same time.
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

/// A launch under test, with the memory that it reads and writes.
struct Chained {
  std::function<Result<void>(Stream)> launch;
  const DeviceBuffer* input = nullptr;         // the previous launch writes it; may be one of the outputs
  std::vector<const DeviceBuffer*> outputs{};  // all memory that the launch writes
};

/// Counts the output bytes that differ between two runs. `alone` runs after its input is complete; `chained`
/// is launched right after the kernel that writes the same input. Outputs are filled with poison before each
/// run. `in_graph`: the launches are captured and replayed.
Result<i64> bytes_that_differ(const Device& device, const Chained& alone, const Chained& chained,
                              bool in_graph);

/// Detects writes that are too early. Two launches before `chained`, a slow kernel reads the outputs' old
/// contents. Returns the number of bytes in which it read something else.
Result<i64> bytes_written_early(const Device& device, const Chained& chained);

}  // namespace sluice::testing
