// SPDX-License-Identifier: Apache-2.0
// Converts flags to a verb's problems: one problem, a named set, or a file of problems. They may be dense,
// packed or convolutions. A flag that has no effect together with another one is an error. Called by each
// verb that accepts problems.
#pragma once

#include <string>
#include <vector>

#include <sluice/bench/request.h>

#include "cli/model_problems.h"
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
  std::vector<const CLI::Option*> problem_options, override_options;  // to check which were given
};

/// Adds the flags of one problem and the overrides, including those of packed weights and convolutions.
void add_request_flags(CLI::App& app, RequestFlags& flags);
/// Adds the flags of add_request_flags(), --set, --shapes and --model.
void add_many_requests_flags(CLI::App& app, RequestFlags& flags);

/// True if the flags describe a problem: a size, packed weights, or a convolution.
bool names_problem(const RequestFlags& flags);
/// Returns the name of the first of these options that was given, or "".
std::string first_given(const std::vector<const CLI::Option*>& options);

/// Returns an error (invalid_argument) if one of these options was given. The message contains "has no effect
/// " and `why`.
Result<void> refuse_given(const std::vector<const CLI::Option*>& options, const std::string& why);
/// Returns an error (invalid_argument) if a flag of packed weights was given without --weights.
Result<void> check_dense(const PackedFlags& flags);
/// Returns an error (invalid_argument) if both --weights and --conv were given.
Result<void> refuse_packed_convolution(const RequestFlags& flags);
/// Refuses overrides of the planner, of both dense and packed products.
Result<void> refuse_overrides(const RequestFlags& flags, const std::string& why);

/// Returns the one problem that the flags describe: dense, packed with --weights, a convolution with --conv.
Result<bench::Request> request_of(const RequestFlags& flags);
/// True if the flags name problems: a set, a file, a model, or one problem.
bool names_problems(const RequestFlags& flags);
/// Returns the problems of --shapes, of --model or of --set, or the one that the flags describe. Overrides
/// apply to each problem of a set. With --conv, the types, epilogue and overrides of the command line apply
/// to all convolutions of a set or file. Errors: invalid_argument (two of these flags at once, no such set, a
/// bad flag), io (the file).
Result<std::vector<bench::Request>> requests_of(const RequestFlags& flags);

/// Parses a list of problems. If the first character is '[', it is JSON: an array of objects whose keys are
/// flag names. Else each line has the flags of one problem: "4096x4096x4096 --dtype e4m3 --bias",
/// "16x3584x8192 --weights int4", "--input 32x64x56x56 --filter 64x3x3". A # begins a comment. `defaults`
/// gives what a problem does not set itself: the operation of convolutions, types, epilogue and overrides.
Result<std::vector<bench::Request>> parse_problem_list(const std::string& text,
                                                       const RequestFlags& defaults = {});
/// Reads and parses a list of problems from a file. Error io: the file cannot be read, or holds no problem.
Result<std::vector<bench::Request>> read_problem_file(const std::string& path,
                                                      const RequestFlags& defaults = {});

}  // namespace sluice::cli
