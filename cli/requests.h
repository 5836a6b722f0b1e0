// SPDX-License-Identifier: Apache-2.0
// From flags to a verb's problems: one problem, a named set, or a file of problems, dense, packed or of a
// convolution. A flag without effect beside another is an error. Called by each verb that takes problems.
#pragma once

#include <string>
#include <vector>

#include "bench/product.h"
#include "cli/conv_flags.h"
#include "cli/model_problems.h"
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
  ConvFlags conv;
  ModelFlags model;
  std::string set, file;
  std::vector<const CLI::Option*> problem_options, override_options;  // asked which were given
};

/// Adds the flags of one problem and the overrides, those of packed weights and convolutions included.
void add_request_flags(CLI::App& app, RequestFlags& flags);
/// Adds --set, --shapes and --model as well.
void add_many_requests_flags(CLI::App& app, RequestFlags& flags);

/// Whether the flags say which problem: a size, packed weights, or a convolution.
bool names_problem(const RequestFlags& flags);
/// The first of these flags that was given, or "".
std::string first_given(const std::vector<const CLI::Option*>& options);

/// Error invalid_argument: one of these flags was given; the message has "has no effect " and `why`.
Result<void> refuse_given(const std::vector<const CLI::Option*>& options, const std::string& why);
/// Error invalid_argument: a flag of packed weights was given without --weights.
Result<void> check_dense(const PackedFlags& flags);
/// Error invalid_argument: --weights beside --conv.
Result<void> refuse_packed_convolution(const RequestFlags& flags);
/// Refuses overrides of the planner, for either kind of product.
Result<void> refuse_overrides(const RequestFlags& flags, const std::string& why);

/// The one problem that the flags give: dense, with --weights packed, with --conv a convolution.
Result<bench::Request> request_of(const RequestFlags& flags);
/// Whether the flags say which problems: a set, a file, a model, or one problem.
bool names_problems(const RequestFlags& flags);
/// The problems of the file, or of the model; or those of the set, each with the overrides; or the one
/// problem. With --conv,
/// types, epilogue and overrides of the command line hold for all convolutions of a set or file. Errors:
/// invalid_argument (two of these at once, no such set, a bad flag), io (the file).
Result<std::vector<bench::Request>> requests_of(const RequestFlags& flags);

/// Parses a list of problems. If the first character is '[', it is JSON: an array of objects whose keys are
/// flag names. Else each line is one problem in flags ("4096x4096x4096 --dtype e4m3 --bias", "16x3584x8192
/// --weights int4", "--input 32x64x56x56 --filter 64x3x3"); a # begins a comment. `defaults`: the op of
/// convolutions, and types, epilogue and overrides of each problem, where it does not say them itself.
Result<std::vector<bench::Request>> parse_problem_list(const std::string& text,
                                                       const RequestFlags& defaults = {});
/// Parses such a list from a file. Error io: it cannot be read, or holds no problem.
Result<std::vector<bench::Request>> read_problem_file(const std::string& path,
                                                      const RequestFlags& defaults = {});

}  // namespace sluice::cli
