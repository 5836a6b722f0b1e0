// SPDX-License-Identifier: Apache-2.0
// Simulated access to global memory: a fault where a byte has no such right
// (tests/simulated/simulated_cta.h).
#pragma once

#include <sluice/spec/base.h>

#include "cuda_names.h"

namespace sluice::ptx {

struct Float4 {
  float x, y, z, w;
};
template <int kCount>
struct alignas(4 * kCount) SimulatedWords {
  u32 words[kCount];
};

inline u32 atomic_inc_acq_rel(u32* address, u32 bound) {
  const u32 old = simulated::cta.load_global<u32>(address);
  simulated::cta.store_global(address, old >= bound ? 0 : old + 1);
  return old;
}
inline void add_global(float* address, float value) {
  simulated::cta.store_global(address, simulated::cta.load_global<float>(address) + value);
}
inline void add_global(float* address, float x, float y) {
  if (reinterpret_cast<u64>(address) % 8 != 0)
    simulated::cta.fault("a pair is added at an unaligned address");
  add_global(address, x);
  add_global(address + 1, y);
}
inline void store_global(float* address, const Float4& v) {
  struct alignas(16) Four {
    float x, y, z, w;
  };
  simulated::cta.store_global(address, Four{v.x, v.y, v.z, v.w});
}

template <int kCount>
void load_global_words(const void* address, u32 (&words)[kCount]) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4);
  const auto all = simulated::cta.load_global<SimulatedWords<kCount>>(address);
  for (int i = 0; i < kCount; ++i) words[i] = all.words[i];
}
inline void load_global_words_if(const void* address, bool inside, u32 (&words)[4]) {
  if (inside) return load_global_words(address, words);
  for (u32& word : words) word = 0;
}
inline void prefetch_to_l2(const void*) {
  ++simulated::cta.prefetches;
}
inline Float4 load_global(const float* address) {
  u32 words[4];
  load_global_words(address, words);
  return {__uint_as_float(words[0]), __uint_as_float(words[1]), __uint_as_float(words[2]),
          __uint_as_float(words[3])};
}

}  // namespace sluice::ptx
