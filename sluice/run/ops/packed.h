// SPDX-License-Identifier: Apache-2.0
// The parts of the product (gemm.h) that differ with packed weights: the operand table, the parameters of the
// three kernels, and their launches.
#pragma once

#include <variant>

#include <sluice/gemm.h>
#include <sluice/plan/packed/packed_problem_checks.h>
#include <sluice/run/driver/launch.h>
#include <sluice/run/ops/engine.h>
#include <sluice/spec/packed_config.h>

namespace sluice::packed {

/// The launch parameters, by kernel. Complete except for pointers (also those in tensor maps) and fields that
/// depend on their alignment. In the narrow kernel's, m is missing too.
using Params = std::variant<NarrowParams, WideParams, StripParams>;

/// See gemm::operands_of(). The table has the order of gemm::Index.
Result<Operands> operands_of(const Problem& problem);
/// Checks alpha, beta and epsilon. Error invalid_argument.
Result<void> check_scalars(const Problem& problem, const gemm::Args& args);

/// Fills in the launch shape and the parameters. The narrow kernel's shape is that of a launch with as many
/// tokens as one grid can hold. Errors: those of encode_tensor_map.
Result<void> load(const ops::Units& units, const Plan& plan, Params& params, LaunchShape& shape);

struct LoadedKernel {
  const DriverApi& api;
  CUfunction function;
  const Plan& plan;
  const LaunchShape& shape;
};
/// Enqueues the launches with a copy of the parameters. The arguments are already checked.
Result<void> enqueue(const LoadedKernel& kernel, const Params& params, const gemm::Args& args, Stream stream);

/// Returns how many kernels enqueue() launches: more than one only for the narrow kernel, if the tokens do
/// not fit in one grid.
int launches_of(const Plan& plan);

}  // namespace sluice::packed
