// SPDX-License-Identifier: Apache-2.0
// What arrays say of a packing or of a packed product, and what they may not. See packed.h.
#include <sluice/c_api/packed.h>

#include <cstring>
#include <string>

#include <sluice/c_api/array_shape.h>
#include <sluice/host/ops/pack.h>
#include <sluice/host/text/quoted.h>
#include <sluice/reference/packed_weights.h>

namespace sluice::c_api {
namespace {

/// An array and what messages call it.
struct Named {
  std::string name;
  const sluice_array* array;
};

Result<void> check_present(const Named& x) {
  if (x.array == nullptr) return Error{ErrorCode::invalid_argument, x.name + " is missing: pass an array"};
  return check_shape(x.name, *x.array);
}

Error wrong_shape(const Named& x, const std::string& wanted) {
  return {ErrorCode::invalid_size,
          x.name + " has shape " + shape_text(*x.array) + " and must have " + wanted};
}

Error wrong_layout(const Named& x, const std::string& rule) {
  const sluice_array& a = *x.array;
  return {ErrorCode::invalid_stride,
          x.name + " has shape " + shape_text(a) + " and strides " +
              (a.strides != nullptr ? list(a.strides, a.ndim) : std::string("packed")) + ": " + rule +
              " (nothing is copied silently)"};
}

Result<void> check_no_gaps(const Named& x) {
  if (is_packed(*x.array)) return {};
  return wrong_layout(x, std::string("it must be row-major without gaps; pass ") + x.name + ".contiguous()");
}

/// All in the memory of the first that is there.
Result<int> one_device(std::initializer_list<Named> arrays) {
  const Named& first = *arrays.begin();
  const int ordinal = ordinal_of(*first.array);
  for (const Named& x : arrays)
    if (x.array != nullptr && ordinal_of(*x.array) != ordinal)
      return Error{ErrorCode::wrong_device, x.name + " is in " + place_text(ordinal_of(*x.array)) + " and " +
                                                first.name + " in " + place_text(ordinal) +
                                                ": all must be in one memory; move it"};
  return ordinal;
}

Result<void> check_blob(const Named& blob, const WeightFormat& format, i64 n, i64 k) {
  if (Result<void> present = check_present(blob); !present) return present;
  if (blob.array->dtype != SLUICE_BYTE)
    return Error{ErrorCode::invalid_type,
                 blob.name + " is " + type_text(blob.array->dtype) + " and must be uint8: it is bytes"};
  const i64 bytes = blob_bytes(format, n, k);
  if (count_of(*blob.array) != bytes)
    return wrong_shape(blob, list(&bytes, 1) + ", the bytes of " + std::to_string(n) + " x " +
                                 std::to_string(k) + " weights in this format");
  return check_no_gaps(blob);
}

Result<void> check_codes(const Named& codes, const WeightFormat& format) {
  if (Result<void> present = check_present(codes); !present) return present;
  if (codes.array->ndim != 2) return wrong_shape(codes, "two dimensions, n x k");
  const bool e4m3 = format.type == WeightType::e4m3;
  if (codes.array->dtype != SLUICE_BYTE && !(e4m3 && codes.array->dtype == SLUICE_E4M3))
    return Error{ErrorCode::invalid_type,
                 codes.name + " is " + type_text(codes.array->dtype) + " and must be uint8" +
                     (e4m3 ? " or e4m3: a byte a code"
                           : ", a byte a code: of signed values add 8 (4 bits) or 128 (8 bits) first")};
  return check_no_gaps(codes);
}

/// Scales or zeros.
Result<void> check_scales(const Named& x, const WeightFormat& format, const PackShape& shape) {
  if (Result<void> present = check_present(x); !present) return present;
  const i64 wanted[] = {shape.n, group_count(format, shape.k)};
  if (x.array->ndim != 2 || x.array->shape[0] != wanted[0] || x.array->shape[1] != wanted[1])
    return wrong_shape(x, list(wanted, 2) + ", one for each group of " +
                              (format.group == 0 ? std::string("all of k") : std::to_string(format.group)));
  if (x.array->dtype != static_cast<int32_t>(format.scale))
    return Error{ErrorCode::invalid_type, x.name + " is " + type_text(x.array->dtype) +
                                              " and the format says " + name_of(format.scale) +
                                              ": convert it, or say another format"};
  return check_no_gaps(x);
}

/// D or X as rows; its distance of rows, 0 where there is but one, since frameworks leave any number there.
Result<i64> pitch_of(const Named& x, const char* remedy) {
  const sluice_array& a = *x.array;
  if ((stride(a, 1) != 1 && a.shape[1] > 1) || (a.shape[0] > 1 && stride(a, 0) < a.shape[1]))
    return wrong_layout(x, std::string("it must be row-major, columns contiguous and rows apart; ") + remedy);
  return a.shape[0] <= 1 ? i64{0} : stride(a, 0);
}

Result<void> check_pointer(const char* name, const void* data, std::size_t bytes) {
  if (data != nullptr || bytes == 0) return {};
  return Error{ErrorCode::invalid_pointer,
               std::string(name) + " is null: pass memory of " + std::to_string(bytes) + " bytes"};
}

enum Name { kNameX, kNameBlob, kNameD, kNameBias, kNameScaleX };
constexpr const char* kFieldNames[] = {"x", "blob", "d", "bias", "scale_x"};

Named named(const sluice_packed_product& p, Name which) {
  const sluice_array* const arrays[] = {p.x, p.blob, p.d, p.bias, p.scale_x};
  const char* given = p.names != nullptr ? p.names[which] : nullptr;
  return {escaped(given != nullptr ? given : kFieldNames[which]), arrays[which]};
}

Result<void> check_tokens(const Named& x, i64 k) {
  if (Result<void> present = check_present(x); !present) return present;
  if (x.array->ndim != 2 || x.array->shape[1] != k)
    return wrong_shape(x,
                       "two dimensions, m x " + std::to_string(k) + ": a column for each k of the weights");
  if (x.array->dtype != SLUICE_FP16 && x.array->dtype != SLUICE_BF16 && x.array->dtype != SLUICE_E4M3)
    return Error{ErrorCode::invalid_type, x.name + " is " + type_text(x.array->dtype) +
                                              " and must be fp16, bf16 or e4m3; pass " + x.name +
                                              ".half() or .bfloat16()"};
  return {};
}

Result<void> check_output(const Named& d, i64 m, i64 n) {
  if (Result<void> present = check_present(d); !present) return present;
  const i64 wanted[] = {m, n};
  if (d.array->ndim != 2 || d.array->shape[0] != m || d.array->shape[1] != n)
    return wrong_shape(d, list(wanted, 2));
  if (d.array->dtype != SLUICE_FP16 && d.array->dtype != SLUICE_BF16 && d.array->dtype != SLUICE_FP32)
    return Error{ErrorCode::invalid_type, d.name + " is " + type_text(d.array->dtype) +
                                              " and must be fp16, bf16 or fp32; give another"};
  return {};
}

Result<void> check_bias(const Named& bias, i64 n) {
  if (Result<void> present = check_present(bias); !present) return present;
  const sluice_array& x = *bias.array;
  if (count_of(x) != n || !(x.ndim == 1 || (x.ndim == 2 && x.shape[0] == 1)))
    return wrong_shape(bias, list(&n, 1) + ", a value for each column");
  if (x.dtype != SLUICE_FP16 && x.dtype != SLUICE_BF16 && x.dtype != SLUICE_FP32)
    return Error{ErrorCode::invalid_type,
                 bias.name + " is " + type_text(x.dtype) + " and must be bf16, fp16 or fp32; convert it"};
  return check_no_gaps(bias);
}

/// One value, or one for each token. Of one token they are the same thing, and called the latter.
Result<ScaleMode> scale_mode_of(const Named& scales, const Named& x) {
  if (scales.array == nullptr) return ScaleMode::none;
  if (Result<void> present = check_present(scales); !present) return present.error();
  const sluice_array& s = *scales.array;
  const i64 m = x.array->shape[0], count = count_of(s), column[] = {m, 1};
  if (x.array->dtype != SLUICE_E4M3)
    return Error{ErrorCode::invalid_argument, scales.name + " is given and " + x.name + " is " +
                                                  type_text(x.array->dtype) +
                                                  ": only e4m3 tokens have scales; leave it out"};
  const bool of_tokens = count == m && (s.ndim == 1 || (s.ndim > 1 && s.shape[s.ndim - 1] == 1));
  if (count != 1 && !of_tokens)
    return wrong_shape(scales, list(&m, 1) + " or " + list(column, 2) +
                                   ", a scale for each token, or hold one value for all");
  if (s.dtype != SLUICE_FP32)
    return Error{ErrorCode::invalid_type,
                 scales.name + " is " + type_text(s.dtype) + " and must be fp32; convert it"};
  if (Result<void> good = check_no_gaps(scales); !good) return good.error();
  return of_tokens ? ScaleMode::vector : ScaleMode::tensor;
}

/// What is written shares no byte with another array, as sluice/pack.h has it on a GPU.
Result<void> check_host_arrays(const PackCall& call, PackStep step) {
  SLUICE_TAKE(const auto operands, operands_of(PackConfig{step, call.format, CodeStorage::byte}, call.shape));
  Pointers pointers = pointers_of(PackParams{.codes = static_cast<u8*>(call.codes),
                                             .scales = static_cast<u8*>(call.scales),
                                             .zeros = static_cast<u8*>(call.zeros),
                                             .blob = static_cast<u8*>(call.blob)});
  for (int i = 0; i < operands.size(); ++i)
    pointers.skip_if(pointers.at[static_cast<size_t>(i)] == nullptr, i);
  return check_apart(operands, pointers);
}

}  // namespace

Result<PackCall> packing_of(const sluice_packing& what) {
  const Result<WeightFormat> format = format_of(what.format);
  if (!format) return format.error();
  const Named codes{"codes", what.codes}, scales{"scales", what.scales}, zeros{"zeros", what.zeros},
      blob{"blob", what.blob};
  if (Result<void> good = check_codes(codes, *format); !good) return good.error();
  const PackShape shape{.n = what.codes->shape[0], .k = what.codes->shape[1]};
  if (const auto numbers = numbers_of(*format, shape.n, shape.k); !numbers) return numbers.error();
  if (Result<void> good = check_scales(scales, *format, shape); !good) return good.error();
  if (format->zero == ScaleZero::per_group) {
    if (Result<void> good = check_scales(zeros, *format, shape); !good) return good.error();
  } else if (what.zeros != nullptr) {
    return Error{ErrorCode::invalid_argument, std::string("zeros are given, and the format stores none (") +
                                                  name_of(format->type) + " means zero " +
                                                  std::to_string(implied_zero(format->type)) +
                                                  "): leave them out, or say so in the format"};
  }
  if (Result<void> good = check_blob(blob, *format, shape.n, shape.k); !good) return good.error();
  const Result<int> device = one_device({codes, scales, zeros, blob});
  if (!device) return device.error();
  return PackCall{.format = *format,
                  .shape = shape,
                  .codes = what.codes->data,
                  .scales = what.scales->data,
                  .zeros = what.zeros != nullptr ? what.zeros->data : nullptr,
                  .blob = what.blob->data,
                  .device = *device};
}

Result<void> pack_on_host(const PackCall& call) {
  if (Result<void> apart = check_host_arrays(call, PackStep::pack); !apart) return apart;
  const Result<std::vector<u8>> blob = pack_weights(call.format, {.n = call.shape.n,
                                                                  .k = call.shape.k,
                                                                  .codes = static_cast<const u8*>(call.codes),
                                                                  .scales = call.scales,
                                                                  .zeros = call.zeros});
  if (!blob) return blob.error();
  if (Result<void> there = check_pointer("blob", call.blob, blob->size()); !there) return there;
  if (!blob->empty()) std::memcpy(call.blob, blob->data(), blob->size());
  return {};
}

Result<void> unpack_on_host(const PackCall& call) {
  if (Result<void> apart = check_host_arrays(call, PackStep::unpack); !apart) return apart;
  const Result<UnpackedWeights> arrays = unpack_weights({.format = call.format,
                                                         .n = call.shape.n,
                                                         .k = call.shape.k,
                                                         .blob = static_cast<const u8*>(call.blob)});
  if (!arrays) return arrays.error();
  const struct {
    const char* name;
    void* target;
    const std::vector<u8>& bytes;
  } parts[] = {{"codes", call.codes, arrays->codes},
               {"scales", call.scales, arrays->scales},
               {"zeros", call.zeros, arrays->zeros}};
  for (const auto& [name, target, bytes] : parts)
    if (Result<void> there = check_pointer(name, target, bytes.size()); !there) return there;
  for (const auto& [name, target, bytes] : parts)
    if (!bytes.empty()) std::memcpy(target, bytes.data(), bytes.size());
  return {};
}

Result<PackedCall> packed_of(const sluice_packed_product& p) {
  const Result<WeightFormat> format = format_of(p.format);
  if (!format) return format.error();
  if (const auto numbers = numbers_of(*format, p.n, p.k); !numbers) return numbers.error();
  if (p.activation < 0 || p.activation > SLUICE_SILU)
    return Error{ErrorCode::invalid_argument,
                 "activation = " + std::to_string(p.activation) + " must be in 0..3"};
  const Named x = named(p, kNameX), blob = named(p, kNameBlob), d = named(p, kNameD),
              bias = named(p, kNameBias), scale_x = named(p, kNameScaleX);
  if (Result<void> good = check_tokens(x, p.k); !good) return good.error();
  if (Result<void> good = check_blob(blob, *format, p.n, p.k); !good) return good.error();
  if (Result<void> good = check_output(d, p.x->shape[0], p.n); !good) return good.error();
  const Result<i64> x_ld = pitch_of(x, "pass .contiguous() of it");
  if (!x_ld) return x_ld.error();
  const Result<i64> d_ld = pitch_of(d, "give it its own memory");
  if (!d_ld) return d_ld.error();
  if (p.bias != nullptr)
    if (Result<void> good = check_bias(bias, p.n); !good) return good.error();
  const Result<ScaleMode> scaled = scale_mode_of(scale_x, x);
  if (!scaled) return scaled.error();
  const Result<int> device = one_device({x, blob, d, bias, scale_x});
  if (!device) return device.error();
  return PackedCall{
      .problem = {.m = p.x->shape[0],
                  .n = p.n,
                  .k = p.k,
                  .x = static_cast<DType>(p.x->dtype),
                  .scale_x = *scaled,
                  .d = static_cast<DType>(p.d->dtype),
                  .weights = *format,
                  .bias = p.bias != nullptr ? Bias::column : Bias::none,
                  .bias_type =
                      p.bias != nullptr ? static_cast<DType>(p.bias->dtype) : PackedProblem{}.bias_type,
                  .activation = static_cast<Activation>(p.activation),
                  .ld_x = *x_ld,
                  .ld_d = *d_ld},
      .args = {.x = p.x->data,
               .weights = p.blob->data,
               .d = p.d->data,
               .bias = p.bias != nullptr ? p.bias->data : nullptr,
               .scale_x = p.scale_x != nullptr ? static_cast<const float*>(p.scale_x->data) : nullptr},
      .device = *device};
}

Error not_on_device(const sluice_packed_product& p, int ordinal) {
  const Named x = named(p, kNameX);
  if (ordinal_of(*x.array) == kOnHost)
    return {ErrorCode::wrong_device, x.name +
                                         " is in host memory, and products are computed on a GPU: move all "
                                         "arrays to one"};
  return {ErrorCode::wrong_device, x.name + " is on " + place_text(ordinal_of(*x.array)) +
                                       " and the call is for " + place_text(ordinal)};
}

Error with_names(const sluice_packed_product& p, Error error) {
  if (p.names != nullptr)
    error.message += std::string(" [X is ") + named(p, kNameX).name + ", weights are " +
                     named(p, kNameBlob).name + ", D is " + named(p, kNameD).name + "]";
  return error;
}

}  // namespace sluice::c_api
