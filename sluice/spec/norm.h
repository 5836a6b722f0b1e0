// SPDX-License-Identifier: Apache-2.0
// Configs, parameters and thread layout of the norm kernels: plain values, read by g++ and by NVRTC.
// run/ops/norm.cc writes them; kernels/norm.cuh does the work.
#pragma once

#include <sluice/spec/dtype.h>
#include <sluice/spec/overlap.h>
#include <sluice/spec/row_team.h>

namespace sluice {

/// How normed values are stored. plain: in the input's type. Others: as e4m3 with one given scale (tensor),
/// one scale per row, or one per 128 columns of a row (row_block).
enum class NormStore : u8 { plain, tensor, row, row_block };

struct NormConfig {
  DType input = DType::bf16;  // or fp16
  bool vectors = true;        // threads access eight elements at a time; addresses, pitches and columns must
                              // allow it
  NormStore store = NormStore::plain;
  Overlap overlap{};  // gamma is read before the PDL wait, both with Wait::first and with Wait::weights_first

  constexpr bool operator==(const NormConfig&) const = default;
};

inline constexpr int kNormChunk = 8;                  // neighbouring columns that a thread takes at once
inline constexpr int kNormHeld = 2;                   // chunks of a row that a thread keeps in registers
inline constexpr int kNormSegment = 32 * kNormChunk;  // columns per warp; their squares are summed first
inline constexpr int kNormCtaChunks = 128;            // chunks of a row per CTA of a team
inline constexpr int kMaxNormThreads = 1024;
inline constexpr int kMaxElementNormThreads = 512;  // without vectors a thread needs more than 64 registers
inline constexpr u32 kNormSlots = 1024;             // one slot for the sum of each segment
inline constexpr i64 kMaxNormColumns = i64{kNormSlots} * kNormSegment;
static_assert(kMaxNormThreads / 32 * kMaxRowTeam <= kNormSlots, "each warp has a slot");

struct NormLayout {
  u32 team = 1;      // CTAs that share a row
  u32 threads = 32;  // threads of one CTA
};

SLUICE_HD constexpr int max_norm_threads(const NormConfig& config) {
  return config.vectors ? kMaxNormThreads : kMaxElementNormThreads;
}

/// How rows are spread over threads (H200, docs/findings/companions.md). Few rows: one chunk per thread in
/// CTAs of 128 chunks, so that several SMs have all loads of a row in flight. Teams use at most half of the
/// SMs, and leave the others to the next launch of a chain. Many rows: one CTA per row, and two chunks per
/// thread if the row has more than 128.
SLUICE_HD constexpr NormLayout norm_layout(i64 rows, i64 columns, i64 max_threads, i64 sms) {
  const i64 chunks = ceil_div(columns, i64{kNormChunk});
  const u32 team = row_team(rows, chunks, kNormCtaChunks, sms / 2);
  const i64 held = chunks > kNormCtaChunks * team ? kNormHeld : 1;
  const i64 wanted = ceil_div(ceil_div(chunks, team * held), i64{32}) * 32;
  const i64 threads = wanted < 32 ? 32 : wanted;
  return {team, static_cast<u32>(threads < max_threads ? threads : max_threads)};
}

struct NormParams {
  const void* input;
  const void* residual;  // nullptr: no residual
  void* sum;             // nullptr: the sum is not stored
  const void* gamma;
  void* output;
  float* scales;
  i64 rows, columns, input_ld, residual_ld, sum_ld, output_ld;  // elements
  float epsilon, inverse_columns;
  // threads per CTA that work; a launch may add warps that exit at once (Spacing::registers)
  u32 working_threads;
  WarmRange hand_off;  // range to prefetch into L2 before the PDL wait
};

}  // namespace sluice
