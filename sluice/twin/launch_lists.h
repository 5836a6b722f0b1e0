// SPDX-License-Identifier: Apache-2.0
// Events of each kernel that another launch may observe, as lists for chain_model.h: triggers, waits, reads
// and writes. The dense kernel's lists come from the recorded steps of kernels/gemm.cuh (launch_lists.cc).
// The lists of kernels that the twin does not record are written by hand in kernel_lists.cc.
#pragma once

#include <string>
#include <vector>

#include <sluice/twin/chain_model.h>
#include <sluice/twin/recording.h>

namespace sluice::twin {

/// Global memory that a kernel accesses. weights: B, its scales, bias, gamma, a packed blob; the contract
/// lets a kernel read these before it waits. slots, counters: those of the workspace.
enum class Operand : u8 {
  tokens,         // A; the input of a norm or quantiser
  weights,        //
  token_scales,   // scale_d too, a quantiser's given scale, tables of rows, weights of experts
  table,          // groups of a product
  residual,       // C; the `shared` of a sum of experts
  output,         // D
  output_scales,  // scales of a norm or quantiser; row_of_slot of a sort
  sum,            // sum of a norm: the input plus the residual; ends of a sort
  slots,          //
  counters        //
};

struct OperandEvent {
  EventKind kind = EventKind::wait;
  Operand operand{};  // for reads and writes

  bool operator==(const OperandEvent&) const = default;
};
struct AgentList {
  std::string name;
  std::vector<OperandEvent> events;
};

/// Event lists by CTA and agent.
struct KernelLists {
  std::vector<std::vector<AgentList>> ctas;
  bool dependent = true;  // its code has the PDL wait, so the host makes it a dependent launch
};

/// Returns the recording's steps that matter to the rules. Of each agent's accesses to an operand it keeps
/// only the first, because a rule that holds for it holds for later ones.
KernelLists gemm_lists(const Recording& recording);

// Lists written by hand (kernel_lists.cc). Each launch has two CTAs, which execute the same steps.
KernelLists plain_lists(Overlap overlap);  // plain, plain_wgmma and narrow
KernelLists strip_lists(Overlap overlap);
KernelLists wide_lists(Overlap overlap);
KernelLists norm_lists(Overlap overlap);
KernelLists quantize_lists(Overlap overlap);
KernelLists route_lists(Overlap overlap);
KernelLists combine_lists(Overlap overlap);
KernelLists sum_parts_lists();
/// Returns the lists of a foreign kernel (not sluice's): it reads tokens, writes its output and never waits.
KernelLists foreign_lists(bool triggers);
/// Returns the lists of a gap's kernel that keeps both promises (ForeignStep): it triggers, waits, reads
/// tokens and writes its output.
KernelLists gap_lists();

/// The name of the memory behind each operand; operands without a name are not accessed.
struct LaunchArrays {
  std::string name;
  Edge edge = Edge::dependent;
  std::string tokens = "x", weights = "weights", token_scales = "scales", table, residual, output = "d",
              output_scales, sum, workspace = "workspace";
};
/// Makes a launch for explore_chain(). A launch that cannot be dependent gets Edge::stream.
ChainLaunch launch_of(const KernelLists& lists, const LaunchArrays& arrays);

}  // namespace sluice::twin
