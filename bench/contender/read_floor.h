// SPDX-License-Identifier: Apache-2.0
// The read floor: a kernel that only reads B, with plain 16-byte loads. A product that is mostly weights is
// compared with it in the same run. The values read do not matter.
#pragma once

#include <vector>

#include <sluice/check/verify.h>

#include "bench/contender/contender.h"
#include "bench/lab.h"

namespace sluice::bench {

/// Whether B is at least four times as large as A and D together.
bool is_mostly_weights(const Problem& problem);

/// The memory to read: `bytes` at each address.
struct Weights {
  std::vector<const void*> copies;
  i64 bytes = 0;
};

/// Reads the weights of one copy. Errors: toolchain, driver.
Result<Contender> read_floor_contender(const Lab& lab, const Weights& weights, const std::string& name);

}  // namespace sluice::bench
