// SPDX-License-Identifier: Apache-2.0
// Parameters and reports of the verification kernels: plain values, read by g++ and by NVRTC. check/verify.cc
// writes the parameters and reads the log; kernels/verify_fill.cuh and verify_check.cuh use them.
#pragma once

#include <sluice/spec/problem.h>

namespace sluice {

/// The fill of a buffer. Every element is a pure function of (seed, logical index).
enum class Fill : u8 {
  poison,  // 0xFF in every byte, a NaN in all five types: for memory that must not be read, and for D before
           // the launch
  integers,  // whole numbers in [-magnitude, magnitude]
  powers,    // +-2^e, |e| <= magnitude: scales that cause no rounding
  uniform,   // [-1, 1)
  normal,    // sum of four uniforms: bell-shaped, variance 1
  positive,  // [0.5, 1): one-sided sums reveal a biased accumulator
  ones,
  specials,  // small integers with a few NaN and +-Inf
};

struct FillSpec {
  Fill kind = Fill::integers;
  int magnitude = 1;
  int density = 256;  // nonzero elements per 256 (integers and specials)
  int halvings = 0;   // 0..16: number of times that half of those become zeros too

  constexpr bool operator==(const FillSpec&) const = default;
};

inline constexpr int kGuardBytes = 4096;  // before and after every buffer, filled with poison
inline constexpr int kChunkBytes = 16;    // bytes that a fill thread writes at a time

/// One buffer and the guard zones around it: [guard | shift | elements and their padding | guard].
struct Region {
  u8* base = nullptr;     // start of the leading guard; 16-byte aligned
  i64 span_bytes = 0;     // guards included; a multiple of kChunkBytes
  i64 element_begin = 0;  // bytes from base to element 0
  i64 inner = 0, outer = 0, batch = 0;
  i64 ld = 0, batch_stride = 0;  // elements
  u64 seed = 0;
  FillSpec fill{};
  DType type = DType::bf16;
};

// a, b, c, d, bias, scale_a, scale_b, scale_d, row_factors, scale_out, the table of groups
inline constexpr int kRegionCount = 11;
inline constexpr int kRegionD = 3, kRegionRowFactors = 8, kRegionScaleOut = 9, kRegionGroups = 10;

struct CheckLog;

/// log == nullptr: fills every chunk. Else compares every chunk with its fill and counts the differences; in
/// D, its block scales and the table of groups, only outside their elements.
struct FillParams {
  Region regions[kRegionCount];
  i64 first_chunk[kRegionCount + 1];  // prefix sums of span_bytes / kChunkBytes
  CheckLog* log;
};

/// How D is checked.
/// - exact: bit for bit against one rounding of the true value; with gelu or silu, within the activation's
///   own error of an exact sum.
/// - bounded: each element, and all together, within the bounds of docs/numerics.md.
/// - unwritten: D still has its fill, which is poison, or numbers if the product is added to D.
enum class Judge : u8 { exact, bounded, unwritten };

/// Outputs are checked in square blocks of this edge.
inline constexpr int kCheckTile = 32;
inline constexpr int kCheckThreads = 256;

struct CheckParams {
  Problem problem;  // strides set; for a convolution, the result of judged_problem()
  Axes y_size{};    // y_size_of() the convolution
  const void* a;
  const void* b;
  const void* c;
  const void* d;
  const float* scale_a;
  const float* scale_b;
  const float* scale_d;
  const float* row_factors;
  const float* scale_out;  // the scales that the kernel wrote beside D
  const void* bias;
  const int* groups;
  float alpha, beta;
  double activation_error;  // absolute, in addition to our own error of GELU or SiLU; for other libraries
                            // that approximate these
  FillSpec old_d;           // with Update::add: the fill of D before the launch, and its seed
  u64 old_d_seed;
  Judge judge;
  i64 block_rows, block_columns;  // numbers of kCheckTile blocks of one matrix
  u64 sample_every;  // one in this many inner blocks is checked, chosen by hash; 1: all. Edge blocks are
                     // always checked.
  CheckLog* log;
};

struct LoggedElement {
  i64 batch, row, column;
  double expected, got, bound;
};
inline constexpr int kLoggedElements = 4;

/// Initially zero bytes. Minima are stored as the maximum of the complement, so that zero means "no value".
struct CheckLog {
  u64 checked;         // elements of D that were checked
  u64 wrong;           // elements that the check rejects
  u64 unwritten;       // rejected elements that still have D's fill
  u64 damaged_chunks;  // 16-byte chunks that changed outside D's elements
  u64 damage_address;  // address of the lowest one, complemented
  u64 inexact_inputs;  // exact only: elements whose sums are too large to be exact; they are not checked
  u64 row_low, row_high, column_low, column_high;  // box around the rejected ones; lows complemented, highs +
                                                   // 1
  u64 worst_ratio_bits;                            // |error| / bound, as a double
  double error_sum;                                // sum of (got - expected) / S: the bias of the accumulator
  double count, squares, predicted, fourths, shifts, predicted_shifts;  // Totals of verify_model.h
  LoggedElement elements[kLoggedElements];
};
static_assert(sizeof(CheckLog) % 8 == 0);

}  // namespace sluice
