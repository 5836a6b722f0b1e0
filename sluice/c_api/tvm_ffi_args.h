// SPDX-License-Identifier: Apache-2.0
// What the packed functions of tvm_ffi.cc share: fields by name out of tvm-ffi's arguments, errors back into
// its exceptions, and the guard around a call. A call's arguments are pairs, a field and its value, in any
// order; a field comes as its number in kFields, which Python asks for by name once (sluice_ffi_field).
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

/// Where a field's value goes. The first nine are the arrays of a sluice_product, in the order of its names.
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
  k
};
inline constexpr int kProductArrays = 9, kSlots = static_cast<int>(Slot::k) + 1;

/// rows: its leading dimensions, and those of C and D, count as one. turned: a weight n x k, seen as k x n.
enum class Seen : uint8_t { as_it_is, rows, turned };

struct Field {
  const char* name;  // as the function of Python calls it
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
                                    {"k", Slot::k}};
inline constexpr int kFieldCount = sizeof(kFields) / sizeof(kFields[0]);

/// The fields of one call.
class Fields {
 public:
  /// Error internal: not pairs, or a field that there is not, which only a package of another version gives.
  Result<void> read(const ffi::Any* args, int count);

  bool has(Slot slot) const { return at(slot) != nullptr; }
  /// As the caller calls it; null where it is not given.
  const char* name(Slot slot) const;
  Seen seen(Slot slot) const { return has(slot) ? fields_[index(slot)]->seen : Seen::as_it_is; }

  /// A tensor; one that is None or not given is not present. Error invalid_argument: no tensor.
  Result<void> array(Slot slot, ArrayArg& arg) const;

  // Values that are no tensors, `without` where they are not given. The first of another type is kept as the
  // error of all, and 0 read.
  float real(Slot slot, float without);
  bool flag(Slot slot) { return has(slot) && whole(slot) != 0; }
  int32_t enumerator(Slot slot);
  int64_t integer(Slot slot) { return has(slot) ? whole(slot) : 0; }
  /// Of a handle or a struct; 0 for None.
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

/// Leading dimensions become one, as torch's linear has it. Error invalid_stride: they do not lie one after
/// the other.
Result<void> flatten(const char* name, ArrayArg& arg);
/// Before both are flattened: `arg` has the leading dimensions of `of`, or is a matrix already. An absent one
/// is as it should be. Error invalid_size.
Result<void> check_leading(const char* name, const ArrayArg& arg, const char* of_name, const ArrayArg& of);
/// A weight n x k becomes the k x n that a product takes. Errors: invalid_argument (missing), invalid_size.
Result<void> transpose(const char* name, ArrayArg& arg);

/// The framework's current one. call() has made sure that it can be asked for.
sluice_stream stream_of(int device);

/// Reads the fields of a call and runs a function of them.
int call(sluice_status (*function)(Fields& fields), const ffi::Any* args, int count);

}  // namespace sluice::c_api

/// Defines the function that tvm-ffi finds under `name`: sluice::c_api::name(fields).
#define SLUICE_PACKED(name)                                                                  \
  SLUICE_API int __tvm_ffi_##name(void*, const sluice::c_api::ffi::Any* args, int32_t given, \
                                  sluice::c_api::ffi::Any* result);                          \
  int __tvm_ffi_##name(void*, const sluice::c_api::ffi::Any* args, int32_t given,            \
                       sluice::c_api::ffi::Any*) {                                           \
    return sluice::c_api::call(sluice::c_api::name, args, given);                            \
  }
