// SPDX-License-Identifier: Apache-2.0
// All data are real numbers of unit size: weights are normally distributed, alpha (or packed scales) is 1 /
// sqrt(k), and other scales are one. So activations have unit size too, and the GPU runs at the clocks of
// real data.
#include "bench/chain/data.h"

#include <cmath>
#include <random>

#include <sluice/pack.h>
#include <sluice/reference/element.h>
#include <sluice/run/driver/memory.h>
#include <sluice/try.h>

#include "bench/device.h"

namespace sluice::bench {
namespace {

constexpr i64 kAlign = 1024;

/// Returns random 4-bit codes from 1 to 15, whose mean is 8, the implied zero point. A random 0 is replaced
/// by 8.
std::vector<u8> random_nibbles(i64 bytes, u64 seed) {
  std::vector<u8> codes(static_cast<size_t>(bytes));
  std::mt19937_64 random(seed);
  const auto without_zero = [](u8 pair) {
    const u8 low = pair & 15, high = pair >> 4;
    return static_cast<u8>((low == 0 ? 8 : low) | (high == 0 ? 8 : high) << 4);
  };
  for (size_t i = 0; i < codes.size(); i += 8) {
    u64 word = random();
    for (size_t j = i; j < std::min(i + 8, codes.size()); ++j, word >>= 8)
      codes[j] = without_zero(static_cast<u8>(word));
  }
  return codes;
}

std::vector<u16> packed_scales(const Problem& p) {
  constexpr double kCodeDeviation = 4.2;
  std::vector<u16> scales(static_cast<size_t>(p.n * group_count(p.b.packed, p.k)));
  for (size_t i = 0; i < scales.size(); ++i)
    scales[i] = static_cast<u16>(encode_code(
        p.b.packed.scale,
        (0.9 + 0.02 * static_cast<double>(i % 11)) / (kCodeDeviation * std::sqrt(static_cast<double>(p.k)))));
  return scales;
}

}  // namespace

Result<ChainData> ChainData::create(const Lab& lab, const LayerSpec& spec) {
  ChainData data(spec);
  data.device_ = &lab.device;
  SLUICE_TRY(data.make_inputs(lab));
  SLUICE_TRY(data.make_activations(lab));
  SLUICE_TRY(spec.weights == LayerWeights::int4 ? data.make_packed(lab) : data.make_dense(lab));
  SLUICE_TRY(data.set_input(0, lab.stream.get()));
  SLUICE_TRY(lab.stream.synchronize());
  return data;
}

Result<void> ChainData::make_inputs(const Lab& lab) {
  // The type of the norms' output, which the first product reads.
  const DType type = problem_of(spec_, LayerProduct::qkv).d.type;
  Problem p{.m = spec_.tokens * kInputs + 1, .n = 16, .k = spec_.model.width};
  p.a.type = p.b.type = type;
  p.epilogue.scale_a = is_fp8(type) ? ScaleMode::tensor : ScaleMode::none;
  SLUICE_TAKE(
      ProblemData rows,
      lab.verifier.make_data(p, {.seed = 77, .a = {.kind = Fill::normal}, .scale_a = {.kind = Fill::ones}},
                             lab.stream.get()));
  inputs_.push_back(std::move(rows));
  memory_.gamma = static_cast<const u8*>(inputs_[0].args().a) + kInputs * input_bytes(spec_);
  SLUICE_TAKE(DeviceBuffer input, DeviceBuffer::allocate(lab.device, input_bytes(spec_)));
  input_ = std::move(input);
  memory_.input = input_.data();
  return {};
}

Result<void> ChainData::make_activations(const Lab& lab) {
  const auto bytes = activation_bytes(spec_);
  i64 total = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    offsets_[i] = total;
    total += round_up(bytes[i], kAlign);
  }
  SLUICE_TAKE(DeviceBuffer block, DeviceBuffer::allocate(lab.device, total));
  activations_ = std::move(block);
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] > 0) memory_.activations.data[i] = static_cast<u8*>(activations_.data()) + offsets_[i];
  return {};
}

Result<void> ChainData::make_dense(const Lab& lab) {
  memory_.products.resize(static_cast<size_t>(spec_.layers));
  for (size_t which = 0; which < kLayerProducts; ++which) {
    const Problem p = problem_of(spec_, static_cast<LayerProduct>(which));
    DataSpec spec{.a = {.kind = Fill::normal},
                  .b = {.kind = Fill::normal},
                  .c = {.kind = Fill::poison},
                  .scale_a = {.kind = Fill::ones},
                  .scale_b = {.kind = Fill::ones},
                  .alpha = 1.0f / std::sqrt(static_cast<float>(p.k))};
    for (int layer = 0; layer < spec_.layers; ++layer) {
      spec.seed = lab.method.seed + which + kLayerProducts * static_cast<u64>(layer);
      SLUICE_TAKE(ProblemData data, lab.verifier.make_data(p, spec, lab.stream.get()));
      memory_.products[static_cast<size_t>(layer)][which] = data.args();
      products_[which].push_back(std::move(data));
    }
  }
  memory_.one = memory_.products[0][0].scale_a;
  return {};
}

Result<void> ChainData::make_packed(const Lab& lab) {
  constexpr float kOne = 1.0f;
  SLUICE_TAKE(DeviceBuffer one, DeviceBuffer::allocate(lab.device, sizeof kOne));
  SLUICE_TRY(one.upload(&kOne, sizeof kOne));
  one_ = std::move(one);
  memory_.one = static_cast<const float*>(one_.data());
  memory_.blobs.resize(static_cast<size_t>(spec_.layers));
  for (size_t which = 0; which < kLayerProducts; ++which) {
    const Problem p = packed_problem_of(spec_, static_cast<LayerProduct>(which));
    SLUICE_TAKE(const Packer packer, Packer::create(lab.device, p.b.packed, CodeStorage::nibble));
    // Each layer reads the pool of random numbers from a different offset, so weights differ between layers.
    const i64 row = code_row_bytes(CodeStorage::nibble, p.k), shift = 16 * 37;
    const std::vector<u8> host = random_nibbles(p.n * row + shift * spec_.layers, lab.method.seed + which);
    const std::vector<u16> host_scales = packed_scales(p);
    const i64 scale_bytes = static_cast<i64>(host_scales.size() * sizeof(u16));
    SLUICE_TAKE(DeviceBuffer codes, DeviceBuffer::allocate(lab.device, static_cast<i64>(host.size())));
    SLUICE_TAKE(DeviceBuffer scales, DeviceBuffer::allocate(lab.device, scale_bytes));
    SLUICE_TRY(codes.upload(host.data(), codes.bytes()));
    SLUICE_TRY(scales.upload(host_scales.data(), scale_bytes));
    for (int layer = 0; layer < spec_.layers; ++layer) {
      SLUICE_TAKE(DeviceBuffer blob, DeviceBuffer::allocate(lab.device, blob_bytes(p)));
      const PackArgs args{.codes = static_cast<const u8*>(codes.data()) + layer * shift,
                          .scales = scales.data(),
                          .blob = blob.data()};
      SLUICE_TRY(packer.pack({p.n, p.k, p.epilogue.gated}, args, lab.stream.get()));
      memory_.blobs[static_cast<size_t>(layer)][which] = blob.data();
      blobs_.push_back(std::move(blob));
    }
    // Wait, because the upload reads `codes`, which goes out of scope here.
    SLUICE_TRY(lab.stream.synchronize());
  }
  return {};
}

Result<void> ChainData::set_input(int which, Stream stream) const {
  const u8* const from = static_cast<const u8*>(inputs_[0].args().a) + which % kInputs * input_.bytes();
  return copy_async(*device_, input_, from, stream);
}

}  // namespace sluice::bench
