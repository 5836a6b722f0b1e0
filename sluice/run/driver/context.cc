// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/driver/context.h>

#include <sluice/run/driver/error.h>

namespace sluice {

Result<std::shared_ptr<const PrimaryContext>> PrimaryContext::retain(const DriverApi& api, CUdevice device,
                                                                     int ordinal) {
  CUcontext context = nullptr;
  if (const CUresult code = api.cuDevicePrimaryCtxRetain(&context, device); code != CUDA_SUCCESS)
    return driver_error(api, code, "cuDevicePrimaryCtxRetain", "device " + std::to_string(ordinal));
  std::shared_ptr<PrimaryContext> primary(new PrimaryContext(api, device, ordinal));
  primary->context_ = context;
  return std::shared_ptr<const PrimaryContext>(std::move(primary));
}

PrimaryContext::~PrimaryContext() {
  api_.cuDevicePrimaryCtxRelease(device_);  // fails harmlessly if the driver has already shut down
}

ContextScope::ContextScope(const DriverApi& api, CUcontext context) : api_(api) {
  CUcontext current = nullptr;
  status_ = api_.cuCtxGetCurrent(&current);
  if (status_ != CUDA_SUCCESS || current == context) return;
  call_ = "cuCtxPushCurrent";
  status_ = api_.cuCtxPushCurrent(context);
  pushed_ = status_ == CUDA_SUCCESS;
}

ContextScope::~ContextScope() {
  CUcontext popped = nullptr;
  if (pushed_) api_.cuCtxPopCurrent(&popped);
}

Result<void> ContextScope::entered() const {
  if (status_ == CUDA_SUCCESS) return {};
  return driver_error(api_, status_, call_);
}

}  // namespace sluice
