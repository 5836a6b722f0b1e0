// SPDX-License-Identifier: Apache-2.0
// A product of either kind, dense or of packed weights, where bench/ and the tool treat both alike: lists of
// problems, the tuner's search, its reports.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <sluice/packed.h>
#include <sluice/plan.h>

namespace sluice::bench {

using AnyProblem = std::variant<Problem, PackedProblem>;
using AnyPlan = std::variant<Plan, packed::Plan>;

/// problem_text (shapes.h) or, of a packed one, "16x3584x8192 fp16 * uint4 g64 > fp16".
std::string name_of(const AnyProblem& problem);

/// What the planner's model would consider, best estimate first.
Result<std::vector<AnyPlan>> candidates_of(const AnyProblem& problem, const DeviceInfo& device);
/// The plan that a record makes of it, of the first book that has one; nothing where the model would choose.
std::optional<AnyPlan> recorded_plan(const AnyProblem& problem, const DeviceInfo& device,
                                     std::span<const RecordBook> books);
/// The same kernel walking the same way.
bool is_same(const Plan& a, const Plan& b);
bool is_same(const AnyPlan& a, const AnyPlan& b);

AnyProblem problem_of(const AnyPlan& plan);
/// short_name, and the config as to_string has it.
std::string short_name(const AnyPlan& plan);
std::string config_text(const AnyPlan& plan);
double estimate_us(const AnyPlan& plan);

}  // namespace sluice::bench
