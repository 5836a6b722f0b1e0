// SPDX-License-Identifier: Apache-2.0
// `sluice run`: plans one problem, runs it and verifies the result. On a GPU it is also timed, and compared
// with other libraries. Without a GPU the host computes it, and the sm_90a kernel is only compiled. Then the
// twin executes a dense plan; a packed product is computed from the blob. `make demo` runs this verb.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include <sluice/bench/host.h>
#include <sluice/bench/session.h>
#include <sluice/bench/sets.h>
#include <sluice/compile.h>
#include <sluice/messages/errors.h>
#include <sluice/text.h>
#include <sluice/try.h>

#include "cli/bench_table.h"
#include "cli/bounded.h"
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

constexpr double kShortSeconds = 3;  // shorter waits are not announced

// ---- without a GPU ----
/// Prints the seconds that the host needs, if they are many, and returns them.
double announced_seconds(const Problem& p) {
  const double seconds = bench::seconds_on_host(p);
  if (seconds > kShortSeconds) {
    print_row("time", fmt::format("about {:.0f} s on one core of this CPU", seconds));
    std::fflush(stdout);
  }
  return seconds;
}

/// Computes the product on the host, prints the comparison, and returns whether it is right.
Result<bool> run_on_host(const bench::Request& request, const RunFlags& flags, const RecordBook& records) {
  SLUICE_TAKE(const Plan plan, bench::plan_for_host(request, records));
  fmt::print("{}{}", pointwise_line(request), describe(plan));
  if (!flags.no_compile)
    for (const std::string& unit : gemm::units_of(plan))
      SLUICE_TRY(build_and_print(unit, options_from_environment()));
  Waiting shown("verify", announced_seconds(plan.problem));
  SLUICE_TAKE(const bench::HostRun run, bench::run_on_host(request, plan, flags.seed));
  shown.stop();
  if (!run.twin.empty()) print_row("host twin", run.twin);
  bool right = true;
  for (const bench::HostVerdict& verdict : run.verdicts) {
    print_verdict(verdict.right, verdict.text);
    right = right && verdict.right;
  }
  return right;
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
  const Device& device = device_of(lab);
  SLUICE_TAKE(const Plan plan, plan_of(request, device.info(), device.records()));
  fmt::print("{}{}", pointwise_line(request), describe(plan));
  for (const std::string& unit : gemm::units_of(plan)) SLUICE_TRY(build_and_print(unit, device));
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
  const bool convolution = is_conv(requests.front().problem.conv);
  SLUICE_TAKE(const auto lab,
              bench::open_lab(*target.device, {.method = {.cold = !flags.warm, .seed = flags.seed},
                                               .cublaslt = flags.cublaslt,
                                               .convolutions = convolution,
                                               .cudnn = flags.cudnn}));
  print_row("device", target.device->info().name);
  const std::string& without = convolution ? without_cudnn(*lab) : without_cublaslt(*lab);
  if (!without.empty()) print_row("peer", without);
  Watchdog watchdog(flags.hang_s);
  return run_all(requests, [&](const auto& request) { return run_on_gpu(request, *lab, watchdog); });
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
