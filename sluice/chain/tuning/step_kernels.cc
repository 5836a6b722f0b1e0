// SPDX-License-Identifier: Apache-2.0
#include <sluice/chain/tuning/step_kernels.h>

#include <sluice/host/planner/dense/tuned_choice.h>
#include <sluice/host/planner/packed/packed_cost_model.h>
#include <sluice/packed.h>
#include <sluice/spec/smem_room.h>
#include <sluice/try.h>

namespace sluice::tuning {
namespace {

constexpr size_t kFirstKernels = 20;      // from the top of the planner's ranking, of any kind
constexpr size_t kLeastOfKind = 6;        // kernels of each kind, however far down they rank
constexpr int kDeepRingBytes = 60 << 10;  // least bytes of codes in a CTA's rings
constexpr int kHalfOfRegisters = kSchedulersOfSm * kRegistersOfScheduler / 2;  // half an SM's registers

/// Whether two plans differ only in the CTAs promised an SM. Most such pairs are one kernel twice.
bool same_but_for_ctas(const packed::Plan& x, const packed::Plan& y) {
  const auto* first = std::get_if<NarrowConfig>(&x.config);
  const auto* second = std::get_if<NarrowConfig>(&y.config);
  if (first == nullptr || second == nullptr) return false;
  NarrowConfig other = *second;
  other.ctas = first->ctas;
  return *first == other;
}
bool same_but_for_ctas(const Plan&, const Plan&) {
  return false;
}

/// True unless the plan has two kernels. A chain uses such plans only if a caller asks for one
/// (sluice/chain.h).
bool fits_a_chain(const Plan& plan) {
  return plan.config.combine != Combine::separate;
}
bool fits_a_chain(const packed::Plan&) {
  return true;
}

template <class ItsPlan>
StepKernels some_of_each_kind(const std::vector<ItsPlan>& ranked) {
  StepKernels kernels;
  std::map<KernelKind, size_t> taken;
  const ItsPlan* before = nullptr;
  for (const ItsPlan& plan : ranked) {
    if (!fits_a_chain(plan)) continue;
    const bool again = before != nullptr && same_but_for_ctas(plan, *before);
    before = &plan;
    if (again) continue;
    size_t& of_kind = taken[kind_of(plan)];
    if (kernels.all.size() >= kFirstKernels && of_kind >= kLeastOfKind) continue;
    if (of_kind++ == 0) kernels.of_kinds[kind_of(plan)] = choice_of(plan);
    kernels.all.push_back(choice_of(plan));
  }
  return kernels;
}

}  // namespace

KernelKind kind_of(const Plan& plan) {
  if (!is_plain(plan.config.schedule)) return KernelKind::roles;
  if (plan.config.schedule == Schedule::plain) return KernelKind::plain;
  return plan.smem_bytes <= kBesideAlone ? KernelKind::halves : KernelKind::wholes;
}

KernelKind kind_of(const packed::Plan& plan) {
  const auto* narrow = std::get_if<NarrowConfig>(&plan.config);
  const auto* strip = std::get_if<StripConfig>(&plan.config);
  const bool few_registers =
      narrow != nullptr ? threads_of(*narrow) * packed::estimate_registers(*narrow) <= kHalfOfRegisters
                        : strip == nullptr || math_groups(*strip) <= 2;
  const bool half = plan.smem_bytes <= kBesideAlone && few_registers;
  if (narrow != nullptr && narrow->warps * (narrow->stages - 1) * stage_code_bytes(*narrow) >= kDeepRingBytes)
    return half ? KernelKind::deep_halves : KernelKind::deep;
  return half ? KernelKind::halves : KernelKind::wholes;
}

Result<StepKernels> kernels_of(const ChainStep& step, const DeviceInfo& device) {
  if (const auto* dense = std::get_if<ProductStep>(&step.work)) {
    SLUICE_TAKE(const std::vector<Plan> ranked, gemm::candidates(dense->problem, device));
    return some_of_each_kind(ranked);
  }
  if (const auto* packed = std::get_if<PackedStep>(&step.work)) {
    SLUICE_TAKE(const std::vector<packed::Plan> ranked, packed::candidates(packed->problem, device));
    return some_of_each_kind(ranked);
  }
  return StepKernels{};
}

}  // namespace sluice::tuning
