// SPDX-License-Identifier: Apache-2.0
// All three products of random convolutions, simulated load by load on a CPU, equal the reference to the bit,
// with any tile, cluster and division of k. Every element of D is written once, and gaps between pixels are
// not read. Each planted bug is found within 60 geometries.
//   SLUICE_WALK_FIRST, SLUICE_WALK_COUNT   geometries to check (default 0, 1500)
#include <gtest/gtest.h>

#include <cstdlib>

#include "conv_walk.h"

namespace sluice::test {
namespace {

unsigned setting(const char* name, unsigned otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::atoi(text));
}

TEST(conv_walk, is_the_reference_on_random_geometries) {
  const unsigned first = setting("SLUICE_WALK_FIRST", 0), count = setting("SLUICE_WALK_COUNT", 1500);
  for (unsigned seed = first; seed < first + count; ++seed)
    ASSERT_EQ(check_random_walk(seed, WalkMutant::none), "")
        << "SLUICE_WALK_COUNT=1 SLUICE_WALK_FIRST=" << seed;
  if (count < 1500) return;
  const WalkCounts seen = walk_counts();  // three products per geometry
  for (const int kind : {seen.strided, seen.dilated, seen.split, seen.clustered, seen.padded_blocks})
    EXPECT_GT(kind, 1000);
  EXPECT_GT(seen.empty_phases, 100);
}

TEST(conv_walk, sees_every_planted_bug) {
  for (int i = 1; i < static_cast<int>(WalkMutant::last); ++i) {
    unsigned tries = 0;
    std::string found;
    for (; tries < 60 && found.empty(); ++tries)
      found = check_random_walk(5000 + tries, static_cast<WalkMutant>(i));
    EXPECT_NE(found, "") << "mutant " << i << " of WalkMutant is not seen";
    std::printf("mutant %2d: geometry %u, %s\n", i, tries, found.c_str());
  }
}

}  // namespace
}  // namespace sluice::test
