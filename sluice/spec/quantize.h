// SPDX-License-Identifier: Apache-2.0
// What the quantising kernels are compiled for and given: plain values, read by g++ and by NVRTC.
// host/ops/quantize.cc writes them; kernels/quantize.cuh does the work.
#pragma once

#include <sluice/spec/overlap.h>
#include <sluice/spec/problem.h>

namespace sluice {

/// What shares one scale: the whole matrix, a row ("per token"), 128 columns of a row (A of a block-scaled
/// product), or 128 rows of 128 columns (B of one).
enum class Granularity : u8 { tensor, row, row_block, square_block };

/// silu: rows of the input are twice as wide, gate and up side by side, and what is quantised is
/// silu(gate) * up in fp32, with silu(x) = x / (1 + exp(-x)): what stands between the two products of a gated
/// feed-forward.
enum class Gate : u8 { none, silu };
inline constexpr Gate kGates[] = {Gate::none, Gate::silu};

/// One kernel each. tensor takes two: amax of all, then cast; cast alone if the scale is given. plain has no
/// scale: its output has the input's type, bf16 or fp16.
enum class QuantizeStep : u8 { amax, cast, row, row_block, square_block, plain };

struct QuantizeConfig {
  QuantizeStep step = QuantizeStep::row_block;
  DType input = DType::bf16;  // or fp16, fp32
  bool vectors = true;        // eight elements at a time: bases, pitches and columns allow it
  Gate gate = Gate::none;
  Overlap overlap{};  // it has no weights: weights_first waits first

  constexpr bool operator==(const QuantizeConfig&) const = default;
};

inline constexpr int kQuantizeThreads = 256;
inline constexpr int kQuantizeChunk = 8;  // neighbouring elements of a thread
inline constexpr float kE4m3Largest = 448.0f;
inline constexpr i64 kMaxQuantizeUnits = i64{1} << 31;  // of eight elements: kernels count them in 32 bits
inline constexpr float kSmallestAmax = 1e-4f;           // below, values are divided by this instead

/// Of a row of the input, for `columns` of the output.
SLUICE_HD constexpr i64 input_columns(Gate gate, i64 columns) {
  return gate == Gate::none ? columns : 2 * columns;
}

struct QuantizeParams {
  const void* input;
  u8* output;     // e4m3; plain: the input's type
  float* scales;  // what multiplies the output to give the input again; row-major where there are several
  u32* scratch;   // amax: bits of the largest so far, and a count; zero before and after. Only the tensor's
                  // steps
  i64 rows, columns, input_ld, output_ld;  // elements; columns of the output
  bool scale_given;                        // cast: read scales[0] instead of the scratch
  WarmRange hand_off;                      // brought to L2 before the wait
};

}  // namespace sluice
