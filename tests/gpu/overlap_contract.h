// SPDX-License-Identifier: Apache-2.0
// The contract of dependent launches (spec/overlap.h), for any kernel: behind a producer that lets it go at
// once, sleeps, and only then writes its input, a kernel gives the bits that it gives alone; and what a
// launch two before it reads late, it has not written yet. A kernel that does not wait is seen to break both.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <sluice/host/driver/memory.h>
#include <sluice/host/driver/module.h>

namespace sluice::testing {

/// One kernel: lets its dependents go, waits for its own prerequisites if it is `chained`, sleeps, then
/// copies. Small, so that there is room beside it for the kernel under test.
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

/// A launch under test, and the memory that it touches.
struct Chained {
  std::function<Result<void>(Stream)> launch;
  const DeviceBuffer* input = nullptr;         // what depends on the launch before; may be an output too
  std::vector<const DeviceBuffer*> outputs{};  // all that it writes
};

/// Bytes of the outputs that differ between `alone`, launched when its input is there, and `chained`,
/// launched behind a producer of the same input. The outputs are poisoned before each. `in_graph`: captured
/// and replayed.
Result<i64> bytes_that_differ(const Device& device, const Chained& alone, const Chained& chained,
                              bool in_graph);

/// Bytes of the outputs' old contents that a launch two before `chained`, which reads them late, did not see.
Result<i64> bytes_written_early(const Device& device, const Chained& chained);

}  // namespace sluice::testing
