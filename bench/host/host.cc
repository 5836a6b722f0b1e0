// SPDX-License-Identifier: Apache-2.0
// Implements sluice/bench/host.h: limits of size, the twin, and the packed reference.
#include <sluice/bench/host.h>

#include <fmt/format.h>

#include <chrono>

#include <sluice/messages/errors.h>
#include <sluice/try.h>

#include "bench/conv.h"
#include "bench/host/host_problem.h"
#include "bench/host/packed_host.h"
#include "bench/shapes.h"

namespace sluice::bench {
namespace {

/// Two minutes of twin and reference on one core; 8192^3 would take most of a day.
constexpr double kMaxHostProducts = 1e9;
// Seconds per multiply-add of twin and of packed reference, comparison included.
constexpr double kTwinSeconds = 1.1e-7, kPackedSeconds = 4.5e-8;
// All operands together, padding included; each takes some 16 bytes.
constexpr double kMaxHostElements = 2.5e8;

double elements_of(const Matrix& x, i64 inner, i64 outer, i64 batch) {
  return static_cast<double>(batch) * static_cast<double>(batch_stride_of(x, inner, outer));
}

double elements_of(const Problem& p) {
  if (is_conv(p.conv)) {
    const ConvElements spans = conv_spans(p.conv);
    return static_cast<double>(spans.a) + static_cast<double>(spans.b) +
           (p.epilogue.residual ? 2 : 1) * static_cast<double>(spans.d);
  }
  return elements_of(p.a, inner_extent(p.a, a_rows(p), p.k), outer_extent(p.a, a_rows(p), p.k),
                     a_matrices(p)) +
         elements_of(p.b, inner_extent(p.b, p.n, p.k), outer_extent(p.b, p.n, p.k), b_matrices(p)) +
         elements_of(p.d, d_columns(p), p.m, d_matrices(p)) +
         (p.epilogue.residual ? elements_of(p.c, p.n, p.m, d_matrices(p)) : 0);
}

/// Returns an error if the host twin would take too long or too much memory for `p`, which must have passed
/// its checks. Padding counts, because the twin multiplies it too.
Result<void> check_packed_host_size(const Problem& p) {
  const double products = flops_of(p) / 2;
  if (products <= kMaxHostProducts) return {};
  return error_of(ErrorCode::invalid_size,
                  "{}x{}x{} has {:.3g} multiply-adds: the CPU takes at most {:.0e}; give a smaller --shape, "
                  "or run it on a GPU",
                  p.m, p.n, p.k, products, kMaxHostProducts);
}

/// Multiply-adds of the twin.
double multiply_adds(const Problem& p) {
  return static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
         static_cast<double>(a_matrices(p));
}

Result<void> check_host_size(const Problem& p) {
  if (is_packed(p)) return check_packed_host_size(p);
  const double outputs = static_cast<double>(p.m) * p.n * d_matrices(p), products = multiply_adds(p);
  const std::string name = is_conv(p.conv) ? problem_text(p) : shape_text(p);
  const char* const remedy = is_conv(p.conv) ? "--input or --filter" : "--shape";
  if (outputs > kMaxHostProducts)
    return error_of(ErrorCode::invalid_size,
                    "{} has {:.3g} elements of D: the host twin takes at most {:.0e}; give a smaller "
                    "{}, or run it on a GPU",
                    name, outputs, kMaxHostProducts, remedy);
  if (products > kMaxHostProducts)
    return error_of(ErrorCode::invalid_size,
                    "{} has {:.3g} multiply-adds: the host twin takes at most {:.0e}, in about two minutes; "
                    "give a smaller {}, or run it on a GPU",
                    name, products, kMaxHostProducts, remedy);
  const double elements = elements_of(p);
  if (elements > kMaxHostElements)
    return error_of(ErrorCode::invalid_size,
                    "the operands of {} have {:.3g} elements, padding between rows included: the host twin "
                    "takes at most {:.2g}; give a smaller {} or {}, or run it on a GPU",
                    name, elements, kMaxHostElements, remedy, is_conv(p.conv) ? "pitch" : "--ld");
  return {};
}

}  // namespace

Result<Plan> plan_for_host(const Request& request, const RecordBook& records) {
  SLUICE_TAKE(Plan plan, is_packed(request.problem)
                             ? gemm::plan(request.problem, DeviceInfo{}, request.overrides, records)
                             : plan_with_roles(request.problem, request.overrides, records));
  SLUICE_TRY(check_host_size(plan.problem));
  return plan;
}

double seconds_on_host(const Problem& p) {
  if (is_packed(p)) return kPackedSeconds * flops_of(p) / 2;
  return kTwinSeconds * multiply_adds(p);
}

Result<HostRun> run_on_host(const Request& request, const Plan& plan, u64 seed) {
  HostRun run;
  if (is_packed(plan.problem)) {
    for (const auto& [name, kind] :
         {std::pair{"whole", packed::DataKind::exact}, {"real", packed::DataKind::real}}) {
      SLUICE_TAKE(const Comparison found, compare_on_host(plan.problem, kind, seed));
      run.verdicts.push_back(
          {found.passed(), fmt::format("{} data, through the packed blob: {}", name, describe(found))});
    }
    return run;
  }
  HostProblem problem(plan.problem, request.alpha, request.beta, seed);
  const auto start = std::chrono::steady_clock::now();
  SLUICE_TAKE(const twin::TwinReport twin, problem.run(plan, seed));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const HostComparison found = problem.compare();
  run.twin = fmt::format(
      "{} clusters, {} tiles, {} loads, {} stores, {} steps, {} switches of role; {:.2f} s", twin.clusters,
      twin.tiles, twin.loads, twin.stores, twin.steps, twin.context_switches, seconds);
  run.verdicts.push_back({found.passed(), describe(found)});
  return run;
}

}  // namespace sluice::bench
