// SPDX-License-Identifier: Apache-2.0
// See handles.h.
#include <sluice/c_api/handles.h>

#include <sluice/plan/text/field_text.h>
#include <sluice/plan/text/lines.h>
#include <sluice/run/ops/gemm.h>
#include <sluice/try.h>

namespace sluice::c_api {

namespace {

std::string text_of_target(const Target& target) {
  return (target.stands_in ? describe_stand_in(target.info) : "") +
         gpu_line(target.info.name, target.info.sm_count);
}

}  // namespace

Result<Target> target_of(const sluice_device* device, const char* gpu) {
  if (device == nullptr && gpu == nullptr) {
    const Result<sluice_device*> first = default_device(0);
    if (first) return target_of(*first, nullptr);
    const ErrorCode code = first.error().code;
    if (code != ErrorCode::driver && code != ErrorCode::unsupported_arch) return first.error();
  }
  if (device != nullptr)
    return Target{.info = device->session.device().info(), .records = device->session.device().records()};
  Target target{.records = open_records(options_from_environment()), .stands_in = gpu == nullptr};
  if (gpu == nullptr) return target;
  SLUICE_TAKE(target.info, gpu_named(gpu));
  return target;
}

std::unique_ptr<sluice_plan> handle_of(const Plan& plan, const Target& target) {
  return std::unique_ptr<sluice_plan>(new sluice_plan{plan, describe(plan) + text_of_target(target),
                                                      to_string(plan.config), gemm::units_of(plan)});
}

Result<Plan> plan(const Problem& problem, const Target& target, const char* choices) {
  SLUICE_TAKE(const PlanOverrides overrides, from_text<PlanOverrides>(choices != nullptr ? choices : ""));
  return gemm::plan(problem, target.info, overrides, target.records);
}

}  // namespace sluice::c_api
