// SPDX-License-Identifier: Apache-2.0
// Asks a GPU for the places of a launch's clusters (host/device/gpc_order.h). Called by gemm.cc; tests
// compile its unit.
#pragma once

#include <memory>
#include <string>

#include <sluice/gemm.h>
#include <sluice/host/device/gpc_order.h>

namespace sluice {

std::string locate_unit_text();

/// Measured on a Device's first request, in a millisecond, while the GPU should be idle. On a busy GPU, or
/// one without such clusters, the resulting numbers are valid but gain less. Not allowed during capture, as
/// all of prepare(). Errors: toolchain, driver.
Result<std::shared_ptr<const GpcOrder>> gpc_order(const Device& device);

}  // namespace sluice
