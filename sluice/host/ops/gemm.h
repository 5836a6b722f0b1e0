// SPDX-License-Identifier: Apache-2.0
// What a prepared kernel holds: everything of a launch that does not depend on the arguments.
// Immutable, so any number of threads may launch it. Does not own the Device (its map of kernels may own this
// one), only the driver's context and the module.
#pragma once

#include <sluice/gemm.h>
#include <sluice/host/device/device_impl.h>
#include <sluice/host/driver/launch.h>
#include <sluice/host/jit/source.h>
#include <sluice/host/ops/gemm_checks.h>
#include <sluice/spec/params.h>

namespace sluice::gemm {

struct Kernel::Impl {
  Plan plan;
  std::shared_ptr<const PrimaryContext> primary;
  std::shared_ptr<const Module> module;  // null: D is empty and nothing is ever launched
  std::string built_by;
  ArgRules rules;
  LaunchShape shape;
  // Of the kernel that adds up the parts, with Combine::separate.
  std::shared_ptr<const Module> sum_module;
  LaunchShape sum_shape;
  bool has_tail_a = false, has_tail_b = false;  // of the product that the kernel multiplies
  alignas(CUtensorMap) GemmParams params{};     // but for pointers, alpha and beta
};

/// What has to be compiled for a launch of the plan; nothing if D is empty.
std::vector<std::string> units_of(const Plan& plan, Stamping stamping);

/// A plan's units, and the cubin of each or why it could not be had.
struct Units {
  std::span<const std::string> texts;
  std::span<const Result<std::shared_ptr<const Cubin>>> cubins;
};

/// The last step of prepare: a checked plan and its units' cubins become a kernel.
Result<Kernel> make_kernel(const Device& device, const Plan& plan, const Units& units);

}  // namespace sluice::gemm
