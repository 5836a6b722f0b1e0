// SPDX-License-Identifier: Apache-2.0
// Fills all buffers of a problem in one launch. Later, the same code checks that everything except D's
// elements still has its fill: guard zones, padding and inputs. Each thread computes 16 bytes at a time from
// the counter-based hash; the data do not depend on the launch shape. Launched by check/verify.cc.
#pragma once

#include <sluice/kernels/verify_arith.h>

namespace sluice::verify {

struct Chunk {
  u32 words[kChunkBytes / 4];
  u32 inside;  // bit i: byte i belongs to an element
};

/// Position of an element in the buffer, updated along a chunk.
struct ElementWalk {
  i64 batch, outer, inner;

  SLUICE_DEVICE ElementWalk(const Region& r, i64 element) {
    batch = r.batch > 1 ? element / r.batch_stride : 0;
    if (batch >= r.batch) batch = r.batch - 1;  // the last matrix may be longer than its stride
    const i64 in_matrix = element - batch * r.batch_stride;
    outer = in_matrix / r.ld;
    inner = in_matrix - outer * r.ld;
  }
  SLUICE_DEVICE bool is_element(const Region& r) const { return inner < r.inner && outer < r.outer; }
  SLUICE_DEVICE u64 index(const Region& r) const {
    return static_cast<u64>((batch * r.outer + outer) * r.inner + inner);
  }
};

SLUICE_DEVICE Chunk make_chunk(const Region& r, i64 byte) {
  Chunk chunk{{~0u, ~0u, ~0u, ~0u}, 0};
  if (r.inner == 0 || r.outer == 0 || r.batch == 0) return chunk;
  const int size = bytes_of(r.type);
  const i64 extent = (r.batch - 1) * r.batch_stride + (r.outer - 1) * r.ld + r.inner;
  const i64 first = (byte - r.element_begin) / size;  // exact: both are multiples of the size
  for (int i = 0; i < kChunkBytes / size; ++i) {
    const i64 element = first + i;
    if (element < 0 || element >= extent) continue;
    const ElementWalk at(r, element);
    if (!at.is_element(r)) continue;
    const u32 bits = r.fill.kind == Fill::poison ? poison_of(r.type)
                                                 : encode(r.type, fill_value(r.fill, r.seed, at.index(r)));
    const int offset = i * size, shift = offset % 4 * 8;
    u32& word = chunk.words[offset / 4];
    word = (word & ~(poison_of(r.type) << shift)) | bits << shift;
    chunk.inside |= ((1u << size) - 1) << offset;
  }
  return chunk;
}

/// Bits of a word that must be unchanged: all, or those outside the elements of a region that another writes.
SLUICE_DEVICE u32 kept_bits(u32 inside4, bool is_written) {
  if (!is_written) return ~0u;
  u32 mask = 0;
  for (int i = 0; i < 4; ++i) mask |= inside4 >> i & 1 ? 0 : 0xffu << (8 * i);
  return mask;
}

SLUICE_DEVICE void report_damage(CheckLog* log, u64 address) {
  atomicAdd(&log->damaged_chunks, u64{1});
  atomicMax(&log->damage_address, ~address);
}

SLUICE_DEVICE void fill_regions(const FillParams& params) {
  const i64 threads = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < params.first_chunk[kRegionCount];
       i += threads) {
    int region = 0;
    while (i >= params.first_chunk[region + 1]) ++region;
    const Region& r = params.regions[region];
    const i64 byte = (i - params.first_chunk[region]) * kChunkBytes;
    const Chunk chunk = make_chunk(r, byte);
    uint4* target = reinterpret_cast<uint4*>(r.base + byte);
    if (params.log == nullptr) {
      *target = uint4{chunk.words[0], chunk.words[1], chunk.words[2], chunk.words[3]};
      continue;
    }
    const uint4 found = *target;
    const u32 words[] = {found.x, found.y, found.z, found.w};
    const bool is_written = region == kRegionD || region == kRegionScaleOut || region == kRegionGroups;
    u32 difference = 0;
    for (int w = 0; w < 4; ++w)
      difference |= (words[w] ^ chunk.words[w]) & kept_bits(chunk.inside >> (4 * w), is_written);
    if (difference != 0) report_damage(params.log, static_cast<u64>(reinterpret_cast<size_t>(target)));
  }
}

}  // namespace sluice::verify
