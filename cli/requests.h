// SPDX-License-Identifier: Apache-2.0
// From flags to the problems that a verb works on: one problem, a named set, or a file of problems, dense or
// of packed weights. A flag that would have no effect beside another is an error, never dropped. Called by
// run, compile, bench and tune.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "bench/packed_session.h"
#include "bench/product.h"
#include "cli/problem_flags.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sluice::cli {

struct PackedFlags;  // cli/packed_flags.h

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

/// Error invalid_argument: one of these flags was given, and "has no effect " and `why`.
Result<void> refuse_given(const std::vector<const CLI::Option*>& options, const std::string& why);

/// A problem of either kind with the overrides that came with it.
using AnyRequest = std::variant<ProblemRequest, bench::PackedCase>;
bench::AnyProblem problem_of(const AnyRequest& request);

/// The file's problems as they stand there; or the set's, each with the overrides; or the one problem.
/// Errors: invalid_argument (two of them at once, no such set, a bad flag), io (the file).
Result<std::vector<AnyRequest>> requests_of(const RequestFlags& flags, const PackedFlags& packed);

/// A list of problems: JSON (an array of objects whose keys are flag names) if the first character is '[',
/// else one problem a line in flags ("4096x4096x4096 --dtype e4m3 --bias", "16x3584x8192 --weights int4"),
/// # to the end of line ignored.
Result<std::vector<AnyRequest>> parse_problem_list(const std::string& text);
/// The same from a file. Error io: it cannot be read, or holds no problem.
Result<std::vector<AnyRequest>> read_problem_file(const std::string& path);

}  // namespace sluice::cli
