// SPDX-License-Identifier: Apache-2.0
// Chain records as text for a terminal: one line per variant.
#pragma once

#include <string>

#include <sluice/bench/chain.h>

namespace sluice::cli {

std::string chain_header();
/// Lines for all variants of one chain. A variant that failed shows its error in place of times.
std::string chain_lines(const bench::ChainRecord& record);

}  // namespace sluice::cli
