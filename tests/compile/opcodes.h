// SPDX-License-Identifier: Apache-2.0
// Which machine instructions a kernel holds, without a disassembler. The low 9 bits of an sm_90a instruction
// name the operation, but the numbers are NVIDIA's secret: so each is found anew by compiling a kernel with
// and without the PTX instruction and taking the one number that appeared. A toolkit that numbers them
// otherwise recalibrates the scan instead of blinding it. Called by the kernel gate.
#pragma once

#include <array>
#include <span>
#include <vector>

#include <sluice/host/jit/compiler.h>
#include <sluice/result.h>
#include <sluice/spec/base.h>

#include "tests/compile/elf_text.h"

namespace sluice::test {

enum class Op : u8 {
  wgmma_16bit,
  wgmma_fp8,
  tma_load,
  tma_store,
  tma_add,
  fence_async,  // fence.proxy.async: generic writes before, copy engine after
  setmaxnreg,
  global_add,  // red.global.add.f32, alone or in twos
  local_load,
  local_store,
  global_store,
  barrier,        // of a CTA's threads, arrived at or waited at
  global_atomic,  // with an answer, and no compare and swap
  release_gpu,    // what a release of the whole GPU's memory brings, but for the fence that narrower ones are
                  // too
  acquire,        // of what other SMs wrote: L1 is emptied
};
inline constexpr int kOpCount = 15;
const char* name_of(Op op);

class OpcodeTable {
 public:
  /// Compiles some forty tiny kernels. Error: a probe left no number, or more than one, to choose from.
  static Result<OpcodeTable> calibrate(const Compiler& compiler);

  u32 id(Op op) const { return ids_[static_cast<int>(op)]; }
  bool is(const Instruction& instruction, Op op) const;
  /// How many of `instructions` are an `op`.
  int count(std::span<const Instruction> instructions, Op op) const;
  /// Is it atom.gpu.inc? Of one CTA, or of another operation, it is not.
  bool is_gpu_increment(const Instruction& instruction) const;

 private:
  Result<void> calibrate_increment(const Compiler& compiler);

  std::array<u32, kOpCount> ids_{};
  u64 increment_ = 0, increment_mask_ = 0;  // of the high word: operation and scope
};

}  // namespace sluice::test
