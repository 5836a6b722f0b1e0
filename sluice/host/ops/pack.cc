// SPDX-License-Identifier: Apache-2.0
// Loads and launches the packing kernels. Where bytes go is theirs (kernels/pack.cuh).
#include <sluice/pack.h>

#include <string>
#include <utility>

#include <sluice/host/device/device_impl.h>
#include <sluice/host/driver/error.h>
#include <sluice/host/driver/launch.h>
#include <sluice/host/ops/operand_checks.h>
#include <sluice/host/ops/pack_checks.h>
#include <sluice/host/text/pack_units.h>

namespace sluice {
namespace {

std::string number(i64 value) {
  return std::to_string(value);
}

Result<void> check_shape(const PackShape& shape) {
  constexpr i64 kLargest = (i64{1} << 31) - 1;
  const struct {
    const char* name;
    i64 value;
  } sizes[] = {{"n", shape.n}, {"k", shape.k}};
  for (const auto& [name, value] : sizes)
    if (value < 0 || value > kLargest)
      return Error{ErrorCode::invalid_size,
                   std::string(name) + " = " + number(value) + ": must be in 0..2^31-1; split the weights"};
  if (strip_count(shape.n) * packed_k_tiles(shape.k) > kMaxPackTiles)
    return Error{ErrorCode::invalid_size,
                 "n = " + number(shape.n) + ", k = " + number(shape.k) +
                     ": must be fewer than 2^31 tiles of 64 x 128; split the weights"};
  return {};
}

Result<void> check_array(const PackArray& array) {
  if (array.bytes == 0) return {};
  if (array.data == nullptr)
    return Error{ErrorCode::invalid_pointer, std::string(array.name) + " is null: pass device memory of " +
                                                 number(array.bytes) + " bytes"};
  if (reinterpret_cast<u64>(array.data) % static_cast<u64>(array.alignment) != 0)
    return Error{ErrorCode::misaligned, std::string(array.name) + " = " + hex(array.data) +
                                            ": must be a multiple of " + number(array.alignment) +
                                            " bytes; move it"};
  return {};
}

Result<void> check_arrays(const PackConfig& config, const PackArrays& arrays) {
  for (const PackArray& array : arrays.all)
    if (Result<void> good = check_array(array); !good) return good;
  const PackArray& zeros = arrays.all[3];
  if (config.format.zero == ScaleZero::none && zeros.data != nullptr)
    return Error{ErrorCode::invalid_argument,
                 "zeros = " + std::string(hex(zeros.data)) + ", and the format stores none (" +
                     name_of(config.format.type) + " means zero " + number(implied_zero(config.format.type)) +
                     "): pass null, or create the packer with ScaleZero::per_group"};
  return check_apart(config, arrays);
}

u8* bytes(const void* pointer) {
  return static_cast<u8*>(const_cast<void*>(pointer));  // PackParams is for both directions
}

}  // namespace

struct Packer::Impl {
  Device device;
  WeightFormat format;
  CodeStorage storage;
  std::shared_ptr<const Module> modules[2];  // of PackStep

  Result<void> launch(PackStep step, const PackShape& shape, PackParams params, Stream stream) const {
    const PackConfig config{step, format, storage};
    if (Result<void> good = check_shape(shape); !good) return good;
    if (shape.n == 0 || shape.k == 0) return {};
    if (Result<void> good = check_arrays(config, arrays_of(config, shape, params)); !good) return good;
    const PrimaryContext& primary = *device.impl().primary;
    if (Result<void> ours = check_context(primary); !ours) return ours;
    const ContextScope scope(primary);
    if (Result<void> entered = scope.entered(); !entered) return entered;
    for (const auto& [name, pointer] : {std::pair<const char*, const void*>{"codes", params.codes},
                                        {"scales", params.scales},
                                        {"zeros", params.zeros},
                                        {"the blob", params.blob}})
      if (pointer != nullptr)
        if (Result<void> ours = check_owner(primary, name, pointer); !ours) return ours;
    params.n = shape.n;
    params.k = shape.k;
    params.pieces = rows_are_pieces(storage, shape.k) && reinterpret_cast<u64>(params.codes) % 16 == 0;
    const u32 tiles = static_cast<u32>(strip_count(shape.n) * packed_k_tiles(shape.k));
    return launch_kernel(*device.impl().api, modules[static_cast<int>(step)]->function(),
                         {.grid_x = tiles, .block_x = kPackThreads}, &params, stream);
  }
};

Result<Packer> Packer::create(const Device& device, const WeightFormat& format, CodeStorage storage) {
  if (const char* rule = validate(format))
    return Error{ErrorCode::invalid_config, "weights " + describe(format) + ": " + rule};
  if (storage == CodeStorage::nibble && code_bits(format.type) != 4)
    return Error{ErrorCode::invalid_config, std::string("codes are ") + name_of(format.type) +
                                                ": only 4-bit ones come two a byte; pass CodeStorage::byte"};
  auto impl = std::make_shared<Impl>(Impl{device, format, storage, {}});
  for (const PackStep step : {PackStep::pack, PackStep::unpack}) {
    auto module = device.impl().load_unit(pack_unit_text({step, format, storage}), 0);
    if (!module) return module.error();
    impl->modules[static_cast<int>(step)] = *std::move(module);
  }
  return Packer(std::move(impl));
}

Result<void> Packer::pack(const PackShape& shape, const PackArgs& args, Stream stream) const {
  return impl_->launch(PackStep::pack, shape,
                       {.codes = bytes(args.codes),
                        .scales = bytes(args.scales),
                        .zeros = bytes(args.zeros),
                        .blob = bytes(args.blob)},
                       stream);
}

Result<void> Packer::unpack(const PackShape& shape, const UnpackArgs& args, Stream stream) const {
  return impl_->launch(PackStep::unpack, shape,
                       {.codes = bytes(args.codes),
                        .scales = bytes(args.scales),
                        .zeros = bytes(args.zeros),
                        .blob = bytes(args.blob)},
                       stream);
}

}  // namespace sluice
