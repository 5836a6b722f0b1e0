// SPDX-License-Identifier: Apache-2.0
// Root-mean-square norm of rows in one kernel, with the neighbouring steps of a model: optionally a residual
// is added first and the result is quantised.
//   sum[r][i]    = input[r][i] + residual[r][i], rounded to the input's type; without a residual the input
//   normed[r][i] = sum[r][i] * (1 / sqrt(mean_i(sum[r][i]^2) + epsilon)) * gamma[i], in fp32
//   output       = normed rounded to the input's type, or to e4m3 as sluice/quantize.h has it
// A row's result bits depend only on that row (docs/numerics.md).
#pragma once

#include <optional>

#include <sluice/gemm.h>
#include <sluice/spec/quantize.h>

namespace sluice {

struct NormShape {
  i64 rows = 0, columns = 0;  // at most 262144 columns
  i64 input_ld = 0, residual_ld = 0, sum_ld = 0,
      output_ld = 0;  // elements from one row to the next; 0: no gaps
};

struct NormArgs {
  const void* input = nullptr;     // rows x columns of the input's type
  const void* residual = nullptr;  // rows x columns of the input's type; nullptr: no residual
  void* sum = nullptr;          // receives the sum; may be `residual` or `input` itself; nullptr: not stored
  const void* gamma = nullptr;  // `columns` values of the input's type; earlier launches must not write them
  void* output = nullptr;
  float* scales = nullptr;  // e4m3 only: scale_count() values that are written; with Granularity::tensor one
                            // value that is read
  float epsilon = 1e-5f;
  WarmRange hand_off{};  // weights of the next launch, prefetched into L2 before the PDL wait
};

/// Options of a norm's kernel. Without `quantize` the output has the input's type. With tensor (scale given
/// by the caller), row or row_block it is e4m3.
struct NormOptions {
  DType input = DType::bf16;  // bf16 or fp16
  std::optional<Granularity> quantize{};
  Overlap overlap{};  // gamma is read before the PDL wait, both with Wait::first and with Wait::weights_first

  bool operator==(const NormOptions&) const = default;
};

/// The loaded kernels for one NormOptions. Cheap to copy; usable from any thread.
class Norm {
 public:
  /// Compiles the kernels or finds them in the cache. Errors: invalid_type, invalid_argument (square_block),
  /// toolchain, driver.
  static Result<Norm> create(const Device& device, const NormOptions& options);

  /// Launches one kernel without allocation or synchronisation; the stream may be capturing. Empty matrices
  /// succeed. Errors (nothing is launched): invalid_size, invalid_stride, invalid_argument, invalid_pointer,
  /// misaligned, aliasing, wrong_device, driver.
  Result<void> launch(const NormShape& shape, const NormArgs& args, Stream stream) const;

  struct Impl;
  explicit Norm(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sluice
