// SPDX-License-Identifier: Apache-2.0
// See packing.h.
#include <sluice/c_api/packing.h>

#include <cstring>
#include <string>

#include <sluice/pack_weights.h>
#include <sluice/run/ops/pack.h>
#include <sluice/try.h>

namespace sluice::c_api {
namespace {

Result<void> check_codes(const Named& codes, const WeightFormat& format) {
  SLUICE_TRY(check_present(codes));
  if (codes->ndim != 2) return wrong_shape(codes, "two dimensions, n x k");
  const bool e4m3 = format.type == WeightType::e4m3;
  if (codes->dtype != SLUICE_BYTE && !(e4m3 && codes->dtype == SLUICE_E4M3))
    return wrong_type(codes,
                      e4m3 ? "uint8 or e4m3: a byte a code"
                           : "uint8, a byte a code: of signed values add 8 (4 bits) or 128 (8 bits) first");
  return check_no_gaps(codes);
}

/// Checks type, shape and strides of scales or zero points.
Result<void> check_scales(const Named& x, const WeightFormat& format, const PackShape& shape) {
  SLUICE_TRY(check_present(x));
  const i64 wanted[] = {shape.n, group_count(format, shape.k)};
  if (x->ndim != 2 || x->shape[0] != wanted[0] || x->shape[1] != wanted[1])
    return wrong_shape(x, list(wanted, 2) + ", one for each group of " +
                              (format.group == 0 ? std::string("all of k") : std::to_string(format.group)));
  const bool bytes = format.scale == DType::e8m0;  // no array of DLPack's has this type
  if (x->dtype != (bytes ? SLUICE_BYTE : static_cast<int32_t>(format.scale)))
    return Error{ErrorCode::invalid_type, x.name() + " is " + type_text(x->dtype) + " and the format says " +
                                              (bytes ? "e8m0, which is uint8" : name_of(format.scale)) +
                                              ": convert it, or say another format"};
  return check_no_gaps(x);
}

Result<void> check_zeros(const Named& zeros, const WeightFormat& format, const PackShape& shape) {
  if (format.zero == ScaleZero::per_group) return check_scales(zeros, format, shape);
  if (zeros.array == nullptr) return {};
  return Error{ErrorCode::invalid_argument, std::string("zeros are given, and the format stores none (") +
                                                name_of(format.type) + " means zero " +
                                                std::to_string(implied_zero(format.type)) +
                                                "): leave them out, or say so in the format"};
}

Result<void> check_pointer(const char* name, const void* data, std::size_t bytes) {
  if (data != nullptr || bytes == 0) return {};
  return Error{ErrorCode::invalid_pointer,
               std::string(name) + " is null: pass memory of " + std::to_string(bytes) + " bytes"};
}

/// Checks that no written array overlaps another array; sluice/pack.h has the same rule on a GPU.
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

Result<void> check_blob(const Named& blob, const WeightFormat& format, const PackShape& shape,
                        bool of_groups) {
  SLUICE_TRY(check_present(blob));
  if (blob->dtype != SLUICE_BYTE) return wrong_type(blob, "uint8: it is bytes");
  const auto& [n, k, gated] = shape;
  const i64 bytes = gated ? gated_blob_bytes(format, n, k) : blob_bytes(format, n, k);
  if (of_groups && (blob->ndim != 2 || blob->shape[1] != bytes))
    return wrong_shape(blob, "two dimensions, groups x " + std::to_string(bytes) +
                                 ": a blob of packed weights for each group");
  if (!of_groups && count_of(*blob.array) != bytes)
    return wrong_shape(blob, list(&bytes, 1) + ", the bytes of " + std::to_string(n) + " x " +
                                 std::to_string(k) + " weights in this format" +
                                 (gated ? ", packed as those of a gated product" : ""));
  return check_no_gaps(blob);
}

Result<PackCall> packing_of(const sluice_packing& what) {
  SLUICE_TAKE(const WeightFormat format, format_of(what.format));
  const Named codes{"codes", what.codes}, scales{"scales", what.scales}, zeros{"zeros", what.zeros},
      blob{"blob", what.blob};
  SLUICE_TRY(check_codes(codes, format));
  const Enumerator flags[] = {{"gated", what.gated, 2}};
  SLUICE_TRY(check_enumerators(flags));
  const PackShape shape{.n = codes->shape[0], .k = codes->shape[1], .gated = what.gated != 0};
  SLUICE_TRY(numbers_of(format, shape.n, shape.k));
  SLUICE_TRY(check_scales(scales, format, shape));
  SLUICE_TRY(check_zeros(zeros, format, shape));
  SLUICE_TRY(check_blob(blob, format, shape));
  SLUICE_TAKE(const int memory, one_memory({codes, scales, zeros, blob}));
  return PackCall{.format = format,
                  .shape = shape,
                  .codes = codes->data,
                  .scales = scales->data,
                  .zeros = zeros.array != nullptr ? zeros->data : nullptr,
                  .blob = blob->data,
                  .memory = memory};
}

Result<void> pack_on_host(const PackCall& call) {
  SLUICE_TRY(check_host_arrays(call, PackStep::pack));
  SLUICE_TAKE(const std::vector<u8> blob,
              pack_weights(call.format, {.n = call.shape.n,
                                         .k = call.shape.k,
                                         .codes = static_cast<const u8*>(call.codes),
                                         .scales = call.scales,
                                         .zeros = call.zeros,
                                         .gated = call.shape.gated}));
  SLUICE_TRY(check_pointer("blob", call.blob, blob.size()));
  if (!blob.empty()) std::memcpy(call.blob, blob.data(), blob.size());
  return {};
}

Result<void> unpack_on_host(const PackCall& call) {
  SLUICE_TRY(check_host_arrays(call, PackStep::unpack));
  SLUICE_TAKE(const UnpackedWeights arrays, unpack_weights({.format = call.format,
                                                            .n = call.shape.n,
                                                            .k = call.shape.k,
                                                            .blob = static_cast<const u8*>(call.blob),
                                                            .gated = call.shape.gated}));
  const struct {
    const char* name;
    void* target;
    const std::vector<u8>& bytes;
  } parts[] = {{"codes", call.codes, arrays.codes},
               {"scales", call.scales, arrays.scales},
               {"zeros", call.zeros, arrays.zeros}};
  for (const auto& [name, target, bytes] : parts) SLUICE_TRY(check_pointer(name, target, bytes.size()));
  for (const auto& [name, target, bytes] : parts)
    if (!bytes.empty()) std::memcpy(target, bytes.data(), bytes.size());
  return {};
}

}  // namespace sluice::c_api
