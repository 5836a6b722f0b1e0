// SPDX-License-Identifier: Apache-2.0
// Two CTAs of 512 threads per SM each read an equal contiguous share, with four loads in flight per thread.
// On an H200 more CTAs are slower, and TMA is not faster (docs/findings/decode.md).
#include "bench/contender/read_floor.h"

#include <sluice/try.h>

#include "bench/device.h"

namespace sluice::bench {
namespace {

constexpr int kCtasOfSm = 2;
constexpr u32 kThreadsOfBlock = 512;
constexpr i64 kVectorBytes = 16;

struct ReadParams {
  const void* data;
  i64 vectors;
  u32* sink;  // always null; a possible store keeps the loads from being optimised away
};

constexpr const char* kUnit = R"(struct Vector { unsigned x, y, z, w; };
struct ReadParams { const Vector* data; long long vectors; unsigned* sink; };
extern "C" __global__ void __launch_bounds__(512) sluice_entry(const __grid_constant__ ReadParams params) {
  constexpr int kStep = 512, kInFlight = 4;
  const long long share = (params.vectors + gridDim.x - 1) / gridDim.x;
  const long long begin = share * blockIdx.x;
  const long long end = begin + share < params.vectors ? begin + share : params.vectors;
  unsigned seen = 0;
  long long i = begin + threadIdx.x;
  for (; i + (kInFlight - 1) * kStep < end; i += kInFlight * kStep) {
    Vector v[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j)
      asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[j].x), "=r"(v[j].y), "=r"(v[j].z), "=r"(v[j].w) : "l"(params.data + i + j * kStep));
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) seen |= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
  }
  for (; i < end; i += kStep) {
    Vector v;
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(params.data + i));
    seen |= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (params.sink != nullptr) *params.sink = seen;
}
)";

}  // namespace

bool is_mostly_weights(const Problem& p) {
  const double b = static_cast<double>(p.n) * static_cast<double>(p.k) * bytes_of(p.b.type);
  const double a = static_cast<double>(p.m) * static_cast<double>(p.k) * bytes_of(p.a.type);
  const double d = static_cast<double>(p.m) * static_cast<double>(d_columns(p)) * bytes_of(p.d.type);
  return b >= 4 * (a + d);
}

const char* Reader::unit_text() {
  return kUnit;
}

Result<Reader> Reader::create(const Device& device) {
  SLUICE_TAKE(auto module, load_unit(device, kUnit));
  return Reader(device, std::move(module));
}

Result<void> Reader::read(const void* data, i64 bytes, Stream stream) const {
  const ReadParams params{data, bytes / kVectorBytes, nullptr};
  return launch_module(
      device_, *module_,
      {.grid_x = static_cast<u32>(kCtasOfSm * device_.info().sm_count), .block_x = kThreadsOfBlock}, &params,
      stream);
}

Result<Contender> read_floor_contender(const Lab& lab, const Weights& weights, const std::string& name) {
  SLUICE_TAKE(const Reader reader, Reader::create(lab.device));
  return Contender{
      .name = name, .detail = "reads the weights", .launch = [reader, weights](int copy, Stream stream) {
        return reader.read(weights.copies[static_cast<size_t>(copy)], weights.bytes, stream);
      }};
}

}  // namespace sluice::bench
