// SPDX-License-Identifier: Apache-2.0
// Products and convolutions that Python calls through tvm-ffi ("packed functions" in its terms). The pairs of
// a call are written straight into a sluice_call. Tensors are passed as DLPack; the stream is the current one
// of the tensors' framework. Errors become exceptions named "sluice." and the status. A call allocates
// nothing.
#include <sluice/c_api/tvm_ffi_fields.h>

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <sluice/c_api/call.h>
#include <sluice/c_api/handles.h>
#include <sluice/c_chain.h>
#include <sluice/try.h>

namespace sluice::c_api {
namespace {

/// The tvm-ffi functions found in the process; null if not found.
struct Host {
  ffi::SetRaised set_raised;
  ffi::GetStream get_stream;
};
const Host& host() {
  static const Host found{reinterpret_cast<ffi::SetRaised>(dlsym(RTLD_DEFAULT, ffi::kSetRaised)),
                          reinterpret_cast<ffi::GetStream>(dlsym(RTLD_DEFAULT, ffi::kGetStream))};
  return found;
}

int dtype_of(ffi::DataType type) {
  if (type.lanes != 1) return -1;
  if (type.code == ffi::kBfloat && type.bits == 16) return SLUICE_BF16;
  if (type.code == ffi::kFloat && type.bits == 16) return SLUICE_FP16;
  if (type.code == ffi::kFloat && type.bits == 32) return SLUICE_FP32;
  if (type.code == ffi::kFloat8E4m3fn && type.bits == 8) return SLUICE_E4M3;
  if (type.code == ffi::kFloat8E5m2 && type.bits == 8) return SLUICE_E5M2;
  if (type.code == ffi::kUnsigned && type.bits == 8) return SLUICE_BYTE;
  if (type.code == ffi::kSigned && type.bits == 32) return SLUICE_INT32;
  if (type.code == ffi::kSigned && type.bits == 64) return SLUICE_INT64;
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

/// Returns a whole number. Error: invalid_argument, for a value of another type.
Result<int64_t> whole(const Field& field, const ffi::Any& any) {
  if (any.type_index == ffi::kInt || any.type_index == ffi::kBool) return any.v_int64;
  if (any.type_index == ffi::kReal)
    return Error{ErrorCode::invalid_argument, std::string(field.name) + " = " +
                                                  std::to_string(any.v_float64) +
                                                  " must be an integer or a bool; pass int() of it"};
  return Error{ErrorCode::invalid_argument, std::string(field.name) + " is of tvm-ffi's type " +
                                                std::to_string(any.type_index) +
                                                ": it must be a number; pass float(), int() or bool() of it"};
}

template <class T>
void store(Given& given, const Field& field, T value) {
  std::memcpy(reinterpret_cast<char*>(&given) + field.place, &value, sizeof value);
}

Result<void> read_array(const Field& field, const ffi::Any& any, ArrayArg& arg) {
  arg.name = field.name;
  arg.kind = field.kind;
  SLUICE_TAKE(const ffi::Tensor* const tensor, tensor_of(any, field.name));
  if (tensor == nullptr) return {};
  describe(*tensor, arg);
  return check_shape(field.name, arg.array);
}

Result<void> read_value(const Field& field, const ffi::Any& any, Given& given) {
  if (field.kind == Kind::real && any.type_index == ffi::kReal) {
    store(given, field, static_cast<float>(any.v_float64));
    return {};
  }
  if (field.kind == Kind::address && any.type_index == ffi::kNone) return {};
  SLUICE_TAKE(const int64_t value, whole(field, any));
  switch (field.kind) {
    case Kind::real: store(given, field, static_cast<float>(value)); break;
    case Kind::flag: store(given, field, int32_t{value != 0}); break;
    case Kind::number:
      if (value != static_cast<int32_t>(value))
        return Error{ErrorCode::invalid_argument,
                     std::string(field.name) + " = " + std::to_string(value) + " must fit 32 bits"};
      store(given, field, static_cast<int32_t>(value));
      break;
    default: store(given, field, value);
  }
  return {};
}

constexpr bool is_array(Kind kind) {
  return kind <= Kind::turned;
}

/// Transposes a weight n x k into the product's B, k x n. Errors: invalid_argument (missing), invalid_size.
Result<void> transpose(ArrayArg& arg) {
  sluice_array& x = arg.array;
  const char* const name = arg.name;
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
  arg.name = "weight.t()";
  return {};
}

}  // namespace

Result<void> check_leading(const ArrayArg& arg, const ArrayArg& of) {
  if (!arg.present || !of.present || arg.array.ndim == 2) return {};
  const sluice_array &x = arg.array, &y = of.array;
  bool same = x.ndim == y.ndim;
  for (int i = 0; same && i + 1 < x.ndim; ++i) same = x.shape[i] == y.shape[i];
  if (same) return {};
  return Error{ErrorCode::invalid_size, std::string(arg.name) + " is " + shape_text(x) + " and " + of.name +
                                            " " + shape_text(y) +
                                            ": all dimensions but the last must be the same"};
}

Result<void> flatten(ArrayArg& arg) {
  if (!arg.present || arg.array.ndim == 2) return {};
  const char* const name = arg.name;
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

namespace {

/// Flattens and transposes the arrays of a product as kernels need them.
Result<void> view_as_matrices(Given& given) {
  ArrayArg &a = given.arrays[SLUICE_A], &b = given.arrays[SLUICE_B];
  if (a.kind == Kind::rows) {
    for (const int i : {SLUICE_D, SLUICE_C}) SLUICE_TRY(check_leading(given.arrays[i], a));
    for (const int i : {SLUICE_A, SLUICE_D, SLUICE_C}) SLUICE_TRY(flatten(given.arrays[i]));
  }
  return b.kind == Kind::turned ? transpose(b) : Result<void>{};
}

/// Runs the call of `given`, describes it where the caller asks for its problem, or adds it to a chain's
/// steps.
sluice_status run_or_describe(Given& given) {
  sluice_call& call = given.call;
  for (int i = 0; i < SLUICE_OPERANDS; ++i) {
    call.operands[i] = given.arrays[i].get();
    call.names[i] = given.arrays[i].name;
  }
  if (given.described != 0) {
    const Result<sluice_problem> found = described(call);
    if (!found) return fail(found.error());
    *reinterpret_cast<sluice_problem*>(given.described) = *found;
    return SLUICE_OK;
  }
  if (given.steps != 0) return sluice_steps_add_product(reinterpret_cast<sluice_steps*>(given.steps), &call);
  const sluice_array* const first = call.operands[SLUICE_A];
  sluice_device* device = nullptr;
  const auto refuse = [&] {
    const Result<sluice_problem> bad = described(call);
    return fail(bad ? check_on(named(call, SLUICE_A), kOnHost, 0).error() : bad.error());
  };
  if (const sluice_status status = device_of(first, refuse, &device); status != SLUICE_OK) return status;
  return status_of(run(*device, call, stream_of(first->device)));
}

sluice_status product(Given& given) {
  if (const Result<void> seen = view_as_matrices(given); !seen) return fail(seen.error());
  return run_or_describe(given);
}

/// Which fields of a convolution are its operands A and B, and which it computes.
struct ConvFields {
  int a, b, result;
  const char *name_a, *name_b, *name_result;
};
ConvFields fields_of(int32_t op) {
  if (op == SLUICE_DGRAD) return {kGradOutput, SLUICE_B, SLUICE_A, "grad_output", "weight", "input"};
  if (op == SLUICE_WGRAD) return {kGradOutput, SLUICE_A, SLUICE_B, "grad_output", "input", "weight"};
  return {SLUICE_A, SLUICE_B, kGradOutput, "input", "weight", "grad_output"};
}

/// Tensors have torch's order of dimensions and torch's names: input, weight, grad_output. The one that the
/// op computes is named out or total.
sluice_status convolution(Given& given) {
  sluice_conv& conv = given.call.problem.conv;
  if (conv.op == SLUICE_PRODUCT)
    return fail(
        {ErrorCode::invalid_argument, "op = 0 must be SLUICE_FPROP, SLUICE_DGRAD or SLUICE_WGRAD, 1..3"});
  const ConvFields of = fields_of(conv.op);
  if (given.arrays[of.result].present)
    return fail(
        {ErrorCode::invalid_argument,
         std::string(of.name_result) + " is given and the op computes it: pass where to write as out"});
  ArrayArg a = given.arrays[of.a], b = given.arrays[of.b];
  a.name = of.name_a;  // also if it is missing
  b.name = of.name_b;
  given.arrays[SLUICE_A] = a;
  given.arrays[SLUICE_B] = b;
  ArrayArg& out = given.arrays[SLUICE_D];
  if (out.name == nullptr) out.name = "out";
  // The number of axes is that of the first array; later checks refuse another.
  conv.spatial = 1;
  const ArrayArg* const by_role[] = {conv.op == SLUICE_WGRAD   ? &a
                                     : conv.op == SLUICE_DGRAD ? &a
                                                               : &out,
                                     conv.op == SLUICE_WGRAD ? &out : &b,
                                     conv.op == SLUICE_WGRAD   ? &b
                                     : conv.op == SLUICE_DGRAD ? &out
                                                               : &a};
  for (const ArrayArg* x : by_role)  // y, w, x
    if (x->present) conv.spatial = std::clamp(x->array.ndim - 2, 1, kMaxDims);
  return run_or_describe(given);
}

}  // namespace

int raise(sluice_status status) {
  if (host().set_raised != nullptr)
    host().set_raised((std::string("sluice.") + sluice_status_name(status)).c_str(), sluice_error_message());
  return -1;
}

Result<void> Given::read(const ffi::Any* args, int count) {
  for (int i = 0; i + 1 < count; i += 2) {
    const int64_t number = args[i].type_index == ffi::kInt ? args[i].v_int64 : -1;
    if (number < 0 || number >= kFieldCount)
      return other_version("a call names field " + std::to_string(number));
    const Field& field = kFields[number];
    SLUICE_TRY(is_array(field.kind) ? read_array(field, args[i + 1], arrays[field.place])
                                    : read_value(field, args[i + 1], *this));
  }
  if (count % 2 != 0)
    return other_version("a call has " + std::to_string(count) + " arguments, and no pairs");
  return {};
}

int call(sluice_status (*function)(Given& given), const ffi::Any* args, int count) {
  const sluice_status status = guarded([&] {
    if (host().get_stream == nullptr)
      return fail({ErrorCode::internal, std::string("tvm-ffi's ") + ffi::kGetStream +
                                            " is not in this process, and no stream but the framework's "
                                            "will do: install apache-tvm-ffi again"});
    Given given;
    if (const Result<void> read = given.read(args, count); !read) return fail(read.error());
    return function(given);
  });
  return status == SLUICE_OK ? 0 : raise(status);
}

sluice_stream stream_of(int device) {
  return static_cast<sluice_stream>(host().get_stream(ffi::kCuda, device));
}

}  // namespace sluice::c_api

// tvm-ffi finds these functions by their names.
extern "C" {

SLUICE_PACKED(product)
SLUICE_PACKED(convolution)

/// Returns the name of the field with this number; NULL past the last field.
SLUICE_API const char* sluice_ffi_field(int32_t number);
const char* sluice_ffi_field(int32_t number) {
  return number >= 0 && number < sluice::c_api::kFieldCount ? sluice::c_api::kFields[number].name : nullptr;
}

/// Returns 1 if the process has the tvm-ffi functions that this file needs, else 0. It never raises, because
/// raising needs these functions too.
SLUICE_API int __tvm_ffi_host_is_complete(void*, const sluice::c_api::ffi::Any*, int32_t,
                                          sluice::c_api::ffi::Any* result);
int __tvm_ffi_host_is_complete(void*, const sluice::c_api::ffi::Any*, int32_t,
                               sluice::c_api::ffi::Any* result) {
  const auto& found = sluice::c_api::host();
  result->type_index = sluice::c_api::ffi::kInt;
  result->padding = 0;
  result->v_int64 = found.set_raised != nullptr && found.get_stream != nullptr ? 1 : 0;
  return 0;
}

}  // extern "C"
