// SPDX-License-Identifier: Apache-2.0
// Checks the documented limits of cuTensorMapEncodeIm2col first, because the driver reports only "invalid
// value".
#include <sluice/run/driver/tensor_map_im2col.h>

#include <cstring>

#include <sluice/plan/limits.h>
#include <sluice/run/driver/error.h>
#include <sluice/spec/conv_problem.h>
#include <sluice/try.h>

namespace sluice {
namespace {

constexpr int kMostChannels = 256, kMostPixels = 1024;

Error bad(ErrorCode code, const char* name, const std::string& rule) {
  return Error{code, std::string(name) + ": " + rule};
}

Result<void> check_shape(const char* name, const Im2colShape& s) {
  const int axes = s.rank - 2, bytes = bytes_of(s.type);
  if (axes < 1 || axes > kMostSpatial || s.channels < 1 || s.channels > kMostChannels || s.pixels < 1 ||
      s.pixels > kMostPixels || s.channels * bytes > s.swizzle_bytes)
    return bad(ErrorCode::internal, name,
               "TMA cannot gather " + std::to_string(s.pixels) + " pixels of " + std::to_string(s.channels) +
                   " channels over " + std::to_string(axes) + " axes");
  for (int i = 0; i < s.rank; ++i)
    if (s.extents[i] < 1 || s.extents[i] > kMaxInt)
      return bad(ErrorCode::invalid_size, name,
                 "an extent of " + std::to_string(s.extents[i]) + " must be in 1..2^31 - 1");
  for (int i = 0; i + 1 < s.rank; ++i) {
    if (s.strides[i] < 1 || s.strides[i] >= kTmaStrideLimit / bytes)
      return bad(
          ErrorCode::invalid_stride, name,
          "a stride of " + std::to_string(s.strides[i]) + " elements must be less than 2^40 bytes for TMA");
    if (s.strides[i] * bytes % kTmaUnit != 0)
      return bad(ErrorCode::misaligned, name,
                 "a stride of " + std::to_string(s.strides[i]) + " " + name_of(s.type) +
                     " elements must be a multiple of 16 bytes for TMA; pad the channels");
  }
  const int limit = corner_limit(axes);
  for (int i = 0; i < axes; ++i)
    for (const int corner : {s.lower[i], s.upper[i]})
      if (corner < -limit || corner >= limit)
        return bad(ErrorCode::invalid_size, name,
                   "a corner of " + std::to_string(corner) + " must be in -" + std::to_string(limit) + ".." +
                       std::to_string(limit - 1) + " for " + std::to_string(axes) + " axes");
  for (const int step : s.steps)
    if (step < 1 || step > kMostStep)
      return bad(ErrorCode::invalid_size, name, "a step of " + std::to_string(step) + " must be in 1..8");
  return {};
}

}  // namespace

Result<void> encode_im2col_map(const DriverApi& api, const char* name, const Im2colShape& s, TensorMap& map) {
  SLUICE_TRY(check_shape(name, s));
  cuuint64_t extents[5] = {}, strides[4] = {};
  cuuint32_t steps[5] = {};
  for (int i = 0; i < s.rank; ++i) {
    extents[i] = static_cast<cuuint64_t>(s.extents[i]);
    steps[i] = static_cast<cuuint32_t>(s.steps[i]);
    if (i + 1 < s.rank) strides[i] = static_cast<cuuint64_t>(s.strides[i] * bytes_of(s.type));
  }
  CUtensorMap encoded{};
  const CUresult code = api.cuTensorMapEncodeIm2col(
      &encoded, map_data_type(s.type), static_cast<cuuint32_t>(s.rank),
      reinterpret_cast<void*>(kPlaceholderAddress), extents, strides, s.lower, s.upper,
      static_cast<cuuint32_t>(s.channels), static_cast<cuuint32_t>(s.pixels), steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, map_swizzle(s.swizzle_bytes), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS)
    return driver_error(api, code, "cuTensorMapEncodeIm2col",
                        std::string(name) + ", " + std::to_string(s.extents[0]) + " channels, " +
                            std::to_string(s.rank - 2) + " axes, " + std::to_string(s.pixels) + " pixels");
  std::memcpy(&map, &encoded, sizeof map);
  return {};
}

}  // namespace sluice
