// SPDX-License-Identifier: Apache-2.0
#include "maps.h"

namespace probe {
namespace {

template <class Function>
Function driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found), name);
  if (found != cudaDriverEntryPointSuccess) {
    std::printf("the driver has no %s\n", name);
    check(cudaErrorSymbolNotFound, name);
  }
  return reinterpret_cast<Function>(function);
}

CUtensorMapDataType type_of(int element_bytes) {
  switch (element_bytes) {
    case 1: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case 2: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    default: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  }
}

CUtensorMapSwizzle swizzle_of(int bytes) {
  switch (bytes) {
    case 128: return CU_TENSOR_MAP_SWIZZLE_128B;
    case 64: return CU_TENSOR_MAP_SWIZZLE_64B;
    case 32: return CU_TENSOR_MAP_SWIZZLE_32B;
    default: return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
}

}  // namespace

CUresult encode_im2col(CUtensorMap* map, const Geometry& g, void* memory) {
  static const auto encode = driver_function<decltype(&cuTensorMapEncodeIm2col)>("cuTensorMapEncodeIm2col");
  cuuint64_t dims[5], strides[4];
  cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  for (int d = 0; d < g.rank(); ++d) dims[d] = g.dims[d];
  for (int d = 1; d < g.rank(); ++d) strides[d - 1] = g.strides[d] * g.element_bytes;
  for (int d = 0; d < g.spatial; ++d) steps[1 + d] = g.steps[d];
  return encode(map, type_of(g.element_bytes), g.rank(),
                static_cast<char*>(memory) + g.base * g.element_bytes, dims, strides, g.lower, g.upper,
                g.channels, g.pixels, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(g.swizzle),
                CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

CUtensorMap im2col_map(const Geometry& g, void* memory) {
  CUtensorMap map;
  const CUresult result = encode_im2col(&map, g, memory);
  if (result != CUDA_SUCCESS) {
    std::printf("cuTensorMapEncodeIm2col: %s for %s\n", name_of(result).c_str(), g.text().c_str());
    check(cudaErrorInvalidValue, "cuTensorMapEncodeIm2col");
  }
  return map;
}

CUtensorMap tiled_map(const Matrix& m, void* memory) {
  static const auto encode = driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  CUtensorMap map;
  const cuuint64_t dims[2] = {static_cast<cuuint64_t>(m.columns), static_cast<cuuint64_t>(m.rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(m.pitch) * m.element_bytes};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(m.box_columns), static_cast<cuuint32_t>(m.box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  const CUresult result = encode(&map, type_of(m.element_bytes), 2, memory, dims, strides, box, steps,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(m.swizzle),
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    std::printf("cuTensorMapEncodeTiled: %s\n", name_of(result).c_str());
    check(cudaErrorInvalidValue, "cuTensorMapEncodeTiled");
  }
  return map;
}

CUresult replace_address(CUtensorMap* map, void* address) {
  static const auto replace =
      driver_function<decltype(&cuTensorMapReplaceAddress)>("cuTensorMapReplaceAddress");
  return replace(map, address);
}

std::string name_of(CUresult result) {
  static const auto name = driver_function<decltype(&cuGetErrorName)>("cuGetErrorName");
  const char* text = nullptr;
  if (name(result, &text) != CUDA_SUCCESS || text == nullptr)
    return format("code %d", static_cast<int>(result));
  return text;
}

}  // namespace probe
