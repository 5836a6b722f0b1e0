// SPDX-License-Identifier: Apache-2.0
#include "allocation_counter.h"

#include <cstdlib>
#include <new>

namespace {
thread_local long allocations = 0;
}

namespace sluice::testing {
long allocations_by_this_thread() {
  return allocations;
}
}  // namespace sluice::testing

// The array and nothrow forms of the standard library call these two operators.
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
