// SPDX-License-Identifier: Apache-2.0
// The memory that a chain writes. The tuner saves it, runs the plain chain, and later each chain that would
// win, from the same beginning: a chain whose results differ must not win by its time. Called by tune.cc.
#pragma once

#include <string>
#include <vector>

#include <sluice/chain.h>
#include <sluice/chain/step.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/memory.h>
#include <sluice/run/ops/compare.h>

namespace sluice::tuning {

class ChainOutputs {
 public:
  /// Saves what the steps' outputs hold now, also those that foreign steps name. Takes twice their memory.
  /// Errors: driver, toolchain.
  static Result<ChainOutputs> save(const Device& device, std::span<const ChainStep> steps,
                                   const StreamHandle& stream);
  /// Restores the outputs to their saved contents.
  Result<void> restore(Stream stream) const;
  /// Stores the outputs' present contents as the right result.
  Result<void> keep(Stream stream);
  bool has_kept() const { return kept_; }
  /// Waits for the stream, and compares the outputs with the kept ones. Errors: internal (the first step
  /// whose result differs); driver.
  Result<void> check(const StreamHandle& stream);

 private:
  /// Bytes that no other block overlaps, and their places in the two buffers.
  struct Block {
    u64 begin = 0, end = 0;
    i64 place = 0;
  };
  struct Output {
    std::string step;
    const char* name;
    ops::ResultPair results;
  };
  ChainOutputs(const Device& device, ops::Comparison comparison)
      : device_(device), comparison_(std::move(comparison)) {}

  Device device_;
  ops::Comparison comparison_;
  std::vector<Block> blocks_;
  std::vector<Output> outputs_;  // no later step writes over them
  DeviceBuffer saved_, right_;
  bool kept_ = false;
};

}  // namespace sluice::tuning
