// SPDX-License-Identifier: Apache-2.0
// Prefetches a CTA's part of a WarmRange into L2: weights of a later launch, while this launch waits or has
// nothing left to load. It is only a hint: no result depends on it. Called by the kernels of a chain.
#pragma once

#include <sluice/spec/warm_split.h>
#include <sluice/device/ptx/prefetch.cuh>

namespace sluice {

/// Call from one thread per CTA, `ctas` in all. The thread stalls while the copy engine is busy, so other
/// threads should not wait for it if the part is large. A launch ends only when the engine has finished.
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
