// SPDX-License-Identifier: Apache-2.0
// Shared memory on sm_90 (CUDA programming guide, table of limits). What spends it: smem_layout.h, plain.h,
// packed.h, strip.h, wide.h.
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

inline constexpr int kMaxSmemBytes = 227 * 1024;  // most that one CTA can ask for
inline constexpr int kSmemOfSm = 228 * 1024;      // a CTA takes 1 KB more of it than it asks for
inline constexpr int kSmemOfCta = 1024;           // that 1 KB

inline constexpr int kSmemGranularity = 128;

/// The least that a CTA asks for so that no more than `ctas` of its kind fit on an SM.
SLUICE_HD constexpr int smem_of_share(int ctas) {
  return kSmemOfSm / (ctas + 1) / kSmemGranularity * kSmemGranularity + kSmemGranularity - kSmemOfCta;
}
/// kAloneOnSm: for one CTA on an SM. kBesideAlone: the most with which another kernel's CTA still fits beside
/// it.
inline constexpr int kAloneOnSm = smem_of_share(1);
inline constexpr int kBesideAlone = kSmemOfSm - kAloneOnSm - 2 * kSmemOfCta;

}  // namespace sluice
