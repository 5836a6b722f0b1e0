// SPDX-License-Identifier: Apache-2.0
// The arguments of the functions that Python calls through tvm-ffi (tvm_ffi.cc, tvm_ffi_companions.cc). They
// are (field, value) pairs in any order. A field is passed as its index in kFields, which Python looks up by
// name once (sluice_ffi_field). A row of kFields says where its value belongs in Given.
#pragma once

#include <cstddef>
#include <string>

#include <sluice/c_api/error.h>
#include <sluice/c_api/tvm_ffi_abi.h>
#include <sluice/result.h>

namespace sluice::c_api {

inline constexpr int kMaxDims = 3;

/// How a value is read. `rows` and `turned` are arrays that products see in another form. rows: the leading
/// dimensions, also those of C and D, are merged into one. turned: a weight n x k is transposed to k x n.
enum class Kind : uint8_t { array, rows, turned, real, number, flag, size, address };

/// A tensor argument as a sluice_array. It has room for other shapes and strides, because views change them.
struct ArrayArg {
  sluice_array array{};
  int64_t shape[kMaxDims], strides[kMaxDims];
  const char* name = nullptr;  // the field's name; null if the call does not have the field
  Kind kind = Kind::array;
  bool present = false;  // false also for None

  const sluice_array* get() const { return present ? &array : nullptr; }
};

/// The arrays of a call: the operands of a sluice_call, and those of other functions.
enum GivenArray : int {
  kGradOutput = SLUICE_OPERANDS,
  kSum,
  kScales,
  kCodes,
  kZeros,
  kIds,  // from here on: the steps around products of experts
  kEnds,
  kRowOfSlot,
  kTokenOfRow,
  kTopkWeights,
  kShared,
  kOutputT,  // the transposed output of quantize_both
  kScalesT,
  kArrays
};

/// The values of one call's fields.
struct Given {
  sluice_call call = sluice_new_call();
  ArrayArg arrays[kArrays];
  // Quantisers and norms use these; packing uses call.problem.packed.
  int32_t granularity = 0, scale_given = 0, gate = 0, powers_of_two = 0;
  int64_t pitch = 1;      // only route uses it
  int64_t experts = 0;    // only combine uses it
  int64_t described = 0;  // address of a sluice_problem to fill in instead of running; 0: none
  int64_t steps = 0;  // address of the sluice_steps to which the call is added instead of running; 0: none
  // Only chain_run uses these.
  int64_t chain = 0;
  int32_t part = 0;

  /// Reads the pairs. Errors: invalid_argument (a value of another type), internal (an odd number of
  /// arguments or an unknown field: the Python package has another version), those of check_shape.
  Result<void> read(const ffi::Any* args, int count);
};

struct Field {
  const char* name;  // its name in the Python function
  Kind kind;
  size_t place;  // index in Given::arrays of an array, else the offset in Given
};

#define SLUICE_FIELD(member) offsetof(Given, member)
inline constexpr Field kFields[] = {
    {"a", Kind::array, SLUICE_A},
    {"mat_a", Kind::array, SLUICE_A},
    {"input", Kind::rows, SLUICE_A},
    {"x", Kind::rows, SLUICE_A},
    {"b", Kind::array, SLUICE_B},
    {"mat_b", Kind::array, SLUICE_B},
    {"weight", Kind::turned, SLUICE_B},
    {"packed.blob", Kind::array, SLUICE_B},
    {"blob", Kind::array, SLUICE_B},
    {"c", Kind::array, SLUICE_C},
    {"residual", Kind::array, SLUICE_C},
    {"out", Kind::array, SLUICE_D},
    {"output", Kind::array, SLUICE_D},
    {"total", Kind::array, SLUICE_D},
    {"bias", Kind::array, SLUICE_BIAS},
    {"scale_a", Kind::array, SLUICE_SCALE_A},
    {"scale_x", Kind::array, SLUICE_SCALE_A},
    {"scale_b", Kind::array, SLUICE_SCALE_B},
    {"scale_w", Kind::array, SLUICE_SCALE_B},
    {"scale_d", Kind::array, SLUICE_SCALE_D},
    {"gamma", Kind::array, SLUICE_GAMMA},
    {"offs", Kind::array, SLUICE_GROUPS},
    {"scale_out", Kind::array, SLUICE_SCALE_OUT},
    {"row_factors", Kind::array, SLUICE_ROW_FACTORS},
    {"grad_output", Kind::array, kGradOutput},
    {"sum", Kind::array, kSum},
    {"scales", Kind::array, kScales},
    {"codes", Kind::array, kCodes},
    {"zeros", Kind::array, kZeros},
    {"alpha", Kind::real, SLUICE_FIELD(call.alpha)},
    {"beta", Kind::real, SLUICE_FIELD(call.beta)},
    {"epsilon", Kind::real, SLUICE_FIELD(call.epsilon)},
    {"activation", Kind::number, SLUICE_FIELD(call.problem.activation)},
    {"use_fast_accum", Kind::flag, SLUICE_FIELD(call.problem.accumulate)},
    {"gated", Kind::flag, SLUICE_FIELD(call.problem.gated)},
    {"add", Kind::flag, SLUICE_FIELD(call.problem.update)},
    {"any_order", Kind::flag, SLUICE_FIELD(call.problem.any_order)},
    {"workspace", Kind::address, SLUICE_FIELD(call.workspace)},
    {"problem", Kind::address, SLUICE_FIELD(described)},
    {"steps", Kind::address, SLUICE_FIELD(steps)},
    {"chain", Kind::address, SLUICE_FIELD(chain)},
    {"part", Kind::number, SLUICE_FIELD(part)},
    {"granularity", Kind::number, SLUICE_FIELD(granularity)},
    {"scale_given", Kind::flag, SLUICE_FIELD(scale_given)},
    {"gate", Kind::number, SLUICE_FIELD(gate)},
    {"format.type", Kind::number, SLUICE_FIELD(call.problem.packed.type)},
    {"format.group", Kind::number, SLUICE_FIELD(call.problem.packed.group)},
    {"format.scale", Kind::number, SLUICE_FIELD(call.problem.packed.scale)},
    {"format.zeros", Kind::flag, SLUICE_FIELD(call.problem.packed.zeros)},
    {"format.order", Kind::number, SLUICE_FIELD(call.problem.packed.order)},
    {"n", Kind::size, SLUICE_FIELD(call.problem.n)},
    {"k", Kind::size, SLUICE_FIELD(call.problem.k)},
    {"groups", Kind::number, SLUICE_FIELD(call.problem.groups)},
    {"group_pitch", Kind::number, SLUICE_FIELD(call.problem.group_pitch)},
    {"op", Kind::number, SLUICE_FIELD(call.problem.conv.op)},
    {"stride[0]", Kind::size, SLUICE_FIELD(call.problem.conv.stride[0])},
    {"stride[1]", Kind::size, SLUICE_FIELD(call.problem.conv.stride[1])},
    {"stride[2]", Kind::size, SLUICE_FIELD(call.problem.conv.stride[2])},
    {"dilation[0]", Kind::size, SLUICE_FIELD(call.problem.conv.dilation[0])},
    {"dilation[1]", Kind::size, SLUICE_FIELD(call.problem.conv.dilation[1])},
    {"dilation[2]", Kind::size, SLUICE_FIELD(call.problem.conv.dilation[2])},
    {"padding[0]", Kind::size, SLUICE_FIELD(call.problem.conv.padding[0])},
    {"padding[1]", Kind::size, SLUICE_FIELD(call.problem.conv.padding[1])},
    {"padding[2]", Kind::size, SLUICE_FIELD(call.problem.conv.padding[2])},
    {"padding_after[0]", Kind::size, SLUICE_FIELD(call.problem.conv.padding_after[0])},
    {"padding_after[1]", Kind::size, SLUICE_FIELD(call.problem.conv.padding_after[1])},
    {"padding_after[2]", Kind::size, SLUICE_FIELD(call.problem.conv.padding_after[2])},
    {"uneven_padding", Kind::flag, SLUICE_FIELD(call.problem.conv.uneven_padding)},
    {"topk_ids", Kind::array, kIds},
    {"ends", Kind::array, kEnds},
    {"row_of_slot", Kind::array, kRowOfSlot},
    {"token_of_row", Kind::array, kTokenOfRow},
    {"topk_weights", Kind::array, kTopkWeights},
    {"shared", Kind::array, kShared},
    {"output_t", Kind::array, kOutputT},
    {"scales_t", Kind::array, kScalesT},
    {"powers_of_two", Kind::flag, SLUICE_FIELD(powers_of_two)},
    {"y", Kind::array, SLUICE_A},
    {"pitch", Kind::size, SLUICE_FIELD(pitch)},
    {"experts", Kind::size, SLUICE_FIELD(experts)}};
#undef SLUICE_FIELD
inline constexpr int kFieldCount = sizeof(kFields) / sizeof(kFields[0]);

/// Merges the leading dimensions into one, as torch's linear does. Error: invalid_stride, if a single stride
/// cannot describe them.
Result<void> flatten(ArrayArg& arg);
/// Checks that `arg` has the leading dimensions of `of`, or is a matrix; call it before flatten(). An `arg`
/// that is not present passes. Error: invalid_size.
Result<void> check_leading(const ArrayArg& arg, const ArrayArg& of);

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

/// Raises the thread's last error as tvm-ffi's exception, and returns the value that the call must return.
int raise(sluice_status status);

/// Reads the fields of a call, passes them to `function`, and raises if its status is an error.
int call(sluice_status (*function)(Given& given), const ffi::Any* args, int count);

}  // namespace sluice::c_api

/// Defines the exported function that tvm-ffi finds as `name`; it calls sluice::c_api::name(given).
#define SLUICE_PACKED(name)                                                                  \
  SLUICE_API int __tvm_ffi_##name(void*, const sluice::c_api::ffi::Any* args, int32_t given, \
                                  sluice::c_api::ffi::Any* result);                          \
  int __tvm_ffi_##name(void*, const sluice::c_api::ffi::Any* args, int32_t given,            \
                       sluice::c_api::ffi::Any*) {                                           \
    return sluice::c_api::call(sluice::c_api::name, args, given);                            \
  }
