// SPDX-License-Identifier: Apache-2.0
// The CUDA driver as a table of functions, found in libcuda.so.1 at run time, because build and CI machines
// have no driver. Each entry has the type and the versioned symbol that cuda.h gives its name, so table and
// header agree. All of run/ calls a GPU through such a table; tests pass a fake one.
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
  X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction)                                              \
  X(cuFuncSetAttribute) X(cuFuncGetAttribute) X(cuLaunchKernelEx)                                           \
  X(cuTensorMapEncodeTiled) X(cuTensorMapEncodeIm2col) X(cuTensorMapReplaceAddress)                         \
  X(cuPointerGetAttributes)                                                                                 \
  X(cuMemAlloc) X(cuMemFree) X(cuMemsetD8Async) X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuMemcpyDtoHAsync)        \
  X(cuMemcpyDtoDAsync) X(cuMemcpyHtoDAsync)                                                                 \
  X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamIsCapturing)                        \
  X(cuStreamGetId) X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuStreamGetCaptureInfo)                  \
  X(cuThreadExchangeStreamCaptureMode) X(cuUserObjectCreate) X(cuUserObjectRelease)                         \
  X(cuEventCreate) X(cuEventRecord) X(cuEventSynchronize) X(cuEventElapsedTime) X(cuEventDestroy)           \
  X(cuGraphInstantiate) X(cuGraphUpload) X(cuGraphLaunch) X(cuGraphDestroy) X(cuGraphExecDestroy)           \
  X(cuGraphGetNodes) X(cuGraphGetEdges) X(cuGraphRetainUserObject)                                          \
  X(cuGraphNodeGetType) X(cuGraphKernelNodeGetParams)
/// Functions that an older driver may lack; their entries are null then. Only queries about the GPU use them.
/// A driver without cuMemGetInfo has no races that nobody asked for.
#define SLUICE_OPTIONAL_DRIVER_CALLS(X)                                                                     \
  X(cuOccupancyMaxActiveClusters) X(cuDeviceGetPCIBusId) X(cuDeviceGetUuid) X(cuMemGetInfo)
// clang-format on

/// Names of members are subject to cuda.h's macros, like their uses: `api.cuMemAlloc` is the member
/// cuMemAlloc_v2.
struct DriverApi {
#define SLUICE_DRIVER_MEMBER(name) decltype(&::name) name = nullptr;
  SLUICE_DRIVER_CALLS(SLUICE_DRIVER_MEMBER)
  SLUICE_OPTIONAL_DRIVER_CALLS(SLUICE_DRIVER_MEMBER)
#undef SLUICE_DRIVER_MEMBER
};

/// Opens libcuda.so.1 once per process and keeps it open. Error driver: there is no driver, or it lacks a
/// required function.
Result<const DriverApi*> load_driver();

/// Makes load_driver() return `fake`, or the real driver again if `fake` is null. Returns the previous fake.
const DriverApi* replace_driver_for_test(const DriverApi* fake);

}  // namespace sluice
