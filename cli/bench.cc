// SPDX-License-Identifier: Apache-2.0
// `sluice bench`: times contenders in turn over a set of problems. Prints a table as it goes, and writes JSON
// after each shape. The measurements are in bench/; this file chooses problems, prints and stores.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include <sluice/bench/session.h>
#include <sluice/messages/errors.h>
#include <sluice/text.h>
#include <sluice/try.h>

#include "cli/bench_table.h"
#include "cli/bounded.h"
#include "cli/command_line.h"
#include "cli/measure_flags.h"
#include "cli/packed_bars.h"
#include "cli/requests.h"
#include "cli/target.h"
#include "cli/verb.h"

namespace sluice::cli {
namespace {

struct BenchFlags {
  RequestFlags requests;
  std::string only, json, commit, cublaslt, cudnn, fill = "normal";
  std::string device = "0";
  bool warm = false;
  int hang_s = 90, racers = 0;
  bench::Method method;
};

/// The problems that the flags name; by default the "smoke" set.
Result<std::vector<bench::Request>> requests_for(const BenchFlags& flags) {
  RequestFlags chosen = flags.requests;
  if (!names_problems(chosen)) chosen.set = "smoke";
  SLUICE_TAKE(std::vector<bench::Request> requests, requests_of(chosen));
  std::erase_if(requests, [&](const bench::Request& request) {
    return bench::name_of(request).find(flags.only) == std::string::npos;
  });
  if (requests.empty())
    return bad_argument("no problem of the set has {} in its name: give a part of one",
                        in_quotes(flags.only));
  return requests;
}

bool has_convolutions(const std::vector<bench::Request>& requests) {
  return std::any_of(requests.begin(), requests.end(),
                     [](const bench::Request& request) { return is_conv(request.problem.conv); });
}

void print_run(const bench::RunRecord& run, const bench::Lab& lab, bool convolutions) {
  fmt::print("{}, driver {}, {:.0f} W; {}; cuBLASLt {}\n", run.gpu,
             run.driver.empty() ? "unknown" : run.driver, run.power_limit_w, run.nvrtc,
             without_cublaslt(lab).empty() ? run.cublaslt : "missing");
  fmt::print("{}", describe(run.device));
  if (!without_cublaslt(lab).empty())
    fmt::print("{}\n", paint(stdout, Colour::yellow, without_cublaslt(lab)));
  if (convolutions)
    fmt::print("{}\n", without_cudnn(lab).empty()
                           ? fmt::format("cuDNN {}, every plan that it builds", run.cudnn)
                           : paint(stdout, Colour::yellow, without_cudnn(lab)));
  fmt::print(
      "{} L2, {} rounds, {:.0f} ms rest, replays of {:.1f} ms, data {}; x: peer time / sluice time\n\n",
      run.method, run.rounds, run.rest_ms, run.replay_us / 1000, run.fill);
}

void print_shape(const bench::RunRecord& run, const bench::ShapeRecord& shape, bool tuned) {
  const Colour colour = bench::all_verified(shape) ? Colour::plain : Colour::red;
  const std::string line = shape_line(run, shape, tuned);
  fmt::print("{}", colour == Colour::plain ? line : paint(stdout, colour, line));
  fmt::print("{}", paint(stdout, Colour::dim, shape_troubles(shape)));
  std::fflush(stdout);
}

/// True if there is something to race: the caller chose no kernel, and the problem has no tuning record.
bool may_race(const bench::Request& request, const bench::Lab& lab) {
  if (chooses_kernels(request)) return false;
  const bench::Request unasked = bench::request_of(request.problem);
  const Result<Plan> plan = plan_of(unasked, device_of(lab).info(), device_of(lab).records());
  return plan && plan->source == PlanSource::model;
}

/// Measures the planner's pick and, if a race makes sense, the winner of a race of `racers` plans.
bench::ShapeRecord measure(const bench::Lab& lab, const bench::Request& request, int racers,
                           const bench::Phase& phase) {
  const Device& device = device_of(lab);
  const Result<Plan> plan = plan_of(request, device.info(), device.records());
  if (!plan) return bench::unplanned_shape(request, plan.error());
  bench::Planned item{.request = request, .plan = *plan};
  double race_ms = 0;
  if (racers > 1 && may_race(request, lab)) {
    phase("racing");
    const auto start = std::chrono::steady_clock::now();
    item.raced = gemm::race(device, plan->problem, racers);
    race_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }
  bench::ShapeRecord record = bench::measure_shape(lab, item, phase);
  record.race_ms = race_ms;
  return record;
}

Result<bench::Method> method_of(const BenchFlags& flags) {
  bench::Method method = flags.method;
  method.cold = !flags.warm;
  if (flags.fill != "normal" && flags.fill != "uniform")
    return bad_argument("--fill {} is not one of: normal, uniform", in_quotes(flags.fill));
  method.uniform = flags.fill == "uniform";
  return method;
}

Result<int> run_bench(const BenchFlags& flags) {
  SLUICE_TAKE(const std::vector<bench::Request> requests, requests_for(flags));
  Options options = options_from_environment();
  if (flags.racers > 1) options.records_dir.clear();  // results of earlier races would hide this one
  SLUICE_TAKE(const Device device,
              gpu_of(flags.device, options,
                     "bench measures GPUs: without one there are plan, compile and run --device host"));
  SLUICE_TAKE(const bench::Method method, method_of(flags));
  const bool convolutions = has_convolutions(requests);
  SLUICE_TAKE(const auto opened, bench::open_lab(device, {.method = method,
                                                          .cublaslt = flags.cublaslt,
                                                          .convolutions = convolutions,
                                                          .cudnn = flags.cudnn}));
  const bench::Lab& lab = *opened;
  bench::RunRecord run = run_record(lab, flags.commit);
  print_run(run, lab, convolutions);

  const bool tuned = method.tune > 1;
  Job job("bench", flags.hang_s, requests.size());
  Result<void> alive;
  std::optional<Columns> header;  // the table header that was printed last
  for (const bench::Request& request : requests) {
    const Columns columns = columns_of(request.problem, tuned);
    if (header != columns) fmt::print("{}", paint(stdout, Colour::bold, shape_header(columns)));
    header = columns;
    run.shapes.push_back(measure(lab, request, flags.racers, job.part(bench::name_of(request))));
    job.clear();
    print_shape(run, run.shapes.back(), tuned);
    if (!flags.json.empty()) SLUICE_TRY(bench::write_json(run, flags.json));
    alive = check_alive(lab, fmt::format("{} of {} shapes", run.shapes.size(), requests.size()));
    if (!alive) break;
  }
  double seconds = 0;
  for (const bench::ShapeRecord& shape : run.shapes) seconds += shape.wall_s;
  fmt::print("\n{}{}{} of {} in {:.0f} s\n", summary_text(run), packed_bars(run, tuned), run.shapes.size(),
             counted(requests.size(), "problem"), seconds);
  SLUICE_TRY(alive);
  const bool right = std::all_of(run.shapes.begin(), run.shapes.end(), bench::all_verified);
  return right ? kExitOk : kExitNo;
}

}  // namespace

Verb add_bench_verb(CLI::App& app) {
  auto flags = std::make_shared<BenchFlags>();
  BenchFlags& f = *flags;
  CLI::App* verb = app.add_subcommand(
      "bench",
      "Time sluice beside cuBLASLt, verified, in one run (the smoke set unless told; --set packed for packed "
      "weights beside FP8; --conv beside cuDNN)");
  add_many_requests_flags(*verb, f.requests);
  verb->add_option("--only", f.only, "Only problems with this text in their name, like e4m3 or 1024x");
  verb->add_option("--json", f.json, "Write the results here, after every shape");
  verb->add_option("--tune", f.method.tune, "Time so many of the planner's candidates too")
      ->check(CLI::Range(0, 1000));
  verb->add_option("--race", f.racers,
                   "Race so many plans first, as SLUICE_RACE does, and time the winner too; the user's "
                   "records are left aside")
      ->check(CLI::Range(0, kMostRacers));
  verb->add_flag("--warm", f.warm, "One set of operands, so that L2 may hold it");
  add_replay_flags(*verb, f.method, "contender");
  bounded(verb->add_option("--heuristics", f.method.heuristics, "cuBLASLt algorithms to ask for"), 1, 256);
  verb->add_option("--fill", f.fill, "Random data: normal or uniform")->capture_default_str();
  verb->add_option("--seed", f.method.seed, "Seed of the data")->capture_default_str();
  verb->add_option("--cublaslt", f.cublaslt, "The libcublasLt to load");
  verb->add_option("--cudnn", f.cudnn, "The libcudnn to load, for convolutions");
  add_run_flags(*verb, f.commit, f.hang_s);
  verb->add_option("--device", f.device, "Number of the GPU")->capture_default_str();
  return {verb, [flags] { return run_bench(*flags); }};
}

}  // namespace sluice::cli
