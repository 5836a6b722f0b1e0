// SPDX-License-Identifier: Apache-2.0
// Block scales as cuBLASLt reads them (manual, "Scaling factors layouts"): those of A's 1 x 128 blocks lie
// column after column, and a row of those of B's 128 x 128 blocks is a multiple of four long. Ours lie row
// after row, without padding. The bench keeps a copy of a few kilobytes in the peer's layout, so that every k
// and real scales can be compared.
#pragma once

#include <vector>

#include <sluice/tools.h>

namespace sluice::bench {

/// `scales` (rows x columns) column after column.
std::vector<float> transposed(const std::vector<float>& scales, i64 rows, i64 columns);
/// `scales` (rows x columns) with zeros behind each row, up to a multiple of four.
std::vector<float> padded(const std::vector<float>& scales, i64 rows, i64 columns);

/// One set of operands' block scales in the peer's layout.
class PeerScales {
 public:
  /// For a product whose A and B both have block scales.
  static Result<PeerScales> create(const Device& device, const Problem& problem);
  /// Copies what lies in `args` once all work of the device is done.
  Result<void> copy(const Problem& problem, const gemm::Args& args) const;
  const void* a() const { return a_.data(); }
  const void* b() const { return b_.data(); }

 private:
  PeerScales(Device device, DeviceBuffer a, DeviceBuffer b)
      : device_(std::move(device)), a_(std::move(a)), b_(std::move(b)) {}
  Device device_;
  DeviceBuffer a_, b_;
};

}  // namespace sluice::bench
