// SPDX-License-Identifier: Apache-2.0
// Quantises to e4m3 with fp32 scales, in the layouts that products read. A call is one kernel (two for
// Granularity::tensor), does not synchronise and may be captured.
//   scale = amax * (1 / 448), output = e4m3(input * ((1 / amax) * 448)), amax at least 1e-4, each step
//   rounded to fp32
// torch computes `amax / 448.0` and `448.0 / amax` on a GPU in the same way. amax is the largest magnitude of
// the elements that share a scale. Rounding is to nearest even. A NaN makes all elements that share its scale
// NaN. Without a granularity nothing is quantised: silu(gate) * up is rounded to the input's type, and there
// are no scales. Gathered rows are those that a table names (QuantizerOptions::gathered).
#pragma once

#include <optional>

#include <sluice/gemm.h>
#include <sluice/spec/quantize.h>

namespace sluice {

struct QuantizeShape {
  i64 rows = 0, columns = 0;        // size of the output; with a gate the input has twice the columns
  i64 input_ld = 0, output_ld = 0;  // elements from one row to the next; 0: no gaps
  i64 input_rows = 0;               // rows of a gathered input; else the input has the output's rows
};

struct QuantizeArgs {
  const void* input = nullptr;
  void* output = nullptr;     // rows x columns of e4m3; without a granularity, of the input's type
  float* scales = nullptr;    // scale_count() values; ignored without a granularity
  bool scale_given = false;   // Granularity::tensor: *scales is read instead of written, and a launch is one
                              // kernel
  WorkspaceView workspace{};  // counters of Granularity::tensor without scale_given; else unused
  WarmRange hand_off{};       // weights of the next launch, prefetched into L2 before the PDL wait
  const int* row_index = nullptr;  // gathered: the input row of each output row, `rows` numbers
};

/// Options of Quantizer::create. gathered: row r of the output is made of row row_index[r] of the input. A
/// row whose number is outside [0, input_rows), such as -1, is made of zeros; its scale of a row, or of 128
/// columns of a row, is 1. Without a granularity and a gate, gathered rows are copied.
struct QuantizerOptions {
  DType input = DType::bf16;
  std::optional<Granularity> granularity{};
  Gate gate = Gate::none;
  Overlap overlap{};
  bool gathered = false;

  bool operator==(const QuantizerOptions&) const = default;
};

/// Number of scales. They are row-major: [rows][columns / 128] (row_block) or [rows / 128][columns / 128]
/// (square_block), rounded up.
constexpr i64 scale_count(Granularity granularity, i64 rows, i64 columns) {
  switch (granularity) {
    case Granularity::tensor: return 1;
    case Granularity::row: return rows;
    case Granularity::row_block: return rows * scale_blocks(columns);
    case Granularity::square_block: return scale_blocks(rows) * scale_blocks(columns);
  }
  return 0;
}

/// The loaded kernels for one input type, granularity and gate. Cheap to copy; usable from any thread.
class Quantizer {
 public:
  /// Compiles the kernels or finds them in the cache. `input`: bf16, fp16 or fp32; not fp32 without a
  /// granularity. `gate`: spec/quantize.h; required (silu) without a granularity, unless gathered. With an
  /// `overlap`, Granularity::tensor needs scale_given. Errors: invalid_type, invalid_argument (neither
  /// granularity nor gate: that would be a copy), toolchain, driver.
  static Result<Quantizer> create(const Device& device, DType input, std::optional<Granularity> granularity,
                                  Gate gate = Gate::none, Overlap overlap = {});
  static Result<Quantizer> create(const Device& device, const QuantizerOptions& options);

  /// Launches without allocation or synchronisation. Empty matrices succeed, and their input and output may
  /// be null; their amax is 1e-4. Errors (nothing is launched): invalid_size (negative, or 2^31 or more
  /// groups of 8 elements of a row), invalid_stride, invalid_argument, invalid_pointer, misaligned, aliasing,
  /// workspace, wrong_device, driver. If the driver takes the first of two kernels and refuses the second,
  /// the workspace is zeroed again.
  Result<void> launch(const QuantizeShape& shape, const QuantizeArgs& args, Stream stream) const;

  struct Impl;
  explicit Quantizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sluice
