// SPDX-License-Identifier: Apache-2.0
// Kernels that add up partial sums in several ways, all in today's order (sluice/kernels/sum_parts.cuh), so
// that their bits are equal.
#pragma once

#include <cuda_runtime.h>

#include <string>
#include <vector>

namespace probe {

/// How D is stored. pairs: two bf16 columns a thread, as today. quads: eight bf16 columns after an exchange
/// between four threads. floats: fp32 pairs. nothing: the reads alone.
enum class Store { pairs, quads, floats, nothing };

/// A unit is 64 rows by 8 columns: 128 threads with four sums each. Slots: [tile][part][unit][thread][4].
struct SumParams {
  const float* slots;
  void* d;
  int parts;
  int log_groups;  // today's warpgroups, each of which adds a share of the parts: 2 or 4
  int tile_floats, units_per_tile, units;
  int tiles_across, vectors_across;  // tiles along n; units along n in a tile
  int tile_m, tile_n;
  int n;  // columns of D
};

struct Launch {
  cudaStream_t stream;
  bool dependent;  // a programmatic dependent launch
};

struct Variant {
  std::string name;
  Store store;
  /// False: it does not take this problem.
  bool (*launch)(const SumParams& params, const Launch& launch);
  int in_flight_bytes;  // one thread's, by loads that it issues before it waits
};

std::vector<Variant> variants();

/// Writes every slot and lets dependents start at its own start, as the product does; no other CTA fits
/// beside its CTAs.
void launch_producer(float* slots, long count, const Launch& launch);
/// Waits for what it depends on and returns: the cost of the launch alone.
void launch_empty(int ctas, const Launch& launch);

/// The float at `index` of all slots: signs and sizes such that another order of sums gives other bits.
__host__ __device__ inline float slot_value(long index) {
  unsigned long long h = (static_cast<unsigned long long>(index) + 1) * 0x9e3779b97f4a7c15ull;
  h ^= h >> 31;
  h *= 0xbf58476d1ce4e5b9ull;
  const unsigned high = static_cast<unsigned>(h >> 32);
  const unsigned exponent = 127 + high % 20;
  const unsigned bits = (high & 0x80000000u) | exponent << 23 | (static_cast<unsigned>(h) & 0x7fffff);
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
#endif
}

}  // namespace probe
