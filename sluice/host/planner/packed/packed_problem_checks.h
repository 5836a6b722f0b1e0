// SPDX-License-Identifier: Apache-2.0
// Checks that a kernel can address a packed problem, and that a configuration fits it. Errors give the value,
// the rule and the remedy. Called by packed_planner.cc, and by packed.cc for plans made by hand.
#pragma once

#include <sluice/packed.h>

namespace sluice::packed {

inline constexpr i64 kMaxPitch = (i64{1} << 26) - 8;
// For more tokens only the wide kernel is fast, and it has no gate.
inline constexpr i64 kMaxGatedTokens = 128;
// Only the narrow kernel adds a residual, and it is slow with more tokens.
inline constexpr i64 kMaxResidualTokens = 64;

/// Returns whether there is nothing to launch.
constexpr bool is_empty(const PackedProblem& problem) {
  return problem.m == 0 || problem.n == 0;
}

/// Returns the problem with its leading dimensions filled in. Errors: invalid_size, invalid_type,
/// invalid_stride, misaligned, invalid_config (the weight format).
Result<PackedProblem> check_problem(const PackedProblem& problem);

/// Returns the narrow kernel's config with the fields that the problem decides; the planner chooses tile and
/// ring. With k = 0 no weights are read, and the format has no scales per row, which would precede the empty
/// blob.
NarrowConfig config_for(const PackedProblem& problem);
/// Returns NarrowConfig::held_tokens for m tokens in tiles of `token_blocks` blocks.
int held_tokens_for(i64 m, int token_blocks);
/// Returns the wide kernel's config, as config_for(). Only for k > 0.
WideConfig wide_config_for(const PackedProblem& problem);
/// Returns the strip kernel's config, as config_for().
StripConfig strip_config_for(const PackedProblem& problem);

/// Returns `config` with all fields that the problem decides set for it. The planner's choices are kept.
PackedConfig made_for(const PackedProblem& problem, const PackedConfig& config);

/// Returns whether the length and pitch of D's rows allow TMA stores. D's address is known only at a launch.
bool rows_allow_boxes(const PackedProblem& checked);

/// Returns nullptr, or the rule that a valid config breaks for this problem.
const char* why_not(const PackedProblem& problem, const NarrowConfig& config);
const char* why_not(const PackedProblem& problem, const WideConfig& config);
const char* why_not(const PackedProblem& problem, const StripConfig& config);

/// Checks a plan that was made or changed by hand, and returns it with all derived fields. Errors: those of
/// check_problem; invalid_config.
Result<Plan> sealed(const Plan& plan, const DeviceInfo& device);

/// Returns the plan of a checked problem and a config that fits it, without an estimate.
Plan plan_of(const PackedProblem& checked, const PackedConfig& config);

}  // namespace sluice::packed
