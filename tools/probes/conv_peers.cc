// SPDX-License-Identifier: Apache-2.0
// sluice_conv_peers: times every plan that cuDNN has for convolutions, on this machine's GPU, and writes JSON
// after each. Needs a driver, NVRTC and cuDNN, all found at run time.
//   sluice_conv_peers bench/shapes/conv_resnet50_32.txt --conv all --json peers.json --seconds 540
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>

#include <sluice/options.h>
#include <sluice/try.h>

#include "bench/errors.h"
#include "bench/json.h"
#include "bench/names.h"
#include "bench/whole_file.h"
#include "cli/command_line.h"
#include "cli/exit_code.h"
#include "cli/value_checks.h"
#include "tools/probes/conv_lines.h"
#include "tools/probes/conv_race.h"

namespace sluice::probes {
namespace {

using Clock = std::chrono::steady_clock;

struct PeerFlags {
  std::vector<std::string> files;
  std::string conv = "all", dtype = "bf16", d, only, json, cudnn;
  int device = 0, from = 0;
  i64 workspace_mb = bench::kMostCudnnWorkspace >> 20;
  double seconds = 0;
  bool warm = false, list = false, phases = false;
  bench::Method method{.rounds = 7};
  RaceRules rules;
};

Result<std::vector<bench::CudnnConvolution>> problems_of(const PeerFlags& flags) {
  std::vector<ConvOp> operations = {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad};
  if (flags.conv != "all") {
    SLUICE_TAKE(const ConvOp one,
                bench::parse_name("--conv", flags.conv, {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad}));
    operations = {one};
  }
  bench::CudnnConvolution defaults;
  SLUICE_TAKE(defaults.inputs, bench::parse_name("--dtype", flags.dtype, {DType::bf16, DType::fp16}));
  defaults.result = defaults.inputs;
  if (!flags.d.empty()) {
    SLUICE_TAKE(defaults.result, bench::parse_name("--d", flags.d, {DType::bf16, DType::fp16, DType::fp32}));
  }
  std::vector<bench::CudnnConvolution> all;
  for (const std::string& file : flags.files) {
    SLUICE_TAKE(const std::vector<bench::CudnnConvolution> read, read_conv_file(file, operations, defaults));
    for (const bench::CudnnConvolution& p : read)
      if (short_name(p).find(flags.only) != std::string::npos) all.push_back(p);
  }
  if (static_cast<size_t>(flags.from) >= all.size())
    return bad_argument("--from {} leaves none of {} convolutions", flags.from, all.size());
  all.erase(all.begin(), all.begin() + flags.from);
  return all;
}

/// Sums over the problems that have all three times.
struct Totals {
  int count = 0;
  double first = 0, best = 0, deterministic = 0;
};
Totals totals_of(const std::vector<ConvRecord>& records, ConvOp op) {
  Totals totals;
  for (const ConvRecord& record : records) {
    const PlanRecord *best = record.best(), *deterministic = record.best_deterministic();
    if (record.problem.conv.op != op || best == nullptr || deterministic == nullptr) continue;
    ++totals.count;
    totals.first += record.first()->us.median;
    totals.best += best->us.median;
    totals.deterministic += deterministic->us.median;
  }
  return totals;
}

bool is_right(const ConvRecord& record) {
  return record.error.empty() && !record.samples_wrong && record.best() != nullptr;
}

struct Run {
  bench::RunRecord machine;
  const bench::Cudnn* cudnn = nullptr;
  size_t asked = 0;
  std::vector<ConvRecord> records;

  bench::Json json(const PeerFlags& flags) const {
    bench::Json json = bench::run_json(machine, "sluice-conv-peers-1");
    json["versions"]["cudnn"] = cudnn->version();
    json["versions"]["cudnn_path"] = cudnn->path();
    json["method"]["workspace_mb"] = flags.workspace_mb;
    json["method"]["finalists"] = flags.rules.finalists;
    json["asked"] = asked;
    for (const ConvOp op : {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad})
      if (const Totals t = totals_of(records, op); t.count > 0)
        json["totals"][name_of(op)] = {{"count", t.count},
                                       {"first_us", bench::rounded(t.first)},
                                       {"best_us", bench::rounded(t.best)},
                                       {"best_deterministic_us", bench::rounded(t.deterministic)}};
    json["convolutions"] = bench::array_of(records, conv_json);
    return json;
  }
};

Result<int> measure(const PeerFlags& flags, const std::vector<bench::CudnnConvolution>& problems) {
  const Clock::time_point start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  SLUICE_TAKE(const Device device, Device::open(flags.device, options_from_environment()));
  bench::Method method = flags.method;
  method.cold = !flags.warm;
  // cuBLASLt is loaded too: engines of cuDNN's that call it find it by its name then.
  SLUICE_TAKE(const bench::Lab lab, bench::open_lab(device, method, ""));
  const ContextScope scope(tools::context_of(device));
  SLUICE_TRY(scope.entered());
  SLUICE_TAKE(const std::shared_ptr<const bench::Cudnn> cudnn, bench::Cudnn::load(flags.cudnn));
  SLUICE_TAKE(const ConvKernels kernels, ConvKernels::create(device));
  Run run{.machine = bench::describe_run(lab), .cudnn = cudnn.get(), .asked = problems.size()};
  run.machine.command = cli::command_line();
  run.machine.commit = cli::built_commit();
  fmt::print("{}, driver {}, {:.0f} W; cuDNN {} ({}); {} L2, {} rounds\n", run.machine.gpu,
             run.machine.driver, run.machine.power_limit_w, cudnn->version(), cudnn->path(),
             run.machine.method, method.rounds);
  RaceRules rules = flags.rules;
  rules.most_workspace = flags.workspace_mb << 20;
  bool right = true;
  Result<void> alive;
  for (const bench::CudnnConvolution& problem : problems) {
    if (flags.seconds > 0 && seconds() > flags.seconds) {
      fmt::print("stopped after {:.0f} s; go on with --from {}\n", seconds(),
                 flags.from + static_cast<int>(run.records.size()));
      break;
    }
    run.records.push_back(race(lab, *cudnn, kernels, problem, rules, [&](const std::string& what) {
      if (flags.phases) fmt::print(stderr, "  {:.1f} s {}: {}\n", seconds(), short_name(problem), what);
    }));
    right = right && is_right(run.records.back());
    fmt::print("[{:>3}/{}] {}\n", run.records.size(), problems.size(), conv_line(run.records.back()));
    std::fflush(stdout);
    if (!flags.json.empty()) SLUICE_TRY(bench::write_whole(bench::json_text(run.json(flags)), flags.json));
    alive = bench::still_alive(lab);
    if (!alive) break;
  }
  for (const ConvOp op : {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad})
    if (const Totals t = totals_of(run.records, op); t.count > 0)
      fmt::print("{} of {}: first {:.1f}, best {:.1f}, best deterministic {:.1f} us\n", name_of(op), t.count,
                 t.first, t.best, t.deterministic);
  fmt::print("{} of {} convolutions in {:.0f} s\n", run.records.size(), problems.size(), seconds());
  SLUICE_TRY(alive);
  return right ? cli::kExitOk : cli::kExitNo;
}

Result<int> run_peers(const PeerFlags& flags) {
  SLUICE_TAKE(const std::vector<bench::CudnnConvolution> problems, problems_of(flags));
  if (!flags.list) return measure(flags, problems);
  for (const bench::CudnnConvolution& problem : problems) fmt::print("{}\n", flags_of(problem));
  return cli::kExitOk;
}

int report(const Error& error) {
  fmt::print(stderr, "sluice_conv_peers: {}: {}\n", name_of(error.code), printable(error.message));
  return cli::kExitError;
}

int run(int argc, char** argv) {
  cli::remember_command_line(argc, argv);
  PeerFlags flags;
  CLI::App app("Time every plan that cuDNN has for convolutions", "sluice_conv_peers");
  app.add_option("files", flags.files, "Convolutions, a line each: --input NxCxHxW --filter KxRxS ...")
      ->required();
  app.add_option("--conv", flags.conv, "fprop, dgrad, wgrad, or all three");
  app.add_option("--dtype", flags.dtype, "bf16 or fp16, of lines without");
  app.add_option("--d", flags.d, "Type of the result: the inputs', or fp32");
  app.add_option("--only", flags.only, "Convolutions with this text in their name");
  app.add_option("--from", flags.from, "Skip so many convolutions")->check(CLI::Range(0, 1000000));
  app.add_option("--seconds", flags.seconds, "Begin no convolution later than this; 0: no limit");
  app.add_option("--json", flags.json, "Write results here, after each convolution");
  app.add_option("--cudnn", flags.cudnn, "libcudnn.so.9 to load; else SLUICE_CUDNN, or a search");
  app.add_option("--device", flags.device, "The GPU's number");
  app.add_option("--rounds", flags.method.rounds, "Timed replays of each finalist")
      ->check(CLI::Range(1, 1000));
  app.add_option("--rest-ms", flags.method.rest_ms, "Idle before each")->check(CLI::Range(0.0, 10000.0));
  app.add_option("--replay-us", flags.method.replay_us, "Length of a replay")->check(CLI::Range(1.0, 1e6));
  app.add_option("--finalists", flags.rules.finalists, "Fastest plans to time with all rounds")
      ->check(CLI::Range(1, 1000));
  app.add_option("--workspace-mb", flags.workspace_mb, "Most workspace of a plan")
      ->check(CLI::Range(0, 65536));
  app.add_flag("--warm", flags.warm, "One set of operands, which may stay in L2");
  app.add_flag("--list", flags.list, "Print the convolutions and stop; needs no GPU");
  app.add_flag("--phases", flags.phases, "Print each phase to stderr");
  cli::check_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::Error& error) {
    return report({ErrorCode::invalid_argument,
                   cli::text_of(error, app) + " (sluice_conv_peers --help lists the flags)"});
  }
  const Result<int> done = run_peers(flags);
  return done ? *done : report(done.error());
}

}  // namespace
}  // namespace sluice::probes

int main(int argc, char** argv) {
  return sluice::probes::run(argc, argv);
}
