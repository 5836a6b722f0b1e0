// SPDX-License-Identifier: Apache-2.0
// What a product that is all weights is held to: a kernel that does nothing but read B with plain 16-byte
// loads. Timed beside the others in the same run; no result depends on what it reads.
#pragma once

#include <vector>

#include <sluice/check/verify.h>

#include "bench/contender/contender.h"
#include "bench/lab.h"

namespace sluice::bench {

/// Is B at least four times as large as A and D together?
bool is_mostly_weights(const Problem& problem);

/// What is read: the same number of bytes at each address.
struct Weights {
  std::vector<const void*> copies;
  i64 bytes = 0;
};

/// Reads the weights of the copy. Errors: toolchain, driver.
Result<Contender> read_floor_contender(const Lab& lab, const Weights& weights, const std::string& name);

}  // namespace sluice::bench
