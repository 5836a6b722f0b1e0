// SPDX-License-Identifier: Apache-2.0
// The packed functions that Python calls through tvm-ffi: tensors come as DLPack, the stream from the
// framework they belong to, errors go back as exceptions called "sluice." and the status. A call builds the
// product on the stack, looks its kernel up and launches; it allocates nothing. Python's signatures are in
// python/sluice/_binding.py.
#include <string>

#include <sluice/c_api/array_shape.h>
#include <sluice/c_api/arrays.h>
#include <sluice/c_api/quantization.h>
#include <sluice/c_api/tvm_ffi_args.h>

namespace sluice::c_api {
namespace {

/// A weight n x k seen as the k x n that a product takes.
Result<void> transpose(const char* name, ArrayArg& arg) {
  sluice_array& x = arg.array;
  if (!arg.present)
    return Error{ErrorCode::invalid_argument,
                 std::string(name) + " is missing: pass a matrix, outputs x inputs"};
  if (x.ndim != 2)
    return Error{ErrorCode::invalid_size, std::string(name) + " has shape " + shape_text(x) +
                                              " and must be a matrix, outputs x inputs"};
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

/// (input, weight, bias, out, activation, workspace, c)
sluice_status linear(const ffi::Any* args) {
  Arrays x;
  if (const sluice_status bad =
          read_all(args, kLinearNames, {{x.a, 0, 0}, {x.b, 1, 1}, {x.bias, 2, 4}, {x.d, 3, 3}, {x.c, 6, 2}});
      bad != SLUICE_OK)
    return bad;
  for (const Result<void>& done :
       {check_leading("out", x.d, "input", x.a), check_leading("c", x.c, "input", x.a), flatten("input", x.a),
        flatten("out", x.d), transpose("weight", x.b)})
    if (!done) return fail(done.error());
  if (x.c.present)
    if (const Result<void> done = flatten("c", x.c); !done) return fail(done.error());
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

/// (input, output, scales, granularity, scale_given, gate, workspace). Leading dimensions of input and output
/// become one.
sluice_status quantize(const ffi::Any* args) {
  ArrayArg input, output, scales;
  if (const sluice_status bad =
          read_all(args, kQuantizeNames, {{input, 0, 0}, {output, 1, 1}, {scales, 2, 2}});
      bad != SLUICE_OK)
    return bad;
  for (const Result<void>& done :
       {check_leading("output", output, "input", input), flatten("input", input), flatten("output", output)})
    if (!done) return fail(done.error());
  Scalars scalars(args);
  const int32_t granularity = scalars.enumerator(3, "granularity");
  const bool scale_given = scalars.flag(4, "scale_given");
  const int32_t gate = scalars.enumerator(5, "gate");
  const int64_t workspace = scalars.address(6, "workspace");
  if (scalars.error()) return fail(*scalars.error());
  const sluice_quantization what{.input = input.get(),
                                 .output = output.get(),
                                 .scales = scales.get(),
                                 .granularity = granularity,
                                 .scale_given = scale_given ? 1 : 0,
                                 .gate = gate};
  if (const Result<QuantizeCall> checked = quantization_of(what); !checked) return fail(checked.error());
  if (input.array.device_type != SLUICE_ON_CUDA)
    return fail({ErrorCode::wrong_device,
                 "input is in host memory, and is quantised on a GPU: move all arrays to one"});
  sluice_device* device = nullptr;
  if (const sluice_status status = sluice_device_default(input.array.device, &device); status != SLUICE_OK)
    return status;
  const sluice_stream stream = stream_of(input.array.device);
  if (workspace == 0) return sluice_quantize(device, &what, stream);
  return sluice_quantize_with(device, &what, reinterpret_cast<const sluice_workspace*>(workspace), stream);
}

}  // namespace
}  // namespace sluice::c_api

// The names that tvm-ffi looks for.
extern "C" {

SLUICE_PACKED(scaled_mm, 9)
SLUICE_PACKED(mm, 10)
SLUICE_PACKED(linear, 7)
SLUICE_PACKED(add_mm, 5)
SLUICE_PACKED(problem_of_arrays, 12)
SLUICE_PACKED(quantize, 7)

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
