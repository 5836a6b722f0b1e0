// SPDX-License-Identifier: Apache-2.0
// What the norm kernels are compiled for and given, and how rows are spread over threads: plain values, read
// by g++ and by NVRTC. host/ops/norm.cc writes them; kernels/norm.cuh does the work.
#pragma once

#include <sluice/spec/dtype.h>
#include <sluice/spec/overlap.h>
#include <sluice/spec/row_team.h>

namespace sluice {

/// What becomes of normed values: the input's type; or e4m3 with a given scale, one of each row, or one of
/// each 128 columns of a row.
enum class NormStore : u8 { plain, tensor, row, row_block };

struct NormConfig {
  DType input = DType::bf16;  // or fp16
  bool vectors = true;        // eight elements at a time: bases, pitches and columns allow it
  NormStore store = NormStore::plain;
  Overlap overlap{};  // gamma is read before the wait, with first and weights_first alike

  constexpr bool operator==(const NormConfig&) const = default;
};

inline constexpr int kNormChunk = 8;                  // neighbouring columns of a thread
inline constexpr int kNormHeld = 2;                   // chunks of a row that a thread reads once
inline constexpr int kNormSegment = 32 * kNormChunk;  // columns of a warp, whose squares are summed first
inline constexpr int kNormCtaChunks = 128;            // of a row, for a CTA of a team
inline constexpr int kMaxNormThreads = 1024;
inline constexpr int kMaxElementNormThreads = 512;  // without vectors a thread needs more than 64 registers
inline constexpr u32 kNormSlots = 1024;             // for one sum of each segment
inline constexpr i64 kMaxNormColumns = i64{kNormSlots} * kNormSegment;
static_assert(kMaxNormThreads / 32 * kMaxRowTeam <= kNormSlots, "each warp has a slot");

struct NormLayout {
  u32 team = 1;      // CTAs that share a row
  u32 threads = 32;  // of a CTA
};

SLUICE_HD constexpr int max_norm_threads(const NormConfig& config) {
  return config.vectors ? kMaxNormThreads : kMaxElementNormThreads;
}

/// Few rows: a chunk for each thread and CTAs of 128, so that all loads of a row are on their way at once,
/// from several SMs; with teams on half of the SMs a chain's launches do not get into each other's way. Many
/// rows: two chunks, and one CTA a row. (H200, docs/findings/companions.md.)
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
  const void* residual;  // nullptr: none
  void* sum;             // nullptr: not wanted
  const void* gamma;
  void* output;
  float* scales;
  i64 rows, columns, input_ld, residual_ld, sum_ld, output_ld;  // elements
  float epsilon, inverse_columns;
  u32 working_threads;  // of a CTA; a launch may add warps that leave at once (Spacing::registers)
  WarmRange hand_off;   // brought to L2 before the wait
};

}  // namespace sluice
