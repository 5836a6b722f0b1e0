// SPDX-License-Identifier: Apache-2.0
// Which flags exclude which. CLI11 knows whether an option was given; a default looks like any other value.
#include "cli/requests.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "bench/shapes.h"

namespace sluice::cli {
namespace {

/// The options that `add` adds to `app`.
std::vector<const CLI::Option*> added_by(CLI::App& app, ProblemFlags& flags,
                                         void (*add)(CLI::App&, ProblemFlags&)) {
  const size_t before = app.get_options().size();
  add(app, flags);
  const std::vector<CLI::Option*> all = app.get_options();
  return {all.begin() + static_cast<std::ptrdiff_t>(before), all.end()};
}

/// Error if one of `options` was given beside `source`, which does not look at them.
Result<void> exclude(const std::string& source, const std::vector<const CLI::Option*>& options,
                     const char* rule) {
  const std::string given = first_given(options);
  if (given.empty()) return {};
  return Error{ErrorCode::invalid_argument, fmt::format("{} has no effect with {}: {}", given, source, rule)};
}

Result<std::vector<ProblemRequest>> requests_of_file(const RequestFlags& flags) {
  const std::string source = "--shapes " + flags.file;
  const char* rule = "write it on the problem's line in the file";
  if (!flags.set.empty())
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--set {} and {}: give one of them", flags.set, source)};
  for (const auto* options : {&flags.problem_options, &flags.override_options})
    if (Result<void> alone = exclude(source, *options, rule); !alone) return alone.error();
  return read_problem_file(flags.file);
}

Result<std::vector<ProblemRequest>> requests_of_set(const RequestFlags& flags) {
  const char* rule = "the set says what its problems are; give --shape for one problem, or leave it out";
  if (Result<void> alone = exclude("--set " + flags.set, flags.problem_options, rule); !alone)
    return alone.error();
  const Result<std::vector<Problem>> problems = bench::problem_set(flags.set);
  if (!problems) return problems.error();
  const Result<PlanOverrides> overrides = overrides_of(flags.problem);
  if (!overrides) return overrides.error();
  std::vector<ProblemRequest> requests;
  for (const Problem& problem : *problems) requests.push_back({.problem = problem, .overrides = *overrides});
  return requests;
}

}  // namespace

void add_request_flags(CLI::App& app, RequestFlags& flags) {
  flags.problem_options = added_by(app, flags.problem, add_problem_flags);
  flags.override_options = added_by(app, flags.problem, add_override_flags);
}

void add_many_requests_flags(CLI::App& app, RequestFlags& flags) {
  app.add_option("--set", flags.set,
                 fmt::format("A named set of problems: {}", fmt::join(bench::set_names(), ", ")));
  app.add_option("--shapes", flags.file, "File of problems: lines of flags, or a JSON array");
  add_request_flags(app, flags);
}

std::string first_given(const std::vector<const CLI::Option*>& options) {
  for (const CLI::Option* option : options)
    if (option->count() > 0) return option->get_name();
  return "";
}

Result<std::vector<ProblemRequest>> requests_of(const RequestFlags& flags) {
  if (!flags.file.empty()) return requests_of_file(flags);
  if (!flags.set.empty()) return requests_of_set(flags);
  const Result<ProblemRequest> one = request_of(flags.problem);
  if (!one) return one.error();
  return std::vector<ProblemRequest>{*one};
}

}  // namespace sluice::cli
