// SPDX-License-Identifier: Apache-2.0
// Configs and parameters of the quantising kernels: plain values, read by g++ and by NVRTC.
// run/ops/quantize.cc writes them; kernels/quantize.cuh does the work.
#pragma once

#include <sluice/spec/overlap.h>
#include <sluice/spec/problem.h>

namespace sluice {

/// Elements that share one scale: the matrix, a row, 128 columns of a row, or 128 rows of 128 columns. In
/// block-scaled products A uses row_block and B square_block.
enum class Granularity : u8 { tensor, row, row_block, square_block };

/// silu: input rows are twice as wide, gate and up next to each other, and silu(gate) * up is quantised from
/// fp32, with silu(x) = x / (1 + exp(-x)). It is the step between the two products of a gated feed-forward
/// layer.
enum class Gate : u8 { none, silu };
inline constexpr Gate kGates[] = {Gate::none, Gate::silu};

SLUICE_HD constexpr const char* name_of(Gate gate) {
  return gate == Gate::none ? "none" : "silu";
}
SLUICE_HD constexpr const char* name_of(Granularity granularity) {
  switch (granularity) {
    case Granularity::tensor: return "tensor";
    case Granularity::row: return "row";
    case Granularity::row_block: return "row_block";
    case Granularity::square_block: return "square_block";
  }
  return "?";
}

/// One kernel each. Granularity::tensor takes two: amax over the matrix, then cast; or only cast if the scale
/// is given. plain has no scale: its output has the input's type, bf16 or fp16.
enum class QuantizeStep : u8 { amax, cast, row, row_block, square_block, plain };

struct QuantizeConfig {
  QuantizeStep step = QuantizeStep::row_block;
  DType input = DType::bf16;  // or fp16, fp32
  bool vectors = true;        // threads access eight elements at a time; addresses, pitches and columns must
                              // allow it
  Gate gate = Gate::none;
  Overlap overlap{};      // a quantiser has no weights: weights_first is the same as first
  bool gathered = false;  // input rows are those that a table names; its parameters are GatherParams

  constexpr bool operator==(const QuantizeConfig&) const = default;
};

inline constexpr int kQuantizeThreads = 256;
inline constexpr int kQuantizeChunk = 8;  // neighbouring elements of a thread
inline constexpr float kE4m3Largest = 448.0f;
// most units of eight elements, because kernels count them in 32 bits
inline constexpr i64 kMaxQuantizeUnits = i64{1} << 31;
inline constexpr float kSmallestAmax = 1e-4f;  // a smaller amax is replaced by this

/// Columns of an input row for `columns` columns of the output.
SLUICE_HD constexpr i64 input_columns(Gate gate, i64 columns) {
  return gate == Gate::none ? columns : 2 * columns;
}

struct QuantizeParams {
  const void* input;
  u8* output;     // e4m3; plain: the input's type
  float* scales;  // factors that turn the output back into the input; row-major if there are several
  // only for the amax steps of Granularity::tensor: bits of the largest value so far, and a count; zero
  // before and after
  u32* scratch;
  i64 rows, columns, input_ld, output_ld;  // elements; columns of the output
  bool scale_given;                        // cast: reads scales[0] instead of the scratch
  WarmRange hand_off;                      // range to prefetch into L2 before the PDL wait
};

/// Row r of the output is made of row row_index[r] of the input; outside [0, input_rows), of a row of zeros.
struct GatherParams : QuantizeParams {
  const i32* row_index;
  i64 input_rows;
};

}  // namespace sluice
