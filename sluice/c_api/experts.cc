// SPDX-License-Identifier: Apache-2.0
// See experts.h.
#include <sluice/c_api/experts.h>

#include <sluice/c_api/error.h>
#include <sluice/c_api/handles.h>
#include <sluice/try.h>

namespace sluice::c_api {
namespace {

/// Checks that `x` has rows x columns elements of y's type, and returns its pitch.
Result<i64> pitch_like(const Named& x, const Named& y, i64 tokens) {
  SLUICE_TRY(check_size(x, tokens, y->shape[1], size_text(tokens, y->shape[1]) + ": a row for each token"));
  if (x->dtype != y->dtype) return wrong_type(x, type_text(y->dtype) + " as " + y.name() + " is; convert it");
  return pitch_of(x);
}

}  // namespace

Result<void> check_rows(const Named& x, int dimensions) {
  SLUICE_TRY(check_present(x));
  if (x->ndim != dimensions) return wrong_shape(x, dimensions == 1 ? "one dimension" : "two dimensions");
  if (x->dtype != SLUICE_INT32) return wrong_type(x, "int32; convert it");
  return check_no_gaps(x);
}

Result<RouteCall> routing_of(const sluice_routing& what) {
  const Named ids{"ids", what.ids}, ends{"ends", what.ends}, rows{"row_of_slot", what.row_of_slot},
      tokens{"token_of_row", what.token_of_row};
  SLUICE_TRY(check_size(ids, -1, -1, "two dimensions: tokens, and experts of each"));
  if (ids->dtype != SLUICE_INT32 && ids->dtype != SLUICE_INT64)
    return wrong_type(ids, "int32 or int64; convert it");
  SLUICE_TRY(check_rows(ends, 1));
  SLUICE_TRY(check_rows(rows, 2));
  SLUICE_TRY(check_size(rows, ids->shape[0], ids->shape[1], shape_text(*ids.array) + " as ids has"));
  SLUICE_TRY(check_rows(tokens, 1));
  RouteCall call{.options = {.wide_ids = ids->dtype == SLUICE_INT64},
                 .shape = {.tokens = ids->shape[0],
                           .chosen = ids->shape[1],
                           .experts = ends->shape[0],
                           .rows = tokens->shape[0],
                           .pitch = what.pitch}};
  SLUICE_TAKE(call.shape.ids_ld, pitch_of(ids));
  SLUICE_TAKE(call.memory, one_memory({ids, ends, rows, tokens}));
  call.args = {.ids = ids->data,
               .ends = static_cast<int*>(ends->data),
               .row_of_slot = static_cast<int*>(rows->data),
               .token_of_row = static_cast<int*>(tokens->data)};
  return call;
}

Result<CombineCall> combining_of(const sluice_combining& what) {
  const Named y{"y", what.y}, rows{"row_of_slot", what.row_of_slot}, weights{"weights", what.weights},
      shared{"shared", what.shared}, out{"out", what.out};
  SLUICE_TRY(check_size(y, -1, -1, "two dimensions"));
  if (y->dtype != SLUICE_BF16 && y->dtype != SLUICE_FP16) return wrong_type(y, "bf16 or fp16; convert it");
  SLUICE_TRY(check_rows(rows, 2));
  const i64 slots = rows->shape[0], chosen = rows->shape[1];
  CombineCall call{.options = {.type = static_cast<DType>(y->dtype)},
                   .shape = {.tokens = slots,
                             .columns = y->shape[1],
                             .chosen = chosen,
                             .rows = y->shape[0],
                             .experts = what.experts},
                   .args = {.y = y->data, .row_of_slot = static_cast<const int*>(rows->data)}};
  if (weights.array != nullptr) {
    SLUICE_TRY(check_size(weights, slots, chosen, size_text(slots, chosen) + " as row_of_slot has"));
    if (weights->dtype != SLUICE_FP32) return wrong_type(weights, "fp32; convert them");
    SLUICE_TRY(check_no_gaps(weights));
    call.args.weights = static_cast<const float*>(weights->data);
  }
  if (shared.array != nullptr) {
    SLUICE_TAKE(call.shape.shared_ld, pitch_like(shared, y, slots));
    call.args.shared = shared->data;
  }
  SLUICE_TAKE(call.shape.out_ld, pitch_like(out, y, slots));
  call.args.out = out->data;
  SLUICE_TAKE(call.shape.y_ld, pitch_of(y));
  SLUICE_TAKE(call.memory, one_memory({y, rows, weights, shared, out}));
  return call;
}

}  // namespace sluice::c_api

using namespace sluice;
using namespace sluice::c_api;

extern "C" {

sluice_status sluice_route(sluice_device* device, const sluice_routing* what, sluice_stream stream) {
  return guarded([&] {
    if (const sluice_status null = check_both(device, what); null != SLUICE_OK) return null;
    return run_on(device, what, routing_of, {"ids", what->ids},
                  [&](Session& session, const RouteCall& call) { return session.route(call, stream); });
  });
}

sluice_status sluice_gather(sluice_device* device, const sluice_gathering* what, sluice_stream stream) {
  return guarded([&] {
    if (const sluice_status null = check_both(device, what); null != SLUICE_OK) return null;
    return run_on(device, what, gathering_of, {"input", what->input},
                  [&](Session& session, const QuantizeCall& call) { return session.quantize(call, stream); });
  });
}

sluice_status sluice_combine(sluice_device* device, const sluice_combining* what, sluice_stream stream) {
  return guarded([&] {
    if (const sluice_status null = check_both(device, what); null != SLUICE_OK) return null;
    return run_on(device, what, combining_of, {"y", what->y},
                  [&](Session& session, const CombineCall& call) { return session.combine(call, stream); });
  });
}

sluice_status sluice_make_experts_ready(sluice_device* device, int32_t input) {
  return guarded([&] {
    if (device == nullptr) return fail(null_argument("device"));
    if (input != SLUICE_BF16 && input != SLUICE_FP16)
      return fail({ErrorCode::invalid_type, "input must be bf16 or fp16"});
    return status_of(device->session.make_experts_ready(static_cast<DType>(input)));
  });
}

}  // extern "C"
