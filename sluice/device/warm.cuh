// SPDX-License-Identifier: Apache-2.0
// Brings a CTA's part of a WarmRange into L2: the weights of a launch that comes later, while this one waits
// or has nothing left to load. A hint that no result depends on. Called by the kernels of a chain.
#pragma once

#include <sluice/spec/warm_split.h>
#include <sluice/device/ptx/prefetch.cuh>

namespace sluice {

/// For one thread of each CTA, of `ctas` in all. It is held up once the copy engine has enough to do, so not
/// a thread that others wait for, where the part is large.
SLUICE_DEVICE void warm(const WarmRange& range, u32 cta, u32 ctas) {
  const WarmRun run = warm_run(reinterpret_cast<i64>(range.data), range.bytes, cta, ctas);
#pragma unroll 1
  for (i64 at = run.begin; at < run.end; at += kWarmPieceBytes) {
    const i64 left = run.end - at;
    ptx::prefetch_bulk_to_l2(reinterpret_cast<const void*>(at),
                             static_cast<u32>(left < kWarmPieceBytes ? left : kWarmPieceBytes));
  }
}

}  // namespace sluice
