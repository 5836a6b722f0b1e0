// SPDX-License-Identifier: Apache-2.0
// A probe is a statement, and a context that the kernel has with and without it. The context contains
// instructions that come with the statement. For example, a TMA load adds uniform-register set-up, so its
// context has a TMA store and a bulk copy, which add that too.
#include "tests/compile/opcodes.h"

#include <fmt/format.h>

#include <set>
#include <string>

#include <sluice/host/jit/source.h>

namespace sluice::test {
namespace {

constexpr u32 kOpcodeMask = 0x1ff;

constexpr const char* kUnit = R"(
struct alignas(64) Map {{ unsigned long long words[16]; }};
extern "C" __global__ void __launch_bounds__(384, 1) {}(const __grid_constant__ Map map, float* out,
                                                        unsigned long long x, int y) {{
  extern __shared__ float smem[];
  float f[4] = {{out[0], out[1], out[2], out[3]}};
  const unsigned s = __cvta_generic_to_shared(smem);
  {}
  {}
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(s + 4 * threadIdx.x), "f"(f[0] + f[1] + f[2] + f[3]) : "memory");
}}
)";

#define SLUICE_WGMMA(types, transpose)                                                                \
  "asm volatile(\"wgmma.mma_async.sync.aligned." types " {%0, %1, %2, %3}, %4, %4, 1, 1, 1" transpose \
  ";\" : \"+f\"(f[0]), \"+f\"(f[1]), \"+f\"(f[2]), \"+f\"(f[3]) : \"l\"(x));"                         \
  "asm volatile(\"wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\" ::: \"memory\");"
constexpr const char* kWgmma16 = SLUICE_WGMMA("m64n8k16.f32.bf16.bf16", ", 0, 0");
constexpr const char* kWgmma8 = SLUICE_WGMMA("m64n8k32.f32.e4m3.e4m3", "");
#undef SLUICE_WGMMA
constexpr const char* kTmaLoad =
    R"(asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                    "[%0], [%1, {%2, %2, %2}], [%3];" ::"r"(s), "l"(&map), "r"(y), "r"(s + 1024) : "memory");)";
constexpr const char* kTmaStore =
    R"(asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%1, {%2, %2, %2}], [%0];"
                    ::"r"(s), "l"(&map), "r"(y) : "memory");)";
constexpr const char* kTmaAdd =
    R"(asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%1, {%2, %2, %2}], [%0];"
                    ::"r"(s), "l"(&map), "r"(y) : "memory");)";
constexpr const char* kBulkCopy =
    R"(asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"
                    ::"r"(s), "l"(x), "r"(s + 1024) : "memory");)";

/// An atomic with a used result; without use it becomes a reduction.
std::string atomic(const char* semantics, const char* operation) {
  return fmt::format(
      R"(asm volatile("atom.{}.global.{} %0, [%1], %0;" : "+r"(y) : "l"(out) : "memory"); f[0] += y;)",
      semantics, operation);
}
const std::string kRelaxed = atomic("relaxed.gpu", "inc.u32"), kAcquire = atomic("acquire.gpu", "inc.u32"),
                  kRelease = atomic("release.gpu", "inc.u32");

struct Probe {
  Op op;
  std::string context;
  std::string statement;
};

std::vector<Probe> probes() {
  return {
      {Op::wgmma_16bit, kWgmma8, kWgmma16},
      {Op::wgmma_fp8, kWgmma16, kWgmma8},
      {Op::tma_load, std::string(kTmaStore) + kBulkCopy, kTmaLoad},
      {Op::tma_store, kTmaLoad, kTmaStore},
      {Op::tma_add, kTmaLoad, kTmaAdd},
      {Op::global_add, "",
       R"(asm volatile("red.global.add.f32 [%0], %1;" ::"l"(out), "f"(f[0]) : "memory");)"},
      {Op::fence_async, "__threadfence_block();",
       R"(asm volatile("fence.proxy.async.shared::cta;" ::: "memory");)"},
      {Op::setmaxnreg, "", R"(asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");)"},
      {Op::local_load, "", R"(asm volatile("ld.local.f32 %0, [%1];" : "=f"(f[0]) : "r"(y) : "memory");)"},
      {Op::local_store, "", R"(asm volatile("st.local.f32 [%0], %1;" ::"r"(y), "f"(f[0]) : "memory");)"},
      {Op::global_store, "", R"(asm volatile("st.global.f32 [%0], %1;" ::"l"(out), "f"(f[0]) : "memory");)"},
      {Op::barrier, "", R"(asm volatile("barrier.sync.aligned 1, 64;" ::: "memory");)"},
      {Op::global_atomic, "f[0] += y;", kRelaxed},
      {Op::acquire, kRelaxed, kAcquire},
      {Op::release_gpu, "__threadfence_block();" + kRelaxed, kRelease},
  };
}

Result<std::vector<Instruction>> compiled(const KernelCache& cache, const std::string& context,
                                          const std::string& statement) {
  const auto cubin = cache.get(fmt::format(kUnit, kEntryName, context, statement));
  if (!cubin) return cubin.error();
  return instructions_of((*cubin)->image, kEntryName);
}

Result<std::set<u32>> opcodes_in(const KernelCache& cache, const Probe& probe, bool with_statement) {
  const auto instructions = compiled(cache, probe.context, with_statement ? probe.statement : "");
  if (!instructions) return instructions.error();
  std::set<u32> ids;
  for (const Instruction& each : *instructions) ids.insert(static_cast<u32>(each.low) & kOpcodeMask);
  return ids;
}

}  // namespace

const char* name_of(Op op) {
  constexpr const char* kNames[kOpCount] = {
      "WGMMA (16-bit)",    "WGMMA (fp8)", "TMA load",       "TMA store",   "TMA addition",
      "fence.proxy.async", "setmaxnreg",  "red.global.add", "local load",  "local store",
      "global store",      "barrier",     "global atomic",  "release.gpu", "acquire"};
  return kNames[static_cast<int>(op)];
}

Result<OpcodeTable> OpcodeTable::calibrate(const KernelCache& cache) {
  OpcodeTable table;
  for (const Probe& probe : probes()) {
    const Result<std::set<u32>> before = opcodes_in(cache, probe, false);
    if (!before) return before.error();
    const Result<std::set<u32>> after = opcodes_in(cache, probe, true);
    if (!after) return after.error();
    std::vector<u32> fresh;
    for (const u32 id : *after)
      if (!before->contains(id)) fresh.push_back(id);
    if (fresh.size() != 1)
      return Error{
          ErrorCode::toolchain,
          fmt::format("{}: the probe of '{}' brings {} new opcodes (0x{:x}), not one: give it a context "
                      "that holds the others",
                      nvrtc_compiler("").version(), name_of(probe.op), fresh.size(),
                      fmt::join(fresh, ", 0x"))};
    table.ids_[static_cast<int>(probe.op)] = fresh[0];
  }
  if (Result<void> increment = table.calibrate_increment(cache); !increment) return increment.error();
  return table;
}

/// Finds operation and scope: the bits in which atomics of one context differ.
Result<void> OpcodeTable::calibrate_increment(const KernelCache& cache) {
  constexpr u64 kNotScheduling =
      (u64{1} << 41) - 1;  // higher bits are stalls and barriers, which ptxas chooses
  const auto high_word = [&](const char* semantics, const char* operation) -> Result<u64> {
    const auto instructions = compiled(cache, "", atomic(semantics, operation));
    if (!instructions) return instructions.error();
    for (const Instruction& each : *instructions)
      if (is(each, Op::global_atomic)) return each.high & kNotScheduling;
    return Error{ErrorCode::toolchain, fmt::format("{}: atom.{} is no atomic", semantics, operation)};
  };
  const Result<u64> increment = high_word("relaxed.gpu", "inc.u32");
  if (!increment) return increment.error();
  increment_ = *increment;
  const std::pair<const char*, const char*> others[] = {{"relaxed.gpu", "add.u32"},
                                                        {"relaxed.gpu", "dec.u32"},
                                                        {"relaxed.gpu", "max.u32"},
                                                        {"relaxed.gpu", "xor.b32"},
                                                        {"relaxed.cta", "inc.u32"}};
  for (const auto& [semantics, operation] : others) {
    const Result<u64> other = high_word(semantics, operation);
    if (!other) return other.error();
    if (*other == increment_)
      return Error{ErrorCode::toolchain, fmt::format("atom.{}.{} looks like inc", semantics, operation)};
    increment_mask_ |= *other ^ increment_;
  }
  return {};
}

bool OpcodeTable::is(const Instruction& instruction, Op op) const {
  return (static_cast<u32>(instruction.low) & kOpcodeMask) == id(op);
}

bool OpcodeTable::is_gpu_increment(const Instruction& instruction) const {
  return is(instruction, Op::global_atomic) && ((instruction.high ^ increment_) & increment_mask_) == 0;
}

int OpcodeTable::count(std::span<const Instruction> instructions, Op op) const {
  int count = 0;
  for (const Instruction& each : instructions) count += is(each, op) ? 1 : 0;
  return count;
}

}  // namespace sluice::test
