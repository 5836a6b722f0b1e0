// SPDX-License-Identifier: Apache-2.0
// Results of the tuner as text for a terminal: one line a problem, and a summary.
#pragma once

#include <string>
#include <vector>

#include "bench/tune/tune.h"

namespace sluice::cli {

/// The columns of tune_line.
std::string tune_header();
/// `name`: of the problem, where its own does not say all, as of a pointwise convolution.
std::string tune_line(const bench::TuneResult& result, const std::string& name = "");
/// Candidates that were wrong or failed, a line each; empty if none.
std::string tune_troubles(const bench::TuneResult& result);
/// `where`: the place of the records; `seconds`: time of the whole run.
std::string tune_summary(const std::vector<bench::TuneResult>& results, const std::string& where,
                         double seconds);

}  // namespace sluice::cli
