// SPDX-License-Identifier: Apache-2.0
// Texts and sizes of problems and plans. The sets that shapes.cc has too are in sluice/bench/sets.h.
#pragma once

#include <span>
#include <string>

#include <sluice/bench/request.h>
#include <sluice/bench/sets.h>
#include <sluice/records.h>

namespace sluice::bench {

/// Returns for example "4096x4096x4096".
std::string shape_text(const Problem& problem);
/// The name of a dense problem, as name_of() of sluice/bench/request.h returns it.
std::string problem_text(const Problem& problem);

/// Bytes of A, B, C and D that must move at least once.
double dense_traffic(const Problem& problem);

/// Names of a plan within one problem: config and split as to_string prints them. Plans of packed weights do
/// not split work, and the text of the split is "".
std::string config_text(const Plan& plan);
std::string split_text(const Plan& plan);

/// Returns the plan of the first book that has a record for the problem; nothing if no book has one.
std::optional<Plan> recorded_plan(const Problem& problem, const DeviceInfo& device,
                                  std::span<const RecordBook> books);

}  // namespace sluice::bench
