// SPDX-License-Identifier: Apache-2.0
// Chain records as JSON, with the machine, versions and method that `sluice bench` writes.
#pragma once

#include <string>
#include <vector>

#include "bench/chain/session.h"

namespace sluice::bench {

/// The rate at which the weights are read, as a share of the GPU's peak_bytes_per_us; 0 without a time.
double share_of_peak(const ChainRecord& record, double us);

/// Indented, ended by a newline; schema "sluice-chain-1". The shapes of `run` are not read.
std::string to_json(const RunRecord& run, const std::vector<ChainRecord>& chains);
/// Writes through write_whole. Error io.
Result<void> write_json(const RunRecord& run, const std::vector<ChainRecord>& chains,
                        const std::string& path);

}  // namespace sluice::bench
