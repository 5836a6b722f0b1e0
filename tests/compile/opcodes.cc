// SPDX-License-Identifier: Apache-2.0
// A probe is a PTX statement and a context: the kernel is compiled with the context alone and with both. The
// context contains the instructions that ptxas emits along with the statement. For example, a TMA load also
// needs uniform-register set-up, so its context has a TMA store and a bulk copy, which need that too.
#include "tests/compile/opcodes.h"

#include <fmt/format.h>

#include <bit>
#include <set>
#include <string>

#include <sluice/plan/text/units.h>

namespace sluice::test {
namespace {

constexpr u32 kOpcodeMask = 0x1ff;
constexpr u64 kNotScheduling =
    // Mask of the low bits; the higher ones are stall counts and barriers, which ptxas chooses.
    (u64{1} << 41) - 1;

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

/// Returns an atomic operation whose result is used. If it were unused, ptxas would emit a reduction.
std::string atomic(const char* semantics, const char* operation) {
  return fmt::format(
      R"(asm volatile("atom.{}.global.{} %0, [%1], %0;" : "+r"(y) : "l"(out) : "memory"); f[0] += y;)",
      semantics, operation);
}
const std::string kRelaxed = atomic("relaxed.gpu", "inc.u32"), kAcquire = atomic("acquire.gpu", "inc.u32"),
                  kRelease = atomic("release.gpu", "inc.u32");

/// Returns the operands "%2, %2, ..." of a tensor map's coordinates, one per dimension.
std::string coordinates(int dimensions) {
  return fmt::format("{}", fmt::join(std::vector<const char*>(static_cast<size_t>(dimensions), "%2"), ", "));
}
std::string tma_store(const char* mode, int dimensions) {
  return fmt::format(
      R"(asm volatile("cp.async.bulk.tensor.{}d.global.shared::cta.{}.bulk_group [%1, {{{}}}], [%0];"
                      ::"r"(s), "l"(&map), "r"(y) : "memory");)",
      dimensions, mode, coordinates(dimensions));
}
std::string tma_load(bool im2col, int dimensions) {
  const std::vector<const char*> offsets(static_cast<size_t>(dimensions - 2), "%4");
  return fmt::format(
      R"(asm volatile("cp.async.bulk.tensor.{}d.shared::cluster.global.{}.mbarrier::complete_tx::bytes "
                      "[%0], [%1, {{{}}}], [%3]{};"
                      ::"r"(s), "l"(&map), "r"(y), "r"(s + 1024), "h"((unsigned short)y) : "memory");)",
      dimensions, im2col ? "im2col" : "tile", coordinates(dimensions),
      im2col ? fmt::format(", {{{}}}", fmt::join(offsets, ", ")) : "");
}

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
  if (Result<void> im2col = table.calibrate_im2col(cache); !im2col) return im2col.error();
  if (Result<void> parameters = table.calibrate_parameters(cache); !parameters) return parameters.error();
  return table;
}

/// Finds the bits that hold an atomic's operation and scope, by comparing atomics that differ in nothing
/// else.
Result<void> OpcodeTable::calibrate_increment(const KernelCache& cache) {
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

/// Finds the bits that hold the TMA mode and the number of dimensions, by comparing stores that differ in
/// nothing else. A load must have the same bits.
Result<void> OpcodeTable::calibrate_im2col(const KernelCache& cache) {
  const auto high_word = [&](Op op, const std::string& statement) -> Result<u64> {
    const auto instructions = compiled(cache, "", statement);
    if (!instructions) return instructions.error();
    for (const Instruction& each : *instructions)
      if (is(each, op)) return each.high & kNotScheduling;
    return Error{ErrorCode::toolchain, fmt::format("no {} in: {}", name_of(op), statement)};
  };
  std::array<u64, 3> stores{};
  u64 walking = 0;
  for (int dimensions = 3; dimensions <= 5; ++dimensions) {
    const Result<u64> tiled = high_word(Op::tma_store, tma_store("tile", dimensions)),
                      im2col = high_word(Op::tma_store, tma_store("im2col_no_offs", dimensions));
    if (!tiled) return tiled.error();
    if (!im2col) return im2col.error();
    stores[static_cast<size_t>(dimensions - 3)] = *tiled;
    walking |= *tiled ^ *im2col;
  }
  im2col_ = walking;
  dimensions_mask_ = (stores[0] ^ stores[1]) | (stores[0] ^ stores[2]);
  for (size_t i = 0; i < stores.size(); ++i) dimensions_[i] = stores[i] & dimensions_mask_;
  for (int dimensions = 3; dimensions <= 5; ++dimensions)
    for (const bool gathers : {false, true}) {
      const Result<u64> load = high_word(Op::tma_load, tma_load(gathers, dimensions));
      if (!load) return load.error();
      const Instruction instruction{.low = id(Op::tma_load), .high = *load};
      if (std::popcount(im2col_) != 1 || is_im2col(instruction) != gathers ||
          this->dimensions(instruction) != dimensions)
        return Error{
            ErrorCode::toolchain,
            fmt::format("the bits of im2col mode (0x{:x}) or of the dimensions (0x{:x}) are others in "
                        "a load",
                        im2col_, dimensions_mask_)};
    }
  return {};
}

Result<void> OpcodeTable::calibrate_parameters(const KernelCache& cache) {
  constexpr u64 kOfUnit = 128 + 3 * 8 - 4;  // parameter bytes of the probe kernel: map, out, x, y
  const auto cubin = cache.get(fmt::format(kUnit, kEntryName, "", ""));
  if (!cubin) return cubin.error();
  const Result<u64> bytes = launch_constant_bytes((*cubin)->image, kEntryName);
  if (!bytes) return bytes.error();
  driver_constants_ = *bytes - kOfUnit;
  return {};
}

Result<int> OpcodeTable::parameter_bytes(std::string_view cubin, const std::string& kernel) const {
  const Result<u64> bytes = launch_constant_bytes(cubin, kernel);
  if (!bytes) return bytes.error();
  return static_cast<int>(*bytes - driver_constants_);
}

int OpcodeTable::dimensions(const Instruction& instruction) const {
  if (!is(instruction, Op::tma_load) && !is(instruction, Op::tma_store) && !is(instruction, Op::tma_add))
    return 0;
  for (size_t i = 0; i < dimensions_.size(); ++i)
    if ((instruction.high & dimensions_mask_) == dimensions_[i]) return static_cast<int>(i) + 3;
  return 0;
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
