// SPDX-License-Identifier: Apache-2.0
// --weights and what goes with it: the flags that make a problem a packed one. Sizes, token type (--dtype),
// D, bias and activation are the usual flags; those that a packed product has no use for are an error, never
// dropped. Called by every verb that takes problems, and for the lines of a problem file.
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
  bool norm_x = false;
  std::optional<int> token_blocks, row_blocks, warps, parts, ctas;  // of the narrow kernel
  std::optional<int> tokens_tile, cluster_n, cluster_k, x_stages, w_stages, tail_parts;  // of the wide one
  std::optional<int> strips, k_groups;                               // of the strip kernel
  std::vector<const CLI::Option*> format_options, override_options;  // to ask which of them were given
};

/// --weights and its format.
void add_format_flags(CLI::App& app, PackedFlags& flags);
/// Those, and what overrules the planner; --stages and --no-records are the dense ones.
void add_packed_flags(CLI::App& app, PackedFlags& flags);

bool is_packed(const PackedFlags& flags);
/// Does a flag of dense products, like "--stages", mean the same with --weights?
bool is_shared_flag(const std::string& name);

Result<WeightFormat> format_of(const PackedFlags& flags);
packed::Overrides packed_overrides_of(const ProblemFlags& problem, const PackedFlags& flags);
/// The problem and overrides of flags with --weights, or what is wrong with them.
Result<bench::PackedRequest> packed_request_of(const ProblemFlags& problem, const PackedFlags& flags);

}  // namespace sluice::cli
