// SPDX-License-Identifier: Apache-2.0
// Loads single TMA boxes and returns the loaded data.
#pragma once

#include "maps.h"

namespace probe {

/// Loads boxes one after the other and copies them back to the caller. Simple rather than fast: each call is
/// one launch, whose wait has a time limit.
class BoxLoader {
 public:
  explicit BoxLoader(int most_bytes);
  /// Returns the box as it is in shared memory. `*arrived` is set to false if its bytes did not arrive in
  /// time.
  std::vector<unsigned char> im2col(const CUtensorMap& map, const Geometry& g, const Start& start,
                                    bool* arrived);
  std::vector<unsigned char> tiled(const CUtensorMap& map, const Matrix& m, int column, int row,
                                   bool* arrived);
  /// Loads a multicast box. Each CTA of a cluster of `ctas` loads a slice of g.pixels rows, from starts[rank]
  /// on, for all CTAs. Returns the shared memory of all CTAs, one after the other.
  std::vector<unsigned char> multicast(const CUtensorMap& map, const Geometry& g,
                                       const std::vector<Start>& starts, bool* arrived);

 private:
  std::vector<unsigned char> finish(size_t bytes, bool* arrived);
  unsigned char* out_;
  int* arrived_;
};

}  // namespace probe
