// SPDX-License-Identifier: Apache-2.0
// See values.h.
#include <sluice/c_api/values.h>

#include <string>

#include <sluice/conv.h>
#include <sluice/plan/text/pack_units.h>
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
              SLUICE_SCALE_BLOCK == static_cast<int>(ScaleMode::block) &&
              SLUICE_SCALE_VECTOR128 == static_cast<int>(ScaleMode::vector128));
static_assert(SLUICE_ACTIVATIONS == static_cast<int>(kLastActivation) + 1 &&
              SLUICE_ADD == static_cast<int>(Update::add) && SLUICE_MN_MAJOR == static_cast<int>(Major::mn));
static_assert(SLUICE_UINT4 == static_cast<int>(WeightType::uint4) + 1 &&
              SLUICE_E4M3_WEIGHT == static_cast<int>(WeightType::e4m3) + 1);

static_assert(SLUICE_ALONG_K == static_cast<int>(GroupKind::along_k) &&
              SLUICE_SLOTS == static_cast<int>(GroupKind::slots));

constexpr int kScaleModes = SLUICE_SCALE_VECTOR128 + 1;

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
          .c_type = v.residual != 0 ? type(v.c.type) : DType::bf16,
          .update = static_cast<Update>(v.update),
          .gated = v.gated != 0,
          .scale_d = static_cast<ScaleMode>(v.scale_d),
          .row_factors = v.row_factors != 0};
}

Matrix matrix_of(const sluice_matrix& v) {
  return {type(v.type), static_cast<Major>(v.major), v.ld, v.batch_stride, v.unaligned != 0};
}
sluice_matrix values_of(const Matrix& x) {
  return {.type = number(x.type),
          .major = number(x.major),
          .unaligned = x.unaligned ? 1 : 0,
          .ld = x.ld,
          .batch_stride = x.batch_stride};
}

Result<Problem> dense_of(const sluice_problem& v) {
  if (v.norm_a != 0)
    return Error{ErrorCode::invalid_argument,
                 "norm_a = 1 and packed.type = 0: only products of packed weights norm their tokens; call "
                 "sluice_norm before"};
  Problem p{.m = v.m,
            .n = v.n,
            .k = v.k,
            .batch = v.batch,
            .a = matrix_of(v.a),
            .b = matrix_of(v.b),
            .c = v.residual != 0 ? matrix_of(v.c) : Matrix{},
            .d = matrix_of(v.d),
            .epilogue = epilogue_of(v)};
  p.groups = groups_of(v);
  p.scale_a_ld = v.scale_a_ld;
  return p;
}

Result<Problem> convolution_of(const sluice_problem& v) {
  const Enumerator none[] = {{"packed.type", v.packed.type, 1},
                             {"norm_a", v.norm_a, 1},
                             {"gated", v.gated, 1},
                             {"groups", v.groups, 1},
                             {"scale_a_ld", v.scale_a_ld, 1}};
  for (const Enumerator& field : none)
    if (field.value != 0)
      return Error{ErrorCode::invalid_argument,
                   std::string(field.name) + " = " + std::to_string(field.value) + " and conv.op = " +
                       std::to_string(v.conv.op) + ": a convolution has no such thing; leave it out"};
  if (v.a.type != v.b.type)
    return Error{ErrorCode::invalid_type, std::string("a is ") + name_of(type(v.a.type)) + " and b is " +
                                              name_of(type(v.b.type)) +
                                              ": a convolution reads two arrays of one type; convert one"};
  SLUICE_TAKE(const Conv conv, conv_of(v.conv));
  return conv::problem(conv, type(v.a.type), type(v.d.type), epilogue_of(v));
}

/// Refuses fields that packed products lack: batches but for groups, transposed tokens, scales of weights,
/// updates.
Result<void> refuse_dense_fields(const sluice_problem& v) {
  const struct {
    const char* name;
    i64 value, only;
  } fields[] = {{"batch", v.batch, v.groups != SLUICE_NO_GROUPS ? v.batch : 1},
                {"a.major", v.a.major, SLUICE_K_MAJOR},
                {"a.batch_stride", v.a.batch_stride, 0},
                {"c.batch_stride", v.c.batch_stride, 0},
                {"d.batch_stride", v.d.batch_stride, 0},
                {"a.unaligned", v.a.unaligned, 0},
                {"d.unaligned", v.d.unaligned, 0},
                {"scale_b", v.scale_b, SLUICE_NO_SCALE},
                {"scale_a_ld", v.scale_a_ld, 0},
                {"update", v.update, SLUICE_SET}};
  for (const auto& [name, value, only] : fields)
    if (value != only)
      return Error{ErrorCode::invalid_argument, std::string(name) + " = " + std::to_string(value) +
                                                    " of a product of packed weights must be " +
                                                    std::to_string(only) + ": it has no such thing"};
  if (v.residual != 0 && v.c.type != v.d.type)
    return Error{ErrorCode::invalid_type,
                 std::string("c is ") + name_of(type(v.c.type)) + " and d is " + name_of(type(v.d.type)) +
                     ": a product of packed weights adds a C of D's type; convert C"};
  return {};
}

Result<Problem> packed_of(const sluice_problem& v) {
  SLUICE_TRY(refuse_dense_fields(v));
  SLUICE_TAKE(const WeightFormat format, format_of(v.packed));
  Problem p{.m = v.m,
            .n = v.n,
            .k = v.k,
            .batch = v.batch,
            .epilogue = epilogue_of(v),
            .norm_a = v.norm_a != 0,
            .groups = groups_of(v)};
  p.a = {.type = type(v.a.type), .ld = v.a.ld};
  p.b = {.type = type(v.a.type), .packed = format};
  p.c.ld = v.c.ld;
  p.d = {.type = type(v.d.type), .ld = v.d.ld};
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

Groups groups_of(const sluice_problem& v) {
  return {static_cast<GroupKind>(v.groups), v.group_pitch != 0 ? v.group_pitch : 1};
}

Result<Problem> problem_of(const sluice_problem& v) {
  const Enumerator enumerators[] = {{"a.type", v.a.type, kDTypeCount},
                                    {"b.type", v.b.type, kDTypeCount},
                                    {"c.type", v.c.type, kDTypeCount},
                                    {"d.type", v.d.type, kDTypeCount},
                                    {"bias_type", v.bias_type, kDTypeCount},
                                    {"a.major", v.a.major, 2},
                                    {"b.major", v.b.major, 2},
                                    {"c.major", v.c.major, 1},
                                    {"d.major", v.d.major, 1},
                                    {"scale_a", v.scale_a, kScaleModes},
                                    {"scale_b", v.scale_b, kScaleModes},
                                    {"scale_d", v.scale_d, kScaleModes},
                                    {"bias", v.bias, 2},
                                    {"residual", v.residual, 2},
                                    {"activation", v.activation, SLUICE_ACTIVATIONS},
                                    {"gated", v.gated, 2},
                                    {"accumulate", v.accumulate, 2},
                                    {"update", v.update, 2},
                                    {"any_order", v.any_order, 2},
                                    {"packed.type", v.packed.type, kWeightTypes + 1},
                                    {"norm_a", v.norm_a, 2},
                                    {"row_factors", v.row_factors, 2},
                                    {"groups", v.groups, SLUICE_SLOTS + 1},
                                    {"conv.op", v.conv.op, SLUICE_WGRAD + 1}};
  SLUICE_TRY(check_enumerators(enumerators));
  if (v.conv.op == SLUICE_PRODUCT && v.residual == 0 && (v.c.ld != 0 || v.c.batch_stride != 0))
    return Error{ErrorCode::invalid_argument,
                 "c.ld = " + std::to_string(v.c.ld) +
                     ", c.batch_stride = " + std::to_string(v.c.batch_stride) +
                     ": without residual there is no C and both must be 0; leave them out, or set residual"};
  Problem problem;
  SLUICE_TAKE(problem, v.conv.op != SLUICE_PRODUCT          ? convolution_of(v)
                       : v.packed.type != SLUICE_NOT_PACKED ? packed_of(v)
                                                            : dense_of(v));
  problem.accumulate = accumulate_of(v.accumulate);
  problem.deterministic = v.any_order == 0;
  return problem;
}

sluice_problem values_of(const Problem& p) {
  const Epilogue& e = p.epilogue;
  sluice_problem v{.m = p.m,
                   .n = p.n,
                   .k = p.k,
                   .batch = p.batch,
                   .a = values_of(p.a),
                   .b = values_of(p.b),
                   .c = values_of(p.c),
                   .d = values_of(p.d),
                   .packed = values_of(p.b.packed),
                   .scale_a = number(e.scale_a),
                   .scale_b = number(e.scale_b),
                   .scale_d = number(e.scale_d),
                   .bias = number(e.bias),
                   .bias_type = number(e.bias_type),
                   .residual = e.residual ? 1 : 0,
                   .row_factors = e.row_factors ? 1 : 0,
                   .norm_a = p.norm_a ? 1 : 0,
                   .activation = number(e.activation),
                   .gated = e.gated ? 1 : 0,
                   .update = number(e.update),
                   .accumulate = p.accumulate == Accumulate::fast ? SLUICE_FAST : SLUICE_PROMOTED,
                   .any_order = p.deterministic ? 0 : 1,
                   .groups = number(p.groups.kind),
                   .group_pitch = p.groups.pitch,
                   .scale_a_ld = p.scale_a_ld,
                   .conv = values_of(p.conv)};
  v.c.type = number(e.c_type);
  return v;
}

Result<WeightFormat> format_of(const sluice_weight_format& v) {
  if (v.type < 1 || v.type > kWeightTypes)
    return Error{ErrorCode::invalid_argument, "type = " + std::to_string(v.type) + " must be in 1.." +
                                                  std::to_string(kWeightTypes) +
                                                  ", a sluice_weight_type of packed weights"};
  const Enumerator enumerators[] = {
      {"scale", v.scale, kDTypeCount}, {"zeros", v.zeros, 2}, {"order", v.order, SLUICE_ORDER_BYTE + 1}};
  if (Result<void> good = check_enumerators(enumerators); !good) return good.error();
  const WeightFormat format{.type = static_cast<WeightType>(v.type - 1),
                            .group = v.group,
                            .scale = type(v.scale),
                            .zero = static_cast<ScaleZero>(v.zeros),
                            .order = static_cast<FragmentOrder>(v.order)};
  if (const char* rule = validate(format))
    return Error{ErrorCode::invalid_config, "weights " + describe(format) + ": " + rule};
  return format;
}

sluice_weight_format values_of(const WeightFormat& format) {
  if (format.type == WeightType::none) return {};
  return {.type = number(format.type) + 1,
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

}  // namespace sluice::c_api
