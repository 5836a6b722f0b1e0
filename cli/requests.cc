// SPDX-License-Identifier: Apache-2.0
// Which flags exclude which. CLI11 knows whether an option was given; a default looks like any other value.
#include "cli/requests.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <sluice/host/text/quoted.h>

#include "bench/shapes.h"
#include "cli/packed_flags.h"

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

Result<std::vector<AnyRequest>> requests_of_file(const RequestFlags& flags, const PackedFlags& packed) {
  const std::string source = "--shapes " + escaped(flags.file);
  const char* rule = "write it on the problem's line in the file";
  if (!flags.set.empty())
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--set {} and {}: give one of them", escaped(flags.set), source)};
  for (const auto* options :
       {&flags.problem_options, &flags.override_options, &packed.format_options, &packed.override_options})
    if (Result<void> alone = refuse_given(*options, fmt::format("with {}: {}", source, rule)); !alone)
      return alone.error();
  return read_problem_file(flags.file);
}

constexpr const char* kSetsProblems =
    "the set says what its problems are; give --shape for one problem, or leave it out";

Result<std::vector<AnyRequest>> requests_of_packed_set(const RequestFlags& flags, const PackedFlags& packed) {
  std::vector<const CLI::Option*> dense = flags.override_options;  // all but those that both kinds have
  std::erase_if(dense, [](const CLI::Option* option) { return is_shared_flag(option->get_name()); });
  if (Result<void> alone =
          refuse_given(dense, "with --set packed: a packed product has no such choice; leave it out");
      !alone)
    return alone.error();
  std::vector<AnyRequest> requests;
  for (bench::PackedCase& item : bench::packed_set()) {
    item.overrides = packed_overrides_of(flags, packed);
    requests.push_back(std::move(item));
  }
  return requests;
}

Result<std::vector<AnyRequest>> requests_of_set(const RequestFlags& flags, const PackedFlags& packed) {
  const std::string source = "--set " + escaped(flags.set);
  for (const auto* options : {&flags.problem_options, &packed.format_options})
    if (Result<void> alone = refuse_given(*options, fmt::format("with {}: {}", source, kSetsProblems));
        !alone)
      return alone.error();
  if (flags.set == bench::kPackedSet) return requests_of_packed_set(flags, packed);
  if (Result<void> alone = refuse_given(
          packed.override_options, fmt::format("with {}: its weights are not packed; leave it out", source));
      !alone)
    return alone.error();
  const Result<std::vector<Problem>> problems = bench::problem_set(flags.set);
  if (!problems) return Error{problems.error().code, problems.error().message + ", " + bench::kPackedSet};
  const Result<PlanOverrides> overrides = overrides_of(flags.problem);
  if (!overrides) return overrides.error();
  std::vector<AnyRequest> requests;
  for (const Problem& problem : *problems)
    requests.push_back(ProblemRequest{.problem = problem, .overrides = *overrides});
  return requests;
}

}  // namespace

void add_request_flags(CLI::App& app, RequestFlags& flags) {
  flags.problem_options = added_by(app, flags.problem, add_problem_flags);
  flags.override_options = added_by(app, flags.problem, add_override_flags);
}

void add_many_requests_flags(CLI::App& app, RequestFlags& flags) {
  app.add_option("--set", flags.set,
                 fmt::format("A named set of problems: {}, {} (packed weights)",
                             fmt::join(bench::set_names(), ", "), bench::kPackedSet));
  app.add_option("--shapes", flags.file, "File of problems: lines of flags, or a JSON array");
  add_request_flags(app, flags);
}

std::string first_given(const std::vector<const CLI::Option*>& options) {
  for (const CLI::Option* option : options)
    if (option->count() > 0) return option->get_name();
  return "";
}

Result<void> refuse_given(const std::vector<const CLI::Option*>& options, const std::string& why) {
  const std::string given = first_given(options);
  if (given.empty()) return {};
  return Error{ErrorCode::invalid_argument, fmt::format("{} has no effect {}", given, why)};
}

bench::AnyProblem problem_of(const AnyRequest& request) {
  return std::visit([](const auto& r) { return bench::AnyProblem(r.problem); }, request);
}

Result<std::vector<AnyRequest>> requests_of(const RequestFlags& flags, const PackedFlags& packed) {
  if (!flags.file.empty()) return requests_of_file(flags, packed);
  if (!flags.set.empty()) return requests_of_set(flags, packed);
  if (is_packed(packed)) {
    const Result<bench::PackedCase> item = packed_case_of(flags, packed);
    if (!item) return item.error();
    return std::vector<AnyRequest>{*item};
  }
  if (Result<void> good = check_dense(packed); !good) return good.error();
  const Result<ProblemRequest> one = request_of(flags.problem);
  if (!one) return one.error();
  return std::vector<AnyRequest>{*one};
}

}  // namespace sluice::cli
