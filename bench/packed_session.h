// SPDX-License-Identifier: Apache-2.0
// A packed product beside what it competes with, in one run, each verified: a plain read of its blob, the FP8
// products of the same size (cuBLASLt's best algorithm, our own with its records), and cuBLASLt's 16-bit one.
// All rotate over copies of their own weights, so that L2 holds none. Used by `sluice run` and `bench`.
#pragma once

#include <string>
#include <vector>

#include <sluice/packed.h>

#include "bench/session.h"

namespace sluice::bench {

struct PackedCase {
  PackedProblem problem;
  packed::Overrides overrides;
};

/// `phase` is told what is being done. Whatever fails is written into the record and the rest goes on.
ShapeRecord measure_packed(const Lab& lab, const PackedCase& item, const Phase& phase);

/// The problems that the bars of packed weights are about: eight layers, groups of 64 and 128, 1 to 64 fp16
/// tokens, then 1 to 128 e4m3 ones with a scale each; and 16 x 3584 x 8192, the case that CUTLASS issue #1549
/// is about, first.
std::vector<PackedCase> packed_set();
inline constexpr const char* kPackedSet = "packed";

}  // namespace sluice::bench
