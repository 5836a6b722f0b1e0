// SPDX-License-Identifier: Apache-2.0
// prepare of a range of m, and what run() asks of it. Dense and packed products differ in the table of the
// device that knows their ranges.
#include <sluice/rows.h>

#include <type_traits>

#include <sluice/host/device/device_impl.h>
#include <sluice/host/device/locate.h>
#include <sluice/host/ops/prepared_rows.h>
#include <sluice/host/ops/problem_key.h>

namespace sluice {
namespace {

PreparedGemmRows& ranges_of(const Device& device, const Problem&) {
  return device.impl().gemm_rows;
}
PreparedPackedRows& ranges_of(const Device& device, const PackedProblem&) {
  return device.impl().packed_rows;
}

/// Of all its m but one, whose scales may be spelled otherwise.
template <class P>
P range_form(P problem) {
  problem.m = 2;
  return row_forms(problem).front();
}

/// `plan_all` makes the table, `prepare_all` a kernel of each of its plans.
template <class P, class Planner, class Prepare>
Result<RowSummary> prepare_range(const Device& device, const P& problem, const Planner& plan_all,
                                 const Prepare& prepare_all) {
  auto table = plan_all();
  if (!table) return table.error();
  auto made = prepare_all(table->kernels);
  typename std::remove_reference_t<decltype(ranges_of(device, problem))>::Served served{*std::move(table)};
  for (auto& kernel : made) {
    if (!kernel) return kernel.error();
    served.kernels.push_back(*std::move(kernel));
  }
  const RowSummary summary = served.table.summary;
  ranges_of(device, problem).add(range_form(problem), std::move(served));
  return summary;
}

/// `prepare_one` plans from a table and makes the kernel.
template <class Kernel, class P, class Prepare>
std::optional<Kernel> find_kernel(const Device& device, const P& problem, const Prepare& prepare_one) {
  for (const P& form : row_forms(problem))
    if (const auto served = ranges_of(device, problem).find(form, problem.m))
      if (Result<Kernel> kernel = prepare_one(served->table)) return *std::move(kernel);
  return std::nullopt;
}

}  // namespace

namespace gemm {

Result<RowSummary> prepare(const Device& device, const Problem& problem, RowRange rows,
                           const Progress& progress) {
  if (const auto known = device.impl().gemm_rows.find(range_form(problem), rows)) return known->table.summary;
  const auto plan_all = [&]() -> Result<RowTable> {
    Result<RowTable> table = plan_rows(problem, rows, device.info(), device.records());
    if (!table || !table->numbers_by_gpc) return table;
    const auto order = gpc_order(device);  // no call inside the range shall have to ask
    if (!order) return order.error();
    return table;
  };
  return prepare_range(device, problem, plan_all,
                       [&](const std::vector<Plan>& plans) { return prepare(device, plans, progress); });
}

std::optional<Kernel> kernel_of_rows(const Device& device, const Problem& problem) {
  return find_kernel<Kernel>(device, problem, [&](const RowTable& table) -> Result<Kernel> {
    const Result<Plan> planned = plan(table, problem.m, device.info());
    if (!planned) return planned.error();
    return prepare(device, *planned);
  });
}

}  // namespace gemm

namespace packed {

Result<RowSummary> prepare(const Device& device, const PackedProblem& problem, RowRange rows,
                           const gemm::Progress& progress) {
  if (const auto known = device.impl().packed_rows.find(range_form(problem), rows))
    return known->table.summary;
  return prepare_range(
      device, problem, [&] { return plan_rows(problem, rows, device.info(), device.records()); },
      [&](const std::vector<Plan>& plans) { return prepare(device, plans, progress); });
}

std::optional<Kernel> kernel_of_rows(const Device& device, const PackedProblem& problem) {
  return find_kernel<Kernel>(device, problem, [&](const RowTable& table) -> Result<Kernel> {
    const Result<Plan> planned = plan(table, problem.m, device.info());
    if (!planned) return planned.error();
    return prepare(device, *planned);
  });
}

}  // namespace packed
}  // namespace sluice
