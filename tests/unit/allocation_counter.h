// SPDX-License-Identifier: Apache-2.0
// How often this thread has called any operator new. Linking it replaces the global operators of the whole
// test program, which then count and use malloc's heap; nothing else changes.
#pragma once

namespace sluice {

long allocations_of_this_thread();

}  // namespace sluice
