// SPDX-License-Identifier: Apache-2.0
// Shared memory on sm_90 (CUDA programming guide, table of limits). It is used by smem_layout.h, plain.h,
// packed.h, strip.h and wide.h.
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

inline constexpr int kMaxSmemBytes = 227 * 1024;  // the most that one CTA can request
inline constexpr int kSmemOfSm = 228 * 1024;      // a CTA uses 1 KB more than it requests
inline constexpr int kSmemOfCta = 1024;           // that 1 KB

inline constexpr int kSmemGranularity = 128;

/// The smallest amount with which no more than `ctas` such CTAs fit on an SM.
SLUICE_HD constexpr int smem_of_share(int ctas) {
  return kSmemOfSm / (ctas + 1) / kSmemGranularity * kSmemGranularity + kSmemGranularity - kSmemOfCta;
}
/// kAloneOnSm: with this amount, only one such CTA fits on an SM. kBesideAlone: the most that a CTA of
/// another kernel may request to fit on an SM together with such a CTA.
inline constexpr int kAloneOnSm = smem_of_share(1);
inline constexpr int kBesideAlone = kSmemOfSm - kAloneOnSm - 2 * kSmemOfCta;

}  // namespace sluice
