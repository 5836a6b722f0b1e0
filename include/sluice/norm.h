// SPDX-License-Identifier: Apache-2.0
// Root-mean-square norm of rows in one kernel, with the steps around it in a model: the residual is added
// before, the result is quantised after.
//   sum[r][i]    = input[r][i] + residual[r][i], rounded to the input's type; without a residual the input
//   normed[r][i] = sum[r][i] * (1 / sqrt(mean_i(sum[r][i]^2) + epsilon)) * gamma[i], in fp32
//   output       = normed rounded to the input's type, or to e4m3 as sluice/quantize.h has it
// The bits of a row depend on the row only (docs/numerics.md).
#pragma once

#include <optional>

#include <sluice/gemm.h>
#include <sluice/spec/quantize.h>

namespace sluice {

struct NormShape {
  i64 rows = 0, columns = 0;  // at most 262144 columns
  i64 input_ld = 0, residual_ld = 0, sum_ld = 0,
      output_ld = 0;  // elements from one row to the next; 0: packed
};

struct NormArgs {
  const void* input = nullptr;     // rows x columns of the input's type
  const void* residual = nullptr;  // rows x columns of the input's type; nullptr: none
  void* sum = nullptr;          // target of the sum; may be `residual` or `input` itself; nullptr: not stored
  const void* gamma = nullptr;  // columns values of the input's type; no earlier launch may write them
  void* output = nullptr;
  float* scales = nullptr;  // e4m3: scale_count() values, written; with Granularity::tensor one value, read
  float epsilon = 1e-5f;
  WarmRange hand_off{};  // weights of the next launch, prefetched into L2 before the PDL wait
};

/// Options of a norm's kernel. `quantize` not set: the output has the input's type. tensor (with a given
/// scale), row or row_block: the output is e4m3.
struct NormOptions {
  DType input = DType::bf16;  // or fp16
  std::optional<Granularity> quantize{};
  Overlap overlap{};  // gamma is read before the PDL wait, with first and weights_first alike

  bool operator==(const NormOptions&) const = default;
};

/// The loaded kernels of one NormOptions. Cheap to copy; usable from any thread.
class Norm {
 public:
  /// Compiles the kernels or finds them in the cache. Errors: invalid_type, invalid_argument (square_block),
  /// toolchain, driver.
  static Result<Norm> create(const Device& device, const NormOptions& options);

  /// Launches one kernel. No allocation, no synchronisation; capturable. Empty matrices succeed. Errors
  /// (nothing is launched): invalid_size, invalid_stride, invalid_argument, invalid_pointer, misaligned,
  /// aliasing, wrong_device, driver.
  Result<void> launch(const NormShape& shape, const NormArgs& args, Stream stream) const;

  struct Impl;
  explicit Norm(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sluice
