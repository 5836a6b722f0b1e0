// SPDX-License-Identifier: Apache-2.0
// Definitions of BasicKernel's members (include/sluice/kernel.h). Only the source file of an operation
// includes this header, and instantiates the class there; everywhere else BasicKernel::Impl is incomplete.
#pragma once

#include <sluice/run/ops/engine.h>

namespace sluice {

template <class Plan>
const Plan& BasicKernel<Plan>::plan() const {
  return impl_->plan;
}
template <class Plan>
int BasicKernel<Plan>::registers() const {
  return impl_->modules.empty() ? 0 : impl_->modules.front()->registers();
}
template <class Plan>
std::string BasicKernel<Plan>::built_by() const {
  return impl_->built_by;
}

}  // namespace sluice
