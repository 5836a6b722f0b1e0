// SPDX-License-Identifier: Apache-2.0
// sluice_problem and Problem, field by field; enumerators are checked, since C lets any number through.
#include <sluice/c_api/arrays.h>

#include <string>

namespace sluice::c_api {
namespace {

Error out_of_range(const char* name, i64 value, int count) {
  return {ErrorCode::invalid_argument,
          std::string(name) + " = " + std::to_string(value) + " must be in 0.." + std::to_string(count - 1)};
}

}  // namespace

Result<Problem> problem_of(const sluice_problem& v) {
  const struct {
    const char* name;
    i64 value;
    int count;
  } enumerators[] = {{"a", v.a, kDTypeCount},
                     {"b", v.b, kDTypeCount},
                     {"d", v.d, kDTypeCount},
                     {"bias_type", v.bias_type, kDTypeCount},
                     {"c_type", v.c_type, kDTypeCount},
                     {"a_major", v.a_major, 2},
                     {"b_major", v.b_major, 2},
                     {"scale_a", v.scale_a, SLUICE_SCALE_BLOCK + 1},
                     {"scale_b", v.scale_b, SLUICE_SCALE_BLOCK + 1},
                     {"bias", v.bias, 2},
                     {"residual", v.residual, 2},
                     {"activation", v.activation, SLUICE_SILU + 1},
                     {"accumulate", v.accumulate, SLUICE_PROMOTED + 1},
                     {"update", v.update, SLUICE_ADD + 1},
                     {"any_order", v.any_order, 2}};
  for (const auto& e : enumerators)
    if (e.value < 0 || e.value >= e.count) return out_of_range(e.name, e.value, e.count);
  if (v.residual == 0 && (v.c_ld != 0 || v.c_batch_stride != 0))
    return Error{ErrorCode::invalid_argument,
                 "c_ld = " + std::to_string(v.c_ld) +
                     ", c_batch_stride = " + std::to_string(v.c_batch_stride) +
                     ": without residual there is no C and both must be 0; leave them out, or set residual"};
  const auto type = [](i32 value) { return static_cast<DType>(value); };
  const auto major = [](i32 value) { return static_cast<Major>(value); };
  return Problem{.m = v.m,
                 .n = v.n,
                 .k = v.k,
                 .batch = v.batch,
                 .a = {type(v.a), major(v.a_major), v.a_ld, v.a_batch_stride},
                 .b = {type(v.b), major(v.b_major), v.b_ld, v.b_batch_stride},
                 .c = {v.residual != 0 ? type(v.c_type) : DType::bf16, Major::k, v.c_ld, v.c_batch_stride},
                 .d = {type(v.d), Major::k, v.d_ld, v.d_batch_stride},
                 .epilogue = {.scale_a = static_cast<ScaleMode>(v.scale_a),
                              .scale_b = static_cast<ScaleMode>(v.scale_b),
                              .bias = static_cast<Bias>(v.bias),
                              .bias_type = v.bias != 0 ? type(v.bias_type) : DType::bf16,
                              .activation = static_cast<Activation>(v.activation),
                              .residual = v.residual != 0,
                              .c_type = v.residual != 0 ? type(v.c_type) : DType::bf16,
                              .update = static_cast<Update>(v.update)},
                 .accumulate = static_cast<Accumulate>(v.accumulate),
                 .deterministic = v.any_order == 0};
}

sluice_problem values_of(const Problem& p) {
  const Epilogue& e = p.epilogue;
  const auto number = [](auto enumerator) { return static_cast<i32>(enumerator); };
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .batch = p.batch,
          .a = number(p.a.type),
          .b = number(p.b.type),
          .d = number(p.d.type),
          .a_major = number(p.a.major),
          .b_major = number(p.b.major),
          .a_ld = p.a.ld,
          .b_ld = p.b.ld,
          .c_ld = p.c.ld,
          .d_ld = p.d.ld,
          .a_batch_stride = p.a.batch_stride,
          .b_batch_stride = p.b.batch_stride,
          .c_batch_stride = p.c.batch_stride,
          .d_batch_stride = p.d.batch_stride,
          .scale_a = number(e.scale_a),
          .scale_b = number(e.scale_b),
          .bias = number(e.bias),
          .bias_type = number(e.bias_type),
          .activation = number(e.activation),
          .residual = e.residual ? 1 : 0,
          .c_type = number(e.c_type),
          .accumulate = number(p.accumulate),
          .update = number(e.update),
          .any_order = p.deterministic ? 0 : 1};
}

}  // namespace sluice::c_api
