// SPDX-License-Identifier: Apache-2.0
// Kernels that add up partial sums in several ways. All add in the order of sluice/kernels/sum_parts.cuh, so
// their results have the same bits.
#pragma once

#include <cuda_runtime.h>

#include <string>
#include <vector>

namespace probe {

/// How D is stored. pairs: two bf16 columns per thread, as in the present kernel. quads: eight bf16 columns
/// after an exchange between four threads. floats: pairs of fp32. nothing: only the reads.
enum class Store { pairs, quads, floats, nothing };

/// A unit is 64 rows by 8 columns: 128 threads with four sums each. Layout of the slots:
/// [tile][slice][unit][thread][4].
struct SumParams {
  const float* slots;
  void* d;
  int parts;
  // log2 of the warpgroups of the present kernel, 2 or 4, each of which adds a share of the slices.
  int log_groups;
  int tile_floats, units_per_tile, units;
  int tiles_across, vectors_across;  // tiles along n; units along n in a tile
  int tile_m, tile_n;
  int n;  // columns of D
};

struct Launch {
  cudaStream_t stream;
  bool dependent;  // true: a programmatic dependent launch
};

struct Variant {
  std::string name;
  Store store;
  /// Launches the variant. Returns false if it does not support this problem.
  bool (*launch)(const SumParams& params, const Launch& launch);
  int in_flight_bytes;  // bytes that one thread has in flight before it waits
};

std::vector<Variant> variants();

/// Writes every slot. Triggers its dependents at its start, as the GEMM kernel does. No other CTA fits on an
/// SM with one of its CTAs.
void launch_producer(float* slots, long count, const Launch& launch);
/// Waits for its prerequisites and returns, to measure the cost of a launch.
void launch_empty(int ctas, const Launch& launch);

/// Returns the float at `index` of all slots. Signs and magnitudes are such that another order of summation
/// gives other bits.
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
