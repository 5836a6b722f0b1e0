// SPDX-License-Identifier: Apache-2.0
// The kernel of kernels/plain.cuh (Schedule::plain) on a simulated CTA must equal the reference, in random
// problems of many layouts.
//
// The model has:
// - threads with registers of their own, at random paces;
// - barriers, behind which alone a thread may rely on what another one read and wrote;
// - cp.async, whose data lands at any time between its issue and the wait for its group. No thread may touch
//   the words in between;
// - ldmatrix and mma.sync with the fragments of the PTX ISA;
// - shared memory of the launch's size, which is NaN when a CTA starts;
// - rights to each byte of the operands, gaps and guards without any;
// - the wait for earlier launches, before which only weights, their scales and bias may be read.
// It has no clusters, no plain_wgmma, no bank conflicts, no CTAs that run at the same time, and not the low
// bits that mma.sync drops. It does not see reads by a plain dereference (a vector of scale_a, tables of
// groups), but around the former lies NaN.
//
// Bugs planted in the simulated GPU must be found. To see the kernel itself fail: use kStages - 1 in the wait
// of warp_ring.cuh, leave out its meet(), or the first __syncthreads of warp_sums.cuh.
#include <gtest/gtest.h>

#include "cuda_names.h"
//
#include <sluice/kernels/plain.cuh>

#include "plain_case.h"

namespace simulated {
namespace {

template <Choice kChoice>
void run_kernel(const GroupedParams& params) {
  constexpr KernelConfig kConfig = config_of(kChoice);
  if constexpr (takes_factors(kConfig)) {
    FactoredParams factored{params, params.row_factors, params.scale_a_ld};
    run_plain<kConfig>(factored);
  } else {
    run_plain<kConfig>(params);
  }
}
template <Choice... kChoices>
std::vector<Kernel> kernels_of() {
  return {Kernel{kChoices, config_of(kChoices), run_kernel<kChoices>}...};
}

constexpr ScaleMode kVector = ScaleMode::vector, kTensor = ScaleMode::tensor, kBlock = ScaleMode::block;
constexpr DType kBf16 = DType::bf16, kFp16 = DType::fp16, kFp32 = DType::fp32, kE4m3 = DType::e4m3,
                kE5m2 = DType::e5m2;
constexpr Epilogue kBias{.bias = Bias::column};
constexpr Epilogue kGated{.activation = Activation::silu, .gated = true};
constexpr Epilogue kGatedBias{.bias = Bias::column, .activation = Activation::relu, .gated = true};
constexpr Epilogue kScaled{.scale_a = kVector, .scale_b = kVector};
constexpr Epilogue kGatedScaled{.scale_a = kVector, .scale_b = kVector, .gated = true};
constexpr Epilogue kResidual{.residual = true};
constexpr Epilogue kResidualBias{.bias = Bias::column, .bias_type = kFp32, .residual = true, .c_type = kFp32};
constexpr Epilogue kTensorScaled{.scale_a = kTensor, .scale_b = kTensor, .scale_d = kTensor};
constexpr Epilogue kAdded{.update = Update::add};
constexpr Epilogue kBlocks{.scale_a = kBlock, .scale_b = kBlock};
constexpr Epilogue kBlocksBias{.scale_a = kBlock, .scale_b = kBlock, .bias = Bias::column};
constexpr Epilogue kGatedBlocks{.scale_a = kBlock, .scale_b = kBlock, .gated = true};

const std::vector<Kernel>& plain_kernels() {
  static const std::vector<Kernel> kernels = kernels_of<
      Choice{.in = kBf16, .d = kBf16, .tile_m = 8, .tile_n = 16, .warps = 4, .stages = 2},
      Choice{.in = kBf16, .d = kFp32, .tile_m = 16, .tile_n = 64, .warps = 4, .stages = 4},
      Choice{.in = kFp16, .d = kFp16, .tile_m = 16, .tile_n = 16, .warps = 8, .stages = 3},
      Choice{.in = kFp16, .d = kFp32, .tile_m = 8, .tile_n = 32, .stages = 4, .epilogue = kResidualBias},
      Choice{.in = kBf16, .d = kBf16, .tile_m = 8, .tile_n = 64, .warps = 8, .epilogue = kGated},
      Choice{.in = kBf16, .d = kFp32, .tile_m = 16, .tile_n = 32, .stages = 2, .epilogue = kGatedBias},
      Choice{.in = kBf16, .d = kBf16, .tile_m = 8, .tile_n = 32, .epilogue = kResidual},
      Choice{.in = kBf16, .d = kFp32, .tile_m = 8, .tile_n = 16, .epilogue = kAdded},
      Choice{.in = kFp16,
             .d = kFp16,
             .tile_m = 16,
             .tile_n = 32,
             .warps = 16,
             .stages = 2,
             .epilogue = kBias}>();
  return kernels;
}
const std::vector<Kernel>& fp8_kernels() {
  static const std::vector<Kernel> kernels = kernels_of<
      Choice{
          .in = kE4m3, .d = kBf16, .tile_m = 8, .tile_n = 32, .warps = 8, .stages = 2, .epilogue = kScaled},
      Choice{.in = kE5m2, .d = kFp32, .tile_m = 16, .tile_n = 16, .stages = 3},
      Choice{.in = kE4m3, .d = kBf16, .tile_m = 16, .tile_n = 64, .warps = 4, .epilogue = kGatedScaled},
      Choice{.in = kE4m3, .d = kE4m3, .tile_m = 8, .tile_n = 16, .stages = 4, .epilogue = kTensorScaled},
      Choice{.in = kE5m2, .d = kBf16, .tile_m = 8, .tile_n = 64, .warps = 8, .epilogue = kBias}>();
  return kernels;
}
constexpr Overlap kFirst{Wait::first, Trigger::at_start},
    kWeightsFirst{Wait::weights_first, Trigger::after_loads};
const std::vector<Kernel>& overlapping_kernels() {
  static const std::vector<Kernel> kernels = kernels_of<
      Choice{.tile_n = 32, .stages = 3, .epilogue = kResidual, .overlap = kFirst},
      Choice{
          .tile_m = 16, .tile_n = 16, .warps = 8, .stages = 4, .epilogue = kBias, .overlap = kWeightsFirst},
      Choice{.in = kE4m3, .d = kE4m3, .stages = 2, .epilogue = kTensorScaled, .overlap = kWeightsFirst}>();
  return kernels;
}
const std::vector<Kernel>& block_kernels() {
  static const std::vector<Kernel> kernels = kernels_of<
      Choice{.in = kE4m3, .d = kFp32, .stages = 4, .epilogue = kBlocks, .overlap = kWeightsFirst},
      Choice{.in = kE4m3, .tile_m = 16, .tile_n = 64, .warps = 8, .stages = 2, .epilogue = kBlocksBias},
      Choice{.in = kE4m3, .tile_n = 64, .epilogue = kGatedBlocks, .overlap = kWeightsFirst},
      Choice{.in = kE4m3, .tile_n = 32, .epilogue = kBlocks, .scale_a_columns = true}>();
  return kernels;
}
constexpr GroupKind kSlots = GroupKind::slots;
const std::vector<Kernel>& slot_kernels() {
  static const std::vector<Kernel> kernels = kernels_of<
      Choice{.d = kFp32, .tile_n = 32, .warps = 8, .epilogue = kBias, .groups = kSlots},
      Choice{.tile_n = 64, .stages = 2, .epilogue = kGated, .overlap = kFirst, .groups = kSlots},
      Choice{.in = kE4m3, .tile_n = 16, .epilogue = kScaled, .overlap = kFirst, .groups = kSlots},
      Choice{.in = kE4m3, .tile_n = 64, .stages = 2, .epilogue = kGatedBlocks, .groups = kSlots},
      Choice{.in = kE4m3, .tile_n = 32, .epilogue = kBlocks, .groups = kSlots, .scale_a_columns = true}>();
  return kernels;
}

/// Runs random cases of each kernel. Returns the number of those that are wrong.
int wrong_of(const std::vector<Kernel>& kernels, Bug bug, int cases, unsigned seed) {
  Dice dice(seed);
  cta.dice.seed(seed);
  int wrong = 0;
  for (int i = 0; i < cases * static_cast<int>(kernels.size()); ++i) {
    PlainCase drawn(kernels[static_cast<std::size_t>(i) % kernels.size()], dice);
    const std::string found = drawn.run(bug);
    wrong += found.empty() ? 0 : 1;
    if (bug != Bug::none) continue;
    EXPECT_EQ(found, "") << "case " << i << ": " << drawn.name();
    if (wrong > 3) break;
  }
  return wrong;
}

TEST(plain_kernel, is_like_the_reference_with_16_bit_inputs) {
  EXPECT_EQ(wrong_of(plain_kernels(), Bug::none, 16, 1), 0);
}
TEST(plain_kernel, is_like_the_reference_with_fp8) {
  EXPECT_EQ(wrong_of(fp8_kernels(), Bug::none, 16, 2), 0);
}
TEST(plain_kernel, is_like_the_reference_and_waits_for_earlier_launches) {
  EXPECT_EQ(wrong_of(overlapping_kernels(), Bug::none, 10, 3), 0);
}
TEST(plain_kernel, is_like_the_reference_with_block_scales) {
  EXPECT_EQ(wrong_of(block_kernels(), Bug::none, 12, 4), 0);
}
TEST(plain_kernel, is_like_the_reference_with_groups_by_slots) {
  EXPECT_EQ(wrong_of(slot_kernels(), Bug::none, 12, 5), 0);
}

TEST(plain_kernel, of_planted_bugs_is_found_out) {
  const Bug bugs[] = {Bug::late_wait,    Bug::no_warp_sync,     Bug::no_block_sync,  Bug::wrong_piece,
                      Bug::whole_copies, Bug::swapped_matrices, Bug::swapped_halves, Bug::no_zeros};
  for (const Bug bug : bugs)
    EXPECT_GT(wrong_of(plain_kernels(), bug, 2, 6), 9) << "bug " << static_cast<int>(bug);
  EXPECT_GT(wrong_of(fp8_kernels(), Bug::repeated_fp8, 2, 7), 5);
  EXPECT_EQ(wrong_of(overlapping_kernels(), Bug::no_launch_wait, 2, 8), 6);
}

}  // namespace
}  // namespace simulated
