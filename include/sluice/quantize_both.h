// SPDX-License-Identifier: Apache-2.0
// Quantises a matrix to fp8 in both orders, with fp32 scales, for the three products of a training step. Rows
// of codes serve sums over columns. Columns of codes, the rows of the transposed matrix,
// serve sums over rows. A call reads the matrix once for scales by blocks, and twice for scales of rows or of
// the whole matrix. It does not synchronise and may be captured.
//   multiplier = (1 / amax) * largest, scale = amax * (1 / largest), output = fp8(input * multiplier)
//   with powers of two: the multiplier's fraction is cleared, and scale = 1 / multiplier
// each step rounded to fp32; largest is 448 (e4m3) or 57344 (e5m2). amax is the largest magnitude of the
// elements that share a scale, at least 1e-12: sluice/quantize.h has 1e-4, which would destroy gradients.
// Rounding is to nearest even. A NaN makes all elements that share its scale NaN. The matrix may be SwiGLU's
// result or gradient (BothSource), which is then never written in 16 bits.
#pragma once

#include <sluice/gemm.h>
#include <sluice/quantize.h>
#include <sluice/spec/quantize_both.h>

namespace sluice {

struct QuantizeBothShape {
  i64 rows = 0, columns = 0;  // the output's; columns must be a multiple of 16
  // Elements from one row to the next; 0: no gaps. Those of columns_t are at least rows_up().
  // The input has 2 * columns with BothSource::swiglu, and the gradient columns / 2.
  i64 input_ld = 0, rows_ld = 0, columns_t_ld = 0, gradient_ld = 0;
};

/// Rows of the transposed output: rows up to a multiple of 128. The last ones are zeros.
constexpr i64 rows_up(const QuantizeBothShape& shape) {
  return scale_blocks(shape.rows) * kBothTile;
}

struct QuantizeBothArgs {
  const void* input = nullptr;
  // Either may be null, with its scales: then the other order alone is stored.
  void* rows = nullptr;       // rows x columns
  void* columns_t = nullptr;  // columns x rows_up(): row c has column c of the matrix
  // As many as scale_count() says of the matrix and of its transpose, in that order of rows and columns. With
  // Granularity::row_block column_scales are [rows / 128, rounded up][columns], as Problem::scale_a_ld and
  // ScaleMode::vector128 have them. With Granularity::tensor column_scales is not used, and row_scales is
  // needed.
  float *row_scales = nullptr, *column_scales = nullptr;
  // [rows / 128, rounded up][columns]: sums of 128 rows each, whose sum is a bias gradient; null: none.
  float* sums = nullptr;
  WorkspaceView workspace{};       // Granularity::tensor and row: workspace_bytes(); else unused
  const void* gradient = nullptr;  // BothSource::swiglu_gradient: of silu(gate) * up, of the input's type
};

struct QuantizeBothOptions {
  DType input = DType::bf16;   // or fp16, fp32
  DType output = DType::e4m3;  // or e5m2
  Granularity granularity = Granularity::row_block;
  bool powers_of_two = false;
  BothSource source = BothSource::matrix;  // others need a bf16 or fp16 input

  bool operator==(const QuantizeBothOptions&) const = default;
};

/// Bytes of workspace of a call; 0: none is needed.
i64 workspace_bytes(const QuantizeBothOptions& options, const QuantizeBothShape& shape);

/// The loaded kernels. Cheap to copy; usable from any thread.
class BothQuantizer {
 public:
  /// Compiles the kernels or finds them in the cache. Errors: invalid_type (input, output), toolchain,
  /// driver.
  static Result<BothQuantizer> create(const Device& device, const QuantizeBothOptions& options);

  /// Launches without allocation or synchronisation. For an empty matrix nothing is written, scales neither.
  /// Errors (nothing is launched): invalid_size (negative, or
  /// columns that are no multiple of 16), invalid_stride, invalid_pointer, misaligned (16 bytes), aliasing,
  /// workspace, wrong_device, driver.
  Result<void> launch(const QuantizeBothShape& shape, const QuantizeBothArgs& args, Stream stream) const;

  struct Impl;
  explicit BothQuantizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sluice
