// SPDX-License-Identifier: Apache-2.0
// Chain records as JSON, with the machine, versions and method that `sluice bench` writes.
#pragma once

#include <string>
#include <vector>

#include "bench/chain/session.h"

namespace sluice::bench {

/// Returns the rate at which a layer's weights are read, as a fraction of peak_bytes_per_us; 0 if `us` is 0.
double share_of_peak(const ChainRecord& record, double us);

/// Returns indented JSON that ends in a newline; schema "sluice-chain-1". Ignores run.shapes.
std::string to_json(const RunRecord& run, const std::vector<ChainRecord>& chains);
/// Writes that JSON to a file by write_whole(). Error: io.
Result<void> write_json(const RunRecord& run, const std::vector<ChainRecord>& chains,
                        const std::string& path);

}  // namespace sluice::bench
