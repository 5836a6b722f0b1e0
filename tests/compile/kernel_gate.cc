// SPDX-License-Identifier: Apache-2.0
// For each rule, gate_catches_test.cc plants a kernel that the rule refuses.
#include "tests/compile/kernel_gate.h"

#include <fmt/format.h>

#include <algorithm>

#include <sluice/plan/text/units.h>
#include <sluice/spec/params.h>

#include "tests/compile/elf_text.h"

namespace sluice::test {
namespace {

/// Finds faults in the order in which CTAs combine the slices of a tile. A warpgroup must store its partial
/// sums and meet at a barrier. Then one thread makes the stores visible to the GPU (release), counts, and
/// acquires the other CTAs' partial sums. Any other order fails once in a million launches, which no test
/// would notice.
std::vector<std::string> meeting_faults(const std::vector<Instruction>& all, const OpcodeTable& opcodes) {
  const int count = static_cast<int>(all.size());
  const auto any_of = [&](int i, std::initializer_list<Op> ops) {
    for (const Op op : ops)
      if (opcodes.is(all[static_cast<size_t>(i)], op)) return true;
    return false;
  };
  /// Index of the nearest instruction with one of `ops`, searching from `i` in direction `step`; -1 or
  /// `count` if there is none.
  const auto next = [&](int i, int step, std::initializer_list<Op> ops) {
    for (i += step; i >= 0 && i < count && !any_of(i, ops);) i += step;
    return i;
  };
  const auto is = [&](int i, Op op) { return i >= 0 && i < count && any_of(i, {op}); };

  std::vector<std::string> faults;
  const auto must = [&](bool held, const char* fault) {
    if (!held && std::find(faults.begin(), faults.end(), fault) == faults.end()) faults.push_back(fault);
  };
  int meetings = 0;
  for (int i = 0; i < count; ++i) {
    if (!is(i, Op::global_atomic)) continue;
    ++meetings;
    must(opcodes.is_gpu_increment(all[static_cast<size_t>(i)]),
         "peers are counted by another atomic than inc.gpu");
    const int before = next(i, -1, {Op::release_gpu, Op::barrier, Op::global_store});
    must(is(before, Op::release_gpu), "peers are counted without a release of the GPU's memory");
    // A release compiles to several adjacent instructions of the same operation.
    const int barrier =
        is(before, Op::release_gpu) ? next(before, -1, {Op::barrier, Op::global_store}) : before;
    must(is(barrier, Op::barrier), "peers are counted without a barrier after the group's stores");
    const int after = next(i, 1, {Op::acquire, Op::barrier});
    must(is(after, Op::acquire), "peers are counted without an acquire before the group goes on");
  }
  must(meetings > 0, "nobody counts the peers of a tile");
  return faults;
}

/// Finds TMA copies in the wrong mode. A convolution's gathered operand must be loaded in im2col mode, the
/// other operand in tiled mode. Pixels of a dgrad phase must be stored in im2col mode, everything else in
/// tiled mode.
std::vector<std::string> gathering_faults(const KernelConfig& config, const std::vector<Instruction>& all,
                                          const OpcodeTable& opcodes) {
  int loads[2] = {}, stores[2] = {}, wrong_axes = 0;  // [tiled, im2col]
  const bool gathers = config.conv.op != ConvOp::none;
  for (const Instruction& each : all) {
    const bool is_load = opcodes.is(each, Op::tma_load);
    if (!is_load && !opcodes.is(each, Op::tma_store) && !opcodes.is(each, Op::tma_add)) continue;
    const bool im2col = opcodes.is_im2col(each);
    ++(is_load ? loads : stores)[im2col];
    if (im2col && opcodes.dimensions(each) != config.conv.spatial + 2) ++wrong_axes;
  }
  std::vector<std::string> faults;
  const auto must = [&](bool held, std::string fault) {
    if (!held) faults.push_back(std::move(fault));
  };
  must((loads[true] > 0) == gathers,
       fmt::format("{} im2col loads, {}", loads[true], gathers ? "not 1 or more" : "not 0"));
  const bool by_tma = config.load_a == Load::tma || config.load_b == Load::tma;
  must((loads[false] > 0) == by_tma,
       fmt::format("{} tiled loads, {}", loads[false], by_tma ? "not 1 or more" : "not 0"));
  must(wrong_axes == 0,
       fmt::format("{} im2col instructions over others than {} axes", wrong_axes, config.conv.spatial));
  must((stores[true] > 0) == config.conv.phased,
       fmt::format("{} im2col stores, {}", stores[true], config.conv.phased ? "not 1 or more" : "not 0"));
  must(!config.conv.phased || stores[false] == 0, fmt::format("{} tiled stores, not 0", stores[false]));
  return faults;
}

}  // namespace

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
  // Warnings of ptxas: C7508 setmaxnreg ignored, C7510/C7511 serialised WGMMA, C7517/C7519 injected waits.
  // Any other warning is a fault too.
  must(report.log.empty(), "the compiler said: " + report.log);

  const Result<std::vector<Instruction>> instructions = instructions_of(cubin.image, kEntryName);
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
  at_least(Op::tma_load, 2 - (config.load_a == Load::strided) - (config.load_b == Load::strided));
  const std::vector<std::string> gathering = gathering_faults(config, *instructions, opcodes);
  faults.insert(faults.end(), gathering.begin(), gathering.end());
  const Result<int> parameters = opcodes.parameter_bytes(cubin.image, kEntryName);
  must(parameters.ok() && *parameters == params_bytes(config),
       fmt::format("{} bytes of parameters, not {}", parameters.ok() ? *parameters : -1,
                   params_bytes(config)));
  at_least(Op::setmaxnreg, 2);
  none(Op::local_load);
  none(Op::local_store);
  // D is written in exactly one way.
  const bool by_tma = config.store == StorePath::tma, added = adds(config.epilogue);
  const Op leaves = by_tma ? (added ? Op::tma_add : Op::tma_store) : Op::global_add;
  if (by_tma || added) at_least(leaves, 1);
  // One fence for the mbarriers, one before each TMA store.
  if (by_tma) at_least(Op::fence_async, 1 + count(leaves));
  for (const Op other : {Op::tma_store, Op::tma_add, Op::global_add})
    if (other != leaves || !(by_tma || added)) none(other);
  if (config.combine != Combine::last_arriver) {
    none(Op::global_atomic);
  } else {
    const std::vector<std::string> meeting = meeting_faults(*instructions, opcodes);
    faults.insert(faults.end(), meeting.begin(), meeting.end());
  }
  return faults;
}

}  // namespace sluice::test
