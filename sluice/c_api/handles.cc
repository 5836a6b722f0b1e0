// SPDX-License-Identifier: Apache-2.0
// See handles.h.
#include <sluice/c_api/handles.h>

#include <sluice/host/ops/gemm.h>
#include <sluice/host/text/field_text.h>
#include <sluice/host/text/lines.h>
#include <sluice/host/text/packed_units.h>
#include <sluice/try.h>

namespace sluice::c_api {

std::unique_ptr<sluice_plan> handle_of(const Plan& plan, const DeviceInfo& device) {
  return std::unique_ptr<sluice_plan>(
      new sluice_plan{plan, describe(plan) + gpu_line(device.name, device.sm_count), to_string(plan.config),
                      gemm::units_of(plan, Stamping::off)});
}
std::unique_ptr<sluice_plan> handle_of(const packed::Plan& plan, const DeviceInfo& device) {
  return std::unique_ptr<sluice_plan>(
      new sluice_plan{plan, packed::describe(plan) + gpu_line(device.name, device.sm_count),
                      to_string(plan.config), packed::units_of(plan)});
}

Planner::Planner(const sluice_device* device)
    : info_(device != nullptr ? &device->session.device().info() : &h200_),
      records_(device != nullptr ? &device->session.device().records() : &shipped_records()) {}

Result<Plan> Planner::plan(const Problem& problem, const char* choices) const {
  SLUICE_TAKE(const PlanOverrides overrides, from_text<PlanOverrides>(choices != nullptr ? choices : ""));
  return gemm::plan(problem, *info_, overrides, *records_);
}
Result<packed::Plan> Planner::plan(const PackedProblem& problem, const char* choices) const {
  SLUICE_TAKE(const packed::Overrides overrides,
              from_text<packed::Overrides>(choices != nullptr ? choices : ""));
  return packed::plan(problem, *info_, overrides, *records_);
}

}  // namespace sluice::c_api
