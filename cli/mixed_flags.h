// SPDX-License-Identifier: Apache-2.0
// --weights and what goes with it: the flags that make a problem a mixed one. Sizes, token type (--dtype), D,
// bias and activation are the usual flags; those that a mixed product has no use for are an error, never
// dropped. Called by plan, run and bench.
#pragma once

#include <optional>
#include <string>

#include "bench/mixed_session.h"
#include "cli/requests.h"

namespace sluice::cli {

struct MixedFlags {
  std::string weights, weight_scale = "fp16", zero = "none";
  int group = 128;
  std::optional<int> token_blocks, row_blocks, warps, parts, ctas, tokens, strips, k_groups;
  std::vector<const CLI::Option*> options;  // all of them, to ask which were given
};

void add_mixed_flags(CLI::App& app, MixedFlags& flags);

bool is_mixed(const MixedFlags& flags);

/// Without --weights: error if another of the mixed flags was given. With it: the problem and overrides, or
/// what is wrong with the flags.
Result<void> check_dense(const MixedFlags& flags);
Result<bench::MixedCase> mixed_case_of(const RequestFlags& request, const MixedFlags& flags);

}  // namespace sluice::cli
