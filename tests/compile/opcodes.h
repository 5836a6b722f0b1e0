// SPDX-License-Identifier: Apache-2.0
// Finds machine instructions in a kernel without a disassembler. The low 9 bits of an sm_90a instruction are
// its opcode, but NVIDIA does not publish the numbers. So each is found by compiling a kernel with and
// without the PTX instruction, and taking the one number that is new. With a toolkit that has other numbers,
// this still works. Called by the kernel gate.
#pragma once

#include <array>
#include <span>
#include <vector>

#include <sluice/result.h>
#include <sluice/run/jit/cache.h>
#include <sluice/spec/base.h>

#include "tests/compile/elf_text.h"

namespace sluice::test {

enum class Op : u8 {
  wgmma_16bit,
  wgmma_fp8,
  tma_load,
  tma_store,
  tma_add,
  fence_async,  // fence.proxy.async, between ordinary writes and the copies of the copy engine that read them
  setmaxnreg,
  global_add,  // red.global.add.f32, of one value or a vector of two
  local_load,
  local_store,
  global_store,
  barrier,        // bar.sync or bar.arrive of a CTA
  global_atomic,  // has a result, and is not compare-and-swap
  release_gpu,    // fences that only a release at GPU scope emits
  acquire,        // invalidates L1, so that other SMs' writes are seen
};
inline constexpr int kOpCount = 15;
const char* name_of(Op op);

class OpcodeTable {
 public:
  /// Finds the opcodes by compiling some forty tiny kernels, or loading them from the cache. Error: a probe
  /// kernel shows no opcode, or more than one.
  static Result<OpcodeTable> calibrate(const KernelCache& cache);

  u32 id(Op op) const { return ids_[static_cast<int>(op)]; }
  bool is(const Instruction& instruction, Op op) const;
  /// Counts the instructions whose operation is `op`.
  int count(std::span<const Instruction> instructions, Op op) const;
  /// True for atom.gpu.inc. False for another operation or for CTA scope.
  bool is_gpu_increment(const Instruction& instruction) const;
  /// True if a TMA instruction copies in im2col mode; false in tiled mode.
  bool is_im2col(const Instruction& instruction) const { return (instruction.high & im2col_) != 0; }
  /// Number of dimensions of a TMA instruction's tensor map, 3 to 5; 0 for other instructions.
  int dimensions(const Instruction& instruction) const;
  /// Returns the bytes of a kernel's parameters.
  Result<int> parameter_bytes(std::string_view cubin, const std::string& kernel) const;

 private:
  Result<void> calibrate_increment(const KernelCache& cache);
  Result<void> calibrate_im2col(const KernelCache& cache);
  Result<void> calibrate_parameters(const KernelCache& cache);

  std::array<u32, kOpCount> ids_{};
  u64 increment_ = 0, increment_mask_ = 0;  // bits of the high word: operation and scope
  u64 im2col_ = 0, dimensions_mask_ = 0;    // bits of the high word
  std::array<u64, 3> dimensions_{};         // bits for 3, 4 and 5 dimensions
  u64 driver_constants_ = 0;
};

}  // namespace sluice::test
