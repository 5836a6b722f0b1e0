// SPDX-License-Identifier: Apache-2.0
// The changes of our kernels that tools/gpu_sanitize.py asks for by name (SLUICE_CHANGE): bugs that a tool
// must find, and sound variants that show where a complaint comes from. changes_test.cc compiles each.
#pragma once

#include <span>
#include <string_view>

#include "changed_units.h"

namespace sluice::testing {

std::span<const Change> kernel_changes();
/// Null: there is none of that name.
const Change* find_change(std::string_view name);

}  // namespace sluice::testing
