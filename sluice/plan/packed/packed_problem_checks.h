// SPDX-License-Identifier: Apache-2.0
// Checks that a kernel can address a packed problem, and that a configuration fits it. Errors give the value,
// the rule and the remedy. Called by packed_planner.cc, and by packed.cc for plans made by hand.
#pragma once

#include <sluice/plan.h>
#include <sluice/spec/packed_config.h>

namespace sluice::packed {

inline constexpr i64 kMaxPitch = (i64{1} << 26) - 8;
// For more tokens only the wide kernel is fast, and it has no gate.
inline constexpr i64 kMaxGatedTokens = 128;
// Only the narrow kernel adds a residual, and it is slow with more tokens.
inline constexpr i64 kMaxResidualTokens = 64;

/// Returns the problem in one form, with its strides. Errors: invalid_size, invalid_type, invalid_stride,
/// misaligned, invalid_config (the weight format).
Result<Problem> check_packed(const Problem& problem);
/// Returns the one spelling of a product, with its strides: fields that are not read have their defaults.
/// A problem that check_packed() refuses is returned as it is.
Problem one_spelling(Problem problem);

/// Returns the narrow kernel's config with the fields that the problem decides; the planner chooses tile and
/// ring. With k = 0 no weights are read, and the format has no scales per row, which would precede the empty
/// blob.
NarrowConfig config_for(const Problem& problem);
/// Returns NarrowConfig::held_tokens for m tokens in tiles of `token_blocks` blocks.
int held_tokens_for(const Problem& problem, int token_blocks);
/// Returns the wide kernel's config, as config_for(). Only for k > 0.
WideConfig wide_config_for(const Problem& problem);
/// Returns the strip kernel's config, as config_for().
StripConfig strip_config_for(const Problem& problem);

/// Returns `config` with all fields that the problem decides set for it. The planner's choices are kept.
KernelConfig made_for(const Problem& problem, const KernelConfig& config);

/// Returns whether the length and pitch of D's rows allow TMA stores. D's address is known only at a launch.
bool rows_allow_boxes(const Problem& checked);

/// Returns nullptr, or the rule that a valid config breaks for this problem.
const char* why_not(const Problem& problem, const NarrowConfig& config);
const char* why_not(const Problem& problem, const WideConfig& config);
const char* why_not(const Problem& problem, const StripConfig& config);

/// Checks a plan that was made or changed by hand, and returns it with all derived fields. Errors: those of
/// check_packed; invalid_config.
Result<Plan> sealed(const Plan& plan, const DeviceInfo& device);

/// Returns the plan of a checked problem and a config that fits it, without an estimate.
Plan plan_for(const Problem& checked, const KernelConfig& config);

}  // namespace sluice::packed
