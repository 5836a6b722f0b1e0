// SPDX-License-Identifier: Apache-2.0
// Makes an Error of a failed driver call: the call, the driver's name and description of the failure, and a
// remedy. The code is the call's own return value, never a "last error".
#pragma once

#include <string>

#include <sluice/plan/text/lines.h>
#include <sluice/run/driver/api.h>

namespace sluice {

/// `call`: the function's name. `about`: its arguments or purpose; may be empty.
Error driver_error(const DriverApi& api, CUresult code, const char* call, const std::string& about = {});

inline std::string hex(CUdeviceptr address) {
  return hex(reinterpret_cast<const void*>(address));
}

}  // namespace sluice
