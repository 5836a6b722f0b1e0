// SPDX-License-Identifier: Apache-2.0
// Test data of a packed problem on the GPU: operands, packed there, and reference sums in fp64. Checks the D
// that a kernel wrote. Used by `sluice run`, bench/ and tests/gpu.
#pragma once

#include <memory>
#include <vector>

#include <sluice/check/packed_data.h>
#include <sluice/run/driver/memory.h>

namespace sluice::packed {

std::string reference_unit_text();

class DeviceData {
 public:
  /// Uploads `data` `copies` times, packs the weights of each copy with sluice::Packer, computes the
  /// reference sums, and synchronises. `shift`: D begins this many elements after an aligned address. Errors:
  /// toolchain, driver.
  static Result<DeviceData> create(const Device& device, HostData data, int copies = 1, int shift = 0);

  const HostData& host() const { return data_; }
  const Problem& problem() const { return data_.problem; }
  const std::vector<PackedSum>& sums() const { return sums_; }
  int copies() const { return static_cast<int>(copies_.size()); }
  gemm::Args args(int copy = 0) const;

  /// Fills D's whole buffer with poison in stream order, so that stale contents cannot pass a check.
  Result<void> poison(Stream stream, int copy = 0) const;
  /// Synchronises, and returns the contents of D's buffer, guards included.
  Result<std::vector<u8>> read_d(int copy = 0) const;
  /// Synchronises and checks D; also checks that the inputs of copy 0 are unchanged. The default `rounding`
  /// has wider bounds, which hold for any kernel.
  Result<Comparison> check(int copy = 0, WeightRounding rounding = WeightRounding::either) const;
  /// Returns the name of copy 0's first input that changed since create(); "" if all are unchanged.
  Result<std::string> changed_inputs() const;

 private:
  struct Copy {
    DeviceBuffer x, blob, d;
  };
  Result<void> sum(const Device& device);

  HostData data_;
  int shift_ = 0;
  std::vector<PackedSum> sums_;
  std::vector<Copy> copies_;
  std::vector<u8> blob_;  // copy of the packed blob; empty if the blob is large, which is then not compared
  DeviceBuffer codes_, scales_, zeros_, bias_, scale_x_, scale_d_, gamma_, c_;
  std::shared_ptr<const Device> device_;
};

/// Returns a small problem with the options of `problem`, which every config of `problem` accepts. It has up
/// to 64 tokens and 512 columns, and the largest k with which sums of exact data stay exact.
Problem small_problem(Problem problem);
/// Launches the config's kernel on `data` and checks D; with exact data every bit must agree. Errors: those
/// of prepare; driver.
Result<Comparison> check_config(const Device& device, const DeviceData& data, const KernelConfig& config,
                                Stream stream);

}  // namespace sluice::packed
