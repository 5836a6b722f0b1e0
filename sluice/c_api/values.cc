// SPDX-License-Identifier: Apache-2.0
// See values.h.
#include <sluice/c_api/values.h>

#include <string>

#include <sluice/c_api/convolutions.h>
#include <sluice/host/planner/dense/problem_checks.h>
#include <sluice/host/text/pack_units.h>
#include <sluice/spec/packed.h>
#include <sluice/try.h>

namespace sluice::c_api {
namespace {

static_assert(SLUICE_BF16 == static_cast<int>(DType::bf16) && SLUICE_FP16 == static_cast<int>(DType::fp16) &&
              SLUICE_FP32 == static_cast<int>(DType::fp32) && SLUICE_E4M3 == static_cast<int>(DType::e4m3) &&
              SLUICE_E5M2 == static_cast<int>(DType::e5m2) && SLUICE_E8M0 == static_cast<int>(DType::e8m0) &&
              kDTypeCount == 6);
static_assert(SLUICE_SCALE_TENSOR == static_cast<int>(ScaleMode::tensor) &&
              SLUICE_SCALE_VECTOR == static_cast<int>(ScaleMode::vector) &&
              SLUICE_SCALE_BLOCK == static_cast<int>(ScaleMode::block));
static_assert(SLUICE_SILU == static_cast<int>(Activation::silu) &&
              SLUICE_ADD == static_cast<int>(Update::add) && SLUICE_MN_MAJOR == static_cast<int>(Major::mn));

constexpr int kScales = SLUICE_SCALE_BLOCK + 1, kActivations = SLUICE_SILU + 1;

template <class Enum>
int32_t number(Enum enumerator) {
  return static_cast<int32_t>(enumerator);
}
DType type(int32_t value) {
  return static_cast<DType>(value);
}

Epilogue epilogue_of(const sluice_problem& v) {
  return {.scale_a = static_cast<ScaleMode>(v.scale_a),
          .scale_b = static_cast<ScaleMode>(v.scale_b),
          .bias = static_cast<Bias>(v.bias),
          .bias_type = v.bias != 0 ? type(v.bias_type) : DType::bf16,
          .activation = static_cast<Activation>(v.activation),
          .residual = v.residual != 0,
          .c_type = v.residual != 0 ? type(v.c_type) : DType::bf16,
          .update = static_cast<Update>(v.update),
          .gated = v.gated != 0,
          .scale_d = static_cast<ScaleMode>(v.scale_d)};
}

Result<Problem> dense_of(const sluice_problem& v) {
  if (v.norm_a != 0)
    return Error{ErrorCode::invalid_argument,
                 "norm_a = 1 and packed = 0: only products of packed weights norm their tokens; call "
                 "sluice_norm before"};
  return Problem{
      .m = v.m,
      .n = v.n,
      .k = v.k,
      .batch = v.batch,
      .a = {type(v.a), static_cast<Major>(v.a_major), v.a_ld, v.a_batch_stride, v.a_unaligned != 0},
      .b = {type(v.b), static_cast<Major>(v.b_major), v.b_ld, v.b_batch_stride, v.b_unaligned != 0},
      .c = {v.residual != 0 ? type(v.c_type) : DType::bf16, Major::k, v.c_ld, v.c_batch_stride},
      .d = {type(v.d), Major::k, v.d_ld, v.d_batch_stride, v.d_unaligned != 0},
      .epilogue = epilogue_of(v),
      .accumulate = accumulate_of(v.accumulate),
      .deterministic = v.any_order == 0};
}

Result<Problem> convolution_of(const sluice_problem& v) {
  const Enumerator none[] = {{"packed", v.packed, 1}, {"norm_a", v.norm_a, 1}, {"gated", v.gated, 1}};
  for (const Enumerator& field : none)
    if (field.value != 0)
      return Error{ErrorCode::invalid_argument, std::string(field.name) +
                                                    " = 1 and conv.op = " + std::to_string(v.conv.op) +
                                                    ": a convolution has no such thing; leave it out"};
  if (v.a != v.b)
    return Error{ErrorCode::invalid_type, std::string("a is ") + name_of(type(v.a)) + " and b is " +
                                              name_of(type(v.b)) +
                                              ": a convolution reads two arrays of one type; convert one"};
  SLUICE_TAKE(const Conv conv, conv_of(v.conv));
  SLUICE_TAKE(Problem problem, conv::problem(conv, type(v.a), type(v.d), epilogue_of(v)));
  problem.accumulate = accumulate_of(v.accumulate);
  problem.deterministic = v.any_order == 0;
  return problem;
}

/// Refuses fields that packed products lack: batches, transposed tokens, scales of weights, updates.
Result<void> refuse_dense_fields(const sluice_problem& v) {
  const struct {
    const char* name;
    i64 value, only;
  } fields[] = {{"batch", v.batch, 1},
                {"a_major", v.a_major, SLUICE_K_MAJOR},
                {"a_batch_stride", v.a_batch_stride, 0},
                {"c_batch_stride", v.c_batch_stride, 0},
                {"d_batch_stride", v.d_batch_stride, 0},
                {"a_unaligned", v.a_unaligned, 0},
                {"b_unaligned", v.b_unaligned, 0},
                {"d_unaligned", v.d_unaligned, 0},
                {"scale_b", v.scale_b, SLUICE_NO_SCALE},
                {"update", v.update, SLUICE_SET}};
  for (const auto& [name, value, only] : fields)
    if (value != only)
      return Error{ErrorCode::invalid_argument, std::string(name) + " = " + std::to_string(value) +
                                                    " of a product of packed weights must be " +
                                                    std::to_string(only) + ": it has no such thing"};
  if (v.residual != 0 && v.c_type != v.d)
    return Error{ErrorCode::invalid_type,
                 std::string("c_type is ") + name_of(type(v.c_type)) + " and d is " + name_of(type(v.d)) +
                     ": a product of packed weights adds a C of D's type; convert C"};
  return {};
}

Result<Problem> packed_of(const sluice_problem& v) {
  SLUICE_TRY(refuse_dense_fields(v));
  SLUICE_TAKE(const WeightFormat format, format_of(v.weights));
  Problem p{.m = v.m, .n = v.n, .k = v.k, .epilogue = epilogue_of(v), .norm_a = v.norm_a != 0};
  p.a = {.type = type(v.a), .ld = v.a_ld};
  p.b = {.type = type(v.a), .packed = format};
  p.c.ld = v.c_ld;
  p.d = {.type = type(v.d), .ld = v.d_ld};
  if (p.epilogue.residual) add_residual(p);
  return p;
}

}  // namespace

Result<void> check_enumerators(std::span<const Enumerator> enumerators) {
  for (const Enumerator& e : enumerators)
    if (e.value < 0 || e.value >= e.count)
      return Error{ErrorCode::invalid_argument, std::string(e.name) + " = " + std::to_string(e.value) +
                                                    " must be in 0.." + std::to_string(e.count - 1)};
  return {};
}

Accumulate accumulate_of(int32_t value) {
  return value == SLUICE_FAST ? Accumulate::fast : Accumulate::promoted;
}

Result<Problem> problem_of(const sluice_problem& v) {
  const Enumerator enumerators[] = {{"a", v.a, kDTypeCount},
                                    {"b", v.b, kDTypeCount},
                                    {"d", v.d, kDTypeCount},
                                    {"bias_type", v.bias_type, kDTypeCount},
                                    {"c_type", v.c_type, kDTypeCount},
                                    {"a_major", v.a_major, 2},
                                    {"b_major", v.b_major, 2},
                                    {"scale_a", v.scale_a, kScales},
                                    {"scale_b", v.scale_b, kScales},
                                    {"scale_d", v.scale_d, kScales},
                                    {"bias", v.bias, 2},
                                    {"residual", v.residual, 2},
                                    {"activation", v.activation, kActivations},
                                    {"gated", v.gated, 2},
                                    {"accumulate", v.accumulate, 2},
                                    {"update", v.update, 2},
                                    {"any_order", v.any_order, 2},
                                    {"packed", v.packed, 2},
                                    {"norm_a", v.norm_a, 2},
                                    {"conv.op", v.conv.op, SLUICE_WGRAD + 1}};
  SLUICE_TRY(check_enumerators(enumerators));
  if (v.conv.op != 0) return convolution_of(v);
  if (v.residual == 0 && (v.c_ld != 0 || v.c_batch_stride != 0))
    return Error{ErrorCode::invalid_argument,
                 "c_ld = " + std::to_string(v.c_ld) +
                     ", c_batch_stride = " + std::to_string(v.c_batch_stride) +
                     ": without residual there is no C and both must be 0; leave them out, or set residual"};
  return v.packed != 0 ? packed_of(v) : dense_of(v);
}

sluice_problem values_of(const Problem& p) {
  const Epilogue& e = p.epilogue;
  const bool packed = is_packed(p);
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
          .a_unaligned = p.a.unaligned ? 1 : 0,
          .b_unaligned = p.b.unaligned ? 1 : 0,
          .d_unaligned = p.d.unaligned ? 1 : 0,
          .scale_a = number(e.scale_a),
          .scale_b = number(e.scale_b),
          .scale_d = number(e.scale_d),
          .bias = number(e.bias),
          .bias_type = number(e.bias_type),
          .activation = number(e.activation),
          .gated = e.gated ? 1 : 0,
          .residual = e.residual ? 1 : 0,
          .c_type = number(e.c_type),
          .accumulate = p.accumulate == Accumulate::fast ? SLUICE_FAST : SLUICE_PROMOTED,
          .update = number(e.update),
          .any_order = p.deterministic ? 0 : 1,
          .packed = packed ? 1 : 0,
          .weights = packed ? values_of(p.b.packed) : sluice_weight_format{},
          .norm_a = p.norm_a ? 1 : 0,
          .conv = values_of(p.conv)};
}

Result<WeightFormat> format_of(const sluice_weight_format& v) {
  const Enumerator enumerators[] = {{"type", v.type, SLUICE_E2M1_WEIGHT + 1},
                                    {"scale", v.scale, kDTypeCount},
                                    {"zeros", v.zeros, 2},
                                    {"order", v.order, SLUICE_ORDER_BYTE + 1}};
  if (Result<void> good = check_enumerators(enumerators); !good) return good.error();
  const WeightFormat format{.type = static_cast<WeightType>(v.type),
                            .group = v.group,
                            .scale = type(v.scale),
                            .zero = static_cast<ScaleZero>(v.zeros),
                            .order = static_cast<FragmentOrder>(v.order)};
  if (const char* rule = validate(format))
    return Error{ErrorCode::invalid_config, "weights " + describe(format) + ": " + rule};
  return format;
}

sluice_weight_format values_of(const WeightFormat& format) {
  return {.type = number(format.type),
          .group = format.group,
          .scale = number(format.scale),
          .zeros = format.zero == ScaleZero::per_group ? 1 : 0,
          .order = number(format.order)};
}

Result<sluice_packed_numbers> numbers_of(const WeightFormat& f, i64 n, i64 k) {
  constexpr i64 kLargest = (i64{1} << 31) - 1;
  if (n < 0 || k < 0 || n > kLargest || k > kLargest)
    return Error{ErrorCode::invalid_size, "n = " + std::to_string(n) + ", k = " + std::to_string(k) +
                                              ": each must be in 0..2^31-1; split the weights"};
  return sluice_packed_numbers{.groups = group_count(f, k),
                               .strips = strip_count(n),
                               .tiles = packed_k_tiles(k),
                               .strip_bytes = strip_bytes(f, k),
                               .tile_bytes = tile_bytes(f),
                               .row_part_bytes = row_scale_bytes(f) + row_zero_bytes(f),
                               .blob_bytes = blob_bytes(f, n, k),
                               .tile_scales_offset = tile_scales_offset(f),
                               .tile_zeros_offset = tile_zeros_offset(f),
                               .stored_bits = stored_bits(f, n, k)};
}

Result<void> check(const Problem& problem) {
  const Result<Problem> checked = check_problem(problem);
  return checked ? Result<void>{} : in_c_names(checked.error());
}

Error in_c_names(Error error) {
  constexpr const char* kNames[][2] = {
      {"a.ld", "a_ld"},
      {"b.ld", "b_ld"},
      {"c.ld", "c_ld"},
      {"d.ld", "d_ld"},
      {"a.batch_stride", "a_batch_stride"},
      {"b.batch_stride", "b_batch_stride"},
      {"c.batch_stride", "c_batch_stride"},
      {"d.batch_stride", "d_batch_stride"},
      {"a.unaligned", "a_unaligned"},
      {"b.unaligned", "b_unaligned"},
      {"d.unaligned", "d_unaligned"},
  };
  for (const auto& [theirs, ours] : kNames)
    for (std::size_t at = 0; (at = error.message.find(theirs, at)) != std::string::npos;)
      error.message.replace(at, std::string(theirs).size(), ours);
  return error;
}

}  // namespace sluice::c_api
