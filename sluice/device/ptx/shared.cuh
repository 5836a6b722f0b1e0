// SPDX-License-Identifier: Apache-2.0
// Shared memory by 32-bit shared-window address: stmatrix for 16-bit fragments, plain loads and stores.
#pragma once

#include <sluice/spec/base.h>

namespace sluice::ptx {

// stmatrix.x4: lanes 8i..8i+7 give the row addresses of the i-th 8x8 matrix; thread t holds row t/4, columns
// 2(t%4), +1
SLUICE_DEVICE void stmatrix_x4(u32 row_address, u32 v0, u32 v1, u32 v2, u32 v3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(row_address),
               "r"(v0), "r"(v1), "r"(v2), "r"(v3)
               : "memory");
}
SLUICE_DEVICE void stmatrix_x2(u32 row_address, u32 v0, u32 v1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared::cta.b16 [%0], {%1, %2};" ::"r"(row_address), "r"(v0),
               "r"(v1)
               : "memory");
}
// stmatrix.x4.trans: thread t holds column t/4, rows 2(t%4), +1
SLUICE_DEVICE void stmatrix_x4_trans(u32 row_address, u32 v0, u32 v1, u32 v2, u32 v3) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(row_address),
      "r"(v0), "r"(v1), "r"(v2), "r"(v3)
      : "memory");
}
SLUICE_DEVICE void stmatrix_x2_trans(u32 row_address, u32 v0, u32 v1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 [%0], {%1, %2};" ::"r"(row_address),
               "r"(v0), "r"(v1)
               : "memory");
}
SLUICE_DEVICE void store_shared_u16(u32 address, u16 value) {
  asm volatile("st.shared::cta.u16 [%0], %1;" ::"r"(address), "h"(value) : "memory");
}
SLUICE_DEVICE void store_shared_u32(u32 address, u32 value) {
  asm volatile("st.shared::cta.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
SLUICE_DEVICE void store_shared_v4(u32 address, const u32 (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]), "r"(words[1]),
               "r"(words[2]), "r"(words[3])
               : "memory");
}
SLUICE_DEVICE void store_shared(u32 address, float value) {
  asm volatile("st.shared::cta.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}
SLUICE_DEVICE void store_shared_v2(u32 address, float x, float y) {
  asm volatile("st.shared::cta.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}

SLUICE_DEVICE void store_shared_zeros(u32 address) {
  asm volatile("st.shared::cta.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
}

// Volatile, so that the load is not moved across the barrier operations around it.
SLUICE_DEVICE float load_shared(u32 address) {
  float value;
  asm volatile("ld.shared::cta.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}
SLUICE_DEVICE void load_shared_v2(u32 address, float& x, float& y) {
  asm volatile("ld.shared::cta.v2.f32 {%0, %1}, [%2];" : "=f"(x), "=f"(y) : "r"(address) : "memory");
}

SLUICE_DEVICE u32 load_shared_u16(u32 address) {
  u16 value;
  asm volatile("ld.shared::cta.u16 %0, [%1];" : "=h"(value) : "r"(address) : "memory");
  return value;
}
SLUICE_DEVICE u32 load_shared_u32(u32 address) {
  u32 value;
  asm volatile("ld.shared::cta.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
SLUICE_DEVICE void load_shared_v2(u32 address, u32& first, u32& second) {
  asm volatile("ld.shared::cta.v2.u32 {%0, %1}, [%2];" : "=r"(first), "=r"(second) : "r"(address) : "memory");
}
SLUICE_DEVICE void load_shared_v4(u32 address, u32* words) {
  asm volatile("ld.shared::cta.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

}  // namespace sluice::ptx
