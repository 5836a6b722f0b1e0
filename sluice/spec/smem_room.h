// SPDX-License-Identifier: Apache-2.0
// Shared memory on sm_90 (CUDA programming guide, table of limits). What spends it: smem_layout.h, plain.h,
// mixed.h, wide.h, byte.h.
#pragma once

namespace sluice {

inline constexpr int kMaxSmemBytes = 227 * 1024;  // of a CTA
inline constexpr int kSmemOfSm = 228 * 1024;      // a CTA takes 1 KB more of it than it asks for

}  // namespace sluice
