// SPDX-License-Identifier: Apache-2.0
// Converts block scales to cuBLASLt's layout (manual, "Scaling factors layouts"). There, the scales of A's 1
// x 128 blocks are column-major, and rows of the 128 x 128 scales of B are padded to a multiple of four. Ours
// are row-major without padding, or those of A by columns with gaps; those of each column of B lie as there.
// The bench converts a copy, so any k and any scales can be compared.
#pragma once

#include <vector>

#include <sluice/run/driver/memory.h>

namespace sluice::bench {

/// Returns a rows x columns matrix in column-major order.
std::vector<float> transposed(const std::vector<float>& scales, i64 rows, i64 columns);
/// Returns a rows x columns matrix whose rows lie `to` apart, with zeros between them. They were `from`
/// apart.
std::vector<float> at_pitch(const std::vector<float>& scales, i64 rows, i64 columns, i64 from, i64 to);

/// The block scales of one set of operands, in cuBLASLt's layout.
class PeerScales {
 public:
  /// Allocates the scales of a product whose A and B both have block scales.
  static Result<PeerScales> create(const Device& device, const Problem& problem);
  /// Waits for all work of the device, then copies the scales of `args`.
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
