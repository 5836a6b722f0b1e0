// SPDX-License-Identifier: Apache-2.0
// The structs behind the opaque handles of c_api.h.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <sluice/c_api/error.h>
#include <sluice/c_api/session.h>
#include <sluice/c_api/values.h>

struct sluice_device {
  sluice::c_api::Session session;
  std::string name;
};

struct sluice_plan {
  std::variant<sluice::Plan, sluice::packed::Plan> plan;
  std::string text, config;
  std::vector<std::string> units;  // none: there is nothing to launch
  std::string rows_text{};         // the range's lines, if the plan is one of a range
};

struct sluice_kernel {
  std::variant<sluice::gemm::Kernel, sluice::packed::Kernel> kernel;
};

struct sluice_workspace {
  sluice::Workspace workspace;
};

namespace sluice::c_api {

/// Returns the process's device of a GPU, opened by the first call with the environment's options.
Result<sluice_device*> default_device(int ordinal);

/// The GPU that plans are for, and its records.
struct Target {
  DeviceInfo info{};  // an H200
  RecordBook records{};
  bool stands_in = false;  // for a GPU that was neither found nor named
};
/// Returns the target of a device. Without one it is the GPU called `gpu`; without that the first GPU of the
/// machine, or an H200 if there is none. Errors: invalid_argument for an unknown name; those of Device::open,
/// except that there is no usable GPU.
Result<Target> target_of(const sluice_device* device, const char* gpu);

/// Makes a plan's handle. The plan's text names the target.
std::unique_ptr<sluice_plan> handle_of(const Plan& plan, const Target& target);
std::unique_ptr<sluice_plan> handle_of(const packed::Plan& plan, const Target& target);
/// Gives the handle of the plan that `make` makes of a problem, dense or packed.
template <class Make>
sluice_status give_plan(const sluice_problem* problem, const Target& target, sluice_plan** plan,
                        const Make& make) {
  if (problem == nullptr || plan == nullptr)
    return fail(null_argument(problem == nullptr ? "problem" : "plan"));
  const Result<AnyProblem> read = problem_of(*problem);
  if (!read) return fail(read.error());
  return std::visit(
      [&](const auto& of) {
        const auto made = make(of);
        if (!made) return fail(in_c_names(made.error()));
        *plan = handle_of(*made, target).release();
        return SLUICE_OK;
      },
      *read);
}

/// Plans a problem. Its errors are those of from_text and of the product's plan().
Result<Plan> plan(const Problem& problem, const Target& target, const char* choices);
Result<packed::Plan> plan(const PackedProblem& problem, const Target& target, const char* choices);

}  // namespace sluice::c_api
