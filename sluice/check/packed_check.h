// SPDX-License-Identifier: Apache-2.0
// Operands of a packed problem on the GPU, packed there, with reference sums in fp64, and the check of a
// kernel's D. Used by `sluice run`, bench/ and tests/gpu.
#pragma once

#include <memory>
#include <vector>

#include <sluice/check/packed_data.h>
#include <sluice/host/driver/memory.h>

namespace sluice::packed {

std::string reference_unit_text();

class DeviceData {
 public:
  /// Uploads, packs the weights with sluice::Packer (once a copy) and sums; waits for the GPU. `shift`:
  /// elements by which D begins past its alignment. Errors: toolchain, driver.
  static Result<DeviceData> create(const Device& device, HostData data, int copies = 1, int shift = 0);

  const HostData& host() const { return data_; }
  const PackedProblem& problem() const { return data_.problem; }
  const std::vector<PackedSum>& sums() const { return sums_; }
  int copies() const { return static_cast<int>(copies_.size()); }
  Args args(int copy = 0) const;

  /// Poisons D's whole buffer in stream order, so that no old contents pass a check.
  Result<void> poison(Stream stream, int copy = 0) const;
  /// Waits for all GPU work, and reads D with its guards.
  Result<std::vector<u8>> read_d(int copy = 0) const;
  /// Waits and judges D. Inputs of copy 0 must be unchanged. The default `rounding` suits an unknown kernel,
  /// with wider bounds.
  Result<Comparison> check(int copy = 0, WeightRounding rounding = WeightRounding::either) const;
  /// Name of copy 0's first input that changed since create(); "" if none did.
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
  std::vector<u8> blob_;  // as packed; empty, and not compared, if large
  DeviceBuffer codes_, scales_, zeros_, bias_, scale_x_, scale_d_, gamma_, c_;
  std::shared_ptr<const Device> device_;
};

/// A small problem that every config of `problem` accepts with equal options: up to 64 tokens and 512
/// columns, and as many k as keep sums of exact data exact.
PackedProblem small_problem(PackedProblem problem);
/// Launches the config's kernel on `data` and checks; whole numbers must agree in every bit. Errors: prepare,
/// driver.
Result<Comparison> check_config(const Device& device, const DeviceData& data, const PackedConfig& config,
                                Stream stream);

}  // namespace sluice::packed
