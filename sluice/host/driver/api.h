// SPDX-License-Identifier: Apache-2.0
// The CUDA driver as a table of functions, found in libcuda.so.1 at run time: build and CI machines have
// none. Each entry has the type that cuda.h gives the name, and is looked up under the versioned symbol that
// the name stands for there, so table and header cannot disagree. Everything in host/ that talks to a GPU
// goes through one; tests put a fake one in its place.
#pragma once

#include <cuda.h>

#include <sluice/result.h>

namespace sluice {

// clang-format off
#define SLUICE_DRIVER_CALLS(X)                                                                              \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString)                                     \
  X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute)                             \
  X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease)                                                  \
  X(cuCtxGetCurrent) X(cuCtxGetDevice) X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxSynchronize)           \
  X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuModuleGetGlobal)                         \
  X(cuFuncSetAttribute) X(cuFuncGetAttribute) X(cuLaunchKernelEx)                                           \
  X(cuTensorMapEncodeTiled) X(cuTensorMapReplaceAddress) X(cuPointerGetAttributes)                          \
  X(cuMemAlloc) X(cuMemFree) X(cuMemsetD8Async) X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuMemcpyDtoHAsync)        \
  X(cuMemcpyDtoDAsync)                                                                                      \
  X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamIsCapturing)                        \
  X(cuStreamGetId) X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuStreamGetCaptureInfo)                  \
  X(cuThreadExchangeStreamCaptureMode) X(cuUserObjectCreate) X(cuUserObjectRelease)                         \
  X(cuEventCreate) X(cuEventRecord) X(cuEventSynchronize) X(cuEventElapsedTime) X(cuEventDestroy)           \
  X(cuGraphInstantiate) X(cuGraphUpload) X(cuGraphLaunch) X(cuGraphDestroy) X(cuGraphExecDestroy)           \
  X(cuGraphGetNodes) X(cuGraphGetEdges) X(cuGraphRetainUserObject)
/// Null where a driver lacks them: only facts of the GPU are asked with them.
#define SLUICE_OPTIONAL_DRIVER_CALLS(X)                                                                     \
  X(cuOccupancyMaxActiveClusters) X(cuDeviceGetPCIBusId)
// clang-format on

/// The macros of cuda.h rename entries on both sides alike: `api.cuMemAlloc` is the member cuMemAlloc_v2.
struct DriverApi {
#define SLUICE_DRIVER_MEMBER(name) decltype(&::name) name = nullptr;
  SLUICE_DRIVER_CALLS(SLUICE_DRIVER_MEMBER)
  SLUICE_OPTIONAL_DRIVER_CALLS(SLUICE_DRIVER_MEMBER)
#undef SLUICE_DRIVER_MEMBER
};

/// The first driver for CUDA 13.x (CUDA Compatibility, table of minimum drivers): older ones take no cubin of
/// the NVRTC that sluice needs.
inline constexpr int kOldestDriver = 580;
inline constexpr int kOldestDriverCuda = 13000;  // what its cuDriverGetVersion says

/// Opens libcuda.so.1 once per process and keeps it. Error driver: no driver here, or one that lacks a call.
Result<const DriverApi*> load_driver();

/// load_driver() gives `fake` from now on; nullptr: the real one again. Returns what it replaced.
const DriverApi* replace_driver_for_test(const DriverApi* fake);

}  // namespace sluice
