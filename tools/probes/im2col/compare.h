// SPDX-License-Identifier: Apache-2.0
// Fills memory with test patterns, and compares boxes that TMA loaded with the order of pixels that walk.h
// computes.
#pragma once

#include <cstdint>
#include <cstring>

#include "boxes.h"

namespace probe {

/// Fills memory with elements that are never zero, so that zero fill shows; neighbours differ.
template <class T>
std::vector<T> pattern(size_t count, unsigned seed) {
  std::vector<T> memory(count);
  for (size_t i = 0; i < count; ++i) {
    unsigned long long h = (i + 1) * 0x9e3779b97f4a7c15ull + seed * 0xd1342543de82ef95ull;
    h ^= h >> 29;
    memory[i] = static_cast<T>(h * 0xbf58476d1ce4e5b9ull >> 33 | 1);
  }
  return memory;
}

/// Returns the number of elements that differ from the expected box, whose places are swizzled.
template <class T>
int wrong_elements(const std::vector<unsigned char>& got, const std::vector<T>& expected, int swizzle) {
  int wrong = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const unsigned at = swizzled(static_cast<unsigned>(i * sizeof(T)), swizzle);
    T value;
    std::memcpy(&value, got.data() + at, sizeof(T));
    wrong += value != expected[i];
  }
  return wrong;
}

inline int outside_rows(const Geometry& g, const Start& start) {
  int outside = 0;
  for (const long row : rows_of(g, start)) outside += row < 0;
  return outside;
}

/// A tensor in device memory and its copy on the host, with guard space before and after it.
template <class T>
struct Buffer {
  std::vector<T> host;
  T* device;

  explicit Buffer(size_t count, unsigned seed)
      : host(pattern<T>(count, seed)), device(device_array<T>(count)) {
    copy_to_device(device, host);
  }
};

}  // namespace probe
