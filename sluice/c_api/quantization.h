// SPDX-License-Identifier: Apache-2.0
// From arrays to a quantiser's call.
#pragma once

#include <sluice/c_api.h>
#include <sluice/c_api/session.h>

namespace sluice::c_api {

/// Errors: invalid_argument, invalid_type, invalid_size, invalid_stride, wrong_device (arrays on several
/// devices).
Result<QuantizeCall> quantization_of(const sluice_quantization& what);

}  // namespace sluice::c_api
