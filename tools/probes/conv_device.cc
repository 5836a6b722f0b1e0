// SPDX-License-Identifier: Apache-2.0
#include "tools/probes/conv_device.h"

#include <bit>
#include <cmath>

#include <sluice/try.h>

namespace sluice::probes {
namespace {

constexpr u32 kThreads = 256, kCtasOfSm = 8;

/// The kernels' parameters, as in the texts below.
struct FillParams {
  void* to;
  i64 count;
  u64 seed;
  DType type;
};
struct Sums {
  double differences = 0, wanted = 0;       // sums of squares
  u64 largest_difference = 0, largest = 0;  // bits of doubles that are not negative, so that they sort
  u64 not_finite = 0;
};
struct CompareParams {
  const void *got, *want;
  i64 count;
  CUdeviceptr sums;
  DType type;
};

constexpr const char* kFill = R"(#include <sluice/kernels/verify_arith.h>
namespace sluice {
struct ProbeFill { unsigned short* to; i64 count; u64 seed; DType type; };
extern "C" __global__ void __launch_bounds__(256) sluice_entry(const __grid_constant__ ProbeFill params) {
  FillSpec spec{};
  spec.kind = Fill::normal;
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < params.count; i += step)
    params.to[i] = static_cast<unsigned short>(
        verify::encode(params.type, verify::fill_value(spec, params.seed, static_cast<u64>(i))));
}
}
)";

constexpr const char* kCompare = R"(#include <sluice/kernels/verify_arith.h>
namespace sluice {
struct ProbeSums { double differences, wanted; unsigned long long largest_difference, largest, not_finite; };
struct ProbeCompare { const void* got; const void* want; i64 count; ProbeSums* sums; DType type; };
SLUICE_DEVICE double element(const void* data, DType type, i64 i) {
  const u32 bits = type == DType::fp32 ? static_cast<const u32*>(data)[i]
                                       : static_cast<const unsigned short*>(data)[i];
  return verify::decode(type, bits);
}
extern "C" __global__ void __launch_bounds__(256) sluice_entry(const __grid_constant__ ProbeCompare params) {
  ProbeSums mine{};
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < params.count; i += step) {
    const double got = element(params.got, params.type, i), want = element(params.want, params.type, i);
    if (!verify::is_finite(got) || !verify::is_finite(want)) {
      ++mine.not_finite;
      continue;
    }
    const u64 difference = verify::bits_as<u64>(verify::magnitude_of(got - want));
    const u64 size = verify::bits_as<u64>(verify::magnitude_of(want));
    mine.differences += (got - want) * (got - want);
    mine.wanted += want * want;
    if (difference > mine.largest_difference) mine.largest_difference = difference;
    if (size > mine.largest) mine.largest = size;
  }
  atomicAdd(&params.sums->differences, mine.differences);
  atomicAdd(&params.sums->wanted, mine.wanted);
  atomicMax(&params.sums->largest_difference, mine.largest_difference);
  atomicMax(&params.sums->largest, mine.largest);
  atomicAdd(&params.sums->not_finite, mine.not_finite);
}
}
)";

LaunchShape whole_device(const Device& device) {
  return {.grid_x = kCtasOfSm * static_cast<u32>(device.info().sm_count), .block_x = kThreads};
}

double ratio_of(double part, double whole) {
  return part == 0 ? 0 : part / whole;  // infinite where all should be zero
}

}  // namespace

const char* ConvKernels::fill_text() {
  return kFill;
}
const char* ConvKernels::compare_text() {
  return kCompare;
}

Result<ConvKernels> ConvKernels::create(const Device& device) {
  SLUICE_TAKE(auto fill, tools::load_unit(device, kFill));
  SLUICE_TAKE(auto compare, tools::load_unit(device, kCompare));
  SLUICE_TAKE(DeviceBuffer sums, DeviceBuffer::allocate(device, sizeof(Sums)));
  return ConvKernels(device, std::move(fill), std::move(compare), std::move(sums));
}

Result<void> ConvKernels::fill(const DeviceBuffer& tensor, DType type, u64 seed, Stream stream) const {
  const FillParams params{tensor.data(), tensor.bytes() / bytes_of(type), seed, type};
  return tools::launch(device_, *fill_, whole_device(device_), &params, stream);
}

Result<Difference> ConvKernels::compare(const DeviceBuffer& got, const DeviceBuffer& want, DType type,
                                        Stream stream) const {
  SLUICE_TRY(sums_.fill(0, stream));
  const CompareParams params{got.data(), want.data(), got.bytes() / bytes_of(type), sums_.address(), type};
  SLUICE_TRY(tools::launch(device_, *compare_, whole_device(device_), &params, stream));
  SLUICE_TRY(synchronize(device_));
  Sums sums;
  SLUICE_TRY(sums_.download(&sums, sizeof sums));
  return Difference{.relative = std::sqrt(ratio_of(sums.differences, sums.wanted)),
                    .largest = ratio_of(std::bit_cast<double>(sums.largest_difference),
                                        std::bit_cast<double>(sums.largest)),
                    .not_finite = static_cast<i64>(sums.not_finite)};
}

}  // namespace sluice::probes
