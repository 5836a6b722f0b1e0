// SPDX-License-Identifier: Apache-2.0
// Weights with 4 or 8 bits into packed blobs, on the GPU, as fast as a model's weights can be read: one
// kernel, nothing synchronised, capturable. And back, exactly. The blob is docs/packing.md's, byte for byte;
// parts of it for the shards of a layer are plain copies (sluice/spec/packed_slices.h).
#pragma once

#include <sluice/gemm.h>
#include <sluice/spec/pack.h>
#include <sluice/spec/packed_slices.h>

namespace sluice {

struct PackShape {
  i64 n = 0, k = 0;  // rows (outputs of the layer), and what the sum is over
};

/// Row-major and without gaps. Of a uint4 in a byte only the lower half is looked at.
struct PackArgs {
  const void* codes = nullptr;   // n rows of code_row_bytes(storage, k)
  const void* scales = nullptr;  // n x group_count(format, k), of format.scale
  const void* zeros = nullptr;   // the same; null if the format stores none
  void* blob = nullptr;          // blob_bytes(format, n, k), on 16 bytes; all of it is written
};

struct UnpackArgs {
  const void* blob = nullptr;
  void* codes = nullptr;
  void* scales = nullptr;
  void* zeros = nullptr;
};

/// The loaded kernels of one format and one way to store codes. Cheap to copy; usable from any thread.
class Packer {
 public:
  /// Compiles or finds in the cache. Errors: invalid_config, toolchain, driver.
  static Result<Packer> create(const Device& device, const WeightFormat& format,
                               CodeStorage storage = CodeStorage::byte);

  /// No allocation, no synchronisation. Empty weights succeed. Errors (nothing is launched): invalid_size (n
  /// or k negative or past 2^31 - 1, or 2^31 tiles of 64 x 128 or more), invalid_pointer, invalid_argument,
  /// misaligned, aliasing, wrong_device, driver.
  Result<void> pack(const PackShape& shape, const PackArgs& args, Stream stream) const;

  /// The arrays that were packed, bit for bit. Errors as of pack.
  Result<void> unpack(const PackShape& shape, const UnpackArgs& args, Stream stream) const;

  struct Impl;
  explicit Packer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sluice
