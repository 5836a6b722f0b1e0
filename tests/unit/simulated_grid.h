// SPDX-License-Identifier: Apache-2.0
// Enough of CUDA's execution model to run the verification kernels under g++. A block has 256 threads with
// __syncthreads, atomics work, and blocks run one after the other. A thread is a context that runs until it
// waits, so a block needs only one CPU; threads of the operating system took a hundred times as long. Include
// it before the kernels. Kernels with a protocol are tested in sluice/twin instead.
#pragma once

#include <ucontext.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include <sluice/spec/base.h>

namespace simulated_grid {

inline constexpr int kThreads = 256, kWarpThreads = 32;
inline constexpr size_t kStackBytes = size_t{256} << 10;
struct Index {
  unsigned x = 0;
};
struct Context {
  ucontext_t registers;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  bool done = false;
};
/// A barrier at which threads wait until `count` of them have arrived.
struct Meeting {
  int arrived = 0;
  unsigned passed = 0;
  void wait(int count);
};
struct Block {
  ucontext_t scheduler;
  std::vector<Context> threads = std::vector<Context>(kThreads);
  Meeting all, warps[kThreads / kWarpThreads];
  double exchanged[kThreads];
  const std::function<void()>* kernel = nullptr;
};
inline Index thread_index, block_index, block_size{kThreads}, grid_size;
inline Block* block = nullptr;
inline std::minstd_rand* pace = nullptr;  // set: warps run at random paces, so that a missing barrier is seen

inline void Meeting::wait(int count) {
  const unsigned mine = passed;
  if (++arrived == count) {
    arrived = 0;
    ++passed;
    return;
  }
  while (passed == mine) {
    const unsigned me = thread_index.x;
    swapcontext(&block->threads[me].registers, &block->scheduler);
    thread_index.x = me;
  }
}
inline void run_thread() {
  (*block->kernel)();
  block->threads[thread_index.x].done = true;
}

/// Runs `kernel` in every thread of every block, one thread at a time. `block_threads`: at most kThreads.
inline void launch(unsigned blocks, const std::function<void()>& kernel, unsigned block_threads = kThreads) {
  static Block memory;
  block = &memory;
  block->kernel = &kernel;
  grid_size.x = blocks;
  block_size.x = block_threads;
  for (block_index.x = 0; block_index.x < blocks; ++block_index.x) {
    for (Context& thread : block->threads) {
      getcontext(&thread.registers);
      thread.registers.uc_stack.ss_sp = thread.stack.get();
      thread.registers.uc_stack.ss_size = kStackBytes;
      thread.registers.uc_link = &block->scheduler;
      thread.done = false;
      makecontext(&thread.registers, run_thread, 0);
    }
    for (bool running = true; running;) {
      running = false;
      bool rests = false;
      for (unsigned i = 0; i < block_threads; ++i) {
        if (block->threads[i].done) continue;
        running = true;
        if (pace != nullptr && i % kWarpThreads == 0) rests = (*pace)() % 4 != 0;
        if (rests) continue;
        thread_index.x = i;
        swapcontext(&block->scheduler, &block->threads[i].registers);
      }
    }
  }
}

inline double shuffle_xor(double value, int lanes) {
  const unsigned me = thread_index.x;
  Meeting& warp = block->warps[me / kWarpThreads];
  block->exchanged[me] = value;
  warp.wait(kWarpThreads);
  const double other = block->exchanged[me ^ static_cast<unsigned>(lanes)];
  warp.wait(kWarpThreads);
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
  simulated_grid::block->all.wait(static_cast<int>(simulated_grid::block_size.x));
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
