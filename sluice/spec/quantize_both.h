// SPDX-License-Identifier: Apache-2.0
// Configs and parameters of the kernels that quantise a matrix in both orders: plain values, read by g++ and
// by NVRTC. run/ops/training/quantize_both.cc writes them; kernels/quantize_both.cuh does the work.
#pragma once

#include <sluice/spec/quantize.h>

namespace sluice {

inline constexpr int kBothTile = 128;  // rows and columns of a CTA's tile, and of a scale block
inline constexpr float kE5m2Largest = 57344.0f;
/// Below this an amax counts as this. It keeps scales finite and does not touch gradients.
inline constexpr float kSmallestTrainingAmax = 1e-12f;

SLUICE_HD constexpr float largest_of(DType fp8) {
  return fp8 == DType::e5m2 ? kE5m2Largest : kE4m3Largest;
}

/// Where the matrix comes from.
/// - matrix: from memory.
/// - swiglu: silu(gate) * up, rounded to the input's type; gate and up are the halves of a row of the input.
/// - swiglu_gradient: the gradients of gate and of up, side by side, each rounded once. They are made of the
///   same input and the gradient of silu(gate) * up.
enum class BothSource : u8 { matrix, swiglu, swiglu_gradient };

SLUICE_HD constexpr const char* name_of(BothSource source) {
  switch (source) {
    case BothSource::matrix: return "matrix";
    case BothSource::swiglu: return "swiglu";
    case BothSource::swiglu_gradient: return "swiglu_gradient";
  }
  return "?";
}

/// Matrices of which a tile is loaded.
SLUICE_HD constexpr int both_inputs(BothSource source) {
  return source == BothSource::matrix ? 1 : source == BothSource::swiglu ? 2 : 3;
}
/// Tiles that a CTA has in flight. Two CTAs share an SM, and their tiles its shared memory.
SLUICE_HD constexpr int both_stages(BothSource source) {
  return source == BothSource::matrix ? 2 : 1;
}
/// Dynamic shared memory of a CTA, in bytes: the tiles in flight.
SLUICE_HD constexpr u32 both_ring_bytes(DType input, BothSource source) {
  return static_cast<u32>(both_stages(source) * both_inputs(source) * kBothTile * kBothTile *
                          bytes_of(input));
}

/// amax: the first of two kernels where scales need a whole row, column or matrix. cast: all else.
enum class BothStep : u8 { amax, cast };

struct BothConfig {
  BothStep step = BothStep::cast;
  DType input = DType::bf16;   // or fp16, fp32
  DType output = DType::e4m3;  // or e5m2
  Granularity granularity = Granularity::row_block;
  bool powers_of_two = false;              // scales are powers of two
  BothSource source = BothSource::matrix;  // others: 16-bit inputs

  constexpr bool operator==(const BothConfig&) const = default;
};

/// Scales of columns lie as those of the transposed matrix would. But by row_block, which also means blocks
/// of 128 rows of one column, they lie as [rows / 128][columns]: the products that sum over rows read lines.
struct BothParams {
  const void* input;
  u8* rows;       // rows x columns; null: not stored, as are its scales
  u8* columns_t;  // columns x rows, with zeros up to a multiple of 128 rows; null: likewise
  float *row_scales, *column_scales;
  float* sums;  // [rows / 128][columns]: sums of the columns of each tile; null: none
  u32* amaxes;  // tensor: bits of the largest value; row: of each row, then of each column
  i64 row_count, column_count;
  i64 input_ld, rows_ld, columns_t_ld;  // elements
  const void* gradient;                 // swiglu_gradient: rows x (columns / 2)
  i64 gradient_ld;
};

}  // namespace sluice
