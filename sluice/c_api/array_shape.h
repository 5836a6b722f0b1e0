// SPDX-License-Identifier: Apache-2.0
// What an array says of itself, whatever it is for, and how messages say it.
#pragma once

#include <algorithm>
#include <string>

#include <sluice/c_api.h>
#include <sluice/result.h>
#include <sluice/spec/dtype.h>

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

inline constexpr int kMostDimensions = 8;

/// Called before anything else is asked of an array, or printed of it: all functions of this file rely on it.
/// Errors: invalid_argument (no shape), invalid_size: more than 8 dimensions, a negative extent, or more
/// elements than 2^63 - 1, an extent of 0 counted as 1.
inline Result<void> check_shape(const std::string& name, const sluice_array& x) {
  if (x.ndim < 0 || (x.shape == nullptr && x.ndim > 0))
    return Error{ErrorCode::invalid_argument,
                 name + " has no shape: give ndim and a shape of so many numbers"};
  if (x.ndim > kMostDimensions)
    return Error{ErrorCode::invalid_size, name + " has ndim = " + std::to_string(x.ndim) +
                                              ": it must be in 0.." + std::to_string(kMostDimensions) +
                                              "; pass a matrix, or a batch of them"};
  i64 count = 1;
  for (int i = 0; i < x.ndim; ++i) {
    if (x.shape[i] < 0)
      return Error{ErrorCode::invalid_size,
                   name + " has shape " + shape_text(x) + ": no extent may be negative"};
    if (__builtin_mul_overflow(count, std::max<i64>(x.shape[i], 1), &count))
      return Error{ErrorCode::invalid_size, name + " has shape " + shape_text(x) +
                                                ": it must hold fewer than 2^63 elements; split it"};
  }
  return {};
}

/// What has no number in sluice_dtype: below 0, so that no check takes it, and with DLPack's code and bits
/// for messages.
constexpr int32_t other_type(int code, int bits) {
  return -(code << 8 | bits) - 2;
}

/// As messages call an element type.
inline std::string type_text(int32_t dtype) {
  if (dtype == SLUICE_BYTE) return "uint8";
  if (dtype < -1) {
    constexpr const char* kNames[] = {"int", "uint", "fp", "", "", "complex", "bool"};  // DLPack's, by code
    const int code = (-2 - dtype) >> 8, bits = (-2 - dtype) & 255;
    if (code == 6) return kNames[code];
    if (code < 6 && kNames[code][0] != 0) return kNames[code] + std::to_string(bits);
  }
  return dtype >= 0 && dtype < kDTypeCount ? name_of(static_cast<DType>(dtype)) : "of another type";
}

constexpr int kOnHost = -1;
/// A CUDA ordinal, or kOnHost.
inline int ordinal_of(const sluice_array& x) {
  return x.device_type == SLUICE_ON_CUDA ? x.device : kOnHost;
}
inline std::string place_text(int ordinal) {
  return ordinal == kOnHost ? "host memory" : "cuda:" + std::to_string(ordinal);
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
