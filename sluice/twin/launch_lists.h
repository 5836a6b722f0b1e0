// SPDX-License-Identifier: Apache-2.0
// What each kernel does of which another launch may know, as lists of events for chain_model.h: where it
// triggers and waits, and what it reads and writes in between. The dense kernel's lists come from the
// recorded steps of kernels/gemm.cuh (launch_lists.cc); those of kernels that the twin does not record are
// written down by hand, kernel by kernel, in kernel_lists.cc.
#pragma once

#include <string>
#include <vector>

#include <sluice/twin/chain_model.h>
#include <sluice/twin/recording.h>

namespace sluice::twin {

/// What a kernel touches in global memory. weights: B, its scales, bias, gamma, a packed blob: what the
/// contract lets it read before it waits. counters: of the workspace, the owner stamp among them.
enum class Operand : u8 {
  tokens,         // A; the input of a norm or quantiser
  weights,        //
  token_scales,   // and scale_d, and a quantiser's given scale
  residual,       // C
  output,         // D
  output_scales,  // of a norm or quantiser
  sum,            // of a norm: the input and the residual
  slots,          //
  counters        //
};

struct OperandEvent {
  EventKind kind = EventKind::wait;
  Operand operand{};  // of reads and writes

  bool operator==(const OperandEvent&) const = default;
};
struct AgentList {
  std::string name;
  std::vector<OperandEvent> events;
};

/// [cta][agent]
struct KernelLists {
  std::vector<std::vector<AgentList>> ctas;
  bool dependent = true;  // its code has the wait, so that the host asks for a dependent launch
};

/// Of each agent's steps only what the rules can see: of accesses to one operand the first, as what is right
/// once stays right.
KernelLists gemm_lists(const Recording& recording);

// By hand (kernel_lists.cc). Each launch has two CTAs, which all these kernels treat alike.
KernelLists plain_lists(Overlap overlap);  // and plain_wgmma, and narrow
KernelLists strip_lists(Overlap overlap);
KernelLists wide_lists(Overlap overlap);
KernelLists norm_lists(Overlap overlap);
KernelLists quantize_lists(Overlap overlap);
KernelLists sum_parts_lists();
/// Of somebody else: reads tokens, writes its output, never waits.
KernelLists foreign_lists(bool triggers);

/// Which memory each operand is, by name; what a launch has no name for it does not touch.
struct LaunchArrays {
  std::string name;
  Edge edge = Edge::dependent;
  std::string tokens = "x", weights = "weights", token_scales = "scales", residual, output = "d",
              output_scales, sum, workspace = "workspace";
};
/// A launch that cannot be dependent is none: the edge is that of the stream.
ChainLaunch launch_of(const KernelLists& lists, const LaunchArrays& arrays);

}  // namespace sluice::twin
