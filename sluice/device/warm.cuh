// SPDX-License-Identifier: Apache-2.0
// Brings a CTA's part of a WarmRange into L2: weights of a launch that comes later, while this one waits or
// has nothing left to load. A hint that no result depends on. Called by the kernels of a chain.
#pragma once

#include <sluice/spec/warm_split.h>
#include <sluice/device/ptx/prefetch.cuh>

namespace sluice {

/// For one thread of each CTA, of `ctas` in all. It is held up once the copy engine has enough to do, so not
/// a thread that others wait for, where the part is large; and a launch ends only when the engine is done.
SLUICE_DEVICE void warm(const WarmRange& range, u32 cta, u32 ctas) {
  if (cta >= range.ctas) return;
  if (ctas > range.ctas) ctas = range.ctas;
  const u32 per_chunk = warm_pieces_of_chunk(range);
#pragma unroll 1
  for (u32 i = cta; i < per_chunk * range.chunks; i += ctas) {
    const u32 chunk = i / per_chunk;
    const WarmPiece piece = warm_piece(range, chunk, i - chunk * per_chunk);
    if (piece.begin < piece.end)
      ptx::prefetch_bulk_to_l2(reinterpret_cast<const void*>(piece.begin),
                               static_cast<u32>(piece.end - piece.begin));
  }
}

}  // namespace sluice
