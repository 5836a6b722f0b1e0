// SPDX-License-Identifier: Apache-2.0
// What a prepared kernel holds: everything of a launch that does not depend on the arguments.
// Immutable, so any number of threads may launch it. Does not own the Device (its map of kernels may own this
// one), only the driver's context and the module.
#pragma once

#include <sluice/gemm.h>
#include <sluice/host/device_impl.h>
#include <sluice/host/driver/launch.h>
#include <sluice/host/gemm_checks.h>
#include <sluice/spec/params.h>

namespace sluice::gemm {

struct Kernel::Impl {
  Plan plan;
  std::shared_ptr<const PrimaryContext> primary;
  std::shared_ptr<const Module> module;  // null: D is empty and nothing is ever launched
  std::string built_by;
  ArgRules rules;
  LaunchShape shape;
  alignas(CUtensorMap) GemmParams params{};  // but for pointers, alpha and beta
};

/// The last step of prepare: a checked plan and its unit's cubin become a kernel.
Result<Kernel> make_kernel(const Device& device, const Plan& plan, const Cubin& cubin);

}  // namespace sluice::gemm
