// SPDX-License-Identifier: Apache-2.0
// Functions on one sluice_array: read its shape, strides and type, print them for error messages, and make
// the checks that every array needs.
#pragma once

#include <algorithm>
#include <string>

#include <sluice/c_api.h>
#include <sluice/result.h>
#include <sluice/spec/dtype.h>
#include <sluice/text.h>
#include <sluice/try.h>

namespace sluice::c_api {

/// Prints a list as Python prints a tuple: "(2, 3)", "(5,)".
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

/// Checks an array's shape. Call it first: all other functions of this file rely on it.
/// Errors: invalid_argument (no shape). invalid_size: more than 8 dimensions, a negative extent, or a product
/// of the nonzero extents above 2^63 - 1.
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

/// Returns a number that stands for a DLPack type that sluice_dtype lacks. It is negative, so every check
/// refuses it, and encodes DLPack's code and bits, which error messages print.
constexpr int32_t other_type(int code, int bits) {
  return -(code << 8 | bits) - 2;
}

/// Returns the name of an element type for error messages.
inline std::string type_text(int32_t dtype) {
  if (dtype == SLUICE_BYTE) return "uint8";
  if (dtype == SLUICE_INT32) return "int32";
  if (dtype == SLUICE_INT64) return "int64";
  if (dtype < -1) {
    constexpr const char* kNames[] = {"int", "uint", "fp", "", "", "complex", "bool"};  // by DLPack's code
    const int code = (-2 - dtype) >> 8, bits = (-2 - dtype) & 255;
    if (code == 6) return kNames[code];
    if (code < 6 && kNames[code][0] != 0) return kNames[code] + std::to_string(bits);
  }
  return dtype >= 0 && dtype < kDTypeCount ? name_of(static_cast<DType>(dtype)) : "of another type";
}

constexpr int kOnHost = -1;
/// Returns the CUDA ordinal of the array's memory, or kOnHost.
inline int ordinal_of(const sluice_array& x) {
  return x.device_type == SLUICE_ON_CUDA ? x.device : kOnHost;
}
inline std::string place_text(int ordinal) {
  return ordinal == kOnHost ? "host memory" : "cuda:" + std::to_string(ordinal);
}

/// Returns a stride in elements; that of a packed array if the array's strides are null.
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
/// Returns whether the last index is contiguous and the array has no gaps.
inline bool is_packed(const sluice_array& x) {
  i64 packed = 1;
  for (int i = x.ndim - 1; i >= 0; --i) {
    if (x.shape[i] > 1 && stride(x, i) != packed) return false;
    packed *= x.shape[i];
  }
  return true;
}

/// An array and the caller's name for it.
struct Named {
  const char* called;
  const sluice_array* array;

  std::string name() const { return escaped(called); }
  const sluice_array* operator->() const { return array; }
};

inline std::string strides_text(const sluice_array& x) {
  return x.strides != nullptr ? list(x.strides, x.ndim) : "packed";
}

inline Error wrong_type(const Named& x, const std::string& wanted) {
  return {ErrorCode::invalid_type, x.name() + " is " + type_text(x->dtype) + " and must be " + wanted};
}
inline Error wrong_shape(const Named& x, const std::string& wanted) {
  return {ErrorCode::invalid_size,
          x.name() + " has shape " + shape_text(*x.array) + " and must have " + wanted};
}
inline Error wrong_layout(const Named& x, const std::string& rule) {
  return {ErrorCode::invalid_stride, x.name() + " has shape " + shape_text(*x.array) + " and strides " +
                                         strides_text(*x.array) + ": " + rule +
                                         " (nothing is copied silently)"};
}

/// Checks that the array is not null and has a valid shape. Errors: invalid_argument (null); those of
/// check_shape.
inline Result<void> check_present(const Named& x) {
  if (x.array == nullptr) return Error{ErrorCode::invalid_argument, x.name() + " is missing: pass an array"};
  return check_shape(x.name(), *x.array);
}

inline Result<void> check_no_gaps(const Named& x) {
  if (is_packed(*x.array)) return {};
  return wrong_layout(x, "it must be row-major without gaps; pass " + x.name() + ".contiguous()");
}

/// Returns the row pitch in elements of a matrix whose columns are contiguous. It is 0 for a matrix of one
/// row, whose row stride is arbitrary in some frameworks. `remedy` ends the error message; null advises a
/// contiguous copy. Error: invalid_stride.
inline Result<i64> pitch_of(const Named& x, const char* remedy = nullptr) {
  if ((stride(*x.array, 1) != 1 && x->shape[1] > 1) || (x->shape[0] > 1 && stride(*x.array, 0) < x->shape[1]))
    return wrong_layout(x, "it must be row-major, columns contiguous and rows apart; " +
                               (remedy != nullptr ? remedy : "pass " + x.name() + ".contiguous()"));
  return x->shape[0] <= 1 ? i64{0} : stride(*x.array, 0);
}

/// Checks that `x` is in the same memory as `first`. Error: wrong_device.
inline Result<void> check_same_memory(const Named& x, const Named& first) {
  if (ordinal_of(*x.array) == ordinal_of(*first.array)) return {};
  return Error{ErrorCode::wrong_device, x.name() + " is in " + place_text(ordinal_of(*x.array)) + " and " +
                                            first.name() + " in " + place_text(ordinal_of(*first.array)) +
                                            ": all must be in one memory; move it"};
}
/// Returns the memory that holds all arrays: a CUDA ordinal, or kOnHost. Error: wrong_device, if they are in
/// different memories.
inline Result<int> one_memory(std::initializer_list<Named> arrays) {
  for (const Named& x : arrays)
    if (x.array != nullptr)
      if (const Result<void> same = check_same_memory(x, *arrays.begin()); !same) return same.error();
  return ordinal_of(*arrays.begin()->array);
}

/// Checks that `memory` belongs to the GPU `ordinal`, on which the call runs. Error: wrong_device.
inline Result<void> check_on(const Named& x, int memory, int ordinal) {
  if (memory == ordinal) return {};
  if (memory == kOnHost)
    return Error{ErrorCode::wrong_device,
                 x.name() + " is in host memory, and a GPU is to compute: move all arrays to one"};
  return Error{ErrorCode::wrong_device,
               x.name() + " is on " + place_text(memory) + " and the call is for " + place_text(ordinal)};
}

inline std::string size_text(i64 rows, i64 columns) {
  const i64 shape[] = {rows, columns};
  return list(shape, 2);
}
/// Checks that `x` is a matrix of so many rows and columns; a count of -1 is any.
inline Result<void> check_size(const Named& x, i64 rows, i64 columns, const std::string& wanted) {
  SLUICE_TRY(check_present(x));
  const bool fits =
      x->ndim == 2 && (rows < 0 || x->shape[0] == rows) && (columns < 0 || x->shape[1] == columns);
  return fits ? Result<void>{} : wrong_shape(x, wanted);
}
/// Checks that `x` has `count` fp32 values without gaps. `of` says in an error what they are.
inline Result<void> check_values(const Named& x, i64 count, const std::string& of) {
  SLUICE_TRY(check_present(x));
  if (x->dtype != SLUICE_FP32) return wrong_type(x, "fp32; convert them");
  if (count_of(*x.array) == count && is_packed(*x.array)) return {};
  return wrong_shape(x, std::to_string(count) + " values " + of + ", contiguous and row-major");
}

}  // namespace sluice::c_api
