// SPDX-License-Identifier: Apache-2.0
// Two kernels of the probe: one fills a tensor with random reals, one compares two results.
#pragma once

#include <memory>

#include <sluice/tools.h>

namespace sluice::probes {

/// Two results of equal size, element by element.
struct Difference {
  double relative = 0;  // root of the summed squares of differences, over that of the second result
  double largest = 0;   // largest difference, over the second result's largest value
  i64 not_finite = 0;   // elements of the first that are no number; left out of the others
};

class ConvKernels {
 public:
  /// Errors: toolchain, driver.
  static Result<ConvKernels> create(const Device& device);
  static const char* fill_text();
  static const char* compare_text();

  /// Normal reals of variance 1, in stream order. `type`: bf16 or fp16.
  Result<void> fill(const DeviceBuffer& tensor, DType type, u64 seed, Stream stream) const;
  /// Waits for the stream.
  Result<Difference> compare(const DeviceBuffer& got, const DeviceBuffer& want, DType type,
                             Stream stream) const;

 private:
  ConvKernels(const Device& device, std::shared_ptr<const Module> fill, std::shared_ptr<const Module> compare,
              DeviceBuffer sums)
      : device_(device), fill_(std::move(fill)), compare_(std::move(compare)), sums_(std::move(sums)) {}
  Device device_;
  std::shared_ptr<const Module> fill_, compare_;
  DeviceBuffer sums_;
};

}  // namespace sluice::probes
