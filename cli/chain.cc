// SPDX-License-Identifier: Apache-2.0
// `sluice chain`: times the layers of a model as one CUDA graph, with the requested overlaps, without
// overlap, and with cuBLASLt's products. Without a GPU it compiles the kernels ahead of time, or prints the
// plan. The measurements are in bench/.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include <sluice/bench/chain.h>
#include <sluice/compile.h>
#include <sluice/record_file.h>
#include <sluice/text.h>
#include <sluice/try.h>

#include "cli/bounded.h"
#include "cli/chain/flags.h"
#include "cli/chain/table.h"
#include "cli/command_line.h"
#include "cli/measure_flags.h"
#include "cli/requests.h"
#include "cli/target.h"
#include "cli/value_checks.h"
#include "cli/verb.h"

namespace sluice::cli {
namespace {

struct ChainVerbFlags {
  ChainFlags chain;
  std::string json, commit, cublaslt, records, out, device = "auto";
  bool compile_only = false, explain = false;
  int hang_s = 120;
  bench::Method method;
  std::vector<const CLI::Option*> measured_options;  // flags that only a measurement uses
};

/// Refuses flags of timing and keeping, and `options`, where nothing is measured.
Result<void> refuse_unmeasured(const ChainVerbFlags& flags, const char* beside,
                               std::vector<const CLI::Option*> options = {}) {
  options.insert(options.end(), flags.measured_options.begin(), flags.measured_options.end());
  const auto& more = flags.chain.measured_options;
  options.insert(options.end(), more.begin(), more.end());
  return refuse_given(options, fmt::format("{}, where nothing is timed: leave it out", beside));
}

/// Plans the chains for `target` and prints the first layers of each variant.
Result<int> explain_cases(const std::vector<bench::ChainCase>& cases, const Target& target) {
  for (bench::ChainCase item : cases) {
    const int all = item.spec.layers;
    item.spec.layers = std::min(all, 2);
    item.spec.passes = 1;
    for (const bench::ArmSpec& arm : item.arms) {
      SLUICE_TAKE(const ChainPlan plan, plan_arm(item.spec, arm, target.info(), target.records));
      fmt::print("{}, {}, the first {} of {}\n{}{}\n", name_of(item.spec), arm.name, item.spec.layers,
                 counted(all, "layer"), bench::missing_record(plan, arm.options), explain(plan));
    }
  }
  return kExitOk;
}

/// Fills the cache under a progress bar. A unit that does not compile is the error.
Result<Compiled> fill_shown(const Options& options, const std::vector<std::string>& units) {
  Progress bar("compile");
  const auto done =
      compile_units(units, options, 0, [&bar](int ready, int total) { bar.update(ready, total); });
  bar.clear();
  if (done && done->first_failure) return *done->first_failure;
  return done;
}

Result<int> compile_cases(const std::vector<bench::ChainCase>& cases, const Target& target,
                          const Options& options) {
  std::vector<std::string> units;
  for (const bench::ChainCase& item : cases) {
    SLUICE_TAKE(std::vector<std::string> more, units_of(item, target.info(), target.records));
    units.insert(units.end(), more.begin(), more.end());
    for (std::string& unit : data_units_of(item)) units.push_back(std::move(unit));
  }
  SLUICE_TAKE(const Compiled done, fill_shown(options, units));
  fmt::print("{} for {}: {} compiled, {} already there; cache {}\n", counted(cases.size(), "chain"),
             target.info().name, done.compiled, done.already_there, escaped(options.cache_dir));
  return kExitOk;
}

bool all_right(const std::vector<bench::ChainRecord>& chains) {
  return std::all_of(chains.begin(), chains.end(), [](const bench::ChainRecord& record) {
    return record.error.empty() &&
           std::all_of(record.arms.begin(), record.arms.end(), [](const auto& arm) { return arm.right(); });
  });
}

/// The store to which --tune writes its records; empty without --tune.
Result<std::optional<RecordFile>> store_of(const ChainVerbFlags& flags, const Options& options) {
  if (flags.chain.tune_s <= 0) {
    if (!flags.out.empty() || !flags.records.empty())
      return Error{ErrorCode::invalid_argument, "--out and --records say where --tune keeps: give that too"};
    return std::optional<RecordFile>();
  }
  SLUICE_TAKE(RecordFile store, RecordFile::open(flags.out, flags.records, options));
  return std::optional<RecordFile>(std::move(store));
}

Result<int> time_cases(const std::vector<bench::ChainCase>& cases, const Device& device,
                       const ChainVerbFlags& flags) {
  bench::Method method = flags.method;
  method.peer = !flags.chain.against.empty();
  SLUICE_TAKE(std::optional<RecordFile> store, store_of(flags, device.options()));
  SLUICE_TAKE(const auto opened, bench::open_lab(device, {.method = method, .cublaslt = flags.cublaslt}));
  const bench::Lab& lab = *opened;
  const bench::RunRecord run = run_record(lab, flags.commit);
  fmt::print("{}, driver {}; {}; cuBLASLt {}\n{} of distinct weights, {} in a graph; {}\n\n", run.gpu,
             run.driver.empty() ? "unknown" : run.driver, run.nvrtc,
             without_cublaslt(lab).empty() ? run.cublaslt : "not loaded",
             counted(flags.chain.layers, "layer"), counted(flags.chain.passes, "time"),
             counted(run.rounds, "round"));
  fmt::print("{}", paint(stdout, Colour::bold, chain_header()));

  Job job("chain", flags.hang_s, cases.size());
  std::vector<bench::ChainRecord> chains;
  for (const bench::ChainCase& item : cases) {
    chains.push_back(measure_chain(lab, item, job.part(name_of(item.spec))));
    job.clear();
    const std::string lines = chain_lines(chains.back());
    fmt::print("{}", all_right({chains.back()}) ? lines : paint(stdout, Colour::red, lines));
    for (const bench::ArmRecord& arm : chains.back().arms) {
      if (arm.search && arm.search->refused > 0)
        fmt::print("{}: {} refused, the first by {}\n", arm.name, counted(arm.search->refused, "change"),
                   arm.search->why_refused);
    }
    std::fflush(stdout);
    for (const auto& tuned : chains.back().tuned)
      if (store) SLUICE_TRY(store->save(*tuned));
    if (!flags.json.empty()) SLUICE_TRY(write_json(run, chains, flags.json));
    SLUICE_TRY(check_alive(lab, fmt::format("{} of {} chains", chains.size(), cases.size())));
  }
  if (flags.explain)
    for (const bench::ChainRecord& record : chains)
      for (const bench::ArmRecord& arm : record.arms)
        fmt::print("\n{}, {}\n{}", name_of(record.spec), arm.name,
                   arm.text.empty() ? arm.detail + "\n" : arm.text);
  return all_right(chains) ? kExitOk : kExitNo;
}

Result<int> run_chain(const ChainVerbFlags& flags) {
  SLUICE_TAKE(const std::vector<bench::ChainCase> cases, cases_of(flags.chain));
  const Options options = options_from_environment();
  SLUICE_TAKE(const Target target, find_target(flags.device, options));
  if (flags.compile_only) {
    SLUICE_TRY(refuse_unmeasured(flags, "beside --compile-only"));
    return compile_cases(cases, target, options);
  }
  if (!target.device) {
    const Result<void> used = refuse_unmeasured(flags, "without a GPU", {flags.chain.tune_option});
    if (flags.explain && !used) return used.error();
    if (flags.explain) return explain_cases(cases, target);
    return Error{ErrorCode::invalid_argument,
                 "chain measures GPUs: without one there are --explain and --compile-only"};
  }
  return time_cases(cases, *target.device, flags);
}

}  // namespace

Verb add_chain_verb(CLI::App& app) {
  auto flags = std::make_shared<ChainVerbFlags>();
  ChainVerbFlags& f = *flags;
  CLI::App* verb = app.add_subcommand(
      "chain", "Time layers of a model as a chain of dependent launches, beside no overlap and cuBLASLt");
  add_chain_flags(*verb, f.chain);
  verb->add_flag("--explain", f.explain, "Print every step's kernel, overlap, bytes and estimate");
  verb->add_flag("--compile-only", f.compile_only, "Fill the kernel cache; needs no GPU with --device host");
  const auto measured = [&](CLI::Option* option) {
    f.measured_options.push_back(option);
    return option;
  };
  measured(verb->add_option("--json", f.json, "Write the results here, after every chain"));
  measured(verb->add_option("--out", f.out, "Keep what --tune finds in this file of records"));
  measured(verb->add_option("--records", f.records,
                            "Keep it in this folder (else the user's, SLUICE_RECORDS_DIR)"));
  measured(bounded(verb->add_option("--rounds", f.method.rounds, "Timed replays of every arm"), 1, 10000));
  measured(bounded(verb->add_option("--rest-ms", f.method.rest_ms, "Rest before each"), 0.0, kLongestRest));
  measured(bounded(verb->add_option("--heuristics", f.method.heuristics, "cuBLASLt algorithms to ask for"), 1,
                   256));
  verb->add_option("--seed", f.method.seed, "Seed of the data")->capture_default_str();
  verb->add_option("--cublaslt", f.cublaslt, "The libcublasLt to load");
  add_run_flags(*verb, f.commit, f.hang_s);
  verb->add_option("--device", f.device, "auto, host, or the number of a GPU")->capture_default_str();
  return {verb, [flags] { return run_chain(*flags); }};
}

}  // namespace sluice::cli
