// SPDX-License-Identifier: Apache-2.0
// A lane's pair of rows: the two rows of a block of 16 for which it holds sums (ptx/mma.cuh). Also their
// operands, two scales or zeros, which are neighbours in a packed tile (spec/packed_codes.h). They stay in
// registers as they are in memory until they are needed.
#pragma once

#include <sluice/device/element.cuh>
#include <sluice/device/ptx/shared.cuh>

namespace sluice {

struct RowPair {
  float upper, lower;  // rows g and g + 8 of a block of 16
};

/// Words that hold a pair: two fp32 values take two, smaller ones share a word.
template <DType kType>
inline constexpr int kPairWords = kType == DType::fp32 ? 2 : 1;

/// The value of an e8m0 whose bits are at a float's exponent. 0 becomes 0 instead of 2^-127, 255 infinity
/// instead of NaN.
SLUICE_DEVICE float e8m0_at_exponent(u32 bits) {
  return __uint_as_float(bits & 0x7F800000u);
}
/// A pair of e8m0 as a pair of bf16, whose exponents they are.
SLUICE_DEVICE u32 bf16_of_e8m0(u32 pair) {
  return __byte_perm(pair, 0, 0x4140) << 7;
}

/// Unpacks two 16-bit values or two bytes from one word, or two fp32 values from two words.
template <DType kType>
SLUICE_DEVICE RowPair row_pair(u32 first, u32 second) {
  if constexpr (kType == DType::fp32)
    return {__uint_as_float(first), __uint_as_float(second)};
  else if constexpr (kType == DType::e8m0)
    return {e8m0_at_exponent(first << 23), e8m0_at_exponent(first << 15)};
  else {
    const Pair pair = unpack_16bit<kType>(first);
    return {pair.x, pair.y};
  }
}

/// Loads a pair's words from shared memory.
template <DType kType>
SLUICE_DEVICE void load_pair_words(u32 address, u32* words) {
  if constexpr (kType == DType::fp32)
    ptx::load_shared_v2(address, words[0], words[1]);
  else if constexpr (kType == DType::e8m0)
    words[0] = ptx::load_shared_u16(address);
  else
    words[0] = ptx::load_shared_u32(address);
}
template <DType kType>
SLUICE_DEVICE RowPair load_pair(u32 address) {
  u32 words[2] = {};
  load_pair_words<kType>(address, words);
  return row_pair<kType>(words[0], words[1]);
}

/// Two pairs that are neighbours in memory: rows 2c and 2c + 8, then rows 2c + 1 and 2c + 9.
struct RowPairs {
  RowPair even, odd;
};
template <DType kType>
SLUICE_DEVICE RowPairs load_pairs(u32 address) {
  u32 words[4] = {};
  if constexpr (kType == DType::e8m0) {
    const u32 four = ptx::load_shared_u32(address);
    return {row_pair<kType>(four, 0), {e8m0_at_exponent(four << 7), e8m0_at_exponent(four >> 1)}};
  } else if constexpr (kType == DType::fp32) {
    ptx::load_shared_v4(address, words);
  } else {
    ptx::load_shared_v2(address, words[0], words[2]);
  }
  return {row_pair<kType>(words[0], words[1]), row_pair<kType>(words[2], words[3])};
}

}  // namespace sluice
