// SPDX-License-Identifier: Apache-2.0
// Packs weights into blobs and unpacks them, in tiles of 64 rows x 128 k, one block per tile. Packing copies
// rows to shared memory in their own order, 16 bytes per thread. Then each thread gathers the 16 bytes that
// one lane of the tensor core will read, and writes them. Every byte is read once and written once, padding
// included. `Memory` accesses 16 bytes of global memory on the GPU (pack_entry.cuh) or in a test
// (tests/unit/pack_kernels_test.cc). spec/packing.h and packed_codes.h define the format.
#pragma once

#include <sluice/spec/pack.h>

namespace sluice::pack {

/// Codes of a tile in shared memory, in the caller's order. A pad of 16 bytes per row avoids bank conflicts
/// between the lanes of a warp, which read eight rows at once.
template <CodeStorage kStorage>
struct CodeTile {
  static constexpr int kRowBytes = static_cast<int>(code_row_bytes(kStorage, kPackedTileK));
  static constexpr int kPitch = kRowBytes + 16;
  static constexpr int kPieces = kStripRows * kRowBytes / 16;
  static constexpr int kBytes = kStripRows * kPitch;

  u8* bytes;

  /// `kRun` neighbouring codes along k, one per byte, the first in the lowest byte.
  template <int kRun>
  SLUICE_DEVICE u32 read(int row, int k) const {
    if constexpr (kStorage == CodeStorage::byte) {
      const u8* at = bytes + row * kPitch + k;
      if constexpr (kRun == 2) return *reinterpret_cast<const u16*>(at);
      return *reinterpret_cast<const u32*>(at);
    } else {
      const u8* at = bytes + row * kPitch + k / 2;
      if constexpr (kRun == 2) return (*at & 0xfu) | (*at & 0xf0u) << 4;
      const u32 four = *reinterpret_cast<const u16*>(at);
      return (four & 0xfu) | (four & 0xf0u) << 4 | (four & 0xf00u) << 8 | (four & 0xf000u) << 12;
    }
  }
  template <int kRun>
  SLUICE_DEVICE void write(int row, int k, u32 codes) const {
    if constexpr (kStorage == CodeStorage::byte) {
      u8* at = bytes + row * kPitch + k;
      if constexpr (kRun == 2)
        *reinterpret_cast<u16*>(at) = static_cast<u16>(codes);
      else
        *reinterpret_cast<u32*>(at) = codes;
    } else {
      u8* at = bytes + row * kPitch + k / 2;
      const u32 pairs = (codes & 0x000f000fu) | (codes >> 4 & 0x00f000f0u);
      if constexpr (kRun == 2)
        *at = static_cast<u8>(pairs);
      else
        *reinterpret_cast<u16*>(at) = static_cast<u16>((pairs & 0xff) | pairs >> 8);
    }
  }
};

template <int kBytes>
struct BitsOf {
  using Type = u16;
};
template <>
struct BitsOf<1> {
  using Type = u8;
};
template <>
struct BitsOf<4> {
  using Type = u32;
};
template <>
struct BitsOf<8> {
  using Type = u64;
};

/// Scales, then zeros, of one tile or of a strip's rows, in the order of the blob.
template <WeightFormat kFormat>
struct ScalePart {
  static constexpr int kSlots = kStripRows * (kFormat.group == 0 ? 1 : tile_groups(kFormat));
  static constexpr int kValues = kSlots * (kFormat.zero == ScaleZero::per_group ? 2 : 1);
  static constexpr int kBytes = kValues * bytes_of(kFormat.scale);
  using Bits = typename BitsOf<bytes_of(kFormat.scale)>::Type;
  static_assert(kBytes <= 16 * kPackThreads, "16 bytes a thread");
  static_assert(kBytes == tile_scale_bytes(kFormat) + tile_zero_bytes(kFormat) + row_scale_bytes(kFormat) +
                              row_zero_bytes(kFormat));
};

/// A tile: the part of it that is inside the matrix, and its address in the blob.
struct TileAt {
  i64 row, k_tile;  // first row; index of the tile in its strip
  u32 rows, bytes;  // rows and bytes of codes inside the matrix
  u8* codes;        // address of the first code in the caller's array
  u8* blob;
};

template <PackConfig kConfig, class Memory, WeightFormat kFormat = kConfig.format>
struct Packer {
  static_assert(validate(kFormat) == nullptr, "impossible weight format: docs/packing.md");
  static_assert(kConfig.codes == CodeStorage::byte || code_bits(kFormat.type) == 4);
  static constexpr int kRun = kFormat.order == FragmentOrder::half ? 2 : 4;  // neighbouring codes along k in
                                                                             // one register
  using Tile = CodeTile<kConfig.codes>;
  using Scales = ScalePart<kFormat>;
  using Bits = typename Scales::Bits;
  static constexpr int kCellWords = cell_words(kFormat), kCells = 4 / kCellWords;  // cells of a lane
  static constexpr int kCellCodes = cell_codes(kFormat);
  using Cell = typename BitsOf<4 * kCellWords>::Type;

  const PackParams& p;
  Tile tile;
  u8* scale_bytes;  // in shared memory: the tile's scales, then its zeros, in the order of the blob

  /// The mask tells the compiler that the index is not negative, which saves a third of the address
  /// arithmetic.
  SLUICE_DEVICE static int thread() { return static_cast<int>(threadIdx.x & (kPackThreads - 1)); }

  SLUICE_DEVICE TileAt tile_at(u32 index) const {
    const u32 k_tiles = static_cast<u32>(packed_k_tiles(p.k)), strip = index / k_tiles;
    const i64 row = static_cast<i64>(strip) * kStripRows, k_tile = index - strip * k_tiles;
    const i64 row_bytes = code_row_bytes(kConfig.codes, p.k), first = k_tile * Tile::kRowBytes;
    const i64 rows = p.n - row, bytes = row_bytes - first;
    return {row,
            k_tile,
            rows < kStripRows ? static_cast<u32>(rows) : kStripRows,
            bytes < Tile::kRowBytes ? static_cast<u32>(bytes) : Tile::kRowBytes,
            p.codes + row * row_bytes + first,
            p.blob + tile_offset(kFormat, p.k, strip, k_tile)};
  }

  /// Calls piece(offset in shared memory, address) for each of this thread's pieces of `kSize` bytes of
  /// codes. The address is null outside the matrix.
  template <u32 kSize, class Piece>
  SLUICE_DEVICE void for_pieces(const TileAt& at, Piece piece) const {
    constexpr u32 kAcross = Tile::kRowBytes / kSize, kCount = kStripRows * kAcross;
    const u32 row_bytes = static_cast<u32>(code_row_bytes(kConfig.codes, p.k));
#pragma unroll(kSize == 16 ? kCount / kPackThreads : 1)
    for (u32 i = 0; i < kCount / kPackThreads; ++i) {
      const u32 index = i * kPackThreads + threadIdx.x, row = index / kAcross, byte = index % kAcross * kSize;
      u8* const address = at.codes + static_cast<u64>(row) * row_bytes + byte;
      piece(row * Tile::kPitch + byte, row < at.rows && byte < at.bytes ? address : nullptr);
    }
  }
  SLUICE_DEVICE void load_codes(const TileAt& at) const {
    if (p.pieces) {
      for_pieces<16>(at, [&](u32 offset, const u8* from) {
        *reinterpret_cast<uint4*>(tile.bytes + offset) =
            from != nullptr ? Memory::load(from) : uint4{0, 0, 0, 0};
      });
    } else {
      // The upper half of the last byte of an odd row holds no code.
      const bool odd = kConfig.codes == CodeStorage::nibble && p.k % 2 != 0;
      const u8* const last = odd && at.k_tile == packed_k_tiles(p.k) - 1 ? at.codes + at.bytes - 1 : nullptr;
      for_pieces<1>(at, [&](u32 offset, const u8* from) {
        const bool half = last != nullptr && offset % Tile::kPitch == at.bytes - 1;
        tile.bytes[offset] = from == nullptr ? u8{0} : half ? static_cast<u8>(*from & 0xf) : *from;
      });
    }
  }
  SLUICE_DEVICE void store_codes(const TileAt& at) const {
    if (p.pieces) {
      for_pieces<16>(at, [&](u32 offset, u8* to) {
        if (to != nullptr) Memory::store(to, *reinterpret_cast<const uint4*>(tile.bytes + offset));
      });
    } else {
      for_pieces<1>(at, [&](u32 offset, u8* to) {
        if (to != nullptr) *to = tile.bytes[offset];
      });
    }
  }

  static SLUICE_DEVICE Cell place(u32 code, int field) {
    if constexpr (kCellWords == 1)
      return place_in_word(kFormat, code, field);
    else
      return place_code(kFormat, code, field);
  }
  static SLUICE_DEVICE u32 take(Cell cell, int field) {
    if constexpr (kCellWords == 1)
      return take_from_word(kFormat, cell, field);
    else
      return take_code(kFormat, cell, field);
  }
  static SLUICE_DEVICE uint4 words_of(const Cell (&cells)[kCells]) {
    if constexpr (kCellWords == 1)
      return {cells[0], cells[1], cells[2], cells[3]};
    else
      return {static_cast<u32>(cells[0]), static_cast<u32>(cells[0] >> 32), static_cast<u32>(cells[1]),
              static_cast<u32>(cells[1] >> 32)};
  }
  static SLUICE_DEVICE void cells_of(const uint4& words, Cell (&cells)[kCells]) {
    if constexpr (kCellWords == 1)
      cells[0] = words.x, cells[1] = words.y, cells[2] = words.z, cells[3] = words.w;
    else
      cells[0] = words.x | u64{words.y} << 32, cells[1] = words.z | u64{words.w} << 32;
  }

  SLUICE_DEVICE void pack_codes(const TileAt& at) const {
#pragma unroll
    for (int i = 0; i < tile_lanes(kFormat) / kPackThreads; ++i) {
      const int lane = i * kPackThreads + thread();
      const CodeIndex origin = lane_origin(kFormat, lane);
      Cell cells[kCells] = {};
#pragma unroll
      for (int index = 0; index < lane_codes(kFormat); index += kRun) {
        const CodeIndex code = lane_code(kFormat.order, index);
        const u32 run = tile.template read<kRun>(origin.row + code.row, origin.k + code.k);
#pragma unroll
        for (int j = 0; j < kRun; ++j)
          cells[index / kCellCodes] |= place(run >> (8 * j) & 0xff, index % kCellCodes + j);
      }
      Memory::store(at.blob + lane * kLaneBytes, words_of(cells));
    }
  }
  SLUICE_DEVICE void unpack_codes(const TileAt& at) const {
#pragma unroll
    for (int i = 0; i < tile_lanes(kFormat) / kPackThreads; ++i) {
      const int lane = i * kPackThreads + thread();
      const CodeIndex origin = lane_origin(kFormat, lane);
      Cell cells[kCells];
      cells_of(Memory::load(at.blob + lane * kLaneBytes), cells);
#pragma unroll
      for (int index = 0; index < lane_codes(kFormat); index += kRun) {
        const CodeIndex code = lane_code(kFormat.order, index);
        u32 run = 0;
#pragma unroll
        for (int j = 0; j < kRun; ++j)
          run |= take(cells[index / kCellCodes], index % kCellCodes + j) << (8 * j);
        tile.template write<kRun>(origin.row + code.row, origin.k + code.k, run);
      }
    }
  }

  /// True if this tile holds scales. Scales of whole rows are handled with a strip's first tile.
  SLUICE_DEVICE static bool has_scales(const TileAt& at) {
    return kFormat.group != 0 || at.k_tile == 0;
  }
  /// Calls value(shared address, caller's address) for each of this thread's scales and zeros. The caller's
  /// address is null outside the matrix.
  template <class Value>
  SLUICE_DEVICE void for_scales(const TileAt& at, Value value) const {
    const i64 groups = group_count(kFormat, p.k);
#pragma unroll 1
    for (int i = thread(); has_scales(at) && i < Scales::kValues; i += kPackThreads) {
      const int slot = i % Scales::kSlots, row = slot_row(slot);
      const i64 group = at.k_tile * tile_groups(kFormat) + slot / kStripRows;
      u8* const values = i < Scales::kSlots ? p.scales : p.zeros;
      const bool inside = static_cast<u32>(row) < at.rows && group < groups;
      value(reinterpret_cast<Bits*>(scale_bytes) + i,
            inside ? reinterpret_cast<Bits*>(values) + (at.row + row) * groups + group : nullptr);
    }
  }
  /// Calls piece(shared address, blob address) for each of this thread's 16-byte pieces of scales and zeros.
  template <class Piece>
  SLUICE_DEVICE void for_scale_pieces(const TileAt& at, Piece piece) const {
    u8* const part = at.blob + (kFormat.group == 0 ? packed_k_tiles(p.k) * tile_bytes(kFormat)
                                                   : i64{tile_scales_offset(kFormat)});
    const u32 byte = threadIdx.x * 16;
    if (has_scales(at) && byte < Scales::kBytes) piece(scale_bytes + byte, part + byte);
  }

  SLUICE_DEVICE void pack() const {
    const TileAt at = tile_at(blockIdx.x);
    load_codes(at);
    for_scales(at, [&](Bits* shared, const Bits* from) { *shared = from != nullptr ? *from : 0; });
    __syncthreads();
    pack_codes(at);
    for_scale_pieces(
        at, [&](const u8* shared, u8* to) { Memory::store(to, *reinterpret_cast<const uint4*>(shared)); });
  }
  SLUICE_DEVICE void unpack() const {
    const TileAt at = tile_at(blockIdx.x);
    for_scale_pieces(
        at, [&](u8* shared, const u8* from) { *reinterpret_cast<uint4*>(shared) = Memory::load(from); });
    unpack_codes(at);
    __syncthreads();
    store_codes(at);
    for_scales(at, [&](const Bits* shared, Bits* to) {
      if (to != nullptr) *to = *shared;
    });
  }
};

template <PackConfig kConfig, class Memory>
SLUICE_DEVICE void run(const PackParams& params) {
  alignas(16) __shared__ u8 codes[CodeTile<kConfig.codes>::kBytes];
  alignas(16) __shared__ u8 scales[ScalePart<kConfig.format>::kBytes];
  const Packer<kConfig, Memory> packer{params, {codes}, scales};
  if constexpr (kConfig.step == PackStep::pack)
    packer.pack();
  else
    packer.unpack();
}

}  // namespace sluice::pack
