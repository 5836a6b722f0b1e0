// SPDX-License-Identifier: Apache-2.0
// The functions that Python calls through tvm-ffi ("packed functions" in its terms). Tensors are passed as
// DLPack; the stream is the current one of the tensors' framework. Errors become exceptions named "sluice."
// and the status. A call builds the product on the stack, looks up its kernel and launches it; it allocates
// nothing.
#include <sluice/c_api/companions.h>
#include <sluice/c_api/products.h>
#include <sluice/c_api/tvm_ffi_args.h>
#include <sluice/try.h>

namespace sluice::c_api {
namespace {

sluice_weight_format format_of(Fields& fields) {
  return {.type = fields.enumerator(Slot::type),
          .group = fields.enumerator(Slot::group),
          .scale = fields.enumerator(Slot::scale),
          .zeros = fields.flag(Slot::has_zeros) ? 1 : 0,
          .order = fields.enumerator(Slot::order)};
}

/// The arrays of a product, flattened and transposed as kernels need them, in the order of ProductName.
struct ProductArrays {
  ArrayArg all[kProductArrays];

  ArrayArg& operator[](Slot slot) { return all[static_cast<int>(slot)]; }
  const sluice_array* get(Slot slot) const { return all[static_cast<int>(slot)].get(); }

  Result<void> read(const Fields& fields) {
    for (int i = 0; i < kProductArrays; ++i) SLUICE_TRY(fields.array(static_cast<Slot>(i), all[i]));
    if (fields.seen(Slot::a) == Seen::rows) {
      const char* const a = fields.name(Slot::a);
      for (const Slot slot : {Slot::d, Slot::c})
        SLUICE_TRY(check_leading(fields.name(slot), (*this)[slot], a, (*this)[Slot::a]));
      for (const Slot slot : {Slot::a, Slot::d, Slot::c})
        SLUICE_TRY(flatten(fields.name(slot), (*this)[slot]));
    }
    if (fields.seen(Slot::b) == Seen::turned) SLUICE_TRY(transpose("weight", (*this)[Slot::b]));
    return {};
  }
};

sluice_status run(const sluice_product& product, int64_t workspace) {
  const auto refuse = [&] {
    sluice_problem ignored;
    if (const sluice_status bad = sluice_problem_of(&product, &ignored); bad != SLUICE_OK) return bad;
    return fail(check_on(named(product, kNameA), kOnHost, 0).error());
  };
  return run_at({product.a, workspace}, {sluice_run, sluice_run_with}, product, refuse);
}

/// Runs a product. If the field `problem` is the address of a sluice_problem, fills that in instead.
sluice_status product(Fields& fields) {
  ProductArrays x;
  if (const Result<void> read = x.read(fields); !read) return fail(read.error());
  const char* names[kProductArrays];
  for (int i = 0; i < kProductArrays; ++i) names[i] = fields.name(static_cast<Slot>(i));
  const bool is_packed = fields.has(Slot::n);
  const sluice_packed_weights packed{
      .format = format_of(fields), .n = fields.integer(Slot::n), .k = fields.integer(Slot::k)};
  const CallChoices choices = choices_of(fields, x[Slot::c]);
  const sluice_product what{.a = x.get(Slot::a),
                            .b = x.get(Slot::b),
                            .c = x.get(Slot::c),
                            .d = x.get(Slot::d),
                            .bias = x.get(Slot::bias),
                            .scale_a = x.get(Slot::scale_a),
                            .scale_b = x.get(Slot::scale_b),
                            .scale_d = x.get(Slot::scale_d),
                            .gamma = x.get(Slot::gamma),
                            .packed = is_packed ? &packed : nullptr,
                            .alpha = choices.alpha,
                            .beta = choices.beta,
                            .epsilon = fields.real(Slot::epsilon, 1e-5f),
                            .accumulate = choices.accumulate,
                            .activation = choices.activation,
                            .gated = fields.flag(Slot::gated) ? 1 : 0,
                            .update = choices.update,
                            .any_order = choices.any_order,
                            .names = names};
  if (fields.error()) return fail(*fields.error());
  if (choices.problem != 0)
    return sluice_problem_of(&what, reinterpret_cast<sluice_problem*>(choices.problem));
  return run(what, choices.workspace);
}

/// Quantises. The leading dimensions of input and output are merged into one.
sluice_status quantize(Fields& fields) {
  ArrayArg input, output, scales;
  for (const Result<void>& done :
       {fields.array(Slot::a, input), fields.array(Slot::d, output), fields.array(Slot::scales, scales),
        check_leading("output", output, "input", input), flatten("input", input), flatten("output", output)})
    if (!done) return fail(done.error());
  const sluice_quantization what{.input = input.get(),
                                 .output = output.get(),
                                 .scales = scales.get(),
                                 .granularity = fields.enumerator(Slot::granularity),
                                 .scale_given = fields.flag(Slot::scale_given) ? 1 : 0,
                                 .gate = fields.enumerator(Slot::gate)};
  const int64_t workspace = fields.address(Slot::workspace);
  if (fields.error()) return fail(*fields.error());
  const auto refuse = [&] {
    const Result<QuantizeCall> checked = quantization_of(what);
    return fail(checked ? check_on({"input", what.input}, kOnHost, 0).error() : checked.error());
  };
  return run_at({what.input, workspace}, {sluice_quantize, sluice_quantize_with}, what, refuse);
}

/// Applies RMSNorm. The leading dimensions of all arrays but gamma and scales are merged into one.
sluice_status norm(Fields& fields) {
  ArrayArg input, residual, sum, output, gamma, scales;
  for (const Result<void>& done :
       {fields.array(Slot::a, input), fields.array(Slot::c, residual), fields.array(Slot::sum, sum),
        fields.array(Slot::d, output), fields.array(Slot::gamma, gamma), fields.array(Slot::scales, scales),
        check_leading("residual", residual, "input", input), check_leading("sum", sum, "input", input),
        check_leading("output", output, "input", input), flatten("input", input),
        flatten("residual", residual), flatten("sum", sum), flatten("output", output)})
    if (!done) return fail(done.error());
  const sluice_normalization what{.input = input.get(),
                                  .gamma = gamma.get(),
                                  .residual = residual.get(),
                                  .sum = sum.get(),
                                  .output = output.get(),
                                  .scales = scales.get(),
                                  .granularity = fields.enumerator(Slot::granularity),
                                  .epsilon = fields.real(Slot::epsilon, 1e-5f)};
  if (fields.error()) return fail(*fields.error());
  sluice_device* device = nullptr;
  const auto refuse = [&] {
    const Result<NormCall> checked = normalization_of(what);
    return fail(checked ? check_on({"input", what.input}, kOnHost, 0).error() : checked.error());
  };
  if (const sluice_status status = device_of(what.input, refuse, &device); status != SLUICE_OK) return status;
  return sluice_norm(device, &what, stream_of(input.array.device));
}

/// Packs or unpacks, in host memory or on a GPU.
sluice_status move(Fields& fields, decltype(sluice_pack)* on_gpu, decltype(sluice_pack_on_host)* on_host) {
  ArrayArg codes, scales, zeros, blob;
  for (const Result<void>& done : {fields.array(Slot::codes, codes), fields.array(Slot::scales, scales),
                                   fields.array(Slot::zeros, zeros), fields.array(Slot::b, blob)})
    if (!done) return fail(done.error());
  const sluice_packing what{.format = format_of(fields),
                            .codes = codes.get(),
                            .scales = scales.get(),
                            .zeros = zeros.get(),
                            .blob = blob.get(),
                            .gated = fields.flag(Slot::gated) ? 1 : 0};
  if (fields.error()) return fail(*fields.error());
  if (!codes.present || codes.array.device_type != SLUICE_ON_CUDA) return on_host(&what);
  if (const Result<PackCall> checked = packing_of(what); !checked) return fail(checked.error());
  sluice_device* device = nullptr;
  if (const sluice_status status = sluice_device_default(codes.array.device, &device); status != SLUICE_OK)
    return status;
  return on_gpu(device, &what, stream_of(codes.array.device));
}

sluice_status pack(Fields& fields) {
  return move(fields, sluice_pack, sluice_pack_on_host);
}
sluice_status unpack(Fields& fields) {
  return move(fields, sluice_unpack, sluice_unpack_on_host);
}

}  // namespace
}  // namespace sluice::c_api

// tvm-ffi finds these functions by their names.
extern "C" {

SLUICE_PACKED(product)
SLUICE_PACKED(quantize)
SLUICE_PACKED(norm)
SLUICE_PACKED(pack)
SLUICE_PACKED(unpack)

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
  const sluice::c_api::Host& found = sluice::c_api::host();
  result->type_index = sluice::c_api::ffi::kInt;
  result->padding = 0;
  result->v_int64 = found.set_raised != nullptr && found.get_stream != nullptr ? 1 : 0;
  return 0;
}

}  // extern "C"
