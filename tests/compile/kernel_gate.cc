// SPDX-License-Identifier: Apache-2.0
// Each rule has a planted kernel in gate_catches_test.cc that it refuses.
#include "tests/compile/kernel_gate.h"

#include <fmt/format.h>

#include <sluice/host/jit/source.h>

#include "tests/compile/elf_text.h"

namespace sluice::test {

std::vector<std::string> kernel_faults(const KernelConfig& config, const Cubin& cubin,
                                       const OpcodeTable& opcodes) {
  std::vector<std::string> faults;
  const auto must = [&](bool held, std::string fault) {
    if (!held) faults.push_back(std::move(fault));
  };

  const BuildReport& report = cubin.report;
  must(report.spill_bytes == 0, fmt::format("{} bytes of spills", report.spill_bytes));
  must(report.stack_bytes == 0, fmt::format("a stack of {} bytes", report.stack_bytes));
  must(report.registers == kLaunchRegisters,
       fmt::format("{} registers, not {}", report.registers, kLaunchRegisters));
  must(report.static_smem_bytes == 0, fmt::format("{} bytes of static smem", report.static_smem_bytes));
  // C7508 setmaxnreg ignored, C7510/C7511 serialised WGMMA, C7517/C7519 injected waits: and any other
  // warning.
  must(report.log.empty(), "the compiler said: " + report.log);

  const Result<std::vector<u64>> instructions = instructions_of(cubin.image, kEntryName);
  if (!instructions) {
    faults.push_back(instructions.error().message);
    return faults;
  }
  const auto count = [&](Op op) { return opcodes.count(*instructions, op); };
  const auto at_least = [&](Op op, int least) {
    must(count(op) >= least, fmt::format("{} {}, not {} or more", count(op), name_of(op), least));
  };
  const auto none = [&](Op op) { must(count(op) == 0, fmt::format("{} {}, not 0", count(op), name_of(op))); };

  const Op wgmma = is_fp8(config.a) ? Op::wgmma_fp8 : Op::wgmma_16bit;
  const int stage_wgmmas = waves(config) * config.tile.k / mma_k(config.a);
  must(count(wgmma) > 0 && count(wgmma) % stage_wgmmas == 0,
       fmt::format("{} {}, not a multiple of the {} of one stage", count(wgmma), name_of(wgmma),
                   stage_wgmmas));
  at_least(Op::tma_load, 2);
  at_least(Op::setmaxnreg, 2);
  none(Op::local_load);
  none(Op::local_store);
  // D leaves in one way and no other.
  const bool by_tma = config.store == StorePath::tma, added = adds(config.epilogue);
  const Op leaves = by_tma ? (added ? Op::tma_add : Op::tma_store) : Op::global_add;
  if (by_tma || added) at_least(leaves, 1);
  if (by_tma) at_least(Op::fence_async, 1 + count(leaves));  // one for the barriers, one before each store
  for (const Op other : {Op::tma_store, Op::tma_add, Op::global_add})
    if (other != leaves || !(by_tma || added)) none(other);
  return faults;
}

}  // namespace sluice::test
