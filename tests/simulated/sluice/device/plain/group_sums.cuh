// SPDX-License-Identifier: Apache-2.0
// Schedule::plain_wgmma is not simulated.
#pragma once

#include <sluice/spec/plain.h>

namespace sluice::plain {

template <KernelConfig kConfig>
class GroupSums;

}  // namespace sluice::plain
