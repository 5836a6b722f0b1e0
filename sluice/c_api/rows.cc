// SPDX-License-Identifier: Apache-2.0
// The C interface for ranges of m, the number of rows.
#include <sluice/c_rows.h>
#include <sluice/rows.h>

#include <memory>
#include <string>

#include <sluice/c_api/error.h>
#include <sluice/c_api/handles.h>

namespace sluice::c_api {
namespace {

static_assert(SLUICE_MOST_ROW_KERNELS == kMostRowKernels);

sluice_row_summary values_of(const RowSummary& s) {
  return {.kernels = s.kernels};
}

void hand_over(const gemm::RowTable& table, const Target& target, sluice_row_plans* found) {
  std::vector<std::unique_ptr<sluice_plan>>
      plans;  // all made before the first is handed over, because an allocation may fail
  const std::string text = describe(table, target.info);
  for (const auto& plan : table.kernels) {
    plans.push_back(handle_of(plan, target));
    plans.back()->rows_text = text;
  }
  *found = {};
  for (auto& plan : plans) found->plans[found->count++] = plan.release();
  found->summary = values_of(table.summary);
}

/// Calls `use(problem, range)` and returns its status. Fails for a null pointer, and for a convolution.
template <class Use>
sluice_status with_rows(const sluice_call* call, const sluice_row_range* rows, const Use& use) {
  if (rows == nullptr) return fail(null_argument("rows"));
  const Result<Problem> read = problem_of(call);
  if (!read) return fail(read.error());
  if (call->problem.conv.op != SLUICE_PRODUCT)
    return fail({ErrorCode::invalid_argument,
                 "conv.op = " + std::to_string(call->problem.conv.op) +
                     ": a convolution has no range of numbers of rows; call sluice_make_ready (prepare) for "
                     "each of its sizes"});
  return use(*read, RowRange{rows->low, rows->high});
}

sluice_status give_rows(const Result<Target>& target, const sluice_call* call, const sluice_row_range* rows,
                        sluice_row_plans* found) {
  return with_rows(call, rows, [&](const Problem& of, RowRange range) {
    if (found == nullptr) return fail(null_argument("found"));
    if (!target) return fail(target.error());
    const auto table = gemm::plan_rows(of, range, target->info, target->records);
    if (!table) return fail(table.error());
    hand_over(*table, *target, found);
    return SLUICE_OK;
  });
}

}  // namespace
}  // namespace sluice::c_api

using namespace sluice;
using namespace sluice::c_api;

extern "C" {

sluice_status sluice_plan_rows(const sluice_device* device, const sluice_call* call,
                               const sluice_row_range* rows, sluice_row_plans* found) {
  return guarded([&] { return give_rows(target_of(device, nullptr), call, rows, found); });
}

sluice_status sluice_plan_rows_for(const char* gpu, const sluice_call* call, const sluice_row_range* rows,
                                   sluice_row_plans* found) {
  return guarded([&] {
    if (gpu == nullptr) return fail(null_argument("gpu"));
    return give_rows(target_of(nullptr, gpu), call, rows, found);
  });
}

const char* sluice_plan_rows_text(const sluice_plan* plan) {
  return plan == nullptr ? "" : plan->rows_text.c_str();
}

sluice_status sluice_make_rows_ready(sluice_device* device, const sluice_call* call,
                                     const sluice_row_range* rows, sluice_row_summary* summary) {
  return guarded([&] {
    if (device == nullptr) return fail(null_argument("device"));
    return with_rows(call, rows, [&](const Problem& of, RowRange range) {
      const Result<RowSummary> ready = gemm::prepare(device->session.device(), of, range);
      if (!ready) return fail(ready.error());
      if (summary != nullptr) *summary = values_of(*ready);
      return SLUICE_OK;
    });
  });
}

}  // extern "C"
