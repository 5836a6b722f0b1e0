// SPDX-License-Identifier: Apache-2.0
// `sluice fit`: how well does the cost model choose, and with which constants would it choose better? Prints
// constants to be put into sluice/host/planner/dense/cost_model.h by hand; needs no GPU.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include <sluice/host/text/quoted.h>

#include "cli/cost_fit.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace sluice::cli {
namespace {

struct FitFlags {
  std::vector<std::string> files;
  int passes = 0;
  int list = 0;
  std::string only;
  std::vector<std::string> moved;
};

void print_quality(const char* when, const FitQuality& q) {
  fmt::print("{:<8} pick / best: mean {:.4f}, worst {:.3f} ({}); spread of the times {:.3f}, error {:.3f}\n",
             when, q.loss, q.worst_loss, q.worst_shape, q.spread, q.error);
  std::fflush(stdout);
}

/// The shapes on which the model loses most.
void print_losses(const std::vector<FitShape>& shapes, const DeviceInfo& device,
                  const CostConstants& constants, int count) {
  struct Row {
    double loss;
    std::string text;
  };
  std::vector<Row> rows;
  const auto text = [](const FitShape::Timing& t, double estimated) {
    const KernelConfig& c = t.config;
    return fmt::format("{} {}x{} c{}x{}x{} {} {} {}/{} ({:.2f} us, model {:.2f})", name_of(c.schedule),
                       c.tile.m, c.tile.n, c.cluster.m, c.cluster.n, c.cluster.k, name_of(t.split.raster),
                       t.split.group, t.split.streamed, t.split.clusters, t.us, estimated);
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

Result<int> run_fit(const FitFlags& flags) {
  std::vector<FitShape> shapes;
  for (const std::string& file : flags.files) {
    Result<std::vector<FitShape>> read = read_fit_shapes(file);
    if (!read) return read.error();
    for (FitShape& shape : *read)
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
  const DeviceInfo device;
  fmt::print("{} shapes\n", shapes.size());
  print_quality("now", judge(shapes, device, kCostConstants));
  if (flags.passes == 0) {
    print_losses(shapes, device, kCostConstants, flags.list);
    return kExitOk;
  }
  const CostConstants fitted =
      fit(shapes, device, {.constants = kCostConstants, .moved = flags.moved}, flags.passes,
          [](int pass, const FitQuality& q) { print_quality(fmt::format("pass {}", pass).c_str(), q); });
  for (const FitParameter& parameter : fit_parameters())
    fmt::print("  double {} = {:.4g};  // was {:.4g}\n", parameter.name, fitted.*parameter.value,
               kCostConstants.*parameter.value);
  print_losses(shapes, device, fitted, flags.list);
  return kExitOk;
}

}  // namespace

Verb add_fit_verb(CLI::App& app) {
  auto flags = std::make_shared<FitFlags>();
  CLI::App* verb = app.add_subcommand(
      "fit", "Judge the cost model by measurements on an H200, and fit its constants to them");
  verb->add_option("files", flags->files, "JSON of `sluice tune --json` or `sluice bench --tune N --json`")
      ->required();
  verb->add_option("--passes", flags->passes, "Passes over the constants; 0: judge only")
      ->check(CLI::Range(0, 100));
  verb->add_option("--move", flags->moved, "Only these constants, by name, joined by commas")->delimiter(',');
  verb->add_option("--list", flags->list, "Show so many of the shapes that lose most")
      ->check(CLI::Range(0, 1000000));
  verb->add_option("--only", flags->only, "Shapes with this text in their name");
  return {verb, [flags] { return run_fit(*flags); }};
}

}  // namespace sluice::cli
