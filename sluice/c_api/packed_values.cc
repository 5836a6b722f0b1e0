// SPDX-License-Identifier: Apache-2.0
// Values of C for packed weights and packed products, field by field; enumerators are checked, since C lets
// any number through. See packed.h.
#include <sluice/c_api/packed.h>

#include <span>
#include <string>

#include <sluice/host/text/pack_units.h>

namespace sluice::c_api {
namespace {

struct Enumerator {
  const char* name;
  i64 value;
  int count;
};

Result<void> check(std::span<const Enumerator> enumerators) {
  for (const Enumerator& e : enumerators)
    if (e.value < 0 || e.value >= e.count)
      return Error{ErrorCode::invalid_argument, std::string(e.name) + " = " + std::to_string(e.value) +
                                                    " must be in 0.." + std::to_string(e.count - 1)};
  return {};
}

}  // namespace

Result<WeightFormat> format_of(const sluice_weight_format& v) {
  const Enumerator enumerators[] = {{"type", v.type, SLUICE_E4M3_WEIGHT + 1},
                                    {"scale", v.scale, kDTypeCount},
                                    {"zeros", v.zeros, 2},
                                    {"order", v.order, SLUICE_ORDER_BYTE + 1}};
  if (Result<void> good = check(enumerators); !good) return good.error();
  const WeightFormat format{.type = static_cast<WeightType>(v.type),
                            .group = v.group,
                            .scale = static_cast<DType>(v.scale),
                            .zero = static_cast<ScaleZero>(v.zeros),
                            .order = static_cast<FragmentOrder>(v.order)};
  if (const char* rule = validate(format))
    return Error{ErrorCode::invalid_config, "weights " + describe(format) + ": " + rule};
  return format;
}

sluice_weight_format values_of(const WeightFormat& format) {
  return {.type = static_cast<int32_t>(format.type),
          .group = format.group,
          .scale = static_cast<int32_t>(format.scale),
          .zeros = format.zero == ScaleZero::per_group ? 1 : 0,
          .order = static_cast<int32_t>(format.order)};
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

Result<PackedProblem> problem_of(const sluice_packed_problem& v) {
  const Enumerator enumerators[] = {{"x", v.x, kDTypeCount},
                                    {"d", v.d, kDTypeCount},
                                    {"scale_x", v.scale_x, SLUICE_SCALE_BLOCK + 1},
                                    {"bias", v.bias, 2},
                                    {"bias_type", v.bias_type, kDTypeCount},
                                    {"activation", v.activation, SLUICE_SILU + 1}};
  if (Result<void> good = check(enumerators); !good) return good.error();
  const Result<WeightFormat> format = format_of(v.weights);
  if (!format) return format.error();
  return PackedProblem{.m = v.m,
                       .n = v.n,
                       .k = v.k,
                       .x = static_cast<DType>(v.x),
                       .scale_x = static_cast<ScaleMode>(v.scale_x),
                       .d = static_cast<DType>(v.d),
                       .weights = *format,
                       .bias = static_cast<Bias>(v.bias),
                       .bias_type = v.bias != 0 ? static_cast<DType>(v.bias_type) : PackedProblem{}.bias_type,
                       .activation = static_cast<Activation>(v.activation),
                       .ld_x = v.x_ld,
                       .ld_d = v.d_ld};
}

sluice_packed_problem values_of(const PackedProblem& p) {
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .x = static_cast<int32_t>(p.x),
          .d = static_cast<int32_t>(p.d),
          .scale_x = static_cast<int32_t>(p.scale_x),
          .weights = values_of(p.weights),
          .bias = p.bias != Bias::none ? 1 : 0,
          .bias_type = static_cast<int32_t>(p.bias_type),
          .activation = static_cast<int32_t>(p.activation),
          .x_ld = p.ld_x,
          .d_ld = p.ld_d};
}

}  // namespace sluice::c_api
