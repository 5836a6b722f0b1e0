// SPDX-License-Identifier: Apache-2.0
// Shared memory on sm_90 (CUDA programming guide, table of limits). What spends it: smem_layout.h, plain.h,
// packed.h, strip.h, wide.h.
#pragma once

namespace sluice {

inline constexpr int kMaxSmemBytes = 227 * 1024;  // most that one CTA can ask for
inline constexpr int kSmemOfSm = 228 * 1024;      // a CTA takes 1 KB more of it than it asks for
inline constexpr int kSmemOfCta = 1024;           // that 1 KB

/// kAloneOnSm: the least that a CTA asks for so that no second one of its kind fits on the SM. kBesideAlone:
/// the most with which another kernel's CTA still fits beside it.
inline constexpr int kAloneOnSm = kSmemOfSm / 2 - kSmemOfCta + 128;
inline constexpr int kBesideAlone = kSmemOfSm - kAloneOnSm - 2 * kSmemOfCta;

}  // namespace sluice
