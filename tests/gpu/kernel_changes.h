// SPDX-License-Identifier: Apache-2.0
// Changes of kernels that tools/gpu_sanitize.py names (SLUICE_CHANGE): bugs that a tool must find, and
// correct variants that show why a tool reports something. changes_test.cc compiles each.
#pragma once

#include <span>
#include <string_view>

#include "changed_units.h"

namespace sluice::testing {

std::span<const Change> kernel_changes();
/// Returns the change with this name; null if there is none.
const Change* find_change(std::string_view name);

}  // namespace sluice::testing
