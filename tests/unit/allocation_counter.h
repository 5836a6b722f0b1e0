// SPDX-License-Identifier: Apache-2.0
// Counts this thread's calls of operator new. Linking it replaces the global operators of the whole test
// program by ones that count and use malloc.
#pragma once

namespace sluice {

long allocations_of_this_thread();

}  // namespace sluice
