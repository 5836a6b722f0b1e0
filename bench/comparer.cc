// SPDX-License-Identifier: Apache-2.0
// Compares bits on the GPU, in the stream of the data, without copying them to the host.
#include "bench/comparer.h"

#include <sluice/run/driver/error.h>
#include <sluice/run/driver/memory.h>
#include <sluice/try.h>

#include "bench/device.h"

namespace sluice::bench {
namespace {

struct CompareParams {
  const void* a;
  const void* b;
  i64 vectors;
  unsigned long long* differing;
};
constexpr u32 kThreadsOfBlock = 512;  // one CTA per SM

constexpr const char* kUnit = R"(struct Vector { unsigned x, y, z, w; };
struct CompareParams { const Vector* a; const Vector* b; long long vectors; unsigned long long* differing; };
extern "C" __global__ void __launch_bounds__(512) sluice_entry(const __grid_constant__ CompareParams params) {
  unsigned long long differing = 0;
  const long long step = (long long)gridDim.x * 512;
  for (long long i = blockIdx.x * 512ll + threadIdx.x; i < params.vectors; i += step) {
    const Vector a = params.a[i], b = params.b[i];
    differing += ((a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w)) != 0;
  }
  if (differing != 0) atomicAdd(params.differing, differing);
}
)";

}  // namespace

const char* Comparer::unit_text() {
  return kUnit;
}

Result<Comparer> Comparer::create(const Lab& lab) {
  SLUICE_TAKE(auto module, load_unit(lab.device, kUnit));
  SLUICE_TAKE(DeviceBuffer counter, DeviceBuffer::allocate(lab.device, sizeof(unsigned long long)));
  const u64 zero = 0;
  SLUICE_TRY(counter.upload(&zero, sizeof zero));
  return Comparer(lab.device, std::move(module), std::move(counter));
}

Result<void> Comparer::enqueue(const DeviceBuffer& a, const DeviceBuffer& b, Stream stream) const {
  if (a.bytes() != b.bytes() || a.bytes() % 16 != 0)
    return Error{ErrorCode::internal, "blocks to compare differ in size, or are no multiple of 16 bytes"};
  const CompareParams params{a.data(), b.data(), a.bytes() / 16,
                             static_cast<unsigned long long*>(counter_.data())};
  return launch_module(device_, *module_,
                       {.grid_x = static_cast<u32>(device_.info().sm_count), .block_x = kThreadsOfBlock},
                       &params, stream);
}

Result<i64> Comparer::take(Stream stream) const {
  u64 count = 0;
  SLUICE_TRY(counter_.download_async(&count, sizeof count, stream));
  SLUICE_TRY(counter_.fill(0, stream));
  const ContextScope scope(context_of(device_));
  SLUICE_TRY(scope.entered());
  const DriverApi& api = driver_of(device_);
  if (const CUresult code = api.cuStreamSynchronize(stream); code != CUDA_SUCCESS)
    return driver_error(api, code, "cuStreamSynchronize", "after a comparison");
  return static_cast<i64>(count);
}

}  // namespace sluice::bench
