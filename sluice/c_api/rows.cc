// SPDX-License-Identifier: Apache-2.0
// The C interface, ranges of numbers of rows: dense and packed products differ in who parses their problems
// and who keeps their kernels.
#include <sluice/rows.h>

#include <memory>

#include <sluice/c_api/arrays.h>
#include <sluice/c_api/error.h>
#include <sluice/c_api/handles.h>
#include <sluice/c_api/packed.h>
#include <sluice/host/ops/gemm.h>
#include <sluice/host/text/packed_units.h>

namespace sluice::c_api {
namespace {

static_assert(SLUICE_MOST_ROW_KERNELS == kMostRowKernels);

sluice_row_summary values_of(const RowSummary& s) {
  return {.kernels = s.kernels,
          .numbers = s.numbers,
          .unbounded = s.unbounded,
          .mean_loss = s.mean_loss,
          .worst_loss = s.worst_loss,
          .worst_m = s.worst_m};
}

std::unique_ptr<sluice_plan> handle_of(const Plan& plan) {
  return std::unique_ptr<sluice_plan>(
      new sluice_plan{plan, describe(plan), to_string(plan.config), gemm::units_of(plan, Stamping::off)});
}
std::unique_ptr<sluice_plan> handle_of(const packed::Plan& plan) {
  return std::unique_ptr<sluice_plan>(
      new sluice_plan{plan, packed::describe(plan), to_string(plan.config), packed::units_of(plan)});
}

const char* first_null(const void* problem, const sluice_row_range* rows) {
  return problem == nullptr ? "problem" : rows == nullptr ? "rows" : nullptr;
}

/// `choose`: the table of a problem, for a device and its records.
template <class CProblem, class Choose>
sluice_status find_plans(const sluice_device* device, const CProblem* problem, const Choose& choose,
                         sluice_row_plans* found) {
  const auto checked = problem_of(*problem);
  if (!checked) return fail(checked.error());
  const DeviceInfo h200;
  const auto table = choose(*checked, device != nullptr ? device->session.device().info() : h200,
                            device != nullptr ? device->session.device().records() : shipped_records());
  if (!table) return fail(table.error());
  std::vector<std::unique_ptr<sluice_plan>> plans;  // before any is handed over: one may not find memory
  for (const auto& plan : table->kernels) plans.push_back(handle_of(plan));
  *found = {};
  for (auto& plan : plans) found->plans[found->count++] = plan.release();
  found->summary = values_of(table->summary);
  return SLUICE_OK;
}

template <class CProblem, class Prepare>
sluice_status make_ready(const CProblem* problem, sluice_row_summary* summary, const Prepare& prepare) {
  const auto checked = problem_of(*problem);
  if (!checked) return fail(checked.error());
  const Result<RowSummary> ready = prepare(*checked);
  if (!ready) return fail(ready.error());
  if (summary != nullptr) *summary = values_of(*ready);
  return SLUICE_OK;
}

}  // namespace
}  // namespace sluice::c_api

using namespace sluice;
using namespace sluice::c_api;

extern "C" {

sluice_status sluice_plan_rows(const sluice_device* device, const sluice_problem* problem,
                               const sluice_row_range* rows, sluice_row_plans* found) {
  return guarded([&] {
    if (const char* null = first_null(problem, rows)) return fail(null_argument(null));
    if (found == nullptr) return fail(null_argument("found"));
    const auto choose = [&](const Problem& p, const DeviceInfo& info, const RecordBook& records) {
      return gemm::plan_rows(p, {rows->low, rows->high}, info, records);
    };
    return find_plans(device, problem, choose, found);
  });
}

sluice_status sluice_packed_plan_rows(const sluice_device* device, const sluice_packed_problem* problem,
                                      const sluice_row_range* rows, sluice_row_plans* found) {
  return guarded([&] {
    if (const char* null = first_null(problem, rows)) return fail(null_argument(null));
    if (found == nullptr) return fail(null_argument("found"));
    const auto choose = [&](const PackedProblem& p, const DeviceInfo& info, const RecordBook& records) {
      return packed::plan_rows(p, {rows->low, rows->high}, info, records);
    };
    return find_plans(device, problem, choose, found);
  });
}

sluice_status sluice_make_rows_ready(sluice_device* device, const sluice_problem* problem,
                                     const sluice_row_range* rows, sluice_row_summary* summary) {
  return guarded([&] {
    if (device == nullptr) return fail(null_argument("device"));
    if (const char* null = first_null(problem, rows)) return fail(null_argument(null));
    return make_ready(problem, summary, [&](const Problem& p) {
      return device->session.make_ready(p, {rows->low, rows->high});
    });
  });
}

sluice_status sluice_packed_make_rows_ready(sluice_device* device, const sluice_packed_problem* problem,
                                            const sluice_row_range* rows, sluice_row_summary* summary) {
  return guarded([&] {
    if (device == nullptr) return fail(null_argument("device"));
    if (const char* null = first_null(problem, rows)) return fail(null_argument(null));
    return make_ready(problem, summary, [&](const PackedProblem& p) {
      return device->session.make_ready(p, {rows->low, rows->high});
    });
  });
}

}  // extern "C"
