// SPDX-License-Identifier: Apache-2.0
// The only argument of every kernel. It is passed as __grid_constant__, so that tensor maps need no copy to
// device memory. Kernels of convolutions, of groups, with factors of rows and with scales by columns take the
// derived structs.
#pragma once

#include <sluice/spec/work_split.h>

namespace sluice {

/// Same size as CUtensorMap (asserted in run/driver/tensor_map.cc), but aligned to only the 64 bytes that
/// TMA needs; cuda.h's type asks for 128. It is defined here because NVRTC cannot read cuda.h.
struct alignas(64) TensorMap {
  u64 words[16];
};

struct GemmParams {
  TensorMap map_a;
  TensorMap map_b;
  TensorMap map_a_tail;  // boxes of the last, shorter slice of rows; unused if all slices are whole
  TensorMap map_b_tail;
  TensorMap map_d;  // unused with StorePath::direct
  const void* c;    // nullptr if there is no residual or beta = 0; then never read
  void* d;
  const float* scale_a;      // 1 (tensor) or m (vector) values, shared by all matrices of a batch;
  const float* scale_b;      // 1 or n; or block scales of every matrix (spec/epilogue.h)
  const void* bias;          // n values of epilogue.bias_type
  i64 c_ld, c_batch_stride;  // elements
  i64 d_ld, d_batch_stride;
  float alpha, beta;
  int m, n;
  TileGrid grid;
  Raster raster;
  Numbering numbering;
  int raster_group;
  Slices slices;
  u32* counters;    // counters of shared tiles: zero before and after each launch
  float* partials;  // slots of partial sums; their contents before and after a launch do not matter
  // Operands of kernels that load without TMA (plain schedules); strides in elements.
  const void* a;
  const void* b;
  i64 a_ld, a_batch_stride;
  i64 b_ld, b_batch_stride;
  int k;
  // Ranges to prefetch into L2: `prefetch` before the PDL wait, `hand_off` after the last load. Either may be
  // empty.
  WarmRange prefetch, hand_off;
  // One value; with block scales of D, what the kernel writes. Append new fields here: earlier offsets, and
  // so the machine code of other kernels, stay the same.
  const float* scale_d;
  u8 numbers[kMostNumbered];  // cluster numbers in grid order, with Numbering::gpc
};

struct ConvParams : GemmParams {
  Gather gather;
};

/// One phase of a dgrad with a stride; it is one matrix of the batch. Its taps are gather.taps from first_tap
/// on.
struct alignas(64) PhaseParams {
  TensorMap map_a;  // dy, with the phase's corners
  TensorMap map_d;  // every stride-th pixel of dx
  PixelBox pixels;
  int m, k_tiles, first_tap;
};
struct PhasedParams : ConvParams {
  PhaseParams phases[kMostPhases];
};
/// Kernels without groups take this one if they have Epilogue::row_factors or KernelConfig::scale_a_columns.
struct FactoredParams : GemmParams {
  const float* row_factors;  // m values, shared by all matrices of a batch
  i64 scale_a_ld;            // with scale_a_columns: elements
};
/// `map_a_tail` has the small boxes of spec/loaded_rows.h, but for slots; `grid` has the columns, groups and
/// k-tiles.
struct GroupedParams : GemmParams {
  const int* group_numbers;  // one per group, or per slot (spec/groups.h)
  int group_pitch, group_total;
  const float* row_factors;
  i64 scale_a_ld;
};
/// True if the kernel's argument is FactoredParams.
SLUICE_HD constexpr bool takes_factors(const KernelConfig& c) {
  return !reads_table(c) && (c.epilogue.row_factors || c.scale_a_columns);
}
/// Bytes of a kernel's argument.
SLUICE_HD constexpr int params_bytes(const KernelConfig& c) {
  if (reads_table(c)) return sizeof(GroupedParams);
  if (takes_factors(c)) return sizeof(FactoredParams);
  if (c.conv.op == ConvOp::none) return sizeof(GemmParams);
  return c.conv.phased ? sizeof(PhasedParams) : sizeof(ConvParams);
}

}  // namespace sluice
