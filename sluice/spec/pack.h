// SPDX-License-Identifier: Apache-2.0
// Configs and parameters of the kernels that pack and unpack weights: plain values, read by g++ and by NVRTC.
// run/ops/pack.cc writes them; kernels/pack.cuh does the work.
#pragma once

#include <sluice/spec/packed_codes.h>

namespace sluice {

/// How a row of codes is stored. byte: one code per byte. nibble: two per byte, the first in the low half
/// (4-bit codes only); with odd k the last byte is half used.
enum class CodeStorage : u8 { byte, nibble };
enum class PackStep : u8 { pack, unpack };

struct PackConfig {
  PackStep step = PackStep::pack;
  WeightFormat format{};
  CodeStorage codes = CodeStorage::byte;

  constexpr bool operator==(const PackConfig&) const = default;
};

inline constexpr int kPackThreads = 256;
inline constexpr i64 kMaxPackTiles = (i64{1} << 31) - 1;  // one block per tile

SLUICE_HD constexpr const char* name_of(CodeStorage storage) {
  return storage == CodeStorage::byte ? "byte" : "nibble";
}
SLUICE_HD constexpr const char* name_of(PackStep step) {
  return step == PackStep::pack ? "pack" : "unpack";
}

/// Bytes of `k` codes of a row.
SLUICE_HD constexpr i64 code_row_bytes(CodeStorage storage, i64 k) {
  return storage == CodeStorage::byte ? k : ceil_div(k, i64{2});
}
/// True if rows can be copied in pieces of 16 bytes, provided that their base is aligned.
SLUICE_HD constexpr bool rows_are_pieces(CodeStorage storage, i64 k) {
  return k % (storage == CodeStorage::byte ? 16 : 32) == 0;
}

struct PackParams {
  u8* codes;   // n rows of code_row_bytes
  u8* scales;  // n x group_count values of the format's type
  u8* zeros;   // n x group_count values of the format's type, or null
  u8* blob;    // blob_bytes bytes, 16-byte aligned
  i64 n, k;
  bool pieces;  // rows_are_pieces(), and the base is 16-byte aligned
};

}  // namespace sluice
