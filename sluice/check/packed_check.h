// SPDX-License-Identifier: Apache-2.0
// A packed problem's operands on the GPU, packed there, its sums in fp64, and the check of what a kernel left
// in D. Used by `sluice run`, bench/ and tests/gpu.
#pragma once

#include <memory>
#include <vector>

#include <sluice/check/packed_data.h>
#include <sluice/host/driver/memory.h>

namespace sluice::packed {

/// The unit of the reference kernel.
std::string reference_unit_text();

class DeviceData {
 public:
  /// Uploads, packs the weights with sluice::Packer (once for each copy) and sums. Waits for the GPU.
  /// `shift`: D begins so many elements past its alignment. Errors: toolchain, driver.
  static Result<DeviceData> create(const Device& device, HostData data, int copies = 1, int shift = 0);

  const HostData& host() const { return data_; }
  const PackedProblem& problem() const { return data_.problem; }
  const std::vector<PackedSum>& sums() const { return sums_; }
  int copies() const { return static_cast<int>(copies_.size()); }
  Args args(int copy = 0) const;

  /// All of D's buffer, in stream order: what was there cannot pass a check.
  Result<void> poison(Stream stream, int copy = 0) const;
  /// Waits for all of the GPU's work and reads D with its guards.
  Result<std::vector<u8>> read_d(int copy = 0) const;
  /// Waits, and judges D; inputs of copy 0 must be what they were. Who does not say which kernel it was gets
  /// the wider bounds.
  Result<Comparison> check(int copy = 0, WeightRounding rounding = WeightRounding::either) const;
  /// The first of copy 0's inputs that has changed since create(), by name; "" if none has.
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
  std::vector<u8> blob_;  // as packed; empty if it is large: then it is not compared
  DeviceBuffer codes_, scales_, zeros_, bias_, scale_x_, scale_d_, gamma_, c_;
  std::shared_ptr<const Device> device_;
};

/// A problem that whatever config takes `problem` takes too, with the same options: as many k as keep the
/// sums of exact data exact, up to 64 tokens and 512 columns.
PackedProblem small_problem(PackedProblem problem);
/// Launches the config's kernel on `data` and checks: of whole numbers no bit may be wrong. Errors: prepare,
/// driver.
Result<Comparison> check_config(const Device& device, const DeviceData& data, const PackedConfig& config,
                                Stream stream);

}  // namespace sluice::packed
