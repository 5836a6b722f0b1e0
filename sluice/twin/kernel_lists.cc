// SPDX-License-Identifier: Apache-2.0
// Event lists of kernels that the twin does not record, written by hand from their source. Each function
// names the file; a change that moves a wait, a trigger or an access there changes the list here.
// tools/check_launch_lists.py compares the "Steps of" lines with the source, so that a moved wait or trigger
// is found; a moved access shows on a GPU only. Events behind the wait stand in source order, which nothing
// depends on. See launch_lists.h.
#include <sluice/twin/launch_lists.h>

namespace sluice::twin {
namespace {

using Events = std::vector<OperandEvent>;

constexpr OperandEvent kWait{EventKind::wait}, kTrigger{EventKind::trigger};
constexpr OperandEvent reads(Operand operand) {
  return {EventKind::read, operand};
}
constexpr OperandEvent writes(Operand operand) {
  return {EventKind::write, operand};
}
Events when(bool condition, OperandEvent event) {
  return condition ? Events{event} : Events{};
}

Events join(std::initializer_list<Events> parts) {
  Events all;
  for (const Events& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// DependentLaunch (device/dependent_launch.cuh)
Events begin(Overlap o) {
  return when(o.trigger == Trigger::at_start, kTrigger);
}
Events wait(Overlap o) {
  return when(o.wait != Wait::none, kWait);
}
Events wait_for_weights(Overlap o) {
  return when(o.wait == Wait::first, kWait);
}
Events loaded(Overlap o) {
  return when(o.trigger == Trigger::after_loads, kTrigger);
}

KernelLists alike(Overlap overlap, const std::vector<AgentList>& cta) {
  return {{cta, cta}, overlap.wait != Wait::none};
}

}  // namespace

/// kernels/plain.cuh (both schedules) and kernels/narrow.cuh: every thread does the same; with weights_first
/// it asks for its first weights (gamma among them), waits, and asks for tokens. The thread that copies last
/// triggers; what it scales with and C come later.
/// Steps of kernels/plain.cuh: begin prefetch wait loaded hand_off.
/// Steps of kernels/narrow.cuh: begin prefetch wait loaded hand_off.
KernelLists plain_lists(Overlap o) {
  const Events weights{reads(Operand::weights)};
  const Events fill = o.wait == Wait::weights_first ? join({weights, wait(o)}) : join({wait(o), weights});
  const Events tokens{reads(Operand::tokens), reads(Operand::token_scales)};
  const Events end{reads(Operand::residual), writes(Operand::output)};
  return alike(o, {{"thread 0", join({begin(o), fill, tokens, loaded(o), end})},
                   {"other threads", join({begin(o), fill, tokens, end})}});
}

/// kernels/strip.cuh: a warp for tokens, one for weights, the rest multiply. Those read scales of rows and
/// the bias before they wait, also with Wait::first (StripFinish::fetch_vectors).
/// Steps of kernels/strip.cuh: prefetch wait loaded hand_off wait_for_weights begin wait.
KernelLists strip_lists(Overlap o) {
  return alike(o, {{"tokens", join({begin(o), wait(o), {reads(Operand::tokens)}, loaded(o)})},
                   {"weights", join({begin(o), wait_for_weights(o), {reads(Operand::weights)}})},
                   {"math", join({begin(o),
                                  {reads(Operand::weights)},
                                  wait(o),
                                  {reads(Operand::token_scales), writes(Operand::output)}})}});
}

/// kernels/wide.cuh: with Wait::first all threads wait before the first weights. WideFinish reads scales of
/// rows and the bias behind the wait.
/// Steps of kernels/wide.cuh: begin prefetch wait_for_weights wait loaded hand_off wait.
KernelLists wide_lists(Overlap o) {
  return alike(
      o,
      {{"tokens", join({begin(o), wait_for_weights(o), wait(o), {reads(Operand::tokens)}, loaded(o)})},
       {"weights", join({begin(o), wait_for_weights(o), {reads(Operand::weights)}})},
       {"math",
        join({begin(o), wait_for_weights(o), wait(o), {reads(Operand::weights), writes(Operand::output)}})}});
}

/// kernels/norm.cuh: gamma is read before the wait, whichever wait it is. The sum may stand where the input
/// or the residual was.
/// Steps of kernels/norm.cuh: trigger wait trigger.
/// Steps of kernels/norm_entry.cuh: trigger trigger wait wait.
KernelLists norm_lists(Overlap o) {
  return alike(o, {{"threads", join({begin(o),
                                     {reads(Operand::weights)},
                                     wait(o),
                                     {reads(Operand::tokens), reads(Operand::residual)},
                                     loaded(o),
                                     {reads(Operand::token_scales), writes(Operand::sum),
                                      writes(Operand::output_scales), writes(Operand::output)}})}});
}

/// kernels/quantize.cuh, every step but those of a scale over the whole matrix that is not given, which is
/// two launches and takes no part in chains.
/// Steps of kernels/quantize.cuh: trigger wait trigger.
/// Steps of kernels/quantize_entry.cuh: trigger trigger wait wait.
KernelLists quantize_lists(Overlap o) {
  return alike(
      o, {{"threads",
           join({begin(o),
                 wait(o),
                 {reads(Operand::tokens)},
                 loaded(o),
                 {reads(Operand::token_scales), writes(Operand::output_scales), writes(Operand::output)}})}});
}

/// kernels/sum_parts.cuh: always a dependent of the product whose parts it adds up, which triggers first
/// thing. A CTA whose tile has one peer alone leaves when it has waited; with stamps it counts itself out.
/// Steps of kernels/sum_parts.cuh: wait.
KernelLists sum_parts_lists() {
  const Events sums{kWait,
                    reads(Operand::slots),
                    writes(Operand::counters),
                    reads(Operand::token_scales),
                    reads(Operand::residual),
                    writes(Operand::output)};
  return {{{{"threads", sums}}, {{"threads without parts", {kWait, writes(Operand::counters)}}}}};
}

KernelLists foreign_lists(bool triggers) {
  const std::vector<AgentList> cta{
      {"threads", join({when(triggers, kTrigger), {reads(Operand::tokens), writes(Operand::output)}})}};
  return {{cta, cta}, false};
}

}  // namespace sluice::twin
