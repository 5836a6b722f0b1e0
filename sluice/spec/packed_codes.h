// SPDX-License-Identifier: Apache-2.0
// The position of each code, scale and zero in its tile, and of each code in its cell: a 32-bit word, or two
// for e2m1. A few masks and rotates turn such words into tensor core operands (docs/packing.md).
// A tile's codes are stored in chunks along k. A chunk is four blocks of 16 rows; a block is 32 lanes of 16
// bytes. The four words of lane 4 g + c hold its codes in the order of its registers:
// - half: fragment f, register j, half h is code 8 f + 2 j + h. It is row g + 8 (j & 1), k 16 f + 8 (j >> 1)
//   + 2 c + h.
// - byte: fragment f, register j, byte b is code 16 f + 4 j + b. It is row g + 8 (j & 1), k 32 f + 16 (j >>
//   1) + 4 c + b.
// Invariant: lane_code and code_place are inverses, and so are place_code and take_code.
#pragma once

#include <sluice/spec/packing.h>

namespace sluice {

/// Words that share the bits of their codes.
SLUICE_HD constexpr int cell_words(const WeightFormat& f) {
  return f.type == WeightType::e2m1 ? 2 : 1;
}
/// Codes per cell.
SLUICE_HD constexpr int cell_codes(const WeightFormat& f) {
  return 32 * cell_words(f) / code_bits(f.type);
}
/// Codes per lane, in 16 bytes.
SLUICE_HD constexpr int lane_codes(const WeightFormat& f) {
  return 8 * kLaneBytes / code_bits(f.type);
}
/// k of a chunk: 64 for 4-bit codes, 32 for 8-bit codes.
SLUICE_HD constexpr int chunk_k(const WeightFormat& f) {
  return 256 / code_bits(f.type);
}
/// Number of 16-byte pieces of a tile's codes.
SLUICE_HD constexpr int tile_lanes(const WeightFormat& f) {
  return tile_code_bytes(f) / kLaneBytes;
}

/// A code's row and k in its tile.
struct CodeIndex {
  int row = 0;  // 0..63
  int k = 0;    // 0..127

  constexpr bool operator==(const CodeIndex&) const = default;
};
/// The cell that holds a code, and the code's position in it.
struct CodePlace {
  int offset = 0;  // offset of the cell from the tile's first byte
  int field = 0;   // position among the cell's codes, in register order

  constexpr bool operator==(const CodePlace&) const = default;
};

/// The first code of 16-byte piece `lane` of a tile: row g of its block, column c of its chunk.
SLUICE_HD constexpr CodeIndex lane_origin(const WeightFormat& f, int lane) {
  const int block = lane / 32 % 4, chunk = lane / 128, g = lane % 32 / 4, c = lane % 4;
  return {16 * block + g, chunk_k(f) * chunk + (f.order == FragmentOrder::half ? 2 : 4) * c};
}
/// Row and k of code `index` of a lane, relative to the lane's origin.
SLUICE_HD constexpr CodeIndex lane_code(FragmentOrder order, int index) {
  if (order == FragmentOrder::half) {
    const int fragment = index / 8, reg = index % 8 / 2;
    return {8 * (reg & 1), 16 * fragment + 8 * (reg >> 1) + index % 2};
  }
  const int fragment = index / 16, reg = index % 16 / 4;
  return {8 * (reg & 1), 32 * fragment + 16 * (reg >> 1) + index % 4};
}

SLUICE_HD constexpr CodePlace code_place(const WeightFormat& f, CodeIndex at) {
  const bool half = f.order == FragmentOrder::half;
  const int width = half ? 16 : 32, run = half ? 2 : 4;  // k per fragment; codes along k per register
  const int chunk = at.k / chunk_k(f), in_chunk = at.k % chunk_k(f);
  const int fragment = in_chunk / width, in_fragment = in_chunk % width;
  const int reg = at.row % 16 / 8 + 2 * (in_fragment / (width / 2));
  const int lane = (chunk * 4 + at.row / 16) * 32 + at.row % 8 * 4 + in_fragment % (width / 2) / run;
  const int index = 4 * run * fragment + run * reg + in_fragment % run;
  return {lane * kLaneBytes + index / cell_codes(f) * 4 * cell_words(f), index % cell_codes(f)};
}

/// Rotates left by `bits`; one funnel shift on the GPU.
SLUICE_HD constexpr u32 rotate_left(u32 word, int bits) {
  return bits % 32 == 0 ? word : word << bits % 32 | word >> (32 - bits % 32);
}
SLUICE_HD constexpr u32 rotate_right(u32 word, int bits) {
  return rotate_left(word, (32 - bits % 32) % 32);
}

// An e2m1 becomes a half-word with the bits of a bf16, whose exponent has bias 127 instead of 1: the sign at
// bit 15, exponent and fraction at bits 8..6. Registers 0, 1 and 2 of a fragment are its word, rotated right
// by 0, 4 and 10, under a mask. The bits that a pair of words has left make a third word. It holds register 3
// of both fragments, rotated by 6 and by 12.
inline constexpr u32 kE2m1Bits = 0x81C081C0, kE2m1Even = 0x60306030;
inline constexpr int kE2m1Shift = 2;  // shift of the odd word's bits in the third word
SLUICE_HD constexpr int e2m1_turn(int fragment, int reg) {
  return reg == 3 ? 6 + 6 * fragment : reg == 2 ? 10 : 4 * reg;
}

SLUICE_HD constexpr u64 place_e2m1(u32 code, int field) {
  const int fragment = field / 8, reg = field % 8 / 2;
  const u32 bits = ((code & 8) << 12 | (code & 7) << 6) << 16 * (field % 2);
  const u32 turned = rotate_left(bits, e2m1_turn(fragment, reg));
  if (reg < 3) return u64{turned} << 32 * fragment;
  return (turned & kE2m1Even) | u64{(turned & ~kE2m1Even) << kE2m1Shift} << 32;
}
SLUICE_HD constexpr u32 take_e2m1(u64 cell, int field) {
  const int fragment = field / 8, reg = field % 8 / 2;
  const u32 even = static_cast<u32>(cell), odd = static_cast<u32>(cell >> 32);
  const u32 third = (even & kE2m1Even) | (odd >> kE2m1Shift & ~kE2m1Even);
  const u32 word = reg == 3 ? third : fragment == 0 ? even : odd;
  const u32 bits = rotate_right(word, e2m1_turn(fragment, reg)) >> 16 * (field % 2);
  return (bits >> 12 & 8) | (bits >> 6 & 7);
}

/// A word with the low code_bits of `code` in field `field`, and zeros elsewhere; not for e2m1.
/// half: bits 3 and up of a half-word, rotated by the register. There fp16 and bf16 have their fraction bits.
/// byte: sign and magnitude of code - 7.5, at bits 7 and 3..1 of a byte; in odd registers, at bits 0 and
/// 6..4.
SLUICE_HD constexpr u32 place_in_word(const WeightFormat& f, u32 code, int field) {
  code &= (1u << code_bits(f.type)) - 1;
  if (f.order == FragmentOrder::half) {
    const int half = field % 2, reg = field / 2;
    return rotate_left(code << (3 + 16 * half), code_bits(f.type) * reg);
  }
  const int byte = field % 4;
  const u32 sign = 1 ^ code >> 3, magnitude = (sign != 0 ? ~code : code) & 7;
  const u32 bits = field / 4 == 0 ? sign << 7 | magnitude << 1 : magnitude << 4 | sign;
  return bits << 8 * byte;
}
/// The code in field `field` of a word: the inverse of place_in_word.
SLUICE_HD constexpr u32 take_from_word(const WeightFormat& f, u32 word, int field) {
  if (f.order == FragmentOrder::half) {
    const int half = field % 2, reg = field / 2;
    const u32 code = rotate_right(word, code_bits(f.type) * reg) >> (3 + 16 * half);
    return code & ((1u << code_bits(f.type)) - 1);
  }
  const u32 bits = word >> 8 * (field % 4);
  const u32 sign = (field / 4 == 0 ? bits >> 7 : bits) & 1;
  const u32 magnitude = (field / 4 == 0 ? bits >> 1 : bits >> 4) & 7;
  return sign != 0 ? ~magnitude & 7 : magnitude | 8;
}

/// A cell with the low code_bits of `code` in field `field`, and zeros elsewhere. The first word is the low
/// half.
SLUICE_HD constexpr u64 place_code(const WeightFormat& f, u32 code, int field) {
  return f.type == WeightType::e2m1 ? place_e2m1(code, field) : place_in_word(f, code, field);
}
/// The code in field `field` of a cell: the inverse of place_code.
SLUICE_HD constexpr u32 take_code(const WeightFormat& f, u64 cell, int field) {
  return f.type == WeightType::e2m1 ? take_e2m1(cell, field)
                                    : take_from_word(f, static_cast<u32>(cell), field);
}

// Scales of a tile are stored group by group; within a group, rows g and g + 8 of a lane are neighbours.
// Zeros, and the scales and zeros of whole rows (one group), have the same order.

/// Index of a scale or zero in its array.
SLUICE_HD constexpr int scale_slot(int row, int group_in_tile) {
  return group_in_tile * kStripRows + row / 16 * 16 + row % 8 * 2 + row % 16 / 8;
}
/// The row of a slot; its group is slot / kStripRows.
SLUICE_HD constexpr int slot_row(int slot) {
  return slot % kStripRows / 16 * 16 + slot % 16 / 2 + slot % 2 * 8;
}

}  // namespace sluice
