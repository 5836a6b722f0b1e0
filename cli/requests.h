// SPDX-License-Identifier: Apache-2.0
// From flags to the problems that a verb works on: one problem, a named set, or a file of problems, dense or
// of packed weights. A flag that would have no effect beside another is an error, never dropped. Called by
// every verb that takes problems.
#pragma once

#include <string>
#include <vector>

#include "bench/product.h"
#include "cli/packed_flags.h"
#include "cli/problem_flags.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sluice::cli {

struct RequestFlags {
  ProblemFlags problem;
  PackedFlags packed;
  std::string set, file;
  std::vector<const CLI::Option*> problem_options, override_options;  // to ask which of them were given
};

/// Adds the flags of one problem and the overrides, those of packed weights too.
void add_request_flags(CLI::App& app, RequestFlags& flags);
/// Adds --set and --shapes too.
void add_many_requests_flags(CLI::App& app, RequestFlags& flags);

/// The first of these flags that was given; "" if none was.
std::string first_given(const std::vector<const CLI::Option*>& options);

/// Error invalid_argument: one of these flags was given, and "has no effect " and `why`.
Result<void> refuse_given(const std::vector<const CLI::Option*>& options, const std::string& why);
/// Error invalid_argument: a flag of packed weights was given, and --weights was not.
Result<void> check_dense(const PackedFlags& flags);
/// The same of flags that overrule the planner, of either kind of product.
Result<void> refuse_overrides(const RequestFlags& flags, const std::string& why);

/// The one problem that the flags say, dense or, with --weights, packed.
Result<bench::Request> request_of(const RequestFlags& flags);
/// The file's problems as they stand there; or the set's, each with the overrides; or the one problem.
/// Errors: invalid_argument (two of them at once, no such set, a bad flag), io (the file).
Result<std::vector<bench::Request>> requests_of(const RequestFlags& flags);

/// A list of problems: JSON (an array of objects whose keys are flag names) if the first character is '[',
/// else one problem a line in flags ("4096x4096x4096 --dtype e4m3 --bias", "16x3584x8192 --weights int4"),
/// # to the end of line ignored.
Result<std::vector<bench::Request>> parse_problem_list(const std::string& text);
/// The same from a file. Error io: it cannot be read, or holds no problem.
Result<std::vector<bench::Request>> read_problem_file(const std::string& path);

}  // namespace sluice::cli
