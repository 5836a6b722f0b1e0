// SPDX-License-Identifier: Apache-2.0
// Plan files hold the planner's choices as text, so that a change is a readable diff.
//   # comment
//   4096x4096x4096 e4m3>bf16 act=gelu        a problem: MxNxK, types (A[*B][>D]), then key=value in any order
//       cooperative 128x256x128 s4 c2x1 e4m3>bf16 gelu | 66 clusters along_m 8 | 4 waves
//   64x64x100 bf16
//       misaligned: k = 100 must be ...
// Keys of a problem: batch a b (=mn: major) lda ldb ldc ldd a_batch b_batch c_batch d_batch.
// Keys of its epilogue: scale_a scale_b scale_d bias act residual gated row_factors (yes or no) update
// scale_a_ld. Keys of its sums: order (fixed or any) accumulate.
// - Overrides: schedule tile_m tile_n stages (or ring) cluster (MxN or
//   MxNxK) store raster group clusters warps w_stages k_groups ctas.
// - Device: gpu (gpu_names(); before the following), sm_count clusters_of_2 clusters_of_4 clusters_of_8.
// - Packed products have the key weights (uint4, int8 or e4m3). Then weight_group weight_scale weight_order
//   zero give the format.
#pragma once

#include <string>
#include <vector>

#include <sluice/plan.h>

namespace sluice::plans {

struct Request {
  Problem problem;
  PlanOverrides overrides;
  DeviceInfo device;
};

/// Parses a request. Error invalid_argument: a word is unknown.
Result<Request> parse_request(const std::string& line);

/// Returns the line that is expected below a request: the plan, or the error.
std::string outcome(const Request& request);

/// One line of a plan file. The line below a request holds its expected outcome.
struct Entry {
  int line = 0;
  std::string text;      // as written
  bool request = false;  // false for comments and empty lines
  std::string expected;
};

std::vector<Entry> parse_file(const std::string& text);
/// Returns the file's text with each expected outcome replaced by what the planner answers now.
std::string regenerate(const std::vector<Entry>& entries);

}  // namespace sluice::plans
