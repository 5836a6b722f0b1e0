// SPDX-License-Identifier: Apache-2.0
// Checks the documented limits of cuTensorMapEncodeTiled first, because the driver reports only "invalid
// value".
#include <sluice/run/driver/tensor_map.h>

#include <algorithm>
#include <cstring>

#include <sluice/plan/limits.h>
#include <sluice/run/driver/error.h>
#include <sluice/try.h>

namespace sluice {
namespace {

// TMA needs 64-byte alignment, and cuda.h 13.0 aligns CUtensorMap to 128. Launches copy Params into a
// variable with that alignment, and the maps are its first members, so both hold.
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));
static_assert(alignof(TensorMap) >= 64);
static_assert(offsetof(GemmParams, map_a) % alignof(CUtensorMap) == 0);
static_assert(offsetof(GemmParams, map_b) % alignof(CUtensorMap) == 0);
static_assert(offsetof(GemmParams, map_a_tail) % alignof(CUtensorMap) == 0);
static_assert(offsetof(GemmParams, map_b_tail) % alignof(CUtensorMap) == 0);
static_assert(offsetof(GemmParams, map_d) % alignof(CUtensorMap) == 0);

constexpr i64 kMaxMapExtent = i64{1} << 32;  // TMA's limit; limits.h has the kernels' limits
constexpr i64 kMaxStride = kTmaStrideLimit - kTmaUnit;
constexpr int kMaxBox = 256;

std::string stride_text(const char* name, const char* which, i64 elements, DType type) {
  return std::string(name) + ": " + which + " of " + std::to_string(elements) + " " + name_of(type) +
         " elements";
}

Result<void> check_stride(const char* name, const char* which, i64 elements, DType type) {
  if (elements < 1 || elements >= kTmaStrideLimit / bytes_of(type))
    return Error{ErrorCode::invalid_stride, stride_text(name, which, elements, type) +
                                                ": must be positive and less than 2^40 bytes for TMA"};
  if (elements * bytes_of(type) % kTmaUnit != 0)
    return Error{
        ErrorCode::misaligned,
        stride_text(name, which, elements, type) + ": must be a multiple of 16 bytes for TMA; pad it to " +
            std::to_string(ceil_div(elements, kTmaUnit / bytes_of(type)) * (kTmaUnit / bytes_of(type)))};
  return {};
}

Result<void> check_shape(const char* name, const TensorMapShape& s) {
  for (const i64 extent : {s.inner, s.outer, s.batch})
    if (extent < 1 || extent > kMaxMapExtent)
      return Error{ErrorCode::invalid_size, std::string(name) + ": an extent of " + std::to_string(extent) +
                                                " must be in 1..2^32 for TMA"};
  const int box_row_bytes = s.box_inner * bytes_of(s.type);
  const bool box_fits = s.box_inner >= 1 && s.box_inner <= kMaxBox && s.box_outer >= 1 &&
                        s.box_outer <= kMaxBox && box_row_bytes % kTmaUnit == 0 &&
                        box_row_bytes <= s.swizzle_bytes;
  if (!box_fits)
    return Error{ErrorCode::internal, std::string(name) + ": TMA cannot move a box of " +
                                          std::to_string(s.box_inner) + " x " + std::to_string(s.box_outer) +
                                          " with a swizzle of " + std::to_string(s.swizzle_bytes)};
  if (s.gated && (s.outer % kGatedGroup != 0 || s.box_outer % kGatedGroup != 0))
    return Error{ErrorCode::internal, std::string(name) + ": boxes of " + std::to_string(s.box_outer) +
                                          " of " + std::to_string(s.outer) +
                                          " rows: gated ones are multiples of 16"};
  if (s.gated && s.outer / 2 > kMaxStride / bytes_of(s.type) / std::max<i64>(s.ld, 1))
    return Error{ErrorCode::invalid_stride,
                 std::string(name) + ": its halves are " + std::to_string(s.outer / 2) + " rows of " +
                     std::to_string(s.ld) + " elements apart: must be less than 2^40 bytes for TMA"};
  if (s.outer > 1) SLUICE_TRY(check_stride(name, "ld", s.ld, s.type));
  if (s.batch > 1) return check_stride(name, "batch_stride", s.batch_stride, s.type);
  return {};
}

/// Arguments of the driver's call, innermost dimension first. Strides are in bytes, from the second dimension
/// on.
struct Dimensions {
  cuuint32_t rank;
  cuuint64_t extents[5], strides[4];
  cuuint32_t box[5];
};
Dimensions dimensions_of(const TensorMapShape& s, i64 row_stride, i64 batch_stride) {
  const auto size = [](i64 value) { return static_cast<cuuint64_t>(value); };
  const auto part = [](int value) { return static_cast<cuuint32_t>(value); };
  if (!s.gated)
    return {3,
            {size(s.inner), size(s.outer), size(s.batch)},
            {size(row_stride), size(batch_stride)},
            {part(s.box_inner), part(s.box_outer), 1}};
  const i64 groups = s.outer / kGatedGroup;
  return {
      5,
      {size(s.inner), kGatedRows, 2, size(groups), size(s.batch)},
      {size(row_stride), size(s.outer / 2 * row_stride), size(kGatedRows * row_stride), size(batch_stride)},
      {part(s.box_inner), kGatedRows, 2, part(s.box_outer / kGatedGroup), 1}};
}

}  // namespace

CUtensorMapDataType map_data_type(DType type) {
  switch (type) {
    case DType::bf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::fp16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::fp32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    default: break;  // TMA moves fp8 as bytes
  }
  return CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

CUtensorMapSwizzle map_swizzle(int bytes) {
  switch (bytes) {
    case 128: return CU_TENSOR_MAP_SWIZZLE_128B;
    case 64: return CU_TENSOR_MAP_SWIZZLE_64B;
    case 32: return CU_TENSOR_MAP_SWIZZLE_32B;
    default: return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
}

Result<void> encode_tensor_map(const DriverApi& api, const char* name, const TensorMapShape& s,
                               TensorMap& map) {
  SLUICE_TRY(check_shape(name, s));
  const int bytes = bytes_of(s.type);
  // The driver ignores the stride of an extent of 1, but rejects an illegal value, so pass a legal one.
  const i64 row_stride = s.outer > 1 ? s.ld * bytes : ceil_div(s.inner * bytes, kTmaUnit) * kTmaUnit;
  const bool fits = row_stride <= kMaxStride / s.outer;
  const i64 batch_stride = s.batch > 1 ? s.batch_stride * bytes : fits ? row_stride * s.outer : kMaxStride;
  const Dimensions d = dimensions_of(s, row_stride, batch_stride);
  constexpr cuuint32_t kSteps[] = {1, 1, 1, 1, 1};

  CUtensorMap encoded{};
  const CUresult code = api.cuTensorMapEncodeTiled(
      &encoded, map_data_type(s.type), d.rank, reinterpret_cast<void*>(kPlaceholderAddress), d.extents,
      d.strides, d.box, kSteps, CU_TENSOR_MAP_INTERLEAVE_NONE, map_swizzle(s.swizzle_bytes),
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS)
    return driver_error(api, code, "cuTensorMapEncodeTiled",
                        std::string(name) + ", " + std::to_string(s.inner) + " x " + std::to_string(s.outer) +
                            " x " + std::to_string(s.batch) + " " + name_of(s.type) + ", strides " +
                            std::to_string(row_stride) + " and " + std::to_string(batch_stride) + " bytes");
  std::memcpy(&map, &encoded, sizeof map);
  return {};
}

}  // namespace sluice
