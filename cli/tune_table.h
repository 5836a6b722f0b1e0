// SPDX-License-Identifier: Apache-2.0
// Results of the tuner as text for a terminal: one line per problem, and a summary.
#pragma once

#include <string>
#include <vector>

#include <sluice/bench/tune.h>

namespace sluice::cli {

/// Returns the header for lines of tune_line().
std::string tune_header();
/// Returns one line of the table. `name`: text for the problem, used where the problem's own name says too
/// little, as for a pointwise convolution.
std::string tune_line(const bench::TuneResult& result, const std::string& name = "");
/// Lists the candidates that were wrong or failed, one line each; empty if there are none.
std::string tune_troubles(const bench::TuneResult& result);
/// Summarises a run. `where`: the folder of the records. `seconds`: time of the whole run.
std::string tune_summary(const std::vector<bench::TuneResult>& results, const std::string& where,
                         double seconds);

}  // namespace sluice::cli
