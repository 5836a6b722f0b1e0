// SPDX-License-Identifier: Apache-2.0
#include "cli/packed_run.h"

#include <fmt/format.h>

#include <sluice/host/device/device_impl.h>
#include <sluice/host/text/packed_units.h>

#include "cli/bench_table.h"
#include "cli/packed_host.h"
#include "cli/run_report.h"
#include "cli/table.h"

namespace sluice::cli {
namespace {

constexpr double kMaxHostProducts = 1e9;  // some seconds of one core

Result<bool> verified_on_host(const packed::Plan& plan, packed::DataKind kind, u64 seed) {
  const Result<Comparison> found = compare_on_host(plan.problem, kind, seed);
  if (!found) return found.error();
  print_verdict(found->passed(),
                fmt::format("{} data, through the packed blob: {}",
                            kind == packed::DataKind::exact ? "whole" : "real", describe(*found)));
  return found->passed();
}

}  // namespace

Result<Comparison> compare_on_host(const PackedProblem& problem, packed::DataKind kind, u64 seed) {
  const Result<packed::HostData> data = packed::random_data(problem, kind, seed);
  if (!data) return data.error();
  const Result<std::vector<u8>> d = reference_d(*data, 0);
  if (!d) return d.error();
  return packed::judge(*data, packed::reference_sums(*data), *d, 0);
}

Result<void> print_packed_plan(const bench::PackedCase& item, const Target& target, PackedPlanOutput output) {
  const DeviceInfo info = target.info();
  const Result<packed::Plan> pick = packed::plan(item.problem, info, item.overrides, target.records);
  if (!pick) return pick.error();
  fmt::print("{}{}", packed::describe(*pick), describe(info));
  for (const std::string& unit : output.unit ? packed::units_of(*pick) : std::vector<std::string>{})
    fmt::print("\n{}\n", unit);
  if (!output.all) return {};
  const Result<std::vector<packed::Plan>> plans = packed::candidates(item.problem, info, item.overrides);
  if (!plans) return plans.error();
  const Table table({{.title = "", .width = 3},
                     {.title = "kernel", .width = 64, .align = Align::left},
                     {.title = "us", .width = 8},
                     {.title = "smem", .width = 7}});
  fmt::print("\n{}", table.header());
  int rank = 0;
  for (const packed::Plan& plan : *plans)
    fmt::print("{}", table.row({std::to_string(++rank), packed::short_name(plan.config),
                                fmt::format("{:.2f}", plan.estimate_us), std::to_string(plan.smem_bytes)}));
  return {};
}

Result<bool> run_packed_on_gpu(const bench::Lab& lab, const PackedRun& request, Watchdog& watchdog) {
  const Device& device = lab.device;
  const Result<packed::Plan> plan =
      packed::plan(request.item.problem, device.info(), request.item.overrides, device.records());
  if (!plan) return plan.error();
  print_row("device", device.info().name);
  if (!lab.cublaslt) print_row("peer", lab.without_peer);
  fmt::print("{}", packed::describe(*plan));
  for (const std::string& unit : packed::units_of(*plan))
    if (Result<void> compiled = compile_and_print(device.impl().cache, unit); !compiled)
      return compiled.error();
  const bench::RunRecord run = bench::describe_run(lab);
  const std::string name = bench::shape_name({.packed = plan->problem});
  const bench::ShapeRecord shape = bench::measure_packed(
      lab, request.item, [&](const std::string& what) { watchdog.step(fmt::format("{}: {}", name, what)); });
  if (!shape.error.empty()) return Error{ErrorCode::driver, shape.error};
  const bool right = bench::all_verified(shape);
  print_verdict(right, shape.contenders.empty() ? "nothing ran" : shape.contenders.front().verdict);
  fmt::print("\n{}{}", contender_table(run, shape), shape_troubles(shape));
  for (const char* peer : {bench::kBestFp8, bench::kHalfPeerBest, bench::kReadFloor})
    if (const double ratio = bench::ratio(shape, bench::kSluice, peer); ratio > 0)
      fmt::print("{:.3f} x the speed of {} ({} L2)\n", ratio, peer, run.method);
  fmt::print("\n");
  return right;
}

Result<bool> run_packed_on_host(const PackedRun& request, const RecordBook& records) {
  const PackedProblem& p = request.item.problem;
  const Result<packed::Plan> plan = packed::plan(p, DeviceInfo{}, request.item.overrides, records);
  if (!plan) return plan.error();
  const double products = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  if (products > kMaxHostProducts)
    return Error{
        ErrorCode::invalid_size,
        fmt::format("{}x{}x{} has {:.2g} multiply-adds: the CPU takes at most {:.0e}; give a smaller "
                    "--shape, or run it on a GPU",
                    p.m, p.n, p.k, products, kMaxHostProducts)};
  fmt::print("{}", packed::describe(*plan));
  if (request.compiles) {
    const KernelCache cache(options_from_environment());
    for (const std::string& unit : packed::units_of(*plan))
      if (Result<void> compiled = compile_and_print(cache, unit); !compiled) return compiled.error();
  }
  const Result<bool> exact = verified_on_host(*plan, packed::DataKind::exact, request.seed);
  if (!exact) return exact;
  const Result<bool> real = verified_on_host(*plan, packed::DataKind::real, request.seed);
  if (!real) return real;
  return *exact && *real;
}

}  // namespace sluice::cli
