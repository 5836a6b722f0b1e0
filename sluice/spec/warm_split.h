// SPDX-License-Identifier: Apache-2.0
// How a WarmRange is divided: the CTAs of a launch take its pieces in turn. A chunk's pieces cover exactly
// the aligned 16-byte units that contain any of its bytes; such a unit is always mapped memory.
// device/warm.cuh issues the prefetches; tests/unit/spec_warm_split_test.cc counts them.
#pragma once

#include <sluice/spec/overlap.h>

namespace sluice {

inline constexpr i64 kWarmUnit = 16;          // granularity of cp.async.bulk.prefetch
inline constexpr i64 kWarmLine = 128;         // L2 line; no two pieces of a chunk share one
inline constexpr i64 kWarmPieceBytes = 4096;  // bytes per instruction; 2 to 64 KB are equally fast
// bytes per CTA, if the host can choose how many CTAs prefetch
inline constexpr i64 kWarmCtaBytes = 1 << 16;

/// A range of addresses, which are multiples of kWarmUnit; empty if they are equal.
struct WarmPiece {
  i64 begin = 0, end = 0;
};

/// Pieces per chunk. If chunks begin at different offsets in their lines, the last piece of some chunks is
/// empty.
SLUICE_HD inline u32 warm_pieces_of_chunk(const WarmRange& range) {
  if (range.bytes <= 0) return 0;
  const i64 ahead =
      range.stride % kWarmLine == 0 ? reinterpret_cast<i64>(range.data) & (kWarmLine - 1) : kWarmLine - 1;
  return static_cast<u32>((ahead + range.bytes + kWarmPieceBytes - 1) / kWarmPieceBytes);
}

/// Piece `piece` of chunk `chunk`.
SLUICE_HD inline WarmPiece warm_piece(const WarmRange& range, u32 chunk, u32 piece) {
  const i64 row = static_cast<i64>(chunk * range.step >> 32);
  const i64 address = reinterpret_cast<i64>(range.data) + row * range.stride;
  const i64 first = address & -kWarmUnit, last = (address + range.bytes + kWarmUnit - 1) & -kWarmUnit;
  const i64 begin = (address & -kWarmLine) + piece * kWarmPieceBytes;
  const i64 end = begin + kWarmPieceBytes;
  if (begin >= last) return {};
  return {begin < first ? first : begin, end > last ? last : end};
}

}  // namespace sluice
