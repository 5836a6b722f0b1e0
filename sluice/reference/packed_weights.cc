// SPDX-License-Identifier: Apache-2.0
// Implements sluice/pack_weights.h. spec/packed_codes.h computes the position of every byte in a blob.
#include <sluice/pack_weights.h>

#include <cstring>
#include <string>

#include <sluice/reference/element.h>

namespace sluice {
namespace {

/// `weights`: WeightArrays or PackedWeights.
template <class Weights>
Result<void> check_shape(const WeightFormat& format, const Weights& weights) {
  const i64 n = weights.n, k = weights.k;
  if (const char* rule = validate(format)) return Error{ErrorCode::invalid_config, rule};
  constexpr i64 kLargest = (i64{1} << 31) - 1;
  if (n < 0 || k < 0 || n > kLargest || k > kLargest)
    return Error{ErrorCode::invalid_size,
                 "n = " + std::to_string(n) + ", k = " + std::to_string(k) + ": each must be in 0..2^31-1"};
  if (const char* rule = weights.gated ? validate_gated(n) : nullptr)
    return Error{ErrorCode::invalid_size, "n = " + std::to_string(n) + rule};
  return {};
}

Result<void> check_present(const void* pointer, const char* name, i64 count) {
  if (pointer != nullptr || count == 0) return {};
  return Error{ErrorCode::invalid_pointer, std::string(name) + " is null, and the weights have " +
                                               std::to_string(count) + " of them: pass the array"};
}

Result<void> check_arrays(const WeightFormat& format, const WeightArrays& arrays) {
  if (Result<void> shape = check_shape(format, arrays); !shape) return shape;
  const i64 scales = arrays.n * group_count(format, arrays.k);
  const bool has_zeros = format.zero == ScaleZero::per_group;
  if (Result<void> codes = check_present(arrays.codes, "codes", arrays.n * arrays.k); !codes) return codes;
  if (Result<void> given = check_present(arrays.scales, "scales", scales); !given) return given;
  if (Result<void> given = check_present(arrays.zeros, "zeros", has_zeros ? scales : 0); !given) return given;
  if (!has_zeros && arrays.zeros != nullptr)
    return Error{ErrorCode::invalid_argument, std::string("zeros are given, and the format stores none (") +
                                                  name_of(format.type) + " means zero " +
                                                  std::to_string(implied_zero(format.type)) +
                                                  "): say ScaleZero::per_group or leave them out"};
  for (i64 i = 0; code_bits(format.type) == 4 && i < arrays.n * arrays.k; ++i)
    if (arrays.codes[i] > 15)
      return Error{ErrorCode::invalid_argument,
                   "codes[" + std::to_string(i / arrays.k) + "][" + std::to_string(i % arrays.k) +
                       "] = " + std::to_string(arrays.codes[i]) + " must be at most 15: one code a byte" +
                       (format.type == WeightType::uint4 ? "; add 8 to signed values" : "")};
  const i64 groups = group_count(format, arrays.k);
  for (i64 i = 0; format.scale == DType::e8m0 && i < scales; ++i)
    if (static_cast<const u8*>(arrays.scales)[i] == 255)
      return Error{ErrorCode::invalid_argument,
                   "scales[" + std::to_string(i / groups) + "][" + std::to_string(i % groups) +
                       "] = 255, the NaN of e8m0: it must be at most 254; mend the checkpoint"};
  return {};
}

/// The position of a code: the offset of its cell in the blob, and its place in the cell.
struct Cell {
  i64 offset;
  int field;
};

Cell cell_of(const WeightFormat& f, i64 matrix_k, i64 row, i64 k) {
  const CodePlace place =
      code_place(f, {static_cast<int>(row % kStripRows), static_cast<int>(k % kPackedTileK)});
  return {tile_offset(f, matrix_k, row / kStripRows, k / kPackedTileK) + place.offset, place.field};
}

/// Returns the offset of a scale in the blob; its zero point is `zeros_distance` bytes after it.
i64 scale_offset_of(const WeightFormat& f, i64 k, i64 row, i64 group) {
  const int row_in_strip = static_cast<int>(row % kStripRows);
  if (f.group == 0)
    return row_scales_offset(f, k, row / kStripRows) + scale_slot(row_in_strip, 0) * bytes_of(f.scale);
  const i64 groups = tile_groups(f);
  return tile_offset(f, k, row / kStripRows, group / groups) + tile_scales_offset(f) +
         scale_slot(row_in_strip, static_cast<int>(group % groups)) * bytes_of(f.scale);
}
i64 zeros_distance(const WeightFormat& f) {
  return f.group == 0 ? row_scale_bytes(f) : tile_scale_bytes(f);
}

u64 load_cell(const WeightFormat& f, const u8* address) {
  u64 bits_of_cell = 0;
  std::memcpy(&bits_of_cell, address, 4 * static_cast<std::size_t>(cell_words(f)));
  return bits_of_cell;
}
void or_cell(const WeightFormat& f, u8* address, u64 bits) {
  const u64 bits_of_cell = load_cell(f, address) | bits;
  std::memcpy(address, &bits_of_cell, 4 * static_cast<std::size_t>(cell_words(f)));
}

u32 code_of(const PackedWeights& w, i64 row, i64 k) {
  const Cell cell = cell_of(w.format, w.k, row, k);
  return take_code(w.format, load_cell(w.format, w.blob + cell.offset), cell.field);
}

/// Writes all codes into the blob. Padding has code 0, encoded like any other code: in byte order the stored
/// bits of code 0 are not 0.
void place_codes(const WeightFormat& f, const WeightArrays& arrays, u8* blob) {
  for (i64 row = 0; row < strip_count(arrays.n) * kStripRows; ++row)
    for (i64 k = 0; k < packed_k_tiles(arrays.k) * kPackedTileK; ++k) {
      const bool inside = row < arrays.n && k < arrays.k;
      const Cell cell = cell_of(f, arrays.k, row, k);
      or_cell(f, blob + cell.offset,
              place_code(f, inside ? arrays.codes[row * arrays.k + k] : 0, cell.field));
    }
}

/// Calls move(index in the caller's arrays, offset in the blob) for every scale.
template <class Move>
void for_each_scale(const WeightFormat& f, i64 n, i64 k, Move move) {
  const i64 groups = group_count(f, k);
  for (i64 row = 0; row < n; ++row)
    for (i64 group = 0; group < groups; ++group)
      move((row * groups + group) * bytes_of(f.scale), scale_offset_of(f, k, row, group));
}

Result<void> check_packed(const PackedWeights& w) {
  if (Result<void> shape = check_shape(w.format, w); !shape) return shape;
  return check_present(w.blob, "blob", blob_bytes(w.format, w.n, w.k));
}

/// Returns one half (gate or up) of gated weights; each half has its own blob within the whole blob.
WeightArrays half_of(const WeightFormat& f, WeightArrays w, int half) {
  w.n /= 2;
  w.gated = false;
  const i64 row = half * w.n, scales = row * group_count(f, w.k) * bytes_of(f.scale);
  if (w.codes != nullptr) w.codes += row * w.k;
  if (w.scales != nullptr) w.scales = static_cast<const u8*>(w.scales) + scales;
  if (w.zeros != nullptr) w.zeros = static_cast<const u8*>(w.zeros) + scales;
  return w;
}
PackedWeights half_of(PackedWeights w, int half) {
  w.n /= 2;
  w.gated = false;
  if (w.blob != nullptr) w.blob += half * blob_bytes(w.format, w.n, w.k);
  return w;
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}
/// Calls of(half) for both halves and returns the concatenated results.
template <class Of>
auto of_both(const Of& of) -> decltype(of(0)) {
  auto first = of(0);
  if (!first) return first;
  const auto second = of(1);
  if (!second) return second;
  if constexpr (requires { first->codes; }) {
    append(first->codes, second->codes);
    append(first->scales, second->scales);
    append(first->zeros, second->zeros);
  } else {
    append(*first, *second);
  }
  return first;
}

/// Checks that weights can be sliced: they are valid and not gated.
Result<void> check_whole(const PackedWeights& w) {
  if (w.gated)
    return Error{ErrorCode::invalid_argument,
                 "the weights are gated, two blobs behind each other: slice each half of n / 2 rows"};
  return check_packed(w);
}

Result<void> check_slice(SliceRange range, i64 extent, int unit) {
  const char* rule = validate_slice(range, extent, unit);
  if (rule == nullptr) return {};
  return Error{ErrorCode::invalid_size, "slice " + std::to_string(range.begin) + ".." +
                                            std::to_string(range.end) + " of " + std::to_string(extent) +
                                            ": " + rule};
}

void copy_slice(const SliceCopy& copy, const u8* source, u8* target) {
  for (i64 i = 0; i < copy.height && copy.width > 0; ++i)
    std::memcpy(target + copy.target_offset + i * copy.target_pitch,
                source + copy.source_offset + i * copy.source_pitch, static_cast<std::size_t>(copy.width));
}

std::vector<u8> bytes(i64 count) {
  return std::vector<u8>(static_cast<std::size_t>(count));
}

}  // namespace

Result<std::vector<u8>> pack_weights(const WeightFormat& format, const WeightArrays& arrays) {
  if (const Result<void> checked = check_arrays(format, arrays); !checked) return checked.error();
  if (arrays.gated)
    return of_both([&](int half) { return pack_weights(format, half_of(format, arrays, half)); });
  std::vector<u8> blob = bytes(blob_bytes(format, arrays.n, arrays.k));
  place_codes(format, arrays, blob.data());
  const auto size = static_cast<std::size_t>(bytes_of(format.scale));
  for_each_scale(format, arrays.n, arrays.k, [&](i64 from, i64 to) {
    std::memcpy(blob.data() + to, static_cast<const u8*>(arrays.scales) + from, size);
    if (format.zero == ScaleZero::per_group)
      std::memcpy(blob.data() + to + zeros_distance(format), static_cast<const u8*>(arrays.zeros) + from,
                  size);
  });
  return blob;
}

Result<UnpackedWeights> unpack_weights(const PackedWeights& w) {
  if (const Result<void> checked = check_packed(w); !checked) return checked.error();
  if (w.gated) return of_both([&](int half) { return unpack_weights(half_of(w, half)); });
  const i64 scale_bytes = w.n * group_count(w.format, w.k) * bytes_of(w.format.scale);
  const bool has_zeros = w.format.zero == ScaleZero::per_group;
  UnpackedWeights arrays{bytes(w.n * w.k), bytes(scale_bytes), bytes(has_zeros ? scale_bytes : 0)};
  for (i64 row = 0; row < w.n; ++row)
    for (i64 k = 0; k < w.k; ++k)
      arrays.codes[static_cast<std::size_t>(row * w.k + k)] = static_cast<u8>(code_of(w, row, k));
  const auto size = static_cast<std::size_t>(bytes_of(w.format.scale));
  for_each_scale(w.format, w.n, w.k, [&](i64 to, i64 from) {
    std::memcpy(arrays.scales.data() + to, w.blob + from, size);
    if (has_zeros) std::memcpy(arrays.zeros.data() + to, w.blob + from + zeros_distance(w.format), size);
  });
  return arrays;
}

Result<std::vector<double>> dequantise_weights(const PackedWeights& w) {
  if (const Result<void> checked = check_packed(w); !checked) return checked.error();
  if (w.gated) return of_both([&](int half) { return dequantise_weights(half_of(w, half)); });
  const WeightFormat& f = w.format;
  std::vector<double> values(static_cast<std::size_t>(w.n * w.k));
  for (i64 row = 0; row < w.n; ++row)
    for (i64 k = 0; k < w.k; ++k) {
      const u8* scale = w.blob + scale_offset_of(f, w.k, row, f.group == 0 ? 0 : k / f.group);
      const double zero = f.zero == ScaleZero::per_group ? load_element(f.scale, scale + zeros_distance(f), 0)
                                                         : implied_zero(f.type);
      const u32 code = code_of(w, row, k);
      const double value = f.type == WeightType::e4m3   ? decode_code(DType::e4m3, code)
                           : f.type == WeightType::e2m1 ? doubled_e2m1(code) / 2.0
                                                        : code;
      values[static_cast<std::size_t>(row * w.k + k)] = load_element(f.scale, scale, 0) * (value - zero);
    }
  return values;
}

Result<std::vector<u8>> slice_packed_rows(const PackedWeights& w, SliceRange rows) {
  if (const Result<void> checked = check_whole(w); !checked) return checked.error();
  if (const Result<void> range = check_slice(rows, w.n, kStripRows); !range) return range.error();
  std::vector<u8> blob = bytes(blob_bytes(w.format, rows.end - rows.begin, w.k));
  copy_slice(rows_slice(w.format, w.k, rows), w.blob, blob.data());
  return blob;
}

Result<std::vector<u8>> slice_packed_k(const PackedWeights& w, SliceRange part) {
  if (const Result<void> checked = check_whole(w); !checked) return checked.error();
  if (const Result<void> range = check_slice(part, w.k, kPackedTileK); !range) return range.error();
  std::vector<u8> blob = bytes(blob_bytes(w.format, w.n, part.end - part.begin));
  copy_slice(k_slice_tiles(w.format, w.n, w.k, part), w.blob, blob.data());
  copy_slice(k_slice_row_scales(w.format, w.n, w.k, part), w.blob, blob.data());
  return blob;
}

}  // namespace sluice
