// SPDX-License-Identifier: Apache-2.0
// `sluice run`: plans one problem, runs it and verifies the result. On a GPU it is also timed, and compared
// with other libraries. Without a GPU the host computes it, and the sm_90a kernel is only compiled. Then the
// twin executes a dense plan; a packed product is computed from the blob. `make demo` runs this verb.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include <sluice/tools.h>
#include <sluice/try.h>

#include "bench/conv.h"
#include "bench/errors.h"
#include "bench/session.h"
#include "bench/shapes.h"
#include "cli/bench_table.h"
#include "cli/bounded.h"
#include "cli/host_problem.h"
#include "cli/packed_host.h"
#include "cli/requests.h"
#include "cli/run_report.h"
#include "cli/target.h"
#include "cli/terminal.h"
#include "cli/value_checks.h"
#include "cli/verb.h"
#include "cli/watchdog.h"

namespace sluice::cli {
namespace {

struct RunFlags {
  RequestFlags requests;
  std::string device = "auto", cublaslt, cudnn;
  u64 seed = 1;
  bool no_compile = false;
  bool warm = false;
  int hang_s = 90;
};

/// Two minutes of twin and reference on one core; 8192^3 would take most of a day.
constexpr double kMaxHostProducts = 1e9;
// Seconds per multiply-add of twin and of packed reference, comparison included.
constexpr double kTwinSeconds = 1.1e-7, kPackedSeconds = 4.5e-8;
constexpr double kShortSeconds = 3;  // shorter waits are not announced
// All operands together, padding included; each takes some 16 bytes.
constexpr double kMaxHostElements = 2.5e8;

double elements_of(const Matrix& x, i64 inner, i64 outer, i64 batch) {
  return static_cast<double>(batch) * static_cast<double>(batch_stride_of(x, inner, outer));
}

double elements_of(const Problem& p) {
  if (is_conv(p.conv)) {
    const bench::ConvElements spans = bench::conv_spans(p.conv);
    return static_cast<double>(spans.a) + static_cast<double>(spans.b) +
           (p.epilogue.residual ? 2 : 1) * static_cast<double>(spans.d);
  }
  return elements_of(p.a, inner_extent(p.a, p.m, p.k), outer_extent(p.a, p.m, p.k), p.batch) +
         elements_of(p.b, inner_extent(p.b, p.n, p.k), outer_extent(p.b, p.n, p.k), p.batch) +
         elements_of(p.d, d_columns(p), p.m, p.batch) +
         (p.epilogue.residual ? elements_of(p.c, p.n, p.m, p.batch) : 0);
}

/// Returns an error if the host twin would take too long or too much memory for `p`, which must have passed
/// its checks. Padding counts, because the twin multiplies it too.
Result<void> check_packed_host_size(const Problem& p) {
  const double products = bench::flops_of(p) / 2;
  if (products <= kMaxHostProducts) return {};
  return error_of(ErrorCode::invalid_size,
                  "{}x{}x{} has {:.3g} multiply-adds: the CPU takes at most {:.0e}; give a smaller --shape, "
                  "or run it on a GPU",
                  p.m, p.n, p.k, products, kMaxHostProducts);
}

Result<void> check_host_size(const Problem& p) {
  if (is_packed(p)) return check_packed_host_size(p);
  const double outputs = static_cast<double>(p.m) * p.n * p.batch, products = outputs * p.k;
  const std::string name = is_conv(p.conv) ? bench::problem_text(p) : bench::shape_text(p);
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

// ---- without a GPU ----
Result<Plan> host_plan_of(const bench::Request& request, const RecordBook& records) {
  return is_packed(request.problem) ? gemm::plan(request.problem, DeviceInfo{}, request.overrides, records)
                                    : plan_with_roles(request.problem, request.overrides, records);
}

double seconds_on_host(const Problem& p) {
  if (is_packed(p)) return kPackedSeconds * bench::flops_of(p) / 2;
  return kTwinSeconds * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
         static_cast<double>(p.batch);
}

/// Prints the seconds that the host needs, if they are many, and returns them.
double announced_seconds(const Problem& p) {
  const double seconds = seconds_on_host(p);
  if (seconds > kShortSeconds) {
    print_row("time", fmt::format("about {:.0f} s on one core of this CPU", seconds));
    std::fflush(stdout);
  }
  return seconds;
}

Result<bool> verified_by_twin(const bench::Request& request, const Plan& plan, u64 seed) {
  Waiting shown("verify", announced_seconds(plan.problem));
  HostProblem problem(plan.problem, request.alpha, request.beta, seed);
  const auto start = std::chrono::steady_clock::now();
  SLUICE_TAKE(const twin::TwinReport twin, problem.run(plan, seed));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const HostComparison found = problem.compare();
  shown.stop();
  print_row("host twin", fmt::format("{} clusters, {} tiles, {} loads, {} stores, {} steps, {} switches of "
                                     "role; {:.2f} s",
                                     twin.clusters, twin.tiles, twin.loads, twin.stores, twin.steps,
                                     twin.context_switches, seconds));
  print_verdict(found.passed(), describe(found));
  return found.passed();
}
Result<bool> verified_through_blob(const Plan& plan, u64 seed) {
  Waiting shown("verify", announced_seconds(plan.problem));
  SLUICE_TAKE(const Comparison whole, compare_on_host(plan.problem, packed::DataKind::exact, seed));
  SLUICE_TAKE(const Comparison real, compare_on_host(plan.problem, packed::DataKind::real, seed));
  shown.stop();
  print_verdict(whole.passed(), "whole data, through the packed blob: " + describe(whole));
  print_verdict(real.passed(), "real data, through the packed blob: " + describe(real));
  return whole.passed() && real.passed();
}

/// Computes the product on the host, prints the comparison, and returns whether it is right.
Result<bool> run_on_host(const bench::Request& request, const RunFlags& flags, const RecordBook& records) {
  SLUICE_TAKE(const Plan plan, host_plan_of(request, records));
  SLUICE_TRY(check_host_size(plan.problem));
  const Options options = options_from_environment();
  fmt::print("{}{}", pointwise_line(request), describe(plan));
  if (!flags.no_compile) {
    const KernelCache cache(options);
    for (const std::string& unit : gemm::units_of(plan)) SLUICE_TRY(compile_and_print(cache, unit));
  }
  return is_packed(plan.problem) ? verified_through_blob(plan, flags.seed)
                                 : verified_by_twin(request, plan, flags.seed);
}

// ---- on a GPU ----
void print_ratios(const bench::RunRecord& run, const bench::ShapeRecord& shape) {
  for (const char* peer : {bench::kBestFp8, bench::kHalfPeerBest, bench::kReadFloor})
    if (const double ratio = bench::ratio(shape, bench::kSluice, peer); is_packed(shape.problem) && ratio > 0)
      fmt::print("{:.3f} x the speed of {} ({} L2)\n", ratio, peer, run.method);
  for (const char* peer : {bench::kCudnnBest, bench::kCudnnDeterministic})
    if (const double ratio = bench::ratio(shape, bench::kSluice, peer); ratio > 0)
      fmt::print("{:.3f} x the speed of {} of {} plans ({} L2)\n", ratio, peer, shape.peer_algorithms,
                 run.method);
  if (const double ratio = bench::ratio(shape, bench::kSluice, bench::kPeerBest); ratio > 0)
    fmt::print("{:.3f} x the speed of cuBLASLt's best of {} algorithms ({} L2{})\n", ratio,
               shape.peer_algorithms, run.method,
               shape.peer_caveat.empty() ? "" : "; its epilogue: " + shape.peer_caveat);
}

Result<bool> run_on_gpu(const bench::Request& request, const bench::Lab& lab, Watchdog& watchdog) {
  const Device& device = lab.device;
  SLUICE_TAKE(const Plan plan, plan_of(request, device.info(), device.records()));
  fmt::print("{}{}", pointwise_line(request), describe(plan));
  for (const std::string& unit : gemm::units_of(plan))
    SLUICE_TRY(compile_and_print(tools::kernel_cache(device), unit));
  const bench::RunRecord run = bench::describe_run(lab);
  const std::string name = bench::name_of(request);
  const bench::ShapeRecord shape = bench::measure_shape(
      lab, {.request = request, .plan = plan},
      [&](const std::string& what) { watchdog.step(fmt::format("{}: {}", name, what)); });
  if (!shape.error.empty()) return Error{ErrorCode::driver, shape.error};
  const bool right = bench::all_verified(shape);
  print_verdict(right, shape.contenders.empty() ? "nothing ran" : shape.contenders.front().verdict);
  fmt::print("\n{}{}", contender_table(run, shape), shape_troubles(shape));
  print_ratios(run, shape);
  fmt::print("\n");
  return right;
}

/// The problems that the flags describe. A dense problem without sizes gets default ones for the machine.
/// Without any problem flag they are the demo: bf16 and fp8 on a GPU, an epilogue on the host.
Result<std::vector<bench::Request>> requests_for(RequestFlags flags, bool on_gpu) {
  const bool demo = !names_problem(flags) && first_given(flags.problem_options).empty();
  if (!names_problem(flags)) flags.problem.shape = on_gpu ? "4096x4096x4096" : "300x200x160";
  if (demo && !on_gpu) {
    flags.problem.bias = true;
    flags.problem.activation = "gelu";
  }
  SLUICE_TAKE(const bench::Request one, request_of(flags));
  std::vector<bench::Request> requests{one};
  if (!demo || !on_gpu) return requests;
  bench::Request fp8 = one;
  fp8.problem = bench::plain_problem(fp8.problem.m, fp8.problem.n, fp8.problem.k, DType::e4m3);
  fp8.problem.accumulate = Problem{}.accumulate;
  requests.push_back(fp8);
  return requests;
}

/// Calls `run` for every request, even after one has failed. Returns the exit code.
template <class Run>
Result<int> run_all(const std::vector<bench::Request>& requests, const Run& run) {
  bool right = true;
  for (const bench::Request& request : requests) {
    SLUICE_TAKE(const bool done, run(request));
    right = right && done;
  }
  return right ? kExitOk : kExitNo;
}

Result<int> run_run(const RunFlags& flags) {
  SLUICE_TRY(check_dense(flags.requests.packed));
  SLUICE_TAKE(const Target target, find_target(flags.device, options_from_environment()));
  SLUICE_TAKE(const std::vector<bench::Request> requests,
              requests_for(flags.requests, target.device.has_value()));
  if (!target.device) {
    const char* const host = is_packed(flags.requests.packed) ? "the CPU" : "host twin";
    if (!target.why_host.empty())
      print_row("device", fmt::format("{} (no usable GPU: {})", host, kAskDoctor));
    return run_all(requests,
                   [&](const auto& request) { return run_on_host(request, flags, target.records); });
  }
  const bench::Method method{.cold = !flags.warm, .seed = flags.seed};
  SLUICE_TAKE(bench::Lab lab, bench::open_lab(*target.device, method, flags.cublaslt));
  const bool convolution = is_conv(requests.front().conv);
  if (convolution) bench::load_cudnn(lab, flags.cudnn);
  print_row("device", target.device->info().name);
  if (convolution && !lab.cudnn) print_row("peer", lab.without_cudnn);
  if (!convolution && !lab.cublaslt) print_row("peer", lab.without_peer);
  Watchdog watchdog(flags.hang_s);
  return run_all(requests, [&](const auto& request) { return run_on_gpu(request, lab, watchdog); });
}

}  // namespace

Verb add_run_verb(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* verb = app.add_subcommand("run", "Plan, compile, run and verify a problem; time it on a GPU");
  add_request_flags(*verb, flags->requests);
  verb->add_option("--device", flags->device, "auto, host (the host twin), or the number of a GPU")
      ->capture_default_str();
  verb->add_option("--seed", flags->seed, "Seed of the data, and of the twin's interleaving")
      ->capture_default_str();
  verb->add_flag("--no-compile", flags->no_compile, "On the host: do not compile the GPU kernel too");
  verb->add_flag("--warm", flags->warm, "Time with operands that L2 may hold");
  verb->add_option("--cublaslt", flags->cublaslt, "The libcublasLt to compare with");
  verb->add_option("--cudnn", flags->cudnn, "The libcudnn to compare a convolution with");
  bounded(verb->add_option("--hang-s", flags->hang_s, "Give up when a step takes longer; 0: never"), 0,
          kLongestHang);
  return {verb, [flags] { return run_run(*flags); }};
}

}  // namespace sluice::cli
