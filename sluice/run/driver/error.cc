// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/driver/error.h>

namespace sluice {
namespace {

const char* remedy_for(CUresult code) {
  switch (code) {
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
      return "no such GPU is visible to this process: look at nvidia-smi and CUDA_VISIBLE_DEVICES";
    case CUDA_ERROR_OUT_OF_MEMORY: return "free GPU memory or make the problem smaller";
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_INVALID_IMAGE:
      return "the driver does not take this cubin: update the driver, or choose an older NVRTC with "
             "SLUICE_NVRTC";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return "the kernel module and libcuda differ: reboot or reinstall the driver";
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
      return "the context is lost, by this or an earlier kernel of the process: only a new process recovers";
    case CUDA_ERROR_NOT_INITIALIZED:
      return "the driver does not work in a forked child of a process that used it: spawn instead of fork";
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: return "not possible while a stream is capturing";
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_CONTEXT: return "the handle belongs to another device or context";
    default: return nullptr;
  }
}

}  // namespace

Error driver_error(const DriverApi& api, CUresult code, const char* call, const std::string& about) {
  const char* name = nullptr;
  const char* description = nullptr;
  if (api.cuGetErrorName(code, &name) != CUDA_SUCCESS) name = nullptr;
  if (api.cuGetErrorString(code, &description) != CUDA_SUCCESS) description = nullptr;
  std::string message = std::string(call) + (about.empty() ? "" : " (" + about + ")") + ": " +
                        (name != nullptr ? name : "error " + std::to_string(static_cast<int>(code))) + ", " +
                        (description != nullptr ? description : "no description");
  if (const char* remedy = remedy_for(code)) message += std::string("; ") + remedy;
  return {ErrorCode::driver, std::move(message)};
}

}  // namespace sluice
