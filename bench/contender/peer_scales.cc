// SPDX-License-Identifier: Apache-2.0
#include "bench/contender/peer_scales.h"

#include <algorithm>

#include <sluice/run/driver/error.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/memory.h>
#include <sluice/try.h>

#include "bench/device.h"

namespace sluice::bench {
namespace {

constexpr i64 kRowMultiple = 4;

Result<std::vector<float>> read(const Device& device, const float* source, i64 count) {
  std::vector<float> values(static_cast<size_t>(count));
  const DriverApi& api = driver_of(device);
  const ContextScope scope(context_of(device));
  SLUICE_TRY(scope.entered());
  const CUresult code =
      api.cuMemcpyDtoH(values.data(), reinterpret_cast<CUdeviceptr>(source), values.size() * sizeof(float));
  if (code != CUDA_SUCCESS) return driver_error(api, code, "cuMemcpyDtoH", "block scales");
  return values;
}

Result<void> write(const DeviceBuffer& target, const std::vector<float>& values) {
  return target.upload(values.data(), static_cast<i64>(values.size() * sizeof(float)));
}

}  // namespace

std::vector<float> transposed(const std::vector<float>& scales, i64 rows, i64 columns) {
  std::vector<float> result(scales.size());
  for (i64 row = 0; row < rows; ++row)
    for (i64 column = 0; column < columns; ++column)
      result[static_cast<size_t>(column * rows + row)] = scales[static_cast<size_t>(row * columns + column)];
  return result;
}

std::vector<float> at_pitch(const std::vector<float>& scales, i64 rows, i64 columns, i64 from, i64 to) {
  std::vector<float> result(static_cast<size_t>(rows * to));
  for (i64 row = 0; row < rows; ++row)
    std::copy_n(scales.begin() + row * from, columns, result.begin() + row * to);
  return result;
}

Result<PeerScales> PeerScales::create(const Device& device, const Problem& problem) {
  const i64 k_blocks = scale_blocks(problem.k);
  const i64 of_b = scales_each_column(problem.epilogue)
                       ? scale_b_count(problem)
                       : scale_blocks(problem.n) * round_up(k_blocks, kRowMultiple);
  SLUICE_TAKE(DeviceBuffer a, DeviceBuffer::allocate(device, problem.m * k_blocks * i64{sizeof(float)}));
  SLUICE_TAKE(DeviceBuffer b, DeviceBuffer::allocate(device, of_b * i64{sizeof(float)}));
  return PeerScales(device, std::move(a), std::move(b));
}

Result<void> PeerScales::copy(const Problem& problem, const gemm::Args& args) const {
  SLUICE_TRY(synchronize(device_));  // any stream may have written the scales
  const i64 blocks = scale_blocks(problem.k);
  SLUICE_TAKE(const std::vector<float> a, read(device_, args.scale_a, scale_a_count(problem)));
  SLUICE_TRY(write(a_, scales_by_columns(problem)
                           ? at_pitch(a, blocks, problem.m, problem.scale_a_ld, problem.m)
                           : transposed(a, problem.m, blocks)));
  SLUICE_TAKE(const std::vector<float> b, read(device_, args.scale_b, scale_b_count(problem)));
  // Scales of each column lie as cuBLASLt has them.
  return write(b_, scales_each_column(problem.epilogue) ? b
                                                        : at_pitch(b, scale_blocks(problem.n), blocks, blocks,
                                                                   round_up(blocks, kRowMultiple)));
}

}  // namespace sluice::bench
