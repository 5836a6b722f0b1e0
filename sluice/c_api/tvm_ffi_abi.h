// SPDX-License-Identifier: Apache-2.0
// Declarations of the parts of tvm-ffi's and DLPack's stable C ABIs that the binding uses, so that a build
// needs neither project. tests/python/test_binding.py compiles them together with the original headers and
// compares the layouts.
#pragma once

#include <stdint.h>

namespace sluice::c_api::ffi {

/// DLPack 1.x.
struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
enum DataTypeCode : uint8_t {
  kSigned = 0,
  kUnsigned = 1,
  kFloat = 2,
  kBfloat = 4,
  kFloat8E4m3fn = 10,
  kFloat8E5m2 = 12
};
enum DeviceType : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };

struct Tensor {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: packed
  uint64_t byte_offset;
};

/// One argument of a tvm-ffi call.
struct Any {
  int32_t type_index;
  uint32_t padding;
  union {
    int64_t v_int64;
    double v_float64;
    void* v_ptr;
  };
};
enum TypeIndex : int32_t {
  kNone = 0,
  kInt = 1,
  kBool = 2,
  kReal = 3,
  kTensorPointer = 7,
  kTensorObject = 70
};
inline constexpr int kObjectHeaderBytes = 24;  // size of the header before the Tensor in a tensor object

/// The types of tvm-ffi functions that are looked up in the process: a caller of this library has already
/// loaded libtvm_ffi.
using SetRaised = void (*)(const char* kind, const char* message);
inline constexpr const char* kSetRaised = "TVMFFIErrorSetRaisedFromCStr";
using GetStream = void* (*)(int32_t device_type, int32_t device_id);
inline constexpr const char* kGetStream = "TVMFFIEnvGetStream";

}  // namespace sluice::c_api::ffi
