// SPDX-License-Identifier: Apache-2.0
// Configs and parameters of the kernels that quantise a matrix in both orders: plain values, read by g++ and
// by NVRTC. run/ops/training/quantize_both.cc writes them; kernels/quantize_both.cuh does the work.
#pragma once

#include <sluice/spec/quantize.h>

namespace sluice {

inline constexpr int kBothTile = 128;  // rows and columns of a CTA's tile, and of a scale block
inline constexpr int kBothStages = 2;  // tiles that a CTA has in flight
inline constexpr float kE5m2Largest = 57344.0f;
/// Below this an amax counts as this. It keeps scales finite and does not touch gradients.
inline constexpr float kSmallestTrainingAmax = 1e-12f;

SLUICE_HD constexpr float largest_of(DType fp8) {
  return fp8 == DType::e5m2 ? kE5m2Largest : kE4m3Largest;
}

/// Dynamic shared memory of a CTA, in bytes: the tiles in flight.
SLUICE_HD constexpr u32 both_ring_bytes(DType input) {
  return static_cast<u32>(kBothStages * kBothTile * kBothTile * bytes_of(input));
}

/// amax: the first of two kernels where scales need a whole row, column or matrix. cast: all else.
enum class BothStep : u8 { amax, cast };

struct BothConfig {
  BothStep step = BothStep::cast;
  DType input = DType::bf16;   // or fp16, fp32
  DType output = DType::e4m3;  // or e5m2
  Granularity granularity = Granularity::row_block;
  bool powers_of_two = false;  // scales are powers of two

  constexpr bool operator==(const BothConfig&) const = default;
};

/// Scales of columns lie as those of the transposed matrix would; row_block also means blocks of 128 rows of
/// one column.
struct BothParams {
  const void* input;
  u8* rows;       // rows x columns; null: not stored, as are its scales
  u8* columns_t;  // columns x rows, with zeros up to a multiple of 128 rows; null: likewise
  float *row_scales, *column_scales;
  float* sums;  // [rows / 128][columns]: sums of the columns of each tile; null: none
  u32* amaxes;  // tensor: bits of the largest value; row: of each row, then of each column
  i64 row_count, column_count;
  i64 input_ld, rows_ld, columns_t_ld;  // elements
};

}  // namespace sluice
