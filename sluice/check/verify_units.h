// SPDX-License-Identifier: Apache-2.0
// The source texts of the verification kernels, for NVRTC. verify.cc compiles them for its GPU; `sluice
// compile` and tests/unit/verify_units_test.cc compile them without a GPU.
#pragma once

#include <string>

namespace sluice {

enum class VerifyUnit { fill, check };

std::string verify_unit_text(VerifyUnit unit);

}  // namespace sluice
