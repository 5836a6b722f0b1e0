// SPDX-License-Identifier: Apache-2.0
// Texts of plans and configs whose schedule decodes packed weights. Called by units.cc and printer.cc.
#pragma once

#include <string>

#include <sluice/plan.h>

namespace sluice::packed {

std::string unit_text(const KernelConfig& config);
std::string short_name(const KernelConfig& config);
std::string describe(const Plan& plan);

}  // namespace sluice::packed
