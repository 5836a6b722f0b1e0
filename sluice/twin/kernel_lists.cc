// SPDX-License-Identifier: Apache-2.0
// Event lists of kernels that the twin does not record, written by hand from their source. Each function
// names its kernel's file. Whoever moves a wait, a trigger or an access there must change the list here.
// tools/check_launch_lists.py compares the "Steps of" lines with the source, so it finds a moved wait or
// trigger. A moved access is found only on a GPU. Events after the wait are in source order, but their order
// is irrelevant. See launch_lists.h.
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

/// kernels/plain.cuh (both schedules) and kernels/narrow.cuh: all threads execute the same steps. With
/// weights_first a thread issues the loads of its first weights (and gamma), waits, and issues the loads of
/// tokens. The thread that copies last triggers. Scales and C are read after that.
/// Steps of kernels/plain.cuh: begin wait fill loaded hand_off.
/// Steps of kernels/narrow.cuh: fill loaded hand_off begin wait.
/// Their wait in front of the table of groups comes before all else, as that of fill with Wait::first does.
KernelLists plain_lists(Overlap o) {
  const Events weights{reads(Operand::weights)};
  const Events fill = o.wait == Wait::weights_first ? join({weights, wait(o)}) : join({wait(o), weights});
  const Events tokens{reads(Operand::tokens), reads(Operand::token_scales)};
  const Events end{reads(Operand::residual), writes(Operand::output)};
  return alike(o, {{"thread 0", join({begin(o), fill, tokens, loaded(o), end})},
                   {"other threads", join({begin(o), fill, tokens, end})}});
}

/// kernels/strip.cuh: one warp loads tokens, one loads weights, the others multiply. The latter read row
/// scales and the bias before they wait, even with Wait::first (StripFinish::fetch_vectors).
/// Steps of kernels/strip.cuh: prefetch wait loaded hand_off wait_for_weights begin wait.
KernelLists strip_lists(Overlap o) {
  return alike(o, {{"tokens", join({begin(o), wait(o), {reads(Operand::tokens)}, loaded(o)})},
                   {"weights", join({begin(o), wait_for_weights(o), {reads(Operand::weights)}})},
                   {"math", join({begin(o),
                                  {reads(Operand::weights)},
                                  wait(o),
                                  {reads(Operand::token_scales), writes(Operand::output)}})}});
}

/// kernels/wide.cuh: with Wait::first all threads wait before they load weights. WideFinish reads row
/// scales and the bias after the wait.
/// Steps of kernels/wide.cuh: begin prefetch wait_for_weights wait loaded hand_off wait.
KernelLists wide_lists(Overlap o) {
  return alike(
      o,
      {{"tokens", join({begin(o), wait_for_weights(o), wait(o), {reads(Operand::tokens)}, loaded(o)})},
       {"weights", join({begin(o), wait_for_weights(o), {reads(Operand::weights)}})},
       {"math",
        join({begin(o), wait_for_weights(o), wait(o), {reads(Operand::weights), writes(Operand::output)}})}});
}

/// kernels/norm.cuh: gamma is read before the wait, with every kind of wait. The sum may overwrite the
/// input or the residual.
/// Steps of kernels/norm.cuh: trigger wait trigger.
/// Steps of device/launch_steps.cuh: trigger trigger wait wait.
KernelLists norm_lists(Overlap o) {
  return alike(o, {{"threads", join({begin(o),
                                     {reads(Operand::weights)},
                                     wait(o),
                                     {reads(Operand::tokens), reads(Operand::residual)},
                                     loaded(o),
                                     {reads(Operand::token_scales), writes(Operand::sum),
                                      writes(Operand::output_scales), writes(Operand::output)}})}});
}

/// kernels/quantize.cuh, except quantisation with a per-tensor scale that must be computed first: that
/// takes two launches and is not a step of chains. The table of gathered rows is read with the tokens.
/// Steps of kernels/quantize.cuh: trigger wait trigger.
KernelLists quantize_lists(Overlap o) {
  return alike(
      o, {{"threads",
           join({begin(o),
                 wait(o),
                 {reads(Operand::tokens)},
                 loaded(o),
                 {reads(Operand::token_scales), writes(Operand::output_scales), writes(Operand::output)}})}});
}

/// kernels/route.cuh: ids are the tokens. Each CTA writes its part of all three tables; the first one writes
/// ends.
/// Steps of kernels/route.cuh: trigger trigger wait.
KernelLists route_lists(Overlap o) {
  return alike(
      o,
      {{"threads", join({begin(o),
                         wait(o),
                         {reads(Operand::tokens)},
                         loaded(o),
                         {writes(Operand::sum), writes(Operand::output_scales), writes(Operand::output)}})}});
}

/// kernels/combine.cuh: y is the tokens; rows of slots and weights are read with them.
/// Steps of kernels/combine.cuh: trigger trigger wait.
KernelLists combine_lists(Overlap o) {
  return alike(
      o, {{"threads", join({begin(o),
                            wait(o),
                            {reads(Operand::residual), reads(Operand::token_scales), reads(Operand::tokens)},
                            loaded(o),
                            {writes(Operand::output)}})}});
}

/// kernels/sum_parts.cuh: always a dependent launch of the product whose split-K slices it adds. That
/// product triggers at its start.
/// Steps of kernels/sum_parts.cuh: wait.
KernelLists sum_parts_lists() {
  const Events sums{kWait, reads(Operand::slots), reads(Operand::token_scales), reads(Operand::residual),
                    writes(Operand::output)};
  const std::vector<AgentList> cta{{"threads", sums}};
  return {{cta, cta}};
}

KernelLists gap_lists() {
  const std::vector<AgentList> cta{
      {"threads", {kTrigger, kWait, reads(Operand::tokens), writes(Operand::output)}}};
  return {{cta, cta}};
}

KernelLists foreign_lists(bool triggers) {
  const std::vector<AgentList> cta{
      {"threads", join({when(triggers, kTrigger), {reads(Operand::tokens), writes(Operand::output)}})}};
  return {{cta, cta}, false};
}

}  // namespace sluice::twin
