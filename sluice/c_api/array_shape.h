// SPDX-License-Identifier: Apache-2.0
// What the shape and the strides of an array say, whatever it is for: arrays.cc and quantization.cc.
#pragma once

#include <string>

#include <sluice/c_api.h>
#include <sluice/spec/base.h>

namespace sluice::c_api {

/// As Python writes a tuple: "(2, 3)", "(5,)".
template <class Integer>
std::string list(const Integer* values, int count) {
  std::string text = "(";
  for (int i = 0; i < count; ++i) text += (i > 0 ? ", " : "") + std::to_string(values[i]);
  return text + (count == 1 ? ",)" : ")");
}
inline std::string shape_text(const sluice_array& x) {
  return list(x.shape, x.ndim);
}

/// In elements, also where the array leaves its strides out.
inline i64 stride(const sluice_array& x, int index) {
  if (x.strides != nullptr) return x.strides[index];
  i64 packed = 1;
  for (int i = x.ndim - 1; i > index; --i) packed *= x.shape[i];
  return packed;
}
inline i64 count_of(const sluice_array& x) {
  i64 count = 1;
  for (int i = 0; i < x.ndim; ++i) count *= x.shape[i];
  return count;
}
/// The last index contiguous, and no gaps.
inline bool is_packed(const sluice_array& x) {
  i64 packed = 1;
  for (int i = x.ndim - 1; i >= 0; --i) {
    if (x.shape[i] > 1 && stride(x, i) != packed) return false;
    packed *= x.shape[i];
  }
  return true;
}

}  // namespace sluice::c_api
