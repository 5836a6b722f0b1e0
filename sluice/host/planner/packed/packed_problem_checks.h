// SPDX-License-Identifier: Apache-2.0
// Is this a packed problem that a kernel can address at all, and does a configuration fit it? Everything is
// refused here with the value, the rule and the remedy. Called by packed_planner.cc, and by packed.cc for
// plans made by hand.
#pragma once

#include <sluice/packed.h>

namespace sluice::packed {

inline constexpr i64 kMaxPitch = (i64{1} << 26) - 8;
inline constexpr i64 kMaxGatedTokens = 128;    // more are the wide kernel's, which does not gate
inline constexpr i64 kMaxResidualTokens = 64;  // only the narrow kernel adds, and more would be slow

/// Nothing to launch.
constexpr bool is_empty(const PackedProblem& problem) {
  return problem.m == 0 || problem.n == 0;
}

/// The problem with its leading dimensions filled in.
/// Errors: invalid_size, invalid_type, invalid_stride, misaligned, invalid_config (the weight format).
Result<PackedProblem> check_problem(const PackedProblem& problem);

/// The narrow kernel's config as far as the problem decides it; tile and ring are the planner's choice.
/// Without k no weights are read, so the format is one without a row part: its scales would lie in front of
/// an empty blob.
NarrowConfig config_for(const PackedProblem& problem);
/// NarrowConfig::held_tokens for so many tokens in tiles of so many blocks.
int held_tokens_for(i64 m, int token_blocks);
/// The wide kernel's config, as config_for(); only where there is k.
WideConfig wide_config_for(const PackedProblem& problem);
/// The strip kernel's config, as config_for().
StripConfig strip_config_for(const PackedProblem& problem);

/// The config with all that the problem says of it; choices stay what they are.
PackedConfig made_for(const PackedProblem& problem, const PackedConfig& config);

/// Do D's rows allow the copy engine's stores? Its address is a launch's.
bool rows_allow_boxes(const PackedProblem& checked);

/// nullptr, or the rule that the (valid) config breaks for this problem.
const char* why_not(const PackedProblem& problem, const NarrowConfig& config);
const char* why_not(const PackedProblem& problem, const WideConfig& config);
const char* why_not(const PackedProblem& problem, const StripConfig& config);

/// A plan made or changed by hand, checked and with all that follows from it. Errors: those of check_problem;
/// invalid_config.
Result<Plan> sealed(const Plan& plan, const DeviceInfo& device);

/// The plan of a checked problem and a config that fits it, without its estimate.
Plan plan_of(const PackedProblem& checked, const PackedConfig& config);

}  // namespace sluice::packed
