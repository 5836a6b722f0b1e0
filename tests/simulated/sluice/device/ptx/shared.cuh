// SPDX-License-Identifier: Apache-2.0
// Simulated loads and stores of shared memory. An access is a fault outside, unaligned, or without a barrier
// behind another thread's. Two 16-bit elements of a word count as one. Without stmatrix.
#pragma once

#include <sluice/spec/base.h>

#include "cuda_names.h"

namespace sluice::ptx {

template <class T, int kCount>
struct SimulatedVector {
  T values[kCount];
};

inline void store_shared_u16(u32 address, u16 value) {
  simulated::cta.store_shared(address, value);
}
inline void store_shared_u32(u32 address, u32 value) {
  simulated::cta.store_shared(address, value);
}
inline void store_shared_v4(u32 address, const u32 (&words)[4]) {
  simulated::cta.store_shared(address, SimulatedVector<u32, 4>{{words[0], words[1], words[2], words[3]}});
}
inline void store_shared(u32 address, float value) {
  simulated::cta.store_shared(address, value);
}
inline void store_shared_v2(u32 address, float x, float y) {
  simulated::cta.store_shared(address, SimulatedVector<float, 2>{{x, y}});
}
inline void store_shared_zeros(u32 address) {
  simulated::cta.store_shared(address, SimulatedVector<u32, 4>{});
}

inline float load_shared(u32 address) {
  return simulated::cta.load_shared<float>(address);
}
inline void load_shared_v2(u32 address, float& x, float& y) {
  const auto two = simulated::cta.load_shared<SimulatedVector<float, 2>>(address);
  x = two.values[0], y = two.values[1];
}
inline u32 load_shared_u16(u32 address) {
  return simulated::cta.load_shared<u16>(address);
}
inline u32 load_shared_u32(u32 address) {
  return simulated::cta.load_shared<u32>(address);
}
inline void load_shared_v2(u32 address, u32& first, u32& second) {
  const auto two = simulated::cta.load_shared<SimulatedVector<u32, 2>>(address);
  first = two.values[0], second = two.values[1];
}
inline void load_shared_v4(u32 address, u32* words) {
  const auto four = simulated::cta.load_shared<SimulatedVector<u32, 4>>(address);
  for (int i = 0; i < 4; ++i) words[i] = four.values[i];
}

}  // namespace sluice::ptx
