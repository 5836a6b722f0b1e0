// SPDX-License-Identifier: Apache-2.0
// Block scales in cuBLASLt's layout (manual, "Scaling factors layouts"). Its scales of A's 1 x 128 blocks are
// column-major, and rows of its 128 x 128 scales of B are padded to a multiple of four. Ours are row-major
// without padding. The bench converts a copy, so that any k and arbitrary scales can be compared.
#pragma once

#include <vector>

#include <sluice/tools.h>

namespace sluice::bench {

/// Returns `scales` (rows x columns) column after column.
std::vector<float> transposed(const std::vector<float>& scales, i64 rows, i64 columns);
/// Returns `scales` (rows x columns) with each row zero-padded to a multiple of four.
std::vector<float> padded(const std::vector<float>& scales, i64 rows, i64 columns);

/// One set of operands' block scales in the peer's layout.
class PeerScales {
 public:
  /// For a product whose A and B both have block scales.
  static Result<PeerScales> create(const Device& device, const Problem& problem);
  /// Copies the scales of `args` once all work of the device is done.
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
