// SPDX-License-Identifier: Apache-2.0
// See tvm_ffi_args.h.
#include <sluice/c_api/tvm_ffi_args.h>

#include <dlfcn.h>

#include <sluice/c_api/array_shape.h>

namespace sluice::c_api {
namespace {

int dtype_of(ffi::DataType type) {
  if (type.lanes != 1) return -1;
  if (type.code == ffi::kBfloat && type.bits == 16) return SLUICE_BF16;
  if (type.code == ffi::kFloat && type.bits == 16) return SLUICE_FP16;
  if (type.code == ffi::kFloat && type.bits == 32) return SLUICE_FP32;
  if (type.code == ffi::kFloat8E4m3fn && type.bits == 8) return SLUICE_E4M3;
  if (type.code == ffi::kFloat8E5m2 && type.bits == 8) return SLUICE_E5M2;
  if (type.code == ffi::kUnsigned && type.bits == 8) return SLUICE_BYTE;
  return other_type(type.code, type.bits);
}

int32_t device_type_of(int32_t type) {
  if (type == ffi::kCudaManaged) return SLUICE_ON_CUDA;
  return type == ffi::kCudaHost ? SLUICE_ON_CPU : type;  // pinned memory is host memory
}

Error not_a_tensor(const char* name, int type_index) {
  return {ErrorCode::invalid_argument,
          std::string(name) + " is of tvm-ffi's type " + std::to_string(type_index) +
              ": it must be a tensor that speaks DLPack" + ", or None where it may be left out"};
}

/// Returns the tensor of an argument; nullptr for None.
Result<const ffi::Tensor*> tensor_of(const ffi::Any& any, const char* name) {
  if (any.type_index == ffi::kNone) return static_cast<const ffi::Tensor*>(nullptr);
  if (any.type_index == ffi::kTensorPointer) return static_cast<const ffi::Tensor*>(any.v_ptr);
  if (any.type_index == ffi::kTensorObject)
    return reinterpret_cast<const ffi::Tensor*>(static_cast<const char*>(any.v_ptr) +
                                                ffi::kObjectHeaderBytes);
  return not_a_tensor(name, any.type_index);
}

void describe(const ffi::Tensor& t, ArrayArg& arg) {
  arg.present = true;
  arg.array = {.data = static_cast<char*>(t.data) + t.byte_offset,
               .dtype = dtype_of(t.dtype),
               .ndim = t.ndim,
               .device_type = device_type_of(t.device_type),
               .device = t.device_id,
               .shape = t.shape,
               .strides = t.strides};
}

Error other_version(const std::string& what) {
  return {ErrorCode::internal, what +
                                   ": the Python files and libsluice_c are of different versions; install "
                                   "the package again"};
}

}  // namespace

const Host& host() {
  static const Host found{reinterpret_cast<ffi::SetRaised>(dlsym(RTLD_DEFAULT, ffi::kSetRaised)),
                          reinterpret_cast<ffi::GetStream>(dlsym(RTLD_DEFAULT, ffi::kGetStream))};
  return found;
}

int raise(sluice_status status) {
  if (host().set_raised != nullptr)
    host().set_raised((std::string("sluice.") + sluice_status_name(status)).c_str(), sluice_error_message());
  return -1;
}

Result<void> Fields::read(const ffi::Any* args, int count) {
  for (int i = 0; i + 1 < count; i += 2) {
    const int64_t number = args[i].type_index == ffi::kInt ? args[i].v_int64 : -1;
    if (number < 0 || number >= kFieldCount)
      return other_version("a call names field " + std::to_string(number));
    const Field& field = kFields[number];
    values_[index(field.slot)] = &args[i + 1];
    fields_[index(field.slot)] = &field;
  }
  if (count % 2 != 0)
    return other_version("a call has " + std::to_string(count) + " arguments, and no pairs");
  return {};
}

const char* Fields::name(Slot slot) const {
  if (!has(slot)) return nullptr;
  return seen(slot) == Seen::turned ? "weight.t()" : fields_[index(slot)]->name;
}

Result<void> Fields::array(Slot slot, ArrayArg& arg) const {
  if (!has(slot)) return {};
  const char* const called = fields_[index(slot)]->name;
  const Result<const ffi::Tensor*> tensor = tensor_of(*at(slot), called);
  if (!tensor) return tensor.error();
  if (*tensor == nullptr) return {};
  describe(**tensor, arg);
  return check_shape(called, arg.array);
}

float Fields::real(Slot slot, float without) {
  if (!has(slot)) return without;
  const ffi::Any& any = *at(slot);
  return static_cast<float>(any.type_index == ffi::kReal ? any.v_float64 : static_cast<double>(whole(slot)));
}

int32_t Fields::enumerator(Slot slot) {
  const int64_t value = integer(slot);
  if (value == static_cast<int32_t>(value)) return static_cast<int32_t>(value);
  refuse(std::string(name(slot)) + " = " + std::to_string(value) + " must fit 32 bits");
  return 0;
}

int64_t Fields::whole(Slot slot) {
  const ffi::Any& any = *at(slot);
  if (any.type_index == ffi::kInt || any.type_index == ffi::kBool) return any.v_int64;
  if (any.type_index == ffi::kReal)
    refuse(std::string(name(slot)) + " = " + std::to_string(any.v_float64) +
           " must be an integer or a bool; pass int() of it");
  else
    refuse(std::string(name(slot)) + " is of tvm-ffi's type " + std::to_string(any.type_index) +
           ": it must be a number; pass float(), int() or bool() of it");
  return 0;
}

int call(sluice_status (*function)(Fields& fields), const ffi::Any* args, int count) {
  const sluice_status status = guarded([&] {
    if (host().get_stream == nullptr)
      return fail({ErrorCode::internal, std::string("tvm-ffi's ") + ffi::kGetStream +
                                            " is not in this process, and no stream but the framework's "
                                            "will do: install apache-tvm-ffi again"});
    Fields fields;
    if (const Result<void> read = fields.read(args, count); !read) return fail(read.error());
    return function(fields);
  });
  return status == SLUICE_OK ? 0 : raise(status);
}

CallChoices choices_of(Fields& fields, const ArrayArg& c) {
  return {.alpha = fields.real(Slot::alpha, 1.0f),
          .beta = fields.real(Slot::beta, c.present ? 1.0f : 0.0f),
          .accumulate = fields.flag(Slot::use_fast_accum) ? SLUICE_FAST : SLUICE_PROMOTED,
          .activation = fields.enumerator(Slot::activation),
          .update = fields.flag(Slot::add) ? SLUICE_ADD : SLUICE_SET,
          .any_order = fields.flag(Slot::any_order) ? 1 : 0,
          .workspace = fields.address(Slot::workspace),
          .problem = fields.address(Slot::problem)};
}

Result<void> transpose(const char* name, ArrayArg& arg) {
  sluice_array& x = arg.array;
  if (!arg.present)
    return Error{ErrorCode::invalid_argument,
                 std::string(name) + " is missing: pass a matrix, outputs x inputs"};
  if (x.ndim != 2)
    return Error{ErrorCode::invalid_size, std::string(name) + " has shape " + shape_text(x) +
                                              " and must be a matrix, outputs x inputs"};
  const int64_t rows = x.shape[0], columns = x.shape[1];
  const int64_t row_stride = stride(x, 0), column_stride = stride(x, 1);
  arg.shape[0] = columns;
  arg.shape[1] = rows;
  arg.strides[0] = column_stride;
  arg.strides[1] = row_stride;
  x.shape = arg.shape;
  x.strides = arg.strides;
  return {};
}

Result<void> check_leading(const char* name, const ArrayArg& arg, const char* of_name, const ArrayArg& of) {
  if (!arg.present || !of.present || arg.array.ndim == 2) return {};
  const sluice_array &x = arg.array, &y = of.array;
  bool same = x.ndim == y.ndim;
  for (int i = 0; same && i + 1 < x.ndim; ++i) same = x.shape[i] == y.shape[i];
  if (same) return {};
  return Error{ErrorCode::invalid_size, std::string(name) + " is " + shape_text(x) + " and " + of_name + " " +
                                            shape_text(y) + ": all dimensions but the last must be the same"};
}

Result<void> flatten(const char* name, ArrayArg& arg) {
  if (!arg.present || arg.array.ndim == 2) return {};
  const sluice_array& x = arg.array;
  const int last = x.ndim - 1;
  if (last < 0)
    return Error{ErrorCode::invalid_size,
                 std::string(name) + " is a scalar: it must have at least one dimension; pass a matrix"};
  const int64_t column_stride = x.strides != nullptr ? x.strides[last] : 1, columns = x.shape[last];
  int64_t rows = 1, row_stride = columns;
  for (int i = 0; i < last; ++i) rows *= x.shape[i];
  bool seen = rows == 0;  // true after the first index with more than one value; without rows, strides are
                          // irrelevant
  int64_t inner_rows = 1;
  for (int i = last - 1; i >= 0 && rows != 0; --i) {
    if (x.shape[i] == 1) continue;
    int64_t wanted = 0;
    const bool too_far = __builtin_mul_overflow(row_stride, inner_rows, &wanted);
    if (x.strides != nullptr && seen && (too_far || x.strides[i] != wanted))
      return Error{ErrorCode::invalid_stride, std::string(name) + " is " + shape_text(x) +
                                                  ": its leading dimensions cannot be seen as one; pass " +
                                                  name + ".contiguous() (nothing is copied silently)"};
    if (!seen && x.strides != nullptr) row_stride = x.strides[i];  // 0 for an expanded index
    seen = true;
    inner_rows *= x.shape[i];
  }
  arg.shape[0] = rows;
  arg.shape[1] = columns;
  arg.strides[0] = row_stride;
  arg.strides[1] = column_stride;
  arg.array.ndim = 2;
  arg.array.shape = arg.shape;
  arg.array.strides = arg.strides;
  return {};
}

sluice_stream stream_of(int device) {
  return static_cast<sluice_stream>(host().get_stream(ffi::kCuda, device));
}

}  // namespace sluice::c_api
