// SPDX-License-Identifier: Apache-2.0
// Chain records as JSON, with the machine, versions and method that `sluice bench` writes.
#pragma once

#include <string>
#include <vector>

#include "bench/chain/session.h"

namespace sluice::bench {

/// Returns the share of the GPU's peak_bytes_per_us that weights alone come at; 0 without a time.
double share_of_peak(const ChainRecord& record, double us);

/// Indented, ended by a newline; schema "sluice-chain-1". `run`: its shapes are not looked at.
std::string to_json(const RunRecord& run, const std::vector<ChainRecord>& chains);
/// To a temporary name beside `path` and renamed. Error io.
Result<void> write_json(const RunRecord& run, const std::vector<ChainRecord>& chains,
                        const std::string& path);

}  // namespace sluice::bench
