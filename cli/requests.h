// SPDX-License-Identifier: Apache-2.0
// From flags to the problems that a verb works on: one problem, a named set, or a file of problems. A flag
// that would have no effect beside another is an error, never dropped. Called by run, compile and bench.
#pragma once

#include <string>
#include <vector>

#include "cli/problem_flags.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sluice::cli {

struct RequestFlags {
  ProblemFlags problem;
  std::string set, file;
  std::vector<const CLI::Option*> problem_options, override_options;  // to ask which of them were given
};

/// Adds the flags of one problem and the overrides.
void add_request_flags(CLI::App& app, RequestFlags& flags);
/// Adds --set and --shapes too.
void add_many_requests_flags(CLI::App& app, RequestFlags& flags);

/// The first of these flags that was given; "" if none was.
std::string first_given(const std::vector<const CLI::Option*>& options);

/// The file's problems as they stand there; or the set's, each with the overrides; or the one problem.
/// Errors: invalid_argument (two of them at once, no such set, a bad flag), io (the file).
Result<std::vector<ProblemRequest>> requests_of(const RequestFlags& flags);

}  // namespace sluice::cli
