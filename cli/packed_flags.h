// SPDX-License-Identifier: Apache-2.0
// --weights and the flags that describe packed weights. Sizes, token type (--dtype), D, bias and activation
// use the same flags as dense products. A flag that a packed product cannot use is an error. Called by each
// verb that accepts problems, and for the lines of a problem file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/problem_flags.h"

namespace CLI {
class Option;
}

namespace sluice::cli {

struct PackedFlags {
  std::string weights, weight_scale = "fp16", zero = "none";
  int group = 128;
  bool norm_a = false;
  std::vector<const CLI::Option*> format_options;  // to check which were given
};

/// Adds --weights and the flags of its format.
void add_format_flags(CLI::App& app, PackedFlags& flags);
/// Adds the format's flags and --norm-a.
void add_packed_flags(CLI::App& app, PackedFlags& flags);

bool is_packed(const PackedFlags& flags);
/// True if a flag of dense products, such as "--stages", means the same with --weights.
bool is_shared_flag(const std::string& name);

Result<WeightFormat> format_of(const PackedFlags& flags);
/// Returns the packed problem and overrides that the flags describe.
Result<bench::Request> packed_request_of(const ProblemFlags& problem, const PackedFlags& flags);

}  // namespace sluice::cli
