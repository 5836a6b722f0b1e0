// SPDX-License-Identifier: Apache-2.0
// Enough of CUDA's execution model to run the verification kernels under g++. A block is 256 threads that
// meet in __syncthreads, atomics are atomics, and blocks run one after the other. Include it before the
// kernels. Kernels with a protocol belong in sluice/twin.
#pragma once

#include <atomic>
#include <barrier>
#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include <sluice/spec/base.h>

namespace simulated_grid {

inline constexpr int kThreads = 256, kWarpThreads = 32;
struct Index {
  unsigned x = 0;
};
struct Block {
  std::barrier<> all;
  std::vector<std::unique_ptr<std::barrier<>>> warps;
  double exchanged[kThreads];
  explicit Block(unsigned threads) : all(threads) {
    for (int i = 0; i < kThreads / kWarpThreads; ++i)
      warps.push_back(std::make_unique<std::barrier<>>(kWarpThreads));
  }
};
inline thread_local Index thread_index;
inline Index block_index, block_size{kThreads}, grid_size;
inline Block* block = nullptr;

/// Runs `kernel` in every thread of every block. `block_threads`: at most kThreads.
inline void launch(unsigned blocks, const std::function<void()>& kernel, unsigned block_threads = kThreads) {
  grid_size.x = blocks;
  block_size.x = block_threads;
  for (block_index.x = 0; block_index.x < blocks; ++block_index.x) {
    Block current(block_threads);
    block = &current;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < block_threads; ++i)
      threads.emplace_back([&, i] {
        thread_index.x = i;
        kernel();
      });
    for (std::thread& thread : threads) thread.join();
  }
}

inline double shuffle_xor(double value, int lanes) {
  const unsigned me = thread_index.x;
  std::barrier<>& warp = *block->warps[me / kWarpThreads];
  block->exchanged[me] = value;
  warp.arrive_and_wait();
  const double other = block->exchanged[me ^ static_cast<unsigned>(lanes)];
  warp.arrive_and_wait();
  return other;
}

}  // namespace simulated_grid

#define threadIdx simulated_grid::thread_index
#define blockIdx simulated_grid::block_index
#define blockDim simulated_grid::block_size
#define gridDim simulated_grid::grid_size
#define __shared__ static
#define __device__
#define __noinline__ inline

struct uint4 {
  sluice::u32 x, y, z, w;
};
inline void __syncthreads() {
  simulated_grid::block->all.arrive_and_wait();
}
inline double __shfl_xor_sync(unsigned, double value, int lanes) {
  return simulated_grid::shuffle_xor(value, lanes);
}
template <class T>
T atomicAdd(T* target, T value) {
  return std::atomic_ref<T>(*target).fetch_add(value);
}
inline void atomicMax(sluice::u64* target, sluice::u64 value) {
  std::atomic_ref<sluice::u64> cell(*target);
  for (sluice::u64 seen = cell; seen < value && !cell.compare_exchange_weak(seen, value);) continue;
}
