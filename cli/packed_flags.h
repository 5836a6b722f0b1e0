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

inline constexpr const char* kWeightNames = "int4, uint4, int8, e4m3, e2m1";
inline constexpr const char* kGroupHelp = "k that share a scale: 32, 64, 128 (default); 0: all. e2m1: 32";
inline constexpr const char* kScaleHelp = "Type of scales and zeros: fp16 (default), bf16, fp32. e2m1: e8m0";

struct PackedFlags {
  std::string weights, zero = "none";
  std::optional<std::string> weight_scale;  // default_format() gives what is left out
  std::optional<int> group;
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

/// Returns the default format of the type that --weights names; "int4" is uint4.
Result<WeightFormat> format_named(const std::string& weights, ScaleZero zero);
Result<WeightFormat> format_of(const PackedFlags& flags);
/// Returns the packed problem and overrides that the flags describe.
Result<bench::Request> packed_request_of(const ProblemFlags& problem, const PackedFlags& flags);

}  // namespace sluice::cli
