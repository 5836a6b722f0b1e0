// SPDX-License-Identifier: Apache-2.0
// Global memory that CTAs of one grid share: counters, the data that they guard, and sums to which all CTAs
// add.
#pragma once

#include <sluice/spec/base.h>

namespace sluice::ptx {

struct Float4 {
  float x, y, z, w;
};

// atom.acq_rel.gpu.global.inc: old >= bound ? 0 : old + 1, so that bound + 1 increments restore the value.
// Returns the old value.
SLUICE_DEVICE u32 atomic_inc_acq_rel(u32* address, u32 bound) {
  u32 old;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(address), "r"(bound)
               : "memory");
  return old;
}

// red.global.add.f32 (relaxed, gpu): *address += value. Subnormals are flushed to zero, before and after.
SLUICE_DEVICE void add_global(float* address, float value) {
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
}
// red.global.add.v2.f32: two neighbours, the first 8-byte aligned; each addition is atomic, the pair is not.
SLUICE_DEVICE void add_global(float* address, float x, float y) {
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(address), "f"(x), "f"(y) : "memory");
}

SLUICE_DEVICE void store_global(float* address, const Float4& v) {
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address), "f"(v.x), "f"(v.y), "f"(v.z),
               "f"(v.w)
               : "memory");
}

// Loads one word, two words (8-byte aligned) or four (16-byte aligned). `asm volatile` keeps the load in
// place.
SLUICE_DEVICE void load_global_words(const void* address, u32 (&words)[1]) {
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(words[0]) : "l"(address));
}
SLUICE_DEVICE void load_global_words(const void* address, u32 (&words)[2]) {
  asm volatile("ld.global.v2.b32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "l"(address));
}
SLUICE_DEVICE void load_global_words(const void* address, u32 (&words)[4]) {
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "l"(address));
}

// Loads four words, 16-byte aligned, if `inside`; else returns zeros without a load. Predicated loads without
// branches can be in flight together.
SLUICE_DEVICE void load_global_words_if(const void* address, bool inside, u32 (&words)[4]) {
  asm volatile(
      "{\n.reg .pred inside;\nsetp.ne.u32 inside, %5, 0;\n"
      "mov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
      "@inside ld.global.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
      : "=&r"(words[0]), "=&r"(words[1]), "=&r"(words[2]), "=&r"(words[3])
      : "l"(address), "r"(static_cast<u32>(inside)));
}

// Prefetches the 128-byte line into L2 without waiting.
SLUICE_DEVICE void prefetch_to_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

// ld.relaxed.gpu: loads from L2, where other SMs write; L1 may have stale lines. Such loads are not ordered
// among each other, so many can be in flight.
SLUICE_DEVICE Float4 load_global(const float* address) {
  Float4 v;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address));
  return v;
}

}  // namespace sluice::ptx
