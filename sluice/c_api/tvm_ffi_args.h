// SPDX-License-Identifier: Apache-2.0
// Shared code of the tvm-ffi functions in tvm_ffi.cc: reads fields from the arguments, converts errors into
// tvm-ffi's exceptions, and guards each call. The arguments of a call are (field, value) pairs in any order.
// A field is passed as its index in kFields; Python looks up the indices by name once (sluice_ffi_field).
#pragma once

#include <optional>
#include <string>

#include <sluice/c_api/error.h>
#include <sluice/c_api/tvm_ffi_abi.h>

namespace sluice::c_api {

/// The tvm-ffi functions found in the process; null if not found.
struct Host {
  ffi::SetRaised set_raised;
  ffi::GetStream get_stream;
};
const Host& host();

/// Raises the thread's last error as tvm-ffi's exception, and returns the value that the call must return.
int raise(sluice_status status);

inline constexpr int kMaxDims = 3;

/// A tensor argument as a sluice_array. It stores its own shape and strides, because views change them.
struct ArrayArg {
  sluice_array array{};
  int64_t shape[kMaxDims], strides[kMaxDims];
  bool present = false;

  const sluice_array* get() const { return present ? &array : nullptr; }
};

/// Where the value of a field is stored. The first nine slots are the arrays of a sluice_product, in the
/// order of ProductName.
enum class Slot : uint8_t {
  a,
  b,
  c,
  d,
  bias,
  scale_a,
  scale_b,
  scale_d,
  gamma,
  sum,
  scales,
  codes,
  zeros,
  alpha,
  beta,
  epsilon,
  activation,
  use_fast_accum,
  gated,
  add,
  any_order,
  workspace,
  problem,
  granularity,
  scale_given,
  gate,
  type,
  group,
  scale,
  has_zeros,
  order,
  n,
  k,
  op,
  grad_output,
  stride,  // the first axis; the next two slots are the other axes', here and in the lists below
  stride_1,
  stride_2,
  dilation,
  dilation_1,
  dilation_2,
  padding,
  padding_1,
  padding_2,
  padding_after,
  padding_after_1,
  padding_after_2
};
inline constexpr int kProductArrays = 9, kSlots = static_cast<int>(Slot::padding_after_2) + 1;

/// How a product interprets a tensor. rows: its leading dimensions, and those of C and D, are merged into
/// one. turned: a weight n x k is transposed to k x n.
enum class Seen : uint8_t { as_it_is, rows, turned };

struct Field {
  const char* name;  // its name in the Python function
  Slot slot;
  Seen seen = Seen::as_it_is;
};
inline constexpr Field kFields[] = {{"a", Slot::a},
                                    {"mat_a", Slot::a},
                                    {"input", Slot::a, Seen::rows},
                                    {"x", Slot::a, Seen::rows},
                                    {"b", Slot::b},
                                    {"mat_b", Slot::b},
                                    {"weight", Slot::b, Seen::turned},
                                    {"packed.blob", Slot::b},
                                    {"blob", Slot::b},
                                    {"c", Slot::c},
                                    {"residual", Slot::c},
                                    {"out", Slot::d},
                                    {"output", Slot::d},
                                    {"total", Slot::d},
                                    {"bias", Slot::bias},
                                    {"scale_a", Slot::scale_a},
                                    {"scale_x", Slot::scale_a},
                                    {"scale_b", Slot::scale_b},
                                    {"scale_d", Slot::scale_d},
                                    {"gamma", Slot::gamma},
                                    {"sum", Slot::sum},
                                    {"scales", Slot::scales},
                                    {"codes", Slot::codes},
                                    {"zeros", Slot::zeros},
                                    {"alpha", Slot::alpha},
                                    {"beta", Slot::beta},
                                    {"epsilon", Slot::epsilon},
                                    {"activation", Slot::activation},
                                    {"use_fast_accum", Slot::use_fast_accum},
                                    {"gated", Slot::gated},
                                    {"add", Slot::add},
                                    {"any_order", Slot::any_order},
                                    {"workspace", Slot::workspace},
                                    {"problem", Slot::problem},
                                    {"granularity", Slot::granularity},
                                    {"scale_given", Slot::scale_given},
                                    {"gate", Slot::gate},
                                    {"format.type", Slot::type},
                                    {"format.group", Slot::group},
                                    {"format.scale", Slot::scale},
                                    {"format.zeros", Slot::has_zeros},
                                    {"format.order", Slot::order},
                                    {"n", Slot::n},
                                    {"k", Slot::k},
                                    {"op", Slot::op},
                                    {"grad_output", Slot::grad_output},
                                    {"scale_w", Slot::scale_b},
                                    {"stride[0]", Slot::stride},
                                    {"stride[1]", Slot::stride_1},
                                    {"stride[2]", Slot::stride_2},
                                    {"dilation[0]", Slot::dilation},
                                    {"dilation[1]", Slot::dilation_1},
                                    {"dilation[2]", Slot::dilation_2},
                                    {"padding[0]", Slot::padding},
                                    {"padding[1]", Slot::padding_1},
                                    {"padding[2]", Slot::padding_2},
                                    {"padding_after[0]", Slot::padding_after},
                                    {"padding_after[1]", Slot::padding_after_1},
                                    {"padding_after[2]", Slot::padding_after_2}};
inline constexpr int kFieldCount = sizeof(kFields) / sizeof(kFields[0]);

/// The fields of one call.
class Fields {
 public:
  /// Reads the pairs. Error: internal, for an odd number of arguments or an unknown field (the Python package
  /// has another version).
  Result<void> read(const ffi::Any* args, int count);

  bool has(Slot slot) const { return at(slot) != nullptr; }
  /// Returns the caller's name of the field in the form of its `seen` (such as "weight.t()"); null if the
  /// field is not given.
  const char* name(Slot slot) const;
  /// Returns the caller's name of the field without such a form; null if the field is not given.
  const char* plain_name(Slot slot) const { return has(slot) ? fields_[index(slot)]->name : nullptr; }
  Seen seen(Slot slot) const { return has(slot) ? fields_[index(slot)]->seen : Seen::as_it_is; }

  /// Fills in a tensor; None, or a missing field, makes it not present. Error: invalid_argument, if the value
  /// is not a tensor.
  Result<void> array(Slot slot, ArrayArg& arg) const;

  // These read values that are not tensors; a field that is not given has the value `without`. A value of the
  // wrong type reads as 0, and error() keeps the first such error.
  float real(Slot slot, float without);
  bool flag(Slot slot) { return has(slot) && whole(slot) != 0; }
  int32_t enumerator(Slot slot);
  int64_t integer(Slot slot, int64_t without = 0) { return has(slot) ? whole(slot) : without; }
  /// Returns the address of a handle or a struct; 0 for None.
  int64_t address(Slot slot) { return has(slot) && at(slot)->type_index != ffi::kNone ? whole(slot) : 0; }
  const std::optional<Error>& error() const { return error_; }

 private:
  static int index(Slot slot) { return static_cast<int>(slot); }
  const ffi::Any* at(Slot slot) const { return values_[index(slot)]; }
  int64_t whole(Slot slot);
  void refuse(const std::string& message) {
    if (!error_) error_ = Error{ErrorCode::invalid_argument, message};
  }

  const ffi::Any* values_[kSlots] = {};
  const Field* fields_[kSlots] = {};
  std::optional<Error> error_;
};

/// The fields of products and convolutions that are not arrays.
struct CallChoices {
  float alpha, beta;
  int32_t accumulate, activation, update, any_order;
  int64_t workspace, problem;  // addresses, or 0
};
/// Reads these fields; fields.error() has the first error. beta is 1 by default if C is present.
CallChoices choices_of(Fields& fields, const ArrayArg& c);

/// Merges the leading dimensions into one, as torch's linear does. Error: invalid_stride, if a single stride
/// cannot describe them.
Result<void> flatten(const char* name, ArrayArg& arg);
/// Checks that `arg` has the leading dimensions of `of`, or is a matrix; call it before flatten(). An `arg`
/// that is not present passes. Error: invalid_size.
Result<void> check_leading(const char* name, const ArrayArg& arg, const char* of_name, const ArrayArg& of);
/// Transposes a weight n x k into the product's B, k x n. Errors: invalid_argument (missing), invalid_size.
Result<void> transpose(const char* name, ArrayArg& arg);

/// Returns the device that holds `array`, the call's first array. If it is missing or in host memory, returns
/// the error of `check`, so that a wrong call gives the same error with and without a GPU.
template <class Check>
sluice_status device_of(const sluice_array* array, const Check& check, sluice_device** device) {
  if (array != nullptr && array->device_type == SLUICE_ON_CUDA)
    return sluice_device_default(array->device, device);
  return check();
}

/// Returns the framework's current stream. Requires that call() found tvm-ffi's function for it.
sluice_stream stream_of(int device);

/// The two C functions that run a `What` (product, ...): with a lent workspace, and with the caller's.
template <class What>
struct Runners {
  sluice_status (*run)(sluice_device*, const What*, sluice_stream);
  sluice_status (*run_with)(sluice_device*, const What*, const sluice_workspace*, sluice_stream);
};
/// The first array of a call, and the address of the caller's workspace (0: lend one).
struct Place {
  const sluice_array* first;
  int64_t workspace;
};
/// Runs `what` on the device that holds its first array, on the framework's stream. `check` is as in
/// device_of.
template <class What, class Check>
sluice_status run_at(const Place& place, const Runners<What>& runners, const What& what, const Check& check) {
  sluice_device* device = nullptr;
  if (const sluice_status status = device_of(place.first, check, &device); status != SLUICE_OK) return status;
  const sluice_stream stream = stream_of(place.first->device);
  if (place.workspace == 0) return runners.run(device, &what, stream);
  return runners.run_with(device, &what, reinterpret_cast<const sluice_workspace*>(place.workspace), stream);
}

/// Reads the fields of a call, passes them to `function`, and raises if its status is an error.
int call(sluice_status (*function)(Fields& fields), const ffi::Any* args, int count);

}  // namespace sluice::c_api

/// Defines the exported function that tvm-ffi finds as `name`; it calls sluice::c_api::name(fields).
#define SLUICE_PACKED(name)                                                                  \
  SLUICE_API int __tvm_ffi_##name(void*, const sluice::c_api::ffi::Any* args, int32_t given, \
                                  sluice::c_api::ffi::Any* result);                          \
  int __tvm_ffi_##name(void*, const sluice::c_api::ffi::Any* args, int32_t given,            \
                       sluice::c_api::ffi::Any*) {                                           \
    return sluice::c_api::call(sluice::c_api::name, args, given);                            \
  }
