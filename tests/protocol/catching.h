// SPDX-License-Identifier: Apache-2.0
// Helpers for tests of planted bugs: a scenario has no fault without the bug, and one with it.
#pragma once

#include <sluice/twin/record.h>

#include "scenarios.h"

namespace sluice::twin {

/// Expects an exhaustive search of a small scenario to find the mutant's bug.
template <class Mutant>
inline void expect_all_catches(FailureKind kind, const Shape& shape) {
  const Exploration clean = explore_random(record_gemm(make(shape)), {.schedules = 20});
  expect_clean(clean, shape);
  expect_caught(explore_all(record<Mutant>(make(shape)), {.max_states = 3'000'000}), kind, shape);
}
/// Expects a random search of a larger scenario to find the bug, and returns it. It has a seed, unless the
/// bug shows within a single role.
template <class Mutant>
inline Exploration expect_random_catches(const Shape& shape) {
  const Exploration found = explore_random(record<Mutant>(make(shape)), {.seed = 1, .schedules = 300});
  EXPECT_TRUE(found.failure) << "not caught by chance: " << text_of(shape);
  return found;
}
template <class Mutant>
inline void expect_both_catch(FailureKind kind, const Shape& shape) {
  expect_all_catches<Mutant>(kind, shape);
  Shape larger = shape;
  larger.rows += 3;
  larger.stages += 1;
  larger.k_tiles = shape.k_tiles + 4;
  expect_clean(explore_random(record_gemm(make(larger)), {.seed = 1, .schedules = 20}), larger);
  expect_random_catches<Mutant>(larger);
}

}  // namespace sluice::twin
