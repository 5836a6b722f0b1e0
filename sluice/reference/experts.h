// SPDX-License-Identifier: Apache-2.0
// The steps around products of experts by their definition (include/sluice/experts.h), simple and slow.
// Kernels must match them bit for bit. Called by tests.
#pragma once

#include <vector>

#include <sluice/spec/dtype.h>

namespace sluice {

/// Chosen experts in host memory: tokens x chosen, int64 if `wide`, else int32.
struct RouteInput {
  const void* ids = nullptr;
  bool wide = false;
  i64 tokens = 0, chosen = 1, ids_ld = 0, experts = 1, rows = 0, pitch = 1;
};
struct Routed {
  std::vector<int> ends, row_of_slot, token_of_row;

  bool operator==(const Routed&) const = default;
};
/// Sorts slots by expert, stably, and gives each its row.
Routed reference_route(const RouteInput& input);

struct CombineInput {
  DType type = DType::bf16;
  const void* y = nullptr;
  const int* row_of_slot = nullptr;
  const float* weights = nullptr;  // nullptr: all are 1
  const void* shared = nullptr;    // nullptr: none
  i64 tokens = 0, columns = 0, chosen = 1, rows = 0, y_ld = 0, shared_ld = 0;
  i64 experts = 0;  // not 0: row_of_slot holds experts, and the row of slot s is s
};
/// Writes the sums, rounded to the type. The output's row pitch is out_ld elements.
void reference_combine(const CombineInput& input, void* out, i64 out_ld);

/// Returns rows x row_bytes bytes: row index[r] of `input`, whose rows are pitch_bytes apart, or zeros for an
/// index outside [0, input_rows).
std::vector<u8> reference_gather(const void* input, i64 input_rows, i64 row_bytes, i64 pitch_bytes,
                                 const std::vector<int>& index);

}  // namespace sluice
