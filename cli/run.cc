// SPDX-License-Identifier: Apache-2.0
// `sluice run`: one problem from plan to verified result. On a GPU it is also timed beside cuBLASLt; without
// one the host twin executes the same plan, and the sm_90a kernel is still compiled. This is `make demo`.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include <sluice/host/device/device_impl.h>
#include <sluice/host/jit/source.h>

#include "bench/session.h"
#include "bench/shapes.h"
#include "cli/bench_table.h"
#include "cli/host_problem.h"
#include "cli/packed_run.h"
#include "cli/requests.h"
#include "cli/run_report.h"
#include "cli/target.h"
#include "cli/value_checks.h"
#include "cli/verb.h"
#include "cli/watchdog.h"

namespace sluice::cli {
namespace {

struct RunFlags {
  RequestFlags requests;
  PackedFlags packed;
  std::string device = "auto", cublaslt;
  u64 seed = 1;
  bool no_compile = false;
  bool warm = false;
  int hang_s = 90;
};

/// Two minutes of twin and reference on one core (512^3: 15 s); 8192^3 would take most of a day.
constexpr double kMaxHostProducts = 1e9;
constexpr double kMaxHostElements = 2.5e8;  // of all operands, padding too: some 16 bytes each

double elements_of(const Matrix& x, i64 inner, i64 outer, i64 batch) {
  return static_cast<double>(batch) * static_cast<double>(batch_stride_of(x, inner, outer));
}

/// Of a checked problem.
Result<void> check_host_size(const Problem& p) {
  const double products = bench::flops_of(p) / 2, outputs = static_cast<double>(p.m) * p.n * p.batch;
  if (outputs > kMaxHostProducts)
    return Error{
        ErrorCode::invalid_size,
        fmt::format("{} has {:.2g} elements of D: the host twin takes at most {:.0e}; give a smaller "
                    "--shape, or run it on a GPU",
                    bench::shape_text(p), outputs, kMaxHostProducts)};
  if (products > kMaxHostProducts)
    return Error{ErrorCode::invalid_size,
                 fmt::format("{} has {:.2g} multiply-adds: the host twin takes at most {:.0e}, in about two "
                             "minutes; give a smaller --shape, or run it on a GPU",
                             bench::shape_text(p), products, kMaxHostProducts)};
  const double elements =
      elements_of(p.a, inner_extent(p.a, p.m, p.k), outer_extent(p.a, p.m, p.k), p.batch) +
      elements_of(p.b, inner_extent(p.b, p.n, p.k), outer_extent(p.b, p.n, p.k), p.batch) +
      elements_of(p.d, d_columns(p), p.m, p.batch) +
      (p.epilogue.residual ? elements_of(p.c, p.n, p.m, p.batch) : 0);
  if (elements > kMaxHostElements)
    return Error{
        ErrorCode::invalid_size,
        fmt::format("the operands of {} have {:.2g} elements, padding between rows included: the host "
                    "twin takes at most {:.2g}; give a smaller --shape or --ld, or run it on a GPU",
                    bench::shape_text(p), elements, kMaxHostElements)};
  return {};
}

Result<bool> run_on_gpu(const bench::Lab& lab, const ProblemRequest& request, Watchdog& watchdog) {
  const Device& device = lab.device;
  const Result<Plan> plan = gemm::plan(request.problem, device.info(), request.overrides, device.records());
  if (!plan) return plan.error();
  fmt::print("{}", describe(*plan));
  for (const std::string& unit : unit_texts(plan->config, stamping_of(device.options())))
    if (Result<void> compiled = compile_and_print(device.impl().cache, unit); !compiled)
      return compiled.error();

  bench::RunRecord run = bench::describe_run(lab);
  const std::string name = bench::problem_text(request.problem);
  const bench::ShapeRecord shape = bench::measure_shape(
      lab,
      {.problem = request.problem,
       .overrides = request.overrides,
       .alpha = request.alpha,
       .beta = request.beta},
      [&](const std::string& what) { watchdog.step(fmt::format("{}: {}", name, what)); });
  if (!shape.error.empty()) return Error{ErrorCode::driver, shape.error};
  const bool right = bench::all_verified(shape);
  print_verdict(right, shape.contenders.empty() ? "nothing ran" : shape.contenders.front().verdict);
  fmt::print("\n{}{}", contender_table(run, shape), shape_troubles(shape));
  if (const double ratio = bench::ratio(shape, bench::kSluice, bench::kPeerBest); ratio > 0)
    fmt::print("{:.3f} x the speed of cuBLASLt's best of {} algorithms ({} L2{})\n", ratio,
               shape.peer_algorithms, run.method,
               shape.peer_caveat.empty() ? "" : "; its epilogue: " + shape.peer_caveat);
  fmt::print("\n");
  return right;
}

Result<bool> run_on_host(const ProblemRequest& request, const RunFlags& flags, const RecordBook& records) {
  const Result<Plan> plan = plan_with_roles(request.problem, request.overrides, records);
  if (!plan) return plan.error();
  if (Result<void> small = check_host_size(plan->problem); !small) return small.error();
  fmt::print("{}", describe(*plan));
  if (!flags.no_compile) {
    const KernelCache cache(options_from_environment());
    for (const std::string& unit : unit_texts(plan->config))
      if (Result<void> compiled = compile_and_print(cache, unit); !compiled) return compiled.error();
  }
  HostProblem problem(plan->problem, request.alpha, request.beta, flags.seed);
  const auto start = std::chrono::steady_clock::now();
  const Result<twin::TwinReport> twin = problem.run(*plan, flags.seed);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!twin) return twin.error();
  print_row("host twin", fmt::format("{} clusters, {} tiles, {} loads, {} stores, {} steps, {} switches of "
                                     "role; {:.2f} s",
                                     twin->clusters, twin->tiles, twin->loads, twin->stores, twin->steps,
                                     twin->context_switches, seconds));
  const HostComparison found = problem.compare();
  print_verdict(found.passed(), describe(found));
  return found.passed();
}

/// What to run: the flags. Without sizes, ones that suit the machine; without any flag of a problem, the
/// demo: bf16 and fp8 on a GPU, an epilogue on the host.
Result<std::vector<ProblemRequest>> problems_of(RequestFlags flags, bool on_gpu) {
  const bool demo = first_given(flags.problem_options).empty();
  if (!has_shape(flags.problem)) flags.problem.shape = on_gpu ? "4096x4096x4096" : "300x200x160";
  if (demo && !on_gpu) {
    flags.problem.bias = true;
    flags.problem.activation = "gelu";
  }
  const Result<ProblemRequest> one = request_of(flags.problem);
  if (!one) return one.error();
  std::vector<ProblemRequest> requests{*one};
  if (!demo || !on_gpu) return requests;
  ProblemRequest fp8 = *one;
  fp8.problem = bench::plain_problem(fp8.problem.m, fp8.problem.n, fp8.problem.k, DType::e4m3);
  requests.push_back(fp8);
  return requests;
}

Result<int> run_packed(const RunFlags& flags, const Target& target) {
  const Result<bench::PackedCase> item = packed_case_of(flags.requests, flags.packed);
  if (!item) return item.error();
  const PackedRun run{.item = *item, .seed = flags.seed, .compiles = !flags.no_compile};
  Result<bool> right = false;
  if (target.device) {
    const bench::Method method{.cold = !flags.warm, .seed = flags.seed};
    const Result<bench::Lab> lab = bench::open_lab(*target.device, method, flags.cublaslt);
    if (!lab) return lab.error();
    Watchdog watchdog(flags.hang_s);
    right = run_packed_on_gpu(*lab, run, watchdog);
  } else {
    if (!target.why_host.empty())
      print_row("device", fmt::format("the CPU, because there is no usable GPU: {}", target.why_host));
    right = run_packed_on_host(run, target.records);
  }
  if (!right) return right.error();
  return *right ? kExitOk : kExitNo;
}

Result<int> run_run(const RunFlags& flags) {
  if (Result<void> good = check_dense(flags.packed); !good) return good.error();
  const Result<Target> target = find_target(flags.device, options_from_environment());
  if (!target) return target.error();
  if (is_packed(flags.packed)) return run_packed(flags, *target);
  const Result<std::vector<ProblemRequest>> requests =
      problems_of(flags.requests, target->device.has_value());
  if (!requests) return requests.error();
  bool right = true;
  if (!target->device) {
    if (!target->why_host.empty())
      print_row("device", fmt::format("the host twin, because there is no usable GPU: {}", target->why_host));
    for (const ProblemRequest& request : *requests) {
      const Result<bool> done = run_on_host(request, flags, target->records);
      if (!done) return done.error();
      right = right && *done;
    }
    return right ? kExitOk : kExitNo;
  }
  bench::Method method{.cold = !flags.warm, .seed = flags.seed};
  const Result<bench::Lab> lab = bench::open_lab(*target->device, method, flags.cublaslt);
  if (!lab) return lab.error();
  print_row("device", target->device->info().name);
  if (!lab->cublaslt) print_row("peer", lab->without_peer);
  Watchdog watchdog(flags.hang_s);
  for (const ProblemRequest& request : *requests) {
    const Result<bool> done = run_on_gpu(*lab, request, watchdog);
    if (!done) return done.error();
    right = right && *done;
  }
  return right ? kExitOk : kExitNo;
}

}  // namespace

Verb add_run_verb(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* verb = app.add_subcommand("run", "Plan, compile, run and verify a problem; time it on a GPU");
  add_request_flags(*verb, flags->requests);
  add_packed_flags(*verb, flags->packed);
  verb->add_option("--device", flags->device, "auto, host (the host twin), or the number of a GPU")
      ->capture_default_str();
  verb->add_option("--seed", flags->seed, "Of the data, and of the twin's interleaving")
      ->capture_default_str();
  verb->add_flag("--no-compile", flags->no_compile, "On the host: do not compile the GPU kernel too");
  verb->add_flag("--warm", flags->warm, "Time with operands that L2 may hold");
  verb->add_option("--cublaslt", flags->cublaslt, "The libcublasLt to compare with");
  verb->add_option("--hang-s", flags->hang_s, "Give up when a step takes longer; 0: never")
      ->capture_default_str()
      ->check(CLI::Range(0, kLongestHang));
  return {verb, [flags] { return run_run(*flags); }};
}

}  // namespace sluice::cli
