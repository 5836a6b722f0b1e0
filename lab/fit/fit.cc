// SPDX-License-Identifier: Apache-2.0
// `sluice_lab fit`: measures the cost model's choices and fits its constants. The result is copied by hand
// into the table of sluice/plan/constants.cc; --constants prints that table. Needs no GPU.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include <sluice/plan/constants.h>
#include <sluice/text.h>
#include <sluice/try.h>

#include "lab/fit/cost_fit.h"
#include "lab/verbs.h"

namespace sluice::fitting {
namespace {

struct FitFlags {
  std::vector<std::string> files;
  int passes = 0;
  int list = 0;
  std::string only, gpu = "h200";
  std::vector<std::string> moved;
  bool constants = false;
};

void print_quality(const char* when, const FitQuality& q) {
  fmt::print("{:<8} pick / best: mean {:.4f}, worst {:.3f} ({}); spread of the times {:.3f}, error {:.3f}\n",
             when, q.loss, q.worst_loss, q.worst_shape, q.spread, q.error);
  std::fflush(stdout);
}

/// Prints the shapes on which the model loses most.
void print_losses(const std::vector<FitShape>& shapes, const DeviceInfo& device, const Costs& constants,
                  int count) {
  struct Row {
    double loss;
    std::string text;
  };
  std::vector<Row> rows;
  const auto text = [](const FitShape::Timing& t, double estimated) {
    const KernelConfig& c = t.config;
    return fmt::format("{} {}x{} c{}x{}x{} {} {} {}/{} ({:.2f} us, model {:.2f})", name_of(c.schedule),
                       c.tile.m, c.tile.n, c.cluster.m, c.cluster.n, c.cluster.k, name_of(t.split.raster),
                       t.split.group, t.split.slices, t.split.clusters, t.us, estimated);
  };
  for (const FitShape& shape : shapes) {
    const FitPick p = pick_of(shape, device, constants);
    rows.push_back({p.pick->us / p.best->us,
                    fmt::format("{:<40} pick {}, best {}", shape.name, text(*p.pick, p.estimate_us),
                                text(*p.best, p.best_estimate_us))});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& x, const Row& y) { return x.loss > y.loss; });
  for (int i = 0; i < count && i < static_cast<int>(rows.size()); ++i)
    fmt::print("{:.3f}  {}\n", rows[static_cast<size_t>(i)].loss, rows[static_cast<size_t>(i)].text);
}

/// Prints the whole table, one line per row.
void print_constants() {
  for (const ConstantText& row : all_constants())
    fmt::print("{:<16} {:<34} {:>12} {:<18} {:<7} {}; {}\n", row.set, row.name, row.value, row.unit,
               row.origin, row.meaning, row.source);
}

Result<void> run_fit(const FitFlags& flags) {
  if (flags.constants) {
    print_constants();
    return {};
  }
  std::vector<FitShape> shapes;
  for (const std::string& file : flags.files) {
    SLUICE_TAKE(std::vector<FitShape> read, read_fit_shapes(file));
    for (FitShape& shape : read)
      if (shape.name.find(flags.only) != std::string::npos) shapes.push_back(std::move(shape));
  }
  if (shapes.empty())
    return Error{ErrorCode::invalid_argument,
                 "no shape with two timed candidates: give files of `sluice tune --json`"};
  for (const std::string& name : flags.moved)
    if (std::none_of(fit_parameters().begin(), fit_parameters().end(),
                     [&](const FitParameter& parameter) { return parameter.name == name; }))
      return Error{ErrorCode::invalid_argument,
                   fmt::format("--move {}: there is no such constant; without --move all are listed",
                               in_quotes(name))};
  SLUICE_TAKE(const DeviceInfo device, gpu_named(flags.gpu));
  fmt::print("{} shapes\n", shapes.size());
  print_quality("now", judge(shapes, device, kCosts));
  if (flags.passes == 0) {
    print_losses(shapes, device, kCosts, flags.list);
    return {};
  }
  const Costs fitted =
      fit(shapes, device, {.constants = kCosts, .moved = flags.moved}, flags.passes,
          [](int pass, const FitQuality& q) { print_quality(fmt::format("pass {}", pass).c_str(), q); });
  for (const FitParameter& parameter : fit_parameters())
    fmt::print("{} = {:.4g} {}, was {:.4g}\n", parameter.name, fitted.*parameter.member, parameter.unit,
               kCosts.*parameter.member);
  print_losses(shapes, device, fitted, flags.list);
  return {};
}

}  // namespace
}  // namespace sluice::fitting

namespace sluice::lab {

Verb add_fit_verb(CLI::App& app) {
  auto flags = std::make_shared<fitting::FitFlags>();
  CLI::App* verb =
      app.add_subcommand("fit", "Judge the cost model by measurements, and fit its constants to them");
  verb->add_option("files", flags->files, "JSON of `sluice tune --json` or `sluice bench --tune N --json`");
  verb->add_flag("--constants", flags->constants,
                 "Print the planner's constants: value, unit, origin, meaning, source");
  verb->add_option("--passes", flags->passes, "Passes over the constants; 0: judge only")
      ->check(CLI::Range(0, 100));
  verb->add_option("--move", flags->moved, "Only these constants, by name, joined by commas")->delimiter(',');
  verb->add_option("--list", flags->list, "Show so many of the shapes that lose most")
      ->check(CLI::Range(0, 1000000));
  verb->add_option("--gpu", flags->gpu, "The GPU of the measurements: h200, h100, ...")
      ->capture_default_str();
  verb->add_option("--only", flags->only, "Shapes with this text in their name");
  return {verb, [flags]() -> Result<int> {
            SLUICE_TRY(fitting::run_fit(*flags));
            return cli::kExitOk;
          }};
}

}  // namespace sluice::lab
