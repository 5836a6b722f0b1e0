// SPDX-License-Identifier: Apache-2.0
#include <sluice/check/packed_check.h>

#include <algorithm>

#include <sluice/pack.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/launch.h>
#include <sluice/try.h>

namespace sluice::packed {
namespace {

constexpr u32 kReferenceThreads = 256;
constexpr i64 kBlocksPerSm = 16;
constexpr i64 kComparedBlob = i64{4} << 20;
constexpr u8 kPoison = 0xFF;

Result<DeviceBuffer> uploaded(const Device& device, const std::vector<u8>& bytes) {
  Result<DeviceBuffer> buffer = DeviceBuffer::allocate(device, static_cast<i64>(bytes.size()));
  if (!buffer || bytes.empty()) return buffer;
  SLUICE_TRY(buffer->upload(bytes.data(), buffer->bytes()));
  return buffer;
}

}  // namespace

std::string reference_unit_text() {
  return "#include <sluice/kernels/packed_reference.cuh>\n"
         "extern \"C\" __global__ void __launch_bounds__(256)\n"
         "sluice_entry(const __grid_constant__ sluice::PackedReferenceParams params) {\n"
         "  sluice::packed::sum_reference(params);\n}\n";
}

Result<DeviceData> DeviceData::create(const Device& device, HostData data, int copies, int shift) {
  DeviceData made;
  made.device_ = std::make_shared<const Device>(device);
  made.data_ = std::move(data);
  made.shift_ = shift;
  const HostData& host = made.data_;
  const Problem& p = host.problem;
  const struct {
    const std::vector<u8>& from;
    DeviceBuffer& to;
  } arrays[] = {{host.codes, made.codes_},     {host.scales, made.scales_},
                {host.zeros, made.zeros_},     {host.bias, made.bias_},
                {host.scale_x, made.scale_x_}, {host.scale_d, made.scale_d_},
                {host.gamma, made.gamma_},     {host.c, made.c_}};
  for (const auto& [from, to] : arrays) {
    SLUICE_TAKE(DeviceBuffer buffer, uploaded(device, from));
    to = std::move(buffer);
  }
  SLUICE_TAKE(const Packer packer, Packer::create(device, p.b.packed, CodeStorage::byte));
  for (int i = 0; i < copies; ++i) {
    SLUICE_TAKE(DeviceBuffer x, uploaded(device, host.x));
    SLUICE_TAKE(DeviceBuffer blob, DeviceBuffer::allocate(device, blob_bytes(p)));
    SLUICE_TAKE(DeviceBuffer d, DeviceBuffer::allocate(device, d_buffer_bytes(p, shift)));
    made.copies_.push_back({std::move(x), std::move(blob), std::move(d)});
    const PackArgs args{.codes = made.codes_.data(),
                        .scales = made.scales_.data(),
                        .zeros = made.zeros_.data(),
                        .blob = made.copies_.back().blob.data()};
    SLUICE_TRY(packer.pack({.n = p.n, .k = p.k, .gated = p.epilogue.gated}, args, nullptr));
    SLUICE_TRY(made.poison(nullptr, i));
  }
  SLUICE_TRY(made.sum(device));
  if (const i64 bytes = made.copies_[0].blob.bytes(); bytes > 0 && bytes <= kComparedBlob) {
    made.blob_.resize(static_cast<size_t>(bytes));
    SLUICE_TRY(made.copies_[0].blob.download(made.blob_.data(), bytes));
  }
  return made;
}

Result<void> DeviceData::sum(const Device& device) {
  const Problem& p = data_.problem;
  sums_.resize(static_cast<size_t>(p.m * p.n));
  if (p.m == 0 || p.n == 0) return synchronize(device);
  const i64 bytes = static_cast<i64>(sums_.size() * sizeof(PackedSum));
  SLUICE_TAKE(const DeviceBuffer target, DeviceBuffer::allocate(device, bytes));
  SLUICE_TAKE(const DeviceBuffer normed,
              uploaded(device, p.norm_a ? multiplied_tokens(data_) : std::vector<u8>()));
  SLUICE_TAKE(const auto module, device.impl().load_unit(reference_unit_text(), 0));
  const PackedReferenceParams params{.weights = p.b.packed,
                                     .x_type = p.a.type,
                                     .m = p.m,
                                     .n = p.n,
                                     .k = p.k,
                                     .ld_x = p.a.ld,
                                     .x = p.norm_a ? normed.data() : copies_[0].x.data(),
                                     .codes = static_cast<const u8*>(codes_.data()),
                                     .scales = scales_.data(),
                                     .zeros = zeros_.data(),
                                     .sums = static_cast<PackedSum*>(target.data())};
  const i64 blocks =
      std::min(ceil_div(p.n, i64{kReferenceThreads / 32}), device.info().sm_count * kBlocksPerSm);
  {
    const ContextScope scope(*device.impl().primary);
    SLUICE_TRY(scope.entered());
    SLUICE_TRY(launch_kernel(*device.impl().api, module->function(),
                             {.grid_x = static_cast<u32>(blocks), .block_x = kReferenceThreads}, &params,
                             nullptr));
  }
  SLUICE_TRY(synchronize(device));
  return target.download(sums_.data(), bytes);
}

gemm::Args DeviceData::args(int copy) const {
  const Copy& c = copies_[static_cast<size_t>(copy)];
  return {.a = c.x.data(),
          .b = c.blob.data(),
          .c = c_.data(),
          .d = static_cast<u8*>(c.d.data()) + d_begin(data_.problem, shift_),
          .scale_a = static_cast<const float*>(scale_x_.data()),
          .scale_d = static_cast<const float*>(scale_d_.data()),
          .bias = bias_.data(),
          .gamma = gamma_.data(),
          .epsilon = data_.epsilon};
}

Result<void> DeviceData::poison(Stream stream, int copy) const {
  return copies_[static_cast<size_t>(copy)].d.fill(kPoison, stream);
}

Result<std::vector<u8>> DeviceData::read_d(int copy) const {
  SLUICE_TRY(synchronize(*device_));
  const DeviceBuffer& d = copies_[static_cast<size_t>(copy)].d;
  std::vector<u8> bytes(static_cast<size_t>(d.bytes()));
  SLUICE_TRY(d.download(bytes.data(), d.bytes()));
  return bytes;
}

Result<std::string> DeviceData::changed_inputs() const {
  const struct {
    const char* name;
    const DeviceBuffer& buffer;
    const std::vector<u8>& bytes;
  } inputs[] = {{"X", copies_[0].x, data_.x},
                {"the blob", copies_[0].blob, blob_},
                {"bias", bias_, data_.bias},
                {"scale_x", scale_x_, data_.scale_x},
                {"scale_d", scale_d_, data_.scale_d},
                {"gamma", gamma_, data_.gamma},
                {"C", c_, data_.c}};
  for (const auto& [name, buffer, bytes] : inputs) {
    if (bytes.empty()) continue;
    std::vector<u8> now(bytes.size());
    SLUICE_TRY(buffer.download(now.data(), static_cast<i64>(now.size())));
    if (now != bytes) return std::string(name);
  }
  return std::string();
}

Result<Comparison> DeviceData::check(int copy, WeightRounding rounding) const {
  SLUICE_TAKE(const std::vector<u8> d, read_d(copy));
  Comparison found = judge(data_, sums_, d, shift_, rounding);
  SLUICE_TAKE(const std::string changed, changed_inputs());
  if (!changed.empty()) ++found.damaged_chunks;
  return found;
}

Problem small_problem(Problem p) {
  constexpr i64 kLeast = 1024;  // a k with at least one k-tile per CTA of every cluster
  const i64 most = std::max(most_exact_k(p) / kLeast * kLeast, kLeast);
  if (p.k > most) p.a.ld = p.k = most;
  p.m = std::min<i64>(p.m, 64);
  p.n = std::min<i64>(p.n, 512);
  for (Matrix* x : {&p.a, &p.b, &p.c, &p.d}) x->batch_stride = 0;
  p.b.ld = p.c.ld = p.d.ld = 0;
  return p;
}

Result<Comparison> check_config(const Device& device, const DeviceData& data, const KernelConfig& config,
                                Stream stream) {
  SLUICE_TAKE(const gemm::Kernel kernel,
              gemm::prepare(device, Plan{.problem = data.problem(), .config = config}));
  SLUICE_TRY(data.poison(stream));
  SLUICE_TRY(launch(kernel, data.args(), stream));
  return data.check(0, rounding_of(config));
}

}  // namespace sluice::packed
