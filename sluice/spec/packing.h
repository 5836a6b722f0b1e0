// SPDX-License-Identifier: Apache-2.0
// Packed weights: the blob that kernels copy by flat bulk copies, in the order of the tensor core's registers
// (docs/packing.md, byte by byte).
//   W[row][k] = scale[row][k / group] * (code[row][k] - zero[row][k / group])
// A blob consists of strips of 64 rows. A strip consists of tiles of 128 k, followed by the scales of its
// rows if one scale covers all of k. A tile is [codes | scales | zeros]. Rows and k are padded to whole
// strips and tiles with codes, scales and zeros of 0. The weights of a gated product are two blobs, the
// gate's followed by that of "up". Read by packers, kernels, the reference (sluice/pack_weights.h) and
// tests.
#pragma once

#include <sluice/spec/dtype.h>

namespace sluice {

/// Meaning of a code. uint4: 0..15, from which a zero is subtracted (8 if none is stored). int8: value + 128.
/// e4m3, e2m1: the bits of such a number. none: the weights are not packed.
enum class WeightType : u8 { uint4, int8, e4m3, e2m1, none };
enum class ScaleZero : u8 { none, per_group };
/// The tensor core instruction whose register order is used. half: for 16-bit tokens (mma m16n8k16, wgmma
/// m64k16). byte: for 8-bit tokens (wgmma m64k32).
enum class FragmentOrder : u8 { half, byte };

struct WeightFormat {
  WeightType type = WeightType::uint4;
  int group = 128;            // k per scale: 32, 64 or 128; 0: all of k
  DType scale = DType::fp16;  // type of scales and zeros: fp16, bf16, fp32; e8m0 with e2m1 codes
  ScaleZero zero = ScaleZero::none;
  FragmentOrder order = FragmentOrder::half;

  constexpr bool operator==(const WeightFormat&) const = default;
};

inline constexpr WeightFormat kNotPacked{.type = WeightType::none};
/// MXFP4 of OCP's Microscaling Formats: the only format of e2m1 codes.
inline constexpr WeightFormat kMxfp4{.type = WeightType::e2m1, .group = 32, .scale = DType::e8m0};
/// Returns the format of a type if nothing else is asked for.
SLUICE_HD constexpr WeightFormat default_format(WeightType type) {
  return type == WeightType::e2m1 ? kMxfp4 : WeightFormat{.type = type};
}

inline constexpr int kStripRows = 64;
inline constexpr int kPackedTileK = 128;
inline constexpr int kPackedTileCodes = kStripRows * kPackedTileK;
inline constexpr int kLaneBytes = 16;  // bytes that a lane loads at once

SLUICE_HD constexpr const char* name_of(WeightType type) {
  switch (type) {
    case WeightType::uint4: return "uint4";
    case WeightType::int8: return "int8";
    case WeightType::e4m3: return "e4m3";
    case WeightType::e2m1: return "e2m1";
    case WeightType::none: return "none";
  }
  return "?";
}
SLUICE_HD constexpr const char* name_of(ScaleZero zero) {
  switch (zero) {
    case ScaleZero::none: return "none";
    case ScaleZero::per_group: return "per_group";
  }
  return "?";
}
SLUICE_HD constexpr const char* name_of(FragmentOrder order) {
  switch (order) {
    case FragmentOrder::half: return "half";
    case FragmentOrder::byte: return "byte";
  }
  return "?";
}

SLUICE_HD constexpr int code_bits(WeightType type) {
  return type == WeightType::uint4 || type == WeightType::e2m1 ? 4 : 8;
}
/// Returns twice the value of an e2m1 code, which is a whole number. Bit 3 is the sign, bits 2 and 1 are the
/// exponent with bias 1, bit 0 is the fraction. Exponent 0 means 0 or 0.5.
SLUICE_HD constexpr int doubled_e2m1(u32 code) {
  const u32 exponent = code >> 1 & 3, fraction = code & 1;
  const int magnitude = static_cast<int>(exponent == 0 ? fraction : (2 + fraction) << (exponent - 1));
  return (code & 8) != 0 ? -magnitude : magnitude;
}
/// The zero that is subtracted from a code if no zeros are stored.
SLUICE_HD constexpr int implied_zero(WeightType type) {
  switch (type) {
    case WeightType::uint4: return 8;
    case WeightType::int8: return 128;
    case WeightType::e4m3:
    case WeightType::e2m1:
    case WeightType::none: return 0;
  }
  return 0;
}

/// The rule that the format breaks, as text; nullptr if it is valid.
SLUICE_HD constexpr const char* validate(const WeightFormat& f) {
  if (f.type >= WeightType::none) return "weights must be uint4, int8, e4m3 or e2m1";
  if (f.type == WeightType::e2m1 && f != kMxfp4)
    return "e2m1 weights must have e8m0 scales in groups of 32, no zeros and the order half";
  if (f.type == WeightType::e2m1) return nullptr;
  if (f.group != 0 && f.group != 32 && f.group != 64 && f.group != 128)
    return "group must be 32, 64, 128, or 0 for one scale a row";
  if (!is_16bit(f.scale) && f.scale != DType::fp32) return "scales must be fp16, bf16 or fp32";
  if (f.order == FragmentOrder::byte && f.type != WeightType::uint4)
    return "the order of 8-bit tokens is for uint4 weights: 8-bit ones go with 16-bit tokens";
  if (f.zero == ScaleZero::per_group && f.type == WeightType::e4m3)
    return "e4m3 weights have no zeros: they are signed";
  return nullptr;
}

// Sizes in bytes. Every part is a multiple of 128, so each may be source or target of a bulk copy.

SLUICE_HD constexpr int tile_code_bytes(const WeightFormat& f) {
  return kPackedTileCodes * code_bits(f.type) / 8;
}
/// Scales of one row in a tile; 0 if one scale covers all of k.
SLUICE_HD constexpr int tile_groups(const WeightFormat& f) {
  return f.group == 0 ? 0 : kPackedTileK / f.group;
}
SLUICE_HD constexpr int tile_scale_bytes(const WeightFormat& f) {
  return tile_groups(f) * kStripRows * bytes_of(f.scale);
}
SLUICE_HD constexpr int tile_zero_bytes(const WeightFormat& f) {
  return f.zero == ScaleZero::per_group ? tile_scale_bytes(f) : 0;
}
SLUICE_HD constexpr int tile_bytes(const WeightFormat& f) {
  return tile_code_bytes(f) + tile_scale_bytes(f) + tile_zero_bytes(f);
}
/// Offset from the tile's first byte.
SLUICE_HD constexpr int tile_scales_offset(const WeightFormat& f) {
  return tile_code_bytes(f);
}
SLUICE_HD constexpr int tile_zeros_offset(const WeightFormat& f) {
  return tile_code_bytes(f) + tile_scale_bytes(f);
}
/// Bytes of the scales of whole rows, if one scale covers all of k. They follow a strip's tiles; their zeros
/// follow them.
SLUICE_HD constexpr int row_scale_bytes(const WeightFormat& f) {
  return f.group == 0 ? round_up(kStripRows * bytes_of(f.scale), 128) : 0;
}
SLUICE_HD constexpr int row_zero_bytes(const WeightFormat& f) {
  return f.zero == ScaleZero::per_group ? row_scale_bytes(f) : 0;
}

SLUICE_HD constexpr i64 strip_count(i64 n) {
  return ceil_div(n, i64{kStripRows});
}
SLUICE_HD constexpr i64 packed_k_tiles(i64 k) {
  return ceil_div(k, i64{kPackedTileK});
}
/// Scales of one row in the caller's array.
SLUICE_HD constexpr i64 group_count(const WeightFormat& f, i64 k) {
  return f.group == 0 ? (k > 0 ? 1 : 0) : ceil_div(k, i64{f.group});
}
SLUICE_HD constexpr i64 strip_bytes(const WeightFormat& f, i64 k) {
  return k == 0 ? 0 : packed_k_tiles(k) * tile_bytes(f) + row_scale_bytes(f) + row_zero_bytes(f);
}
SLUICE_HD constexpr i64 blob_bytes(const WeightFormat& f, i64 n, i64 k) {
  return strip_count(n) * strip_bytes(f, k);
}
/// Strips of a gated product's weights. Each half of n begins a strip, so there may be padding behind the
/// gate.
SLUICE_HD constexpr i64 gated_strips(i64 n) {
  return 2 * strip_count(n / 2);
}
SLUICE_HD constexpr i64 gated_blob_bytes(const WeightFormat& f, i64 n, i64 k) {
  return gated_strips(n) * strip_bytes(f, k);
}
inline constexpr int kGatedUnit = 16;
/// The rule that a gated product's n breaks, as text to be appended to its value; nullptr if it is valid.
SLUICE_HD constexpr const char* validate_gated(i64 n) {
  return n % kGatedUnit == 0
             ? nullptr
             : " of a gated product must be a multiple of 16: it is the rows of W, gate and up; "
               "pad both halves";
}
/// True if a gated blob differs from a plain one, because the gate's last strip is not full.
SLUICE_HD constexpr bool pads_halves(i64 n) {
  return n / 2 % kStripRows != 0;
}
/// Offset from the blob's first byte.
SLUICE_HD constexpr i64 tile_offset(const WeightFormat& f, i64 k, i64 strip, i64 k_tile) {
  return strip * strip_bytes(f, k) + k_tile * tile_bytes(f);
}
SLUICE_HD constexpr i64 row_scales_offset(const WeightFormat& f, i64 k, i64 strip) {
  return tile_offset(f, k, strip, packed_k_tiles(k));
}
/// Bits of a blob per weight of n x k, with padding and scales.
SLUICE_HD constexpr double bits_each(i64 bytes, i64 n, i64 k) {
  if (n == 0 || k == 0) return 0.0;
  return 8.0 * static_cast<double>(bytes) / (static_cast<double>(n) * static_cast<double>(k));
}
SLUICE_HD constexpr double stored_bits(const WeightFormat& f, i64 n, i64 k) {
  return bits_each(blob_bytes(f, n, k), n, k);
}

}  // namespace sluice
