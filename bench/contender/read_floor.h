// SPDX-License-Identifier: Apache-2.0
// The read floor: the time of a kernel that only reads B, with plain 16-byte loads. Products whose traffic is
// mostly weights are compared with it in the same run. `sluice_lab calibrate` uses the same reader.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <sluice/check/verify.h>

#include "bench/contender/contender.h"
#include "bench/lab.h"

namespace sluice::bench {

/// Reads memory by plain loads, as a lower bound for kernels that must read the weights. Each CTA has 512
/// threads and reads an equal contiguous slice.
class Reader {
 public:
  /// Errors: toolchain, driver.
  static Result<Reader> create(const Device& device);
  static const char* unit_text();

  /// Enqueues a read of `bytes`, a multiple of 16, by two CTAs per SM.
  Result<void> read(const void* data, i64 bytes, Stream stream) const;

 private:
  Reader(const Device& device, std::shared_ptr<const Module> module)
      : device_(device), module_(std::move(module)) {}
  Device device_;
  std::shared_ptr<const Module> module_;
};

/// True if B is at least four times as large as A and D together.
bool is_mostly_weights(const Problem& problem);

/// Memory to read: `bytes` bytes at each address, one address per operand set.
struct Weights {
  std::vector<const void*> copies;
  i64 bytes = 0;
};

/// Makes a contender that only reads the weights of an operand set. Errors: toolchain, driver.
Result<Contender> read_floor_contender(const Lab& lab, const Weights& weights, const std::string& name);

}  // namespace sluice::bench
