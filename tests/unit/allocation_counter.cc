// SPDX-License-Identifier: Apache-2.0
// Replaces operator new and delete. This is a separate file because g++ warns about mismatched pairs if it
// can inline them.
#include "allocation_counter.h"

#include <cstdlib>
#include <new>

namespace {
thread_local long allocations = 0;  // number of times that this thread has called operator new

void* counted(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  const std::size_t size = (bytes + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, size == 0 ? alignment : size)) return memory;
  throw std::bad_alloc();
}
}  // namespace

long sluice::allocations_of_this_thread() {
  return allocations;
}

void* operator new(std::size_t bytes) {
  return counted(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
