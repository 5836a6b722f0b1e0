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
};
inline constexpr int kOpCount = 10;
const char* name_of(Op op);

class OpcodeTable {
 public:
  /// Compiles some twenty tiny kernels. Error: a probe left no number, or more than one, to choose from.
  static Result<OpcodeTable> calibrate(const Compiler& compiler);

  u32 id(Op op) const { return ids_[static_cast<int>(op)]; }
  /// How many of `instructions` (elf_text.h) are an `op`.
  int count(std::span<const u64> instructions, Op op) const;

 private:
  std::array<u32, kOpCount> ids_{};
};

}  // namespace sluice::test
