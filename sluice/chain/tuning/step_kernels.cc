// SPDX-License-Identifier: Apache-2.0
#include <sluice/chain/tuning/step_kernels.h>

#include <sluice/host/planner/dense/tuned_choice.h>
#include <sluice/host/planner/packed/packed_cost_model.h>
#include <sluice/spec/smem_room.h>
#include <sluice/try.h>

namespace sluice::tuning {
namespace {

constexpr size_t kFirstKernels = 20;      // from the top of the planner's ranking, of any kind
constexpr size_t kLeastOfKind = 6;        // kernels of each kind, however far down they rank
constexpr int kDeepRingBytes = 60 << 10;  // least bytes of codes in a CTA's rings
constexpr int kHalfOfRegisters = kSchedulersOfSm * kRegistersOfScheduler / 2;  // half an SM's registers

/// Whether two plans differ only in the CTAs promised an SM. Most such pairs are one kernel twice.
bool same_but_for_ctas(const Plan& x, const Plan& y) {
  KernelConfig other = y.config;
  other.ctas = x.config.ctas;
  return x.config.schedule == Schedule::narrow && x.config == other;
}

/// True unless the plan has two kernels. A chain uses such plans only if a caller asks for one
/// (sluice/chain.h).
bool fits_a_chain(const Plan& plan) {
  return plan.config.combine != Combine::separate;
}

KernelKind kind_of(const Plan& plan, const NarrowConfig& c) {
  const bool few_registers = threads_of(c) * packed::estimate_registers(c) <= kHalfOfRegisters;
  const bool half = plan.smem_bytes <= kBesideAlone && few_registers;
  if (c.warps * (c.stages - 1) * stage_code_bytes(c) >= kDeepRingBytes)
    return half ? KernelKind::deep_halves : KernelKind::deep;
  return half ? KernelKind::halves : KernelKind::wholes;
}

}  // namespace

KernelKind kind_of(const Plan& plan) {
  const KernelConfig& c = plan.config;
  const bool half = plan.smem_bytes <= kBesideAlone;
  switch (c.schedule) {
    case Schedule::ping_pong:
    case Schedule::cooperative: return KernelKind::roles;
    case Schedule::plain: return KernelKind::plain;
    case Schedule::narrow: return kind_of(plan, narrow_of(c));
    case Schedule::strip:
      return half && math_groups(strip_of(c)) <= 2 ? KernelKind::halves : KernelKind::wholes;
    case Schedule::plain_wgmma:
    case Schedule::wide: return half ? KernelKind::halves : KernelKind::wholes;
  }
  return KernelKind::wholes;
}

Result<StepKernels> kernels_of(const ChainStep& step, const DeviceInfo& device) {
  StepKernels kernels;
  const auto* product = std::get_if<ProductStep>(&step.work);
  if (product == nullptr) return kernels;
  SLUICE_TAKE(const std::vector<Plan> ranked, gemm::candidates(product->problem, device));
  std::map<KernelKind, size_t> taken;
  const Plan* before = nullptr;
  for (const Plan& plan : ranked) {
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

}  // namespace sluice::tuning
