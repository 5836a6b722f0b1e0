// SPDX-License-Identifier: Apache-2.0
// Config and parameters of the kernel that adds up the rows of a token's experts: plain values, read by g++
// and by NVRTC. run/ops/experts/combine.cc writes them; kernels/combine.cuh does the work.
#pragma once

#include <sluice/spec/dtype.h>
#include <sluice/spec/overlap.h>
#include <sluice/spec/route.h>

namespace sluice {

struct CombineConfig {
  DType type = DType::bf16;  // or fp16: of y, shared and out
  bool vectors = true;       // threads access eight elements at a time; addresses, pitches and columns must
                             // allow it
  Overlap overlap{};         // there are no weights: weights_first is the same as first

  constexpr bool operator==(const CombineConfig&) const = default;
};

inline constexpr int kCombineThreads = 128;
inline constexpr int kCombineChunk = 8;                // neighbouring columns of a thread
inline constexpr int kCombineHeld = 8;                 // rows of experts whose loads are in flight together
inline constexpr i64 kMaxCombineUnits = i64{1} << 31;  // chunks of eight columns are counted in 32 bits

struct CombineParams {
  const void* y;           // [rows][columns]
  const i32* row_of_slot;  // [tokens][chosen]; a row outside [0, rows) adds nothing
  const float* weights;    // [tokens][chosen]; nullptr: all are 1
  const void* shared;      // [tokens][columns]; nullptr: none
  void* out;               // [tokens][columns]
  i64 tokens, columns, rows, y_ld, shared_ld, out_ld;  // elements
  i32 chosen;
  i32 experts;         // not 0: row_of_slot holds experts, and the row of a slot is its own number
  WarmRange hand_off;  // range to prefetch into L2 before the PDL wait
};

}  // namespace sluice
