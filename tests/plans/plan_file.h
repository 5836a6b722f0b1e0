// SPDX-License-Identifier: Apache-2.0
// The plan files: what the planner chooses, as text that a person can read and a diff can show.
//   # comment
//   4096x4096x4096 e4m3>bf16 act=gelu        a problem: MxNxK, types (A[*B][>D]), then key=value in any order
//       cooperative 128x256x128 s4 c2x1 e4m3>bf16 gelu | 66 clusters along_m 8 | 4 waves
//   64x64x100 bf16
//       misaligned: k = 100 must be ...
// Keys: batch a b (=mn: major) lda ldb ldc ldd a_batch b_batch c_batch d_batch scale_a scale_b bias act
// residual update order (fixed or any) accumulate; overrides: schedule tile_m tile_n stages cluster store
// raster group clusters; device: gpu (gpu_names(); before what follows), sm_count clusters_of_2 clusters_of_4
// clusters_of_8. With the key weights (uint4, int8 or e4m3) it is a packed product: A is X, weight_group
// weight_scale zero say the format, and overrides are token_blocks row_blocks warps ring parts ctas.
#pragma once

#include <string>
#include <vector>

#include <sluice/packed.h>
#include <sluice/plan.h>

namespace sluice::plans {

struct Request {
  Problem problem;
  PlanOverrides overrides;
  DeviceInfo device;
  std::optional<WeightFormat> weights;  // a packed product
  packed::Overrides packed;
};

/// Error invalid_argument: a word that is not understood.
Result<Request> parse_request(const std::string& line);

/// The line that a plan file expects for a request: the plan, or the error.
std::string outcome(const Request& request);

/// A line of a file. Only those with a request have an expectation, on the line below.
struct Entry {
  int line = 0;
  std::string text;      // as written
  bool request = false;  // else a comment or an empty line
  std::string expected;
};

std::vector<Entry> parse_file(const std::string& text);
/// The file with every expectation replaced by what the planner says now.
std::string regenerate(const std::vector<Entry>& entries);

}  // namespace sluice::plans
