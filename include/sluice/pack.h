// SPDX-License-Identifier: Apache-2.0
// Packs 4-bit and 8-bit weights into blobs on the GPU, and unpacks them exactly. A call is one kernel (two
// for gated weights, one per half), does not synchronise, may be captured, and runs at memory speed.
// docs/packing.md defines the blob byte by byte. Shards of a layer are plain copies of parts of a blob
// (sluice/spec/packed_slices.h).
#pragma once

#include <sluice/gemm.h>
#include <sluice/spec/pack.h>
#include <sluice/spec/packed_slices.h>

namespace sluice {

struct PackShape {
  i64 n = 0, k = 0;  // rows (outputs of the layer), and columns (length of the sum)
  // The weights of a gated product: n / 2 rows of the gate, then n / 2 rows of "up". Each half is packed as a
  // blob of its own, the second behind the first (docs/packing.md). n is a multiple of 16; for multiples of
  // 128 the bytes are the same as without `gated`.
  bool gated = false;
};

/// Device pointers. Arrays are row-major without gaps. Of a byte that holds a uint4 the upper half is
/// ignored.
struct PackArgs {
  const void* codes = nullptr;   // n rows of code_row_bytes(storage, k)
  const void* scales = nullptr;  // n x group_count(format, k) values of format.scale
  // n x group_count(format, k) values of format.scale; null if the format stores no zeros
  const void* zeros = nullptr;
  void* blob = nullptr;  // blob_bytes(format, n, k), or gated_blob_bytes(); 16-byte aligned; every byte is
                         // written
};

struct UnpackArgs {
  const void* blob = nullptr;
  void* codes = nullptr;
  void* scales = nullptr;
  void* zeros = nullptr;
};

/// The loaded kernels for one format and one way to store codes. Cheap to copy; usable from any thread.
class Packer {
 public:
  /// Compiles the kernels or finds them in the cache. Errors: invalid_config, toolchain, driver.
  static Result<Packer> create(const Device& device, const WeightFormat& format,
                               CodeStorage storage = CodeStorage::byte);

  /// Packs without allocation or synchronisation. Empty weights succeed. Errors (nothing is launched):
  /// invalid_size, invalid_pointer, invalid_argument, misaligned, aliasing, wrong_device, driver. n and k are
  /// in 0 .. 2^31 - 1, with fewer than 2^31 tiles of 64 x 128.
  Result<void> pack(const PackShape& shape, const PackArgs& args, Stream stream) const;

  /// Restores the packed arrays, bit for bit. Errors: those of pack().
  Result<void> unpack(const PackShape& shape, const UnpackArgs& args, Stream stream) const;

  struct Impl;
  explicit Packer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sluice
