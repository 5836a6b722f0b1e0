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

/// Makes a plan's handle. The plan's text names `device`, and its tuning records belong to that GPU.
std::unique_ptr<sluice_plan> handle_of(const Plan& plan, const DeviceInfo& device);
std::unique_ptr<sluice_plan> handle_of(const packed::Plan& plan, const DeviceInfo& device);
/// Gives the handle of the plan that `make` makes of a problem, dense or packed.
template <class Make>
sluice_status give_plan(const sluice_problem* problem, const DeviceInfo& device, sluice_plan** plan,
                        const Make& make) {
  if (problem == nullptr || plan == nullptr)
    return fail(null_argument(problem == nullptr ? "problem" : "plan"));
  const Result<AnyProblem> read = problem_of(*problem);
  if (!read) return fail(read.error());
  return std::visit(
      [&](const auto& of) {
        const auto made = make(of);
        if (!made) return fail(in_c_names(made.error()));
        *plan = handle_of(*made, device).release();
        return SLUICE_OK;
      },
      *read);
}

/// Plans with the facts and records of a device, or of an H200 if there is none.
class Planner {
 public:
  explicit Planner(const sluice_device* device);

  const DeviceInfo& info() const { return *info_; }
  const RecordBook& records() const { return *records_; }
  /// Plans a problem. Its errors are those of from_text and of the product's plan().
  Result<Plan> plan(const Problem& problem, const char* choices) const;
  Result<packed::Plan> plan(const PackedProblem& problem, const char* choices) const;

 private:
  DeviceInfo h200_;
  const DeviceInfo* info_;
  const RecordBook* records_;
};

}  // namespace sluice::c_api
