// SPDX-License-Identifier: Apache-2.0
// What the packed functions of tvm_ffi.cc and tvm_ffi_packed.cc share: arguments out of tvm-ffi's Any, errors
// back into its exceptions, and the guard around a call.
#pragma once

#include <optional>
#include <string>

#include <sluice/c_api/error.h>
#include <sluice/c_api/tvm_ffi_abi.h>

namespace sluice::c_api {

/// What is looked for in the process; null: not there.
struct Host {
  ffi::SetRaised set_raised;
  ffi::GetStream get_stream;
};
const Host& host();

/// Makes the thread's last error the exception of the call. Returns what the call has to.
int raise(sluice_status status);

inline constexpr int kMaxDims = 3;

/// A tensor argument as the C interface has it; its own storage, because views are made of it.
struct ArrayArg {
  sluice_array array{};
  int64_t shape[kMaxDims], strides[kMaxDims];
  bool present = false;

  const sluice_array* get() const { return present ? &array : nullptr; }
};

/// None is an array that is not present. Error invalid_argument: no tensor.
Result<void> read(const ffi::Any& any, const char* name, ArrayArg& arg);

/// Leading dimensions become one, as torch's linear has it. Error invalid_stride: they do not lie one after
/// the other.
Result<void> flatten(const char* name, ArrayArg& arg);
/// Before both are flattened: `arg` has the leading dimensions of `of`, or is a matrix already. An absent one
/// is as it should be. Error invalid_size.
Result<void> check_leading(const char* name, const ArrayArg& arg, const char* of_name, const ArrayArg& of);

/// Arguments that are no tensors. The first that is of another type is kept as the error of all, and 0 read.
class Scalars {
 public:
  explicit Scalars(const ffi::Any* args) : args_(args) {}

  float real(int index, const char* name) {
    const ffi::Any& any = args_[index];
    return static_cast<float>(any.type_index == ffi::kReal ? any.v_float64
                                                           : static_cast<double>(whole(index, name)));
  }
  bool flag(int index, const char* name) { return whole(index, name) != 0; }
  int32_t enumerator(int index, const char* name) {
    const int64_t value = whole(index, name);
    if (value == static_cast<int32_t>(value)) return static_cast<int32_t>(value);
    refuse(std::string(name) + " = " + std::to_string(value) + " must fit 32 bits");
    return 0;
  }
  int64_t integer(int index, const char* name) { return whole(index, name); }
  /// Of a workspace's handle; 0 for None.
  int64_t address(int index, const char* name) {
    return args_[index].type_index == ffi::kNone ? 0 : whole(index, name);
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  int64_t whole(int index, const char* name) {
    const ffi::Any& any = args_[index];
    if (any.type_index == ffi::kInt || any.type_index == ffi::kBool) return any.v_int64;
    if (any.type_index == ffi::kReal)
      refuse(std::string(name) + " = " + std::to_string(any.v_float64) +
             " must be an integer or a bool; pass int() of it");
    else
      refuse(std::string(name) + " is of tvm-ffi's type " + std::to_string(any.type_index) +
             ": it must be a number; pass float(), int() or bool() of it");
    return 0;
  }
  void refuse(const std::string& message) {
    if (!error_) error_ = Error{ErrorCode::invalid_argument, message};
  }

  const ffi::Any* args_;
  std::optional<Error> error_;
};

/// The framework's current one. call() has made sure that it can be asked for.
sluice_stream stream_of(int device);

/// Runs a function if the count of arguments is right, which only a package of another version gets
/// wrong.
template <class Function>
int call(const Function& function, const char* name, int got, int wanted) {
  const sluice_status status = guarded([&] {
    if (host().get_stream == nullptr)
      return fail({ErrorCode::internal, std::string("tvm-ffi's ") + ffi::kGetStream +
                                            " is not in this process, and no stream but the framework's "
                                            "will do: install apache-tvm-ffi again"});
    if (got != wanted)
      return fail({ErrorCode::internal, std::string(name) + " got " + std::to_string(got) +
                                            " arguments, not " + std::to_string(wanted) +
                                            ": the Python files and libsluice_c are of "
                                            "different versions; install the package again"});
    return function();
  });
  return status == SLUICE_OK ? 0 : raise(status);
}

}  // namespace sluice::c_api

/// Defines the function that tvm-ffi finds under `name`: sluice::c_api::name(args) of `count` arguments.
#define SLUICE_PACKED(name, count)                                                              \
  SLUICE_API int __tvm_ffi_##name(void*, const sluice::c_api::ffi::Any* args, int32_t given,    \
                                  sluice::c_api::ffi::Any* result);                             \
  int __tvm_ffi_##name(void*, const sluice::c_api::ffi::Any* args, int32_t given,               \
                       sluice::c_api::ffi::Any*) {                                              \
    return sluice::c_api::call([&] { return sluice::c_api::name(args); }, #name, given, count); \
  }
