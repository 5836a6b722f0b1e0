// SPDX-License-Identifier: Apache-2.0
// The kinds of steps that ChainStep::work can hold, one row each.
#pragma once

#include <sluice/chain/step.h>

namespace sluice {

std::shared_ptr<const Step> make_step(const ProductStep& step);
std::shared_ptr<const Step> make_step(const NormStep& step);
std::shared_ptr<const Step> make_step(const QuantizerStep& step);
std::shared_ptr<const Step> make_step(const ForeignStep& step);
inline std::shared_ptr<const Step> make_step(const OpStep& step) {
  return step.step;
}

}  // namespace sluice
