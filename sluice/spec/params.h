// SPDX-License-Identifier: Apache-2.0
// The one argument of every kernel, passed as __grid_constant__ so that the tensor maps need no copy to the
// device.
#pragma once

#include <sluice/spec/workspace_stamp.h>

namespace sluice {

/// As large as CUtensorMap (asserted in host/driver/tensor_map.cc), aligned to the 64 bytes that TMA asks for
/// (cuda.h's own type asks for 128). Written out because NVRTC cannot read cuda.h.
struct alignas(64) TensorMap {
  u64 words[16];
};

struct GemmParams {
  TensorMap map_a;
  TensorMap map_b;
  TensorMap map_a_tail;  // boxes of the last, shorter slice of rows; unused if there is none
  TensorMap map_b_tail;
  TensorMap map_d;  // unused with StorePath::direct
  const void* c;    // nullptr: no residual, or beta = 0; never read then
  void* d;
  const float* scale_a;      // 1 (tensor) or m (vector) values, the same for every matrix of a batch, or
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
  Deal deal;
  u32* counters;      // of shared tiles: zero before and after
  float* partials;    // slots of partial sums; anything may be there before and after
  LaunchStamp stamp;  // for kernels that stamp the workspace
  // For kernels that load without TMA (plain schedules); elements.
  const void* a;
  const void* b;
  i64 a_ld, a_batch_stride;
  i64 b_ld, b_batch_stride;
  int k;
  // Overlap::wait other than none or not, both may be nothing: brought to L2 before the wait, and after the
  // last load.
  WarmRange prefetch, hand_off;
  const float* scale_d;       // one value; what comes last moves nothing in kernels that do not read it
  u8 numbers[kMostNumbered];  // of the clusters in the grid's order, with Numbering::gpc
};

}  // namespace sluice
