// SPDX-License-Identifier: Apache-2.0
// Loads and launches the packing kernels. The byte layout is in kernels/pack.cuh.
#include <sluice/run/ops/pack.h>

#include <sluice/plan/hash.h>
#include <sluice/plan/text/pack_units.h>
#include <sluice/run/driver/error.h>

namespace sluice {
namespace {

enum Index { kBlob, kCodes, kScales, kZeros };

i64 strips_of(const PackShape& shape) {
  return shape.gated ? gated_strips(shape.n) : strip_count(shape.n);
}

Result<void> check_shape(const PackShape& shape) {
  constexpr i64 kLargest = (i64{1} << 31) - 1;
  const struct {
    const char* name;
    i64 value;
  } sizes[] = {{"n", shape.n}, {"k", shape.k}};
  for (const auto& [name, value] : sizes)
    if (value < 0 || value > kLargest)
      return Error{ErrorCode::invalid_size, std::string(name) + " = " + std::to_string(value) +
                                                ": must be in 0..2^31-1; split the weights"};
  if (const char* rule = shape.gated ? validate_gated(shape.n) : nullptr)
    return Error{ErrorCode::invalid_size, "n = " + std::to_string(shape.n) + rule};
  if (strips_of(shape) * packed_k_tiles(shape.k) > kMaxPackTiles)
    return Error{ErrorCode::invalid_size,
                 "n = " + std::to_string(shape.n) + ", k = " + std::to_string(shape.k) +
                     ": must be fewer than 2^31 tiles of 64 x 128; split the weights"};
  return {};
}

u8* bytes(const void* pointer) {
  // PackParams serves both packing and unpacking, so it has no const pointers
  return static_cast<u8*>(const_cast<void*>(pointer));
}

}  // namespace

Result<Operands> operands_of(const PackConfig& config, const PackShape& shape) {
  const WeightFormat& f = config.format;
  const bool packs = config.step == PackStep::pack;
  const Role blob = packs ? Role::write : Role::read, arrays = packs ? Role::read : Role::write;
  const i64 codes = shape.n * code_row_bytes(config.codes, shape.k);
  const i64 scales = shape.n * group_count(f, shape.k);
  const i64 zeros = f.zero == ScaleZero::per_group ? scales : 0;
  const i64 blob_size = strips_of(shape) * strip_bytes(f, shape.k);
  Operands o;
  o.add({.name = "blob",
         .role = blob,
         .used = blob_size > 0,
         .alignment = kLaneBytes,
         .because = "a lane of it is read and written whole"},
        {blob_size});
  o.add({.name = "codes", .role = arrays, .used = codes > 0}, {codes});
  o.add({.name = "scales", .role = arrays, .type = f.scale, .used = scales > 0}, {scales});
  o.add({.name = "zeros", .role = arrays, .type = f.scale, .used = zeros > 0}, {zeros});
  SLUICE_TRY(o.check_extents());
  return o;
}

Pointers pointers_of(const PackParams& p) {
  return {.at = {p.blob, p.codes, p.scales, p.zeros}};
}

namespace ops {

std::size_t key_hash(const PackerPlan& plan) {
  const WeightFormat& f = plan.format;
  return hash_of({static_cast<i64>(f.type), f.group, static_cast<i64>(f.scale), static_cast<i64>(f.zero),
                  static_cast<i64>(f.order), static_cast<i64>(plan.storage)});
}

Result<PackerPlan> PackOp::sealed(const Plan& plan, const DeviceInfo&) {
  if (const char* rule = validate(plan.format))
    return Error{ErrorCode::invalid_config, "weights " + describe(plan.format) + ": " + rule};
  if (plan.storage == CodeStorage::nibble && code_bits(plan.format.type) != 4)
    return Error{ErrorCode::invalid_config, std::string("codes are ") + name_of(plan.format.type) +
                                                ": only 4-bit ones come two a byte; pass CodeStorage::byte"};
  return plan;
}

std::vector<std::string> PackOp::units(const Plan& plan) {
  std::vector<std::string> units;
  for (const PackStep step : {PackStep::pack, PackStep::unpack})
    units.push_back(pack_unit_text({step, plan.format, plan.storage}));
  return units;
}

Result<void> PackOp::load(const Units& units, Prepared<PackOp>& kernel) {
  for (size_t i = 0; i < units.texts.size(); ++i) {
    SLUICE_TAKE(auto&& module, units.load(i, 0, false));
    kernel.modules.push_back(module);
  }
  return {};
}

Result<PackOp::Call> PackOp::bind(const PackerPlan& plan, const Args& args) {
  SLUICE_TRY(check_shape(args.shape));
  const WeightFormat& format = plan.format;
  Call call{.shape = args.shape, .nothing = args.shape.n == 0 || args.shape.k == 0};
  if (call.nothing) return call;
  if (format.zero == ScaleZero::none && args.params.zeros != nullptr)
    return Error{ErrorCode::invalid_argument,
                 "zeros = " + std::string(hex(args.params.zeros)) + ", and the format stores none (" +
                     name_of(format.type) + " means zero " + std::to_string(implied_zero(format.type)) +
                     "): pass null, or create the packer with ScaleZero::per_group"};
  SLUICE_TAKE(auto&& operands, operands_of({args.step, format, plan.storage}, args.shape));
  call.operands = operands;
  call.pointers = pointers_of(args.params);
  return call;
}

Result<void> PackOp::enqueue(const Prepared<PackOp>& kernel, const Call& call, const Args& args,
                             Stream stream) {
  const auto& [format, storage] = kernel.plan;
  // Padded halves take one launch each; otherwise one launch packs both.
  const int halves = call.shape.gated && pads_halves(call.shape.n) ? 2 : 1;
  PackParams params = args.params;
  params.n = call.shape.n / halves;
  params.k = call.shape.k;
  params.pieces = rows_are_pieces(storage, params.k) && reinterpret_cast<u64>(params.codes) % 16 == 0;
  const u32 tiles = static_cast<u32>(strip_count(params.n) * packed_k_tiles(params.k));
  const i64 scale_bytes = params.n * group_count(format, params.k) * bytes_of(format.scale);
  for (int half = 0; half < halves; ++half) {
    SLUICE_TRY(launch_kernel(kernel.api(), kernel.modules[static_cast<size_t>(args.step)]->function(),
                             {.grid_x = tiles, .block_x = kPackThreads}, &params, stream));
    params.codes += params.n * code_row_bytes(storage, params.k);
    params.scales += scale_bytes;
    if (params.zeros != nullptr) params.zeros += scale_bytes;
    params.blob += blob_bytes(format, params.n, params.k);
  }
  return {};
}

std::string PackOp::missing(const Problem& problem) {
  return "no packer is ready for " + to_string(problem.format);
}

}  // namespace ops

Result<Packer> Packer::create(const Device& device, const WeightFormat& format, CodeStorage storage) {
  return ops::prepare<ops::PackOp>(device, ops::PackerPlan{format, storage});
}

Result<void> Packer::pack(const PackShape& shape, const PackArgs& args, Stream stream) const {
  const PackParams params{.codes = bytes(args.codes),
                          .scales = bytes(args.scales),
                          .zeros = bytes(args.zeros),
                          .blob = bytes(args.blob)};
  return ops::launch<ops::PackOp>(*impl_, {PackStep::pack, shape, params}, stream);
}

Result<void> Packer::unpack(const PackShape& shape, const UnpackArgs& args, Stream stream) const {
  const PackParams params{.codes = bytes(args.codes),
                          .scales = bytes(args.scales),
                          .zeros = bytes(args.zeros),
                          .blob = bytes(args.blob)};
  return ops::launch<ops::PackOp>(*impl_, {PackStep::unpack, shape, params}, stream);
}

}  // namespace sluice
