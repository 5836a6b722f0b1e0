// SPDX-License-Identifier: Apache-2.0
// `sluice fit`: how well does the cost model choose, and with which constants would it choose better? Prints
// constants to be put into sluice/host/planner/cost_model.h by hand; needs no GPU.
#include <fmt/format.h>

#include <memory>

#include "cli/cost_fit.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace sluice::cli {
namespace {

struct FitFlags {
  std::vector<std::string> files;
  int passes = 0;
  std::string only;
};

void print_quality(const char* when, const FitQuality& q) {
  fmt::print("{:<8} pick / best: mean {:.4f}, worst {:.3f} ({}); spread of the times {:.3f}\n", when, q.loss,
             q.worst_loss, q.worst_shape, q.spread);
  std::fflush(stdout);
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
  const DeviceInfo device;
  fmt::print("{} shapes\n", shapes.size());
  print_quality("now", judge(shapes, device, kCostConstants));
  if (flags.passes == 0) return kExitOk;
  const CostConstants fitted =
      fit(shapes, device, kCostConstants, flags.passes,
          [](int pass, const FitQuality& q) { print_quality(fmt::format("pass {}", pass).c_str(), q); });
  for (const FitParameter& parameter : fit_parameters())
    fmt::print("  double {} = {:.4g};  // was {:.4g}\n", parameter.name, fitted.*parameter.value,
               kCostConstants.*parameter.value);
  return kExitOk;
}

}  // namespace

Verb add_fit_verb(CLI::App& app) {
  auto flags = std::make_shared<FitFlags>();
  CLI::App* verb =
      app.add_subcommand("fit", "Judge the cost model by measurements, and fit its constants to them");
  verb->add_option("files", flags->files, "JSON of `sluice tune --json` or `sluice bench --tune N --json`")
      ->required();
  verb->add_option("--passes", flags->passes, "Passes over the constants; 0: judge only")
      ->check(CLI::Range(0, 100));
  verb->add_option("--only", flags->only, "Shapes with this text in their name");
  return {verb, [flags] { return run_fit(*flags); }};
}

}  // namespace sluice::cli
