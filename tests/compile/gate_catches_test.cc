// SPDX-License-Identifier: Apache-2.0
// Proves that the kernel gate can refuse: real units with one planted fault each, and the rule that must
// report it. Faults are planted in the source text, as a bad commit would do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <sluice/kernels/registry.h>
#include <sluice/plan/text/units.h>
#include <sluice/run/jit/compiler.h>
#include <sluice/spec/validate.h>

#include "tests/compile/elf_text.h"
#include "tests/compile/gate_cache.h"
#include "tests/compile/kernel_gate.h"

namespace sluice::test {
namespace {

/// A registered config that compiles fast.
constexpr KernelConfig kSmall{.schedule = Schedule::ping_pong, .tile = {64, 16, 64}};
constexpr KernelConfig kForward{
    .schedule = Schedule::ping_pong, .tile = {64, 16, 64}, .conv = {.op = ConvOp::fprop}};
constexpr KernelConfig kPhases{.schedule = Schedule::ping_pong,
                               .tile = {64, 64, 64},
                               .b_major = Major::mn,
                               .conv = {.op = ConvOp::dgrad, .phased = true}};

class GateCatches : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto compiler = Compiler::load("");
    ASSERT_TRUE(compiler) << compiler.error().message;
    compiler_ = *compiler;
    auto opcodes = OpcodeTable::calibrate(gate_cache());
    ASSERT_TRUE(opcodes) << opcodes.error().message;
    opcodes_ = *opcodes;
  }

  static Cubin compile(const std::string& unit) {
    Result<Cubin> cubin = compiler_->compile(unit);
    if (cubin) return *cubin;
    ADD_FAILURE() << cubin.error().message;
    return {};
  }
  static std::vector<std::string> faults(const std::string& unit, const KernelConfig& judged_as = kSmall) {
    return kernel_faults(judged_as, compile(unit), opcodes_);
  }
  /// Returns the unit's text with `from` replaced. The text must contain `from`.
  static std::string planted(const std::string& from, const std::string& to) {
    std::string unit = unit_text(kSmall);
    const size_t at = unit.find(from);
    EXPECT_NE(at, std::string::npos) << from << "\nis not in\n" << unit;
    return unit.replace(at, from.size(), to);
  }
  /// Returns the unit's text with calls of the device function `name` replaced by calls of an empty function.
  /// `header` declares it.
  static std::string without(const std::string& header, const std::string& name) {
    return fmt::format(
        "#include <{0}>\nnamespace sluice::ptx {{ template <class... T> SLUICE_DEVICE void "
        "{1}_left_out(const T&...) {{}} }}\n#define {1} {1}_left_out\n{2}",
        header, name, unit_text(kSmall));
  }

  static inline std::shared_ptr<const Compiler> compiler_;
  static inline OpcodeTable opcodes_;
};

testing::AssertionResult one_says(const std::vector<std::string>& faults, const std::string& text) {
  for (const std::string& fault : faults)
    if (fault.find(text) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text
                                     << "' is not among: " << fmt::format("{}", fmt::join(faults, "; "));
}

TEST_F(GateCatches, nothing_in_a_good_kernel) {
  EXPECT_EQ(faults(unit_text(kSmall)), std::vector<std::string>{});
}

TEST_F(GateCatches, a_spill) {
  const auto found =
      faults(planted("  sluice::run_gemm<kConfig>(params);",
                     R"(  float held[220];  // alive across the product: more than a thread has registers
#pragma unroll
  for (int i = 0; i < 220; ++i) held[i] = params.scale_a[i * threadIdx.x];
  sluice::run_gemm<kConfig>(params);
#pragma unroll
  for (int i = 0; i < 220; ++i) static_cast<float*>(params.d)[i * threadIdx.x] = held[i];)"));
  EXPECT_TRUE(one_says(found, "bytes of spills"));
  EXPECT_TRUE(one_says(found, name_of(Op::local_store)));
  EXPECT_TRUE(one_says(found, name_of(Op::local_load)));
}

TEST_F(GateCatches, a_stack) {
  const auto found = faults(planted("  sluice::run_gemm",
                                    "  volatile int hole[64];\n  hole[params.m & 63] = 1;\n"
                                    "  if (hole[params.n & 63] == 7) return;\n  sluice::run_gemm"));
  EXPECT_TRUE(one_says(found, "a stack of 256 bytes"));
  EXPECT_TRUE(one_says(found, name_of(Op::local_store)));
}

TEST_F(GateCatches, static_shared_memory) {
  const auto found = faults(planted("  sluice::run_gemm",
                                    "  __shared__ volatile int hidden[4];\n  hidden[threadIdx.x & 3] = 1;\n"
                                    "  sluice::run_gemm"));
  EXPECT_TRUE(one_says(found, "bytes of static smem"));
}

TEST_F(GateCatches, a_register_split_that_ptxas_ignores) {
  const auto found = faults(planted("__launch_bounds__(sluice::kThreads, 1)", ""));
  EXPECT_TRUE(one_says(found, "setmaxnreg"));
}

TEST_F(GateCatches, a_missing_tma_store) {
  const auto found = faults(without("sluice/device/ptx/tma.cuh", "tma_store"));
  EXPECT_EQ(found, std::vector<std::string>{"0 TMA store, not 1 or more"});
}

TEST_F(GateCatches, a_missing_tma_load) {
  const auto found = faults(without("sluice/device/ptx/tma.cuh", "tma_load"));
  EXPECT_TRUE(one_says(found, "0 TMA load, not 2 or more"));
}

TEST_F(GateCatches, a_missing_proxy_fence) {
  const auto found = faults(without("sluice/device/ptx/tma.cuh", "fence_proxy_async"));
  EXPECT_EQ(found, std::vector<std::string>{"1 fence.proxy.async, not 2 or more"});
}

/// Returns a unit that counts a tile's peers with another PTX instruction.
std::string counted_by(const std::string& instruction) {
  KernelConfig splits = kSmall;
  splits.combine = Combine::last_arriver;
  return fmt::format(
      R"(#include <sluice/device/ptx/global.cuh>
namespace sluice::ptx {{
SLUICE_DEVICE u32 planted_count(u32* address, u32 bound) {{
  u32 old;
  asm volatile("{};" : "=r"(old) : "l"(address), "r"(bound) : "memory");
  return old;
}}
}}
#define atomic_inc_acq_rel planted_count
{})",
      instruction, unit_text(splits));
}

TEST_F(GateCatches, a_count_of_peers_that_orders_too_little) {
  KernelConfig splits = kSmall;
  splits.combine = Combine::last_arriver;
  const auto planted_faults = [&](const std::string& instruction) {
    return faults(counted_by(instruction), splits);
  };
  const std::string release = "peers are counted without a release of the GPU's memory",
                    acquire = "peers are counted without an acquire before the group goes on",
                    inc = "peers are counted by another atomic than inc.gpu";
  using Faults = std::vector<std::string>;
  EXPECT_EQ(planted_faults("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2"), Faults{});
  EXPECT_EQ(planted_faults("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2"), (Faults{release, acquire}));
  EXPECT_EQ(planted_faults("atom.acquire.gpu.global.inc.u32 %0, [%1], %2"), Faults{release});
  EXPECT_EQ(planted_faults("atom.release.gpu.global.inc.u32 %0, [%1], %2"), Faults{acquire});
  EXPECT_EQ(planted_faults("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2"), Faults{inc});
  EXPECT_TRUE(one_says(planted_faults("atom.acq_rel.cta.global.inc.u32 %0, [%1], %2"), inc));
  EXPECT_EQ(planted_faults("ld.relaxed.gpu.global.u32 %0, [%1]"),
            Faults{"nobody counts the peers of a tile"});
}

TEST_F(GateCatches, a_count_of_peers_before_the_group_has_written) {
  KernelConfig splits = kSmall;
  splits.combine = Combine::last_arriver;
  // publish_partial() is replaced by a function that does nothing.
  const std::string unpublished =
      "#include <sluice/device/machine.cuh>\n#define publish_partial end_tile\n" + unit_text(splits);
  EXPECT_TRUE(
      one_says(faults(unpublished, splits), "peers are counted without a barrier after the group's stores"));
}

TEST_F(GateCatches, an_atomic_where_no_peers_meet) {
  KernelConfig splits = kSmall;
  splits.combine = Combine::last_arriver;
  EXPECT_TRUE(one_says(faults(unit_text(splits), kSmall), "1 global atomic, not 0"));
}

TEST_F(GateCatches, the_wrong_tensor_core_type) {
  const KernelConfig fp8{
      .schedule = Schedule::ping_pong, .tile = {64, 16, 128}, .a = DType::e4m3, .b = DType::e4m3};
  EXPECT_EQ(faults(unit_text(fp8), fp8), std::vector<std::string>{});
  EXPECT_TRUE(one_says(faults(unit_text(fp8), kSmall), "0 WGMMA (16-bit)"));
}

TEST_F(GateCatches, a_tma_store_where_there_must_be_none) {
  KernelConfig direct = kSmall;
  direct.store = StorePath::direct;
  EXPECT_TRUE(one_says(faults(unit_text(kSmall), direct), "TMA store, not 0"));
}

TEST_F(GateCatches, a_store_where_the_product_must_be_added_and_the_other_way_round) {
  KernelConfig stored = kSmall;
  stored.d = DType::fp32;
  for (const StorePath store : {StorePath::tma, StorePath::direct}) {
    stored.store = store;
    KernelConfig added = stored;
    added.epilogue.update = Update::add;
    const bool tma = store == StorePath::tma;
    EXPECT_EQ(faults(unit_text(added), added), std::vector<std::string>{});
    const auto lost = faults(unit_text(stored), added), extra = faults(unit_text(added), stored);
    EXPECT_TRUE(one_says(lost, tma ? "0 TMA addition, not 1 or more" : "0 red.global.add, not 1 or more"));
    EXPECT_TRUE(one_says(extra, tma ? "TMA addition, not 0" : "red.global.add, not 0"));
  }
}

TEST_F(GateCatches, nothing_in_good_convolutions) {
  for (const KernelConfig& config : {kForward, kPhases})
    EXPECT_EQ(faults(unit_text(config), config), std::vector<std::string>{});
}

/// Groups of every schedule, store and kind of scale: none spills, although roles search a table.
TEST_F(GateCatches, nothing_in_good_groups) {
  constexpr GroupConfig kGroups{GroupKind::ends, 256};
  const KernelConfig bf16{.schedule = Schedule::ping_pong, .tile = {64, 128, 64}, .groups = kGroups};
  KernelConfig wide = bf16, shared = bf16, direct = bf16, vectors = bf16, masked = bf16;
  wide.tile = {128, 192, 64};
  shared = {.tile = {128, 256, 64}, .cluster = {1, 2, 1}, .groups = kGroups};
  direct = {.tile = {128, 128, 64}, .store = StorePath::direct, .groups = kGroups};
  vectors = {.schedule = Schedule::ping_pong,
             .tile = {128, 128, 128},
             .a = DType::e4m3,
             .b = DType::e4m3,
             .epilogue = {.scale_a = ScaleMode::vector, .scale_b = ScaleMode::vector, .bias = Bias::column},
             .groups = kGroups};
  masked.groups = {GroupKind::counts, kMostGroups};
  KernelConfig blocks = vectors;
  blocks.promotes = true;
  blocks.epilogue = {.scale_a = ScaleMode::block, .scale_b = ScaleMode::block};
  KernelConfig low = blocks;
  low.tile.m = 64;
  KernelConfig sums{.schedule = Schedule::ping_pong,
                    .tile = {128, 192, 64},
                    .cluster = {2, 1, 1},
                    .d = DType::fp32,
                    .a_major = Major::mn,
                    .b_major = Major::mn,
                    .groups = {GroupKind::along_k, 128}};
  KernelConfig added = sums;
  added.schedule = Schedule::cooperative;
  added.tile = {128, 256, 64};
  added.epilogue.update = Update::add;
  for (KernelConfig config : {bf16, wide, shared, direct, vectors, masked, blocks, low, sums, added}) {
    config.stages = max_stages(config);
    ASSERT_EQ(validate(config), nullptr) << validate(config);
    EXPECT_EQ(faults(unit_text(config), config), std::vector<std::string>{}) << unit_text(config);
  }
}

/// Both products of an expert in groups, by each schedule and store.
TEST_F(GateCatches, nothing_in_good_groups_of_experts) {
  const Epilogue blocks{.scale_a = ScaleMode::block, .scale_b = ScaleMode::block};
  Epilogue swiglu = blocks, full = blocks, quantised = blocks, routed = blocks;
  swiglu.gated = full.gated = true;
  swiglu.activation = full.activation = Activation::silu;
  swiglu.scale_d = full.scale_d = quantised.scale_d = ScaleMode::block;
  full.bias = Bias::column;
  full.row_factors = routed.row_factors = true;
  for (const Schedule schedule : {Schedule::ping_pong, Schedule::cooperative})
    for (const StorePath store : {StorePath::tma, StorePath::direct})
      for (const Epilogue& e : {swiglu, full, quantised, routed}) {
        KernelConfig config{.schedule = schedule,
                            .tile = {schedule == Schedule::ping_pong ? 64 : 128, 256, 128},
                            .a = DType::e4m3,
                            .b = DType::e4m3,
                            .d = writes_scales(e) ? DType::e4m3 : DType::bf16,
                            .promotes = true,
                            .store = store,
                            .epilogue = e,
                            .groups = {GroupKind::ends, 512}};
        config.stages = max_stages(config);
        ASSERT_EQ(validate(config), nullptr) << validate(config);
        EXPECT_EQ(faults(unit_text(config), config), std::vector<std::string>{}) << unit_text(config);
      }
}

TEST_F(GateCatches, a_gathered_operand_that_is_not_gathered) {
  const std::string header = "sluice/device/ptx/tma_im2col.cuh";
  const auto left_out = faults(
      "#include <sluice/spec/params.h>\nnamespace sluice::ptx { template <int kSpatial, class... T> "
      "SLUICE_DEVICE void tma_load_pixels_left_out(const T&...) {} }\n#include <" +
          header + ">\n#define tma_load_pixels tma_load_pixels_left_out\n" + unit_text(kForward),
      kForward);
  EXPECT_TRUE(one_says(left_out, "0 im2col loads, not 1 or more"));
  EXPECT_TRUE(one_says(faults(unit_text(kForward), kSmall), "im2col loads, not 0"));
}

TEST_F(GateCatches, a_walk_over_other_axes) {
  KernelConfig cubes = kForward;
  cubes.conv.spatial = 3;
  EXPECT_TRUE(one_says(faults(unit_text(kForward), cubes), "im2col instructions over others than 3 axes"));
}

TEST_F(GateCatches, pixels_of_a_phase_that_are_stored_as_neighbours) {
  KernelConfig whole = kPhases;
  whole.conv.phased = false;
  const auto tiled = faults(unit_text(whole), kPhases);
  EXPECT_TRUE(one_says(tiled, "0 im2col stores, not 1 or more"));
  EXPECT_TRUE(one_says(tiled, "tiled stores, not 0"));
  EXPECT_TRUE(one_says(faults(unit_text(kPhases), whole), "im2col stores, not 0"));
}

TEST_F(GateCatches, parameters_of_another_size) {
  std::string unit = unit_text(kForward);
  const std::string right = "sluice::ConvParams params";
  const size_t at = unit.find(right);
  ASSERT_NE(at, std::string::npos) << unit;
  unit.replace(at, right.size(), "sluice::PhasedParams params");
  EXPECT_TRUE(one_says(faults(unit, kForward), "bytes of parameters, not"));
}

TEST_F(GateCatches, a_cubin_cut_short_at_any_byte) {
  Cubin cubin = compile(unit_text(kSmall));
  const Result<std::vector<Instruction>> whole = instructions_of(cubin.image, kEntryName);
  ASSERT_TRUE(whole);
  int refused = 0;
  for (size_t size = 0; size < cubin.image.size(); size += 97) {
    const Result<std::vector<Instruction>> words =
        instructions_of(std::string_view(cubin.image).substr(0, size), kEntryName);
    if (words)
      // A truncated cubin is accepted only if all instructions are still in it.
      ASSERT_EQ(*words, *whole) << size;
    else
      ++refused;
  }
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace sluice::test
