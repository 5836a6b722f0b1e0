// SPDX-License-Identifier: Apache-2.0
// Makes scale.h callable from Python (tests/python/test_fake_seventh.py): y = factor * x, with the fields
// input, output and alpha. The C interface's helpers read the arrays; the engine does the rest.
#include <sluice/c_api/handles.h>
#include <sluice/c_api/tvm_ffi_fields.h>
#include <sluice/try.h>

#include "tests/seventh/scale.h"

namespace sluice::c_api {
namespace {

Result<void> scale_on(sluice_device& device, const ArrayArg& x, const ArrayArg& y, float factor) {
  if (x.array.dtype != SLUICE_FP32 || y.array.dtype != SLUICE_FP32)
    return Error{ErrorCode::invalid_type, "input and output must be fp32: convert them"};
  const seventh::Scale::Args args{.shape = {x.array.shape[0]},
                                  .args = {.x = static_cast<const float*>(x.array.data),
                                           .y = static_cast<float*>(y.array.data),
                                           .factor = factor}};
  return ops::run<seventh::Scale>(device.session.device(), {}, args, stream_of(x.array.device));
}

sluice_status scale(Given& given) {
  const ArrayArg &x = given.arrays[SLUICE_A], &y = given.arrays[SLUICE_D];
  sluice_device* device = nullptr;
  const sluice_status opened = sluice_device_default(x.array.device, &device);
  return opened != SLUICE_OK ? opened : status_of(scale_on(*device, x, y, given.call.alpha));
}

}  // namespace
}  // namespace sluice::c_api

extern "C" {

SLUICE_PACKED(scale)
}
