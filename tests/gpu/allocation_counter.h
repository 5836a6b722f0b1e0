// SPDX-License-Identifier: Apache-2.0
// Counts this thread's calls of operator new, which the test program replaces.
#pragma once

namespace sluice::testing {

long allocations_by_this_thread();

}  // namespace sluice::testing
