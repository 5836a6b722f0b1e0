// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/driver/launch.h>

#include <sluice/run/driver/error.h>

namespace sluice {
namespace {

Error launch_error(const DriverApi& api, CUresult code, const LaunchShape& shape, Stream stream) {
  Error error = driver_error(api, code, "cuLaunchKernelEx",
                             "grid " + std::to_string(shape.grid_x) + " x " + std::to_string(shape.grid_y) +
                                 ", block " + std::to_string(shape.block_x) + ", cluster " +
                                 std::to_string(shape.cluster_x) + ", shared memory " +
                                 std::to_string(shape.smem_bytes) + " bytes, stream " + hex(stream));
  // A launch has only one handle from the caller, the stream. Checking it in advance would slow down every
  // launch.
  if (code == CUDA_ERROR_INVALID_HANDLE || code == CUDA_ERROR_INVALID_CONTEXT)
    error.code = ErrorCode::wrong_device;
  return error;
}

}  // namespace

Result<void> launch_kernel(const DriverApi& api, CUfunction function, const LaunchShape& shape,
                           const void* params, Stream stream) {
  CUlaunchAttribute attributes[2] = {};
  u32 count = 0;
  if (shape.cluster_x > 1) {
    CUlaunchAttribute& cluster = attributes[count++];
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = shape.cluster_x;
    cluster.value.clusterDim.y = 1;
    cluster.value.clusterDim.z = 1;
  }
  if (shape.dependent) {
    CUlaunchAttribute& dependent = attributes[count++];
    dependent.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    dependent.value.programmaticStreamSerializationAllowed = 1;
  }
  CUlaunchConfig config{};
  config.gridDimX = shape.grid_x;
  config.gridDimY = shape.grid_y;
  config.gridDimZ = 1;
  config.blockDimX = shape.block_x;
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.sharedMemBytes = shape.smem_bytes;
  config.hStream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  void* arguments[] = {const_cast<void*>(params)};
  const CUresult code = api.cuLaunchKernelEx(&config, function, arguments, nullptr);
  if (code != CUDA_SUCCESS) return launch_error(api, code, shape, stream);
  return {};
}

}  // namespace sluice
