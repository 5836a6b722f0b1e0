// SPDX-License-Identifier: Apache-2.0
// Compares results of kernels that multiply the same numbers. Kernels add in different orders, so results may
// differ by rounding: a Tolerance says by how much. Races (race.h) and the tuner of chains (chain/tuning)
// call it before a kernel may win.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sluice/run/driver/events.h>
#include <sluice/run/driver/memory.h>
#include <sluice/run/driver/module.h>
#include <sluice/run/ops/operands.h>
#include <sluice/spec/dtype.h>

namespace sluice::ops {

/// How far two results may be apart.
struct Tolerance {
  // An element may differ by this share of itself, plus this share of the root mean square of all: rounding
  // errors of sums follow that one.
  double share = 0, share_of_rms = 0;
  double rms_share_of_rms = 0;  // bounds the root mean square of the differences
};

/// Two results of one type and shape, in device memory.
struct ResultPair {
  const void* first = nullptr;
  const void* second = nullptr;
  DType type = DType::bf16;
  Footprint memory{};
};

/// Returns the text of the kernel that compares.
std::string compare_unit_text();

/// Pairs of results that are compared on the device, in stream order.
class Comparison {
 public:
  /// Errors: toolchain, driver (the kernel; memory for the totals of `most_pairs`).
  static Result<Comparison> create(const Device& device, int most_pairs);
  /// Enqueues the comparison of a pair. Errors: driver; internal (more than most_pairs).
  Result<void> add(const ResultPair& pair, const Tolerance& tolerance, Stream stream);
  /// Waits for the stream. For each pair added since the last call, returns whether the results are alike:
  /// NaN and infinity must be equal, all other elements within the tolerance. Error: driver.
  Result<std::vector<bool>> verdicts(const StreamHandle& stream);

 private:
  Comparison(const Device& device, std::shared_ptr<const Module> module, DeviceBuffer totals)
      : device_(device), module_(std::move(module)), totals_(std::move(totals)) {}

  struct Added {
    Tolerance tolerance;
    double elements;
  };
  Device device_;
  std::shared_ptr<const Module> module_;
  DeviceBuffer totals_;
  std::vector<Added> added_;
};

/// The space between neighbouring numbers of the type, as a share of their magnitude.
double spacing_of(DType type);

}  // namespace sluice::ops
