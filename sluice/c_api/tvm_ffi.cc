// SPDX-License-Identifier: Apache-2.0
// The packed functions that Python calls through tvm-ffi: tensors come as DLPack, the stream from the
// framework they belong to, errors go back as exceptions called "sluice." and the status. A call builds the
// product on the stack, looks its kernel up and launches; it allocates nothing. Python's signatures are in
// python/sluice/_binding.py.
#include <dlfcn.h>

#include <optional>
#include <string>

#include <sluice/c_api/arrays.h>
#include <sluice/c_api/error.h>
#include <sluice/c_api/quantization.h>
#include <sluice/c_api/tvm_ffi_abi.h>

namespace sluice::c_api {
namespace {

struct Host {
  ffi::SetRaised set_raised;
  ffi::GetStream get_stream;
};
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

int dtype_of(ffi::DataType type) {
  if (type.lanes != 1) return -1;
  if (type.code == ffi::kBfloat && type.bits == 16) return SLUICE_BF16;
  if (type.code == ffi::kFloat && type.bits == 16) return SLUICE_FP16;
  if (type.code == ffi::kFloat && type.bits == 32) return SLUICE_FP32;
  if (type.code == ffi::kFloat8E4m3fn && type.bits == 8) return SLUICE_E4M3;
  if (type.code == ffi::kFloat8E5m2 && type.bits == 8) return SLUICE_E5M2;
  return -1;
}

constexpr int kMaxDims = 3;

/// A tensor argument as the C interface has it; its own storage, because views are made of it.
struct ArrayArg {
  sluice_array array{};
  int64_t shape[kMaxDims], strides[kMaxDims];
  bool present = false;

  const sluice_array* get() const { return present ? &array : nullptr; }
};

Error not_a_tensor(const char* name, int type_index) {
  return {ErrorCode::invalid_argument,
          std::string(name) + " is of tvm-ffi's type " + std::to_string(type_index) +
              ": it must be a tensor that speaks DLPack" + ", or None where it may be left out"};
}

/// nullptr: None.
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
               .device_type = t.device_type == ffi::kCudaManaged ? SLUICE_ON_CUDA : t.device_type,
               .device = t.device_id,
               .shape = t.shape,
               .strides = t.strides};
}

Result<void> read(const ffi::Any& any, const char* name, ArrayArg& arg) {
  const Result<const ffi::Tensor*> tensor = tensor_of(any, name);
  if (!tensor) return tensor.error();
  if (*tensor != nullptr) describe(**tensor, arg);
  return {};
}

/// Leading dimensions become one, as torch's linear has it. Error invalid_stride: they do not lie one after
/// the other.
Result<void> flatten(const char* name, ArrayArg& arg) {
  if (!arg.present || arg.array.ndim == 2) return {};
  const sluice_array& x = arg.array;
  const int last = x.ndim - 1;
  if (last < 0)
    return Error{ErrorCode::invalid_size, std::string(name) + " has no dimension: it must have at least one"};
  const int64_t column_stride = x.strides != nullptr ? x.strides[last] : 1, columns = x.shape[last];
  int64_t rows = 1, row_stride = columns;
  for (int i = 0; i < last; ++i) rows *= x.shape[i];
  bool seen = rows == 0;  // an index that steps; where there is no row, none does, whatever its stride
  int64_t inner_rows = 1;
  for (int i = last - 1; i >= 0 && rows != 0; --i) {
    if (x.shape[i] == 1) continue;
    if (x.strides != nullptr && seen && x.strides[i] != row_stride * inner_rows)
      return Error{ErrorCode::invalid_stride, std::string(name) +
                                                  ": its leading dimensions cannot be seen as one; pass " +
                                                  name + ".contiguous() (nothing is copied silently)"};
    if (!seen && x.strides != nullptr) row_stride = x.strides[i];  // 0 where the index is expanded
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

/// A weight n x k seen as the k x n that a product takes.
Result<void> transpose(const char* name, ArrayArg& arg) {
  sluice_array& x = arg.array;
  if (!arg.present || x.ndim != 2)
    return Error{ErrorCode::invalid_size, std::string(name) + " must be a matrix"};
  const int64_t rows = x.shape[0], columns = x.shape[1];
  const int64_t row_stride = x.strides != nullptr ? x.strides[0] : columns;
  const int64_t column_stride = x.strides != nullptr ? x.strides[1] : 1;
  arg.shape[0] = columns;
  arg.shape[1] = rows;
  arg.strides[0] = column_stride;
  arg.strides[1] = row_stride;
  x.shape = arg.shape;
  x.strides = arg.strides;
  return {};
}

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
sluice_stream stream_of(int device) {
  return static_cast<sluice_stream>(host().get_stream(ffi::kCuda, device));
}

/// `workspace`: the address of a handle, or 0.
sluice_status run(const sluice_product& product, int64_t workspace) {
  const sluice_array* a = product.a;
  sluice_device* device = nullptr;
  // Shapes are looked at first where there is no device to open, so that a bad call says so anywhere.
  if (a == nullptr || a->device_type != SLUICE_ON_CUDA) {
    sluice_problem ignored;
    if (const sluice_status bad = sluice_problem_of(&product, &ignored); bad != SLUICE_OK) return bad;
    return fail(check_device_of(product, 0).error());  // in host memory, on no GPU
  }
  if (const sluice_status status = sluice_device_default(a->device, &device); status != SLUICE_OK)
    return status;
  const sluice_stream stream = stream_of(a->device);
  if (workspace == 0) return sluice_run(device, &product, stream);
  return sluice_run_with(device, &product, reinterpret_cast<const sluice_workspace*>(workspace), stream);
}

constexpr const char* kScaledNames[] = {"mat_a", "mat_b", "c", "out", "bias", "scale_a", "scale_b"};
constexpr const char* kPlainNames[] = {"a", "b", "c", "out", "bias", "scale_a", "scale_b"};
constexpr const char* kAddNames[] = {"a", "b", "c", "total", "bias", "scale_a", "scale_b"};
constexpr const char* kLinearNames[] = {"input", "weight.t()", "c", "out", "bias", "scale_a", "scale_b"};

constexpr const char* kQuantizeNames[] = {"input", "output", "scales"};

/// One tensor of the arguments.
struct Operand {
  ArrayArg& target;
  int index;  // of the argument
  int name;   // of the table of names
};

sluice_status read_all(const ffi::Any* args, const char* const* names,
                       std::initializer_list<Operand> operands) {
  for (const Operand& x : operands)
    if (const Result<void> done = read(args[x.index], names[x.name], x.target); !done)
      return fail(done.error());
  return SLUICE_OK;
}

/// The tensors of a product; those that were not read are not there.
struct Arrays {
  ArrayArg a, b, c, d, bias, scale_a, scale_b;

  /// c is added as it is, sums are promoted and D is set, unless the caller changes it.
  sluice_product product(const char* const* names) const {
    return {.a = a.get(),
            .b = b.get(),
            .c = c.get(),
            .d = d.get(),
            .bias = bias.get(),
            .scale_a = scale_a.get(),
            .scale_b = scale_b.get(),
            .alpha = 1.0f,
            .beta = c.present ? 1.0f : 0.0f,
            .accumulate = SLUICE_PROMOTED,
            .activation = SLUICE_NO_ACTIVATION,
            .update = SLUICE_SET,
            .any_order = 0,
            .names = names};
  }
};

int32_t accumulate_of(bool fast) {
  return fast ? SLUICE_FAST : SLUICE_PROMOTED;
}

/// (mat_a, mat_b, scale_a, scale_b, bias, out, use_fast_accum, workspace, c)
sluice_status scaled_mm(const ffi::Any* args) {
  Arrays x;
  if (const sluice_status bad = read_all(args, kScaledNames,
                                         {{x.a, 0, 0},
                                          {x.b, 1, 1},
                                          {x.scale_a, 2, 5},
                                          {x.scale_b, 3, 6},
                                          {x.bias, 4, 4},
                                          {x.d, 5, 3},
                                          {x.c, 8, 2}});
      bad != SLUICE_OK)
    return bad;
  Scalars scalars(args);
  sluice_product product = x.product(kScaledNames);
  product.accumulate = accumulate_of(scalars.flag(6, "use_fast_accum"));
  const int64_t workspace = scalars.address(7, "workspace");
  if (scalars.error()) return fail(*scalars.error());
  return run(product, workspace);
}

/// (a, b, out, bias, c, alpha, beta, activation, fast, workspace)
sluice_status mm(const ffi::Any* args) {
  Arrays x;
  if (const sluice_status bad =
          read_all(args, kPlainNames, {{x.a, 0, 0}, {x.b, 1, 1}, {x.d, 2, 3}, {x.bias, 3, 4}, {x.c, 4, 2}});
      bad != SLUICE_OK)
    return bad;
  Scalars scalars(args);
  sluice_product product = x.product(kPlainNames);
  product.alpha = scalars.real(5, "alpha");
  product.beta = scalars.real(6, "beta");
  product.activation = scalars.enumerator(7, "activation");
  product.accumulate = accumulate_of(scalars.flag(8, "use_fast_accum"));
  const int64_t workspace = scalars.address(9, "workspace");
  if (scalars.error()) return fail(*scalars.error());
  return run(product, workspace);
}

/// (a, b, total, any_order, workspace): total += a b
sluice_status add_mm(const ffi::Any* args) {
  Arrays x;
  if (const sluice_status bad = read_all(args, kAddNames, {{x.a, 0, 0}, {x.b, 1, 1}, {x.d, 2, 3}});
      bad != SLUICE_OK)
    return bad;
  Scalars scalars(args);
  sluice_product product = x.product(kAddNames);
  product.update = SLUICE_ADD;
  product.any_order = scalars.flag(3, "any_order") ? 1 : 0;
  const int64_t workspace = scalars.address(4, "workspace");
  if (scalars.error()) return fail(*scalars.error());
  return run(product, workspace);
}

/// (input, weight, bias, out, activation, workspace)
sluice_status linear(const ffi::Any* args) {
  Arrays x;
  if (const sluice_status bad =
          read_all(args, kLinearNames, {{x.a, 0, 0}, {x.b, 1, 1}, {x.bias, 2, 4}, {x.d, 3, 3}});
      bad != SLUICE_OK)
    return bad;
  for (const Result<void>& done : {flatten("input", x.a), flatten("out", x.d), transpose("weight", x.b)})
    if (!done) return fail(done.error());
  Scalars scalars(args);
  sluice_product product = x.product(kLinearNames);
  product.accumulate = SLUICE_FAST;
  product.activation = scalars.enumerator(4, "activation");
  const int64_t workspace = scalars.address(5, "workspace");
  if (scalars.error()) return fail(*scalars.error());
  return run(product, workspace);
}

/// (a, b, c, out, bias, scale_a, scale_b, activation, fast, update, any_order, address of the
/// sluice_problem to fill)
sluice_status problem_of_arrays(const ffi::Any* args) {
  Arrays x;
  if (const sluice_status bad = read_all(args, kPlainNames,
                                         {{x.a, 0, 0},
                                          {x.b, 1, 1},
                                          {x.c, 2, 2},
                                          {x.d, 3, 3},
                                          {x.bias, 4, 4},
                                          {x.scale_a, 5, 5},
                                          {x.scale_b, 6, 6}});
      bad != SLUICE_OK)
    return bad;
  Scalars scalars(args);
  sluice_product product = x.product(kPlainNames);
  product.activation = scalars.enumerator(7, "activation");
  product.update = scalars.enumerator(9, "update");
  product.accumulate = accumulate_of(scalars.flag(8, "use_fast_accum"));
  product.any_order = scalars.flag(10, "any_order") ? 1 : 0;
  const int64_t address = scalars.address(11, "address");
  if (scalars.error()) return fail(*scalars.error());
  return sluice_problem_of(&product, reinterpret_cast<sluice_problem*>(address));
}

/// (input, output, scales, granularity, scale_given). Leading dimensions of input and output become one.
sluice_status quantize(const ffi::Any* args) {
  ArrayArg input, output, scales;
  if (const sluice_status bad =
          read_all(args, kQuantizeNames, {{input, 0, 0}, {output, 1, 1}, {scales, 2, 2}});
      bad != SLUICE_OK)
    return bad;
  for (const Result<void>& done : {flatten("input", input), flatten("output", output)})
    if (!done) return fail(done.error());
  Scalars scalars(args);
  const int32_t granularity = scalars.enumerator(3, "granularity");
  const bool scale_given = scalars.flag(4, "scale_given");
  if (scalars.error()) return fail(*scalars.error());
  const sluice_quantization what{.input = input.get(),
                                 .output = output.get(),
                                 .scales = scales.get(),
                                 .granularity = granularity,
                                 .scale_given = scale_given ? 1 : 0};
  if (const Result<QuantizeCall> checked = quantization_of(what); !checked) return fail(checked.error());
  if (input.array.device_type != SLUICE_ON_CUDA)
    return fail({ErrorCode::wrong_device,
                 "input is in host memory, and is quantised on a GPU: move all arrays to one"});
  sluice_device* device = nullptr;
  if (const sluice_status status = sluice_device_default(input.array.device, &device); status != SLUICE_OK)
    return status;
  return sluice_quantize(device, &what, stream_of(input.array.device));
}

/// Runs one of the above if the count of arguments is right, which only a package of another version gets
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

}  // namespace
}  // namespace sluice::c_api

// The names that tvm-ffi looks for.
extern "C" {

#define SLUICE_PACKED(name, count)                                                              \
  SLUICE_API int __tvm_ffi_##name(void*, const sluice::c_api::ffi::Any* args, int32_t given,    \
                                  sluice::c_api::ffi::Any* result);                             \
  int __tvm_ffi_##name(void*, const sluice::c_api::ffi::Any* args, int32_t given,               \
                       sluice::c_api::ffi::Any*) {                                              \
    return sluice::c_api::call([&] { return sluice::c_api::name(args); }, #name, given, count); \
  }

SLUICE_PACKED(scaled_mm, 9)
SLUICE_PACKED(mm, 10)
SLUICE_PACKED(linear, 6)
SLUICE_PACKED(add_mm, 5)
SLUICE_PACKED(problem_of_arrays, 12)
SLUICE_PACKED(quantize, 5)

#undef SLUICE_PACKED

/// 1 if what the others need of tvm-ffi was found in the process. Never fails: it could not say so.
SLUICE_API int __tvm_ffi_host_is_complete(void*, const sluice::c_api::ffi::Any*, int32_t,
                                          sluice::c_api::ffi::Any* result);
int __tvm_ffi_host_is_complete(void*, const sluice::c_api::ffi::Any*, int32_t,
                               sluice::c_api::ffi::Any* result) {
  const sluice::c_api::Host& found = sluice::c_api::host();
  result->type_index = sluice::c_api::ffi::kInt;
  result->padding = 0;
  result->v_int64 = found.set_raised != nullptr && found.get_stream != nullptr ? 1 : 0;
  return 0;
}

}  // extern "C"
