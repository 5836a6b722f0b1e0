// SPDX-License-Identifier: Apache-2.0
// Quantisers, norms, the steps around products of experts, and packing that Python calls through tvm-ffi;
// tvm_ffi.cc has products.
#include <sluice/c_api/companions.h>
#include <sluice/c_api/experts.h>
#include <sluice/c_api/packing.h>
#include <sluice/c_api/tvm_ffi_fields.h>
#include <sluice/c_chain.h>
#include <sluice/try.h>

namespace sluice::c_api {
namespace {

/// Checks that these arrays have the leading dimensions of the first, and merges those of all into one.
Result<void> merge_rows(Given& given, std::initializer_list<int> arrays) {
  for (const int i : arrays)
    if (i != *arrays.begin()) SLUICE_TRY(check_leading(given.arrays[i], given.arrays[*arrays.begin()]));
  for (const int i : arrays) SLUICE_TRY(flatten(given.arrays[i]));
  return {};
}

/// Runs `function` on the device that holds `first`. Without one, returns the error of `check`, or of host
/// memory.
template <class What, class Check>
sluice_status run_on(const Named& first, const What& what, const Check& check,
                     sluice_status (*function)(sluice_device*, const What*, sluice_stream)) {
  sluice_device* device = nullptr;
  const auto refuse = [&] {
    const auto checked = check();
    return fail(checked ? check_on(first, kOnHost, 0).error() : checked.error());
  };
  if (const sluice_status status = device_of(first.array, refuse, &device); status != SLUICE_OK)
    return status;
  return function(device, &what, stream_of(first->device));
}

/// Quantises. The leading dimensions of input and output are merged into one.
sluice_status quantize(Given& given) {
  if (const Result<void> done = merge_rows(given, {SLUICE_A, SLUICE_D}); !done) return fail(done.error());
  const sluice_quantization what{.input = given.arrays[SLUICE_A].get(),
                                 .output = given.arrays[SLUICE_D].get(),
                                 .scales = given.arrays[kScales].get(),
                                 .granularity = given.granularity,
                                 .scale_given = given.scale_given,
                                 .gate = given.gate,
                                 .workspace = given.call.workspace};
  if (given.steps != 0)
    return sluice_steps_add_quantizer(reinterpret_cast<sluice_steps*>(given.steps), &what);
  return run_on(
      {"input", what.input}, what, [&] { return quantization_of(what); }, sluice_quantize);
}

/// Quantises in both orders.
sluice_status quantize_both(Given& given) {
  const sluice_quantization_both what{.input = given.arrays[SLUICE_A].get(),
                                      .rows = given.arrays[SLUICE_D].get(),
                                      .row_scales = given.arrays[kScales].get(),
                                      .columns_t = given.arrays[kOutputT].get(),
                                      .column_scales = given.arrays[kScalesT].get(),
                                      .sums = given.arrays[kSum].get(),
                                      .granularity = given.granularity,
                                      .powers_of_two = given.powers_of_two,
                                      .workspace = given.call.workspace,
                                      .gate = given.gate,
                                      .gradient = given.arrays[kGradOutput].get()};
  return run_on(
      {"input", what.input}, what, [&] { return quantization_both_of(what); }, sluice_quantize_both);
}

/// Applies RMSNorm. The leading dimensions of all arrays but gamma and scales are merged into one.
sluice_status norm(Given& given) {
  if (const Result<void> done = merge_rows(given, {SLUICE_A, SLUICE_C, kSum, SLUICE_D}); !done)
    return fail(done.error());
  const sluice_normalization what{.input = given.arrays[SLUICE_A].get(),
                                  .gamma = given.arrays[SLUICE_GAMMA].get(),
                                  .residual = given.arrays[SLUICE_C].get(),
                                  .sum = given.arrays[kSum].get(),
                                  .output = given.arrays[SLUICE_D].get(),
                                  .scales = given.arrays[kScales].get(),
                                  .granularity = given.granularity,
                                  .epsilon = given.call.epsilon};
  if (given.steps != 0) return sluice_steps_add_norm(reinterpret_cast<sluice_steps*>(given.steps), &what);
  return run_on(
      {"input", what.input}, what, [&] { return normalization_of(what); }, sluice_norm);
}

/// Sorts slots by expert. The leading dimensions of ids and of row_of_slot are merged into one.
sluice_status route(Given& given) {
  if (const Result<void> done = merge_rows(given, {kIds, kRowOfSlot}); !done) return fail(done.error());
  const sluice_routing what{.ids = given.arrays[kIds].get(),
                            .ends = given.arrays[kEnds].get(),
                            .row_of_slot = given.arrays[kRowOfSlot].get(),
                            .token_of_row = given.arrays[kTokenOfRow].get(),
                            .pitch = given.pitch};
  if (given.steps != 0) return sluice_steps_add_route(reinterpret_cast<sluice_steps*>(given.steps), &what);
  return run_on(
      {"ids", what.ids}, what, [&] { return routing_of(what); }, sluice_route);
}

/// Gathers rows. The leading dimensions of the input are merged into one.
sluice_status gather(Given& given) {
  if (const Result<void> done = merge_rows(given, {SLUICE_A}); !done) return fail(done.error());
  const sluice_gathering what{.input = given.arrays[SLUICE_A].get(),
                              .token_of_row = given.arrays[kTokenOfRow].get(),
                              .output = given.arrays[SLUICE_D].get(),
                              .scales = given.arrays[kScales].get(),
                              .granularity = given.granularity,
                              .scale_given = given.scale_given};
  if (given.steps != 0) return sluice_steps_add_gather(reinterpret_cast<sluice_steps*>(given.steps), &what);
  return run_on(
      {"input", what.input}, what, [&] { return gathering_of(what); }, sluice_gather);
}

/// Adds up the rows of experts. The leading dimensions of all arrays but y are merged into one.
sluice_status combine(Given& given) {
  if (const Result<void> done = merge_rows(given, {kRowOfSlot, kTopkWeights, kShared, SLUICE_D}); !done)
    return fail(done.error());
  const sluice_combining what{.y = given.arrays[SLUICE_A].get(),
                              .row_of_slot = given.arrays[kRowOfSlot].get(),
                              .weights = given.arrays[kTopkWeights].get(),
                              .shared = given.arrays[kShared].get(),
                              .out = given.arrays[SLUICE_D].get(),
                              .experts = given.experts};
  if (given.steps != 0) return sluice_steps_add_combine(reinterpret_cast<sluice_steps*>(given.steps), &what);
  return run_on(
      {"y", what.y}, what, [&] { return combining_of(what); }, sluice_combine);
}

/// Enqueues one part of a chain. tvm-ffi knows the framework's stream only in a call with a tensor of the
/// framework, so one is required; it is not read.
sluice_status chain_run(Given& given) {
  const ArrayArg& any = given.arrays[SLUICE_A];
  if (!any.present || any.array.device_type != SLUICE_ON_CUDA)
    return fail({ErrorCode::internal, "chain_run has no tensor on a GPU, which would tell the stream"});
  return sluice_chain_run(reinterpret_cast<const sluice_chain*>(given.chain), given.part,
                          stream_of(any.array.device));
}

/// Packs or unpacks, in host memory or on a GPU.
sluice_status move(const Given& given, decltype(sluice_pack)* on_gpu,
                   decltype(sluice_pack_on_host)* on_host) {
  const sluice_packing what{.format = given.call.problem.packed,
                            .codes = given.arrays[kCodes].get(),
                            .scales = given.arrays[kScales].get(),
                            .zeros = given.arrays[kZeros].get(),
                            .blob = given.arrays[SLUICE_B].get(),
                            .gated = given.call.problem.gated};
  if (what.codes == nullptr || what.codes->device_type != SLUICE_ON_CUDA) return on_host(&what);
  if (const Result<PackCall> checked = packing_of(what); !checked) return fail(checked.error());
  sluice_device* device = nullptr;
  if (const sluice_status status = sluice_device_default(what.codes->device, &device); status != SLUICE_OK)
    return status;
  return on_gpu(device, &what, stream_of(what.codes->device));
}

sluice_status pack(Given& given) {
  return move(given, sluice_pack, sluice_pack_on_host);
}
sluice_status unpack(Given& given) {
  return move(given, sluice_unpack, sluice_unpack_on_host);
}

}  // namespace
}  // namespace sluice::c_api

extern "C" {

SLUICE_PACKED(quantize)
SLUICE_PACKED(quantize_both)
SLUICE_PACKED(norm)
SLUICE_PACKED(route)
SLUICE_PACKED(gather)
SLUICE_PACKED(combine)
SLUICE_PACKED(chain_run)
SLUICE_PACKED(pack)
SLUICE_PACKED(unpack)

}  // extern "C"
