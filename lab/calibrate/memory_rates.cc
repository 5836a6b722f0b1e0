// SPDX-License-Identifier: Apache-2.0
// Memory rates are computed from the difference of a longer and a shorter read, so that launch overhead
// cancels. The latency is measured with one thread and dependent loads: each address depends on the previous
// value, which is 0.
#include <algorithm>
#include <functional>

#include <sluice/try.h>

#include "bench/contender/read_floor.h"
#include "bench/device.h"
#include "lab/calibrate/calibrate.h"

namespace sluice::lab {

using namespace bench;
namespace {

constexpr i64 kMb = i64{1} << 20;
constexpr i64 kBytes = 1024 * kMb;
constexpr int kLaunches = 16;

struct ChaseParams {
  const void* data;
  u32 loads, step_bytes;
  u32* sink;  // always null; a possible store keeps the loads from being optimised away
};
constexpr const char* kChase =
    R"(struct ChaseParams { const char* data; unsigned loads, step_bytes; unsigned* sink; };
extern "C" __global__ void __launch_bounds__(32) sluice_entry(const __grid_constant__ ChaseParams params) {
  if (threadIdx.x != 0) return;
  const char* next = params.data;
  for (unsigned i = 0; i < params.loads; ++i) {
    unsigned zero;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(zero) : "l"(next) : "memory");
    next += params.step_bytes + zero;
  }
  if (params.sink != nullptr) *params.sink = static_cast<unsigned>(next - params.data);
}
)";
/// Copies global memory to shared memory (cp.async) with 128 KB in flight per SM, as GEMM kernels do.
/// Registers could not hold that much.
struct IntakeParams {
  const void* data;
  i64 vectors;
};
constexpr int kIntakeSmem = 128 << 10;
constexpr const char* kIntake = R"(struct IntakeParams { const uint4* data; long long vectors; };
extern "C" __global__ void __launch_bounds__(512) sluice_entry(const __grid_constant__ IntakeParams params) {
  extern __shared__ unsigned char ring[];
  const unsigned slot = static_cast<unsigned>(__cvta_generic_to_shared(ring)) + 16 * threadIdx.x;
  const long long share = (params.vectors + gridDim.x - 1) / gridDim.x, begin = share * blockIdx.x;
  const long long end = begin + share < params.vectors ? begin + share : params.vectors;
  unsigned stage = 0;
  for (long long i = begin + threadIdx.x; i < end; i += 512, stage = (stage + 1) % 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot + stage * 8192), "l"(params.data + i) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 15;" ::: "memory");
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
}
)";
constexpr const char* kEmpty =
    R"(extern "C" __global__ void __launch_bounds__(128) sluice_entry(const __grid_constant__ long long unused) {}
)";

/// The device, buffers and results that all measurements use.
struct Ground {
  const Device& device;
  const DeviceBuffer& memory;
  CalibrationRun& run;

  const void* at(i64 byte) const { return static_cast<const char*>(memory.data()) + byte; }
  double note(const char* name, double value, const char* unit) const {
    run.readings.push_back({name, value, unit});
    return value;
  }
};

/// Captures `launches` launches in one graph and returns the microseconds per launch. It is the minimum over
/// several replays, because a calibration measures the best that the GPU can reach.
Result<double> us_of_launch(const Device& device, int launches,
                            const std::function<Result<void>(int launch, Stream stream)>& enqueue) {
  constexpr int kReplays = 7;
  SLUICE_TAKE(const StreamHandle stream, StreamHandle::create(device));
  SLUICE_TAKE(const Event start, Event::create(device));
  SLUICE_TAKE(const Event stop, Event::create(device));
  SLUICE_TAKE(const Graph graph, Graph::capture(device, stream.get(), [&]() -> Result<void> {
                for (int i = 0; i < launches; ++i) SLUICE_TRY(enqueue(i, stream.get()));
                return {};
              }));
  SLUICE_TRY(graph.launch(stream.get()));
  double least = 1e30;
  for (int i = 0; i < kReplays; ++i) {
    SLUICE_TRY(start.record(stream.get()));
    SLUICE_TRY(graph.launch(stream.get()));
    SLUICE_TRY(stop.record(stream.get()));
    SLUICE_TRY(stop.synchronize());
    SLUICE_TAKE(const double us, stop.microseconds_since(start));
    least = std::min(least, us);
  }
  return least / launches;
}

/// Enqueues a kernel that reads `bytes` bytes at `data`.
using Read = std::function<Result<void>(const void* data, i64 bytes, Stream stream)>;

/// Returns the microseconds of one read of `bytes`. Successive launches read successive pieces of a buffer of
/// `range` bytes.
Result<double> read_us(const Ground& ground, const Read& read, i64 bytes, i64 range) {
  return us_of_launch(ground.device, kLaunches, [&](int launch, Stream stream) {
    return read(ground.at(launch * bytes % (range - bytes + 1) / kMb * kMb), bytes, stream);
  });
}

/// Two sizes of a read, in bytes.
struct Lengths {
  i64 few, many;
};
/// Returns bytes per microsecond: the difference in size over the difference in time, so that the launch
/// overhead cancels out.
Result<double> slope(const Ground& ground, const Read& read, Lengths lengths, i64 range) {
  SLUICE_TAKE(const double short_us, read_us(ground, read, lengths.few, range));
  SLUICE_TAKE(const double long_us, read_us(ground, read, lengths.many, range));
  return static_cast<double>(lengths.many - lengths.few) / std::max(long_us - short_us, 1e-3);
}

Result<void> measure_rates(const Ground& ground) {
  DeviceRates& rates = ground.run.rates;
  SLUICE_TAKE(const Reader reader, Reader::create(ground.device));
  const Read read = [&](const void* data, i64 bytes, Stream stream) {
    return reader.read(data, bytes, stream);
  };
  SLUICE_TAKE(const double lone_us, read_us(ground, read, kBytes, kBytes));
  rates.hbm_bytes_per_us =
      ground.note("HBM, a read of 1 GB", static_cast<double>(kBytes) / lone_us, "bytes/us");
  SLUICE_TAKE(const double chained, slope(ground, read, {32 * kMb, 128 * kMb}, kBytes));
  ground.note("HBM, 128 less 32 MB", chained, "bytes/us");
  // Reads from 1/8 to 3/8 of L2. Each of the two L2 partitions keeps its own copy of data that both read, so
  // only half of L2 is usable.
  const i64 eighth = ground.device.info().l2_bytes / 8 / kMb * kMb;
  SLUICE_TAKE(rates.l2_bytes_per_us, slope(ground, read, {eighth, 3 * eighth}, 3 * eighth));
  ground.note("L2, 3/8 less 1/8 of it", rates.l2_bytes_per_us, "bytes/us");
  return {};
}

/// Measures the read bandwidth per SM with a quarter and with half of the SMs reading, and keeps the larger.
/// With fewer SMs, each reads up to 158 KB/us (H200), which no GEMM kernel reaches.
Result<void> measure_intake(const Ground& ground) {
  SLUICE_TAKE(const auto module, load_unit(ground.device, kIntake, kIntakeSmem));
  double most = 0;
  for (const int part : {8, 4, 2}) {
    const int sms = std::max(1, ground.device.info().sm_count / part);
    const Read read = [&](const void* data, i64 bytes, Stream stream) {
      const IntakeParams params{data, bytes / 16};
      return launch_module(ground.device, *module,
                           {.grid_x = static_cast<u32>(sms), .block_x = 512, .smem_bytes = kIntakeSmem},
                           &params, stream);
    };
    SLUICE_TAKE(const double rate, slope(ground, read, {8 * kMb, 32 * kMb}, kBytes));
    ground.run.readings.push_back(
        {"an SM, 1/" + std::to_string(part) + " of them read", rate / sms, "bytes/us"});
    if (part <= 4) most = std::max(most, rate / sms);
  }
  ground.run.rates.sm_bytes_per_us = most;
  return {};
}

/// Returns the latency of one load in a chain of dependent loads. `evict`: other memory is read first, so
/// that every load misses L2.
Result<double> latency_us(const Ground& ground, bool evict) {
  constexpr u32 kLoads = 2000;
  constexpr i64 kRange = 256 * kMb;
  SLUICE_TAKE(const auto module, load_unit(ground.device, kChase));
  SLUICE_TAKE(const Reader reader, Reader::create(ground.device));
  const ChaseParams params{ground.memory.data(), kLoads, kRange / kLoads / 128 * 128, nullptr};
  const auto timed = [&](bool chase) {
    return us_of_launch(ground.device, 1, [&](int, Stream stream) -> Result<void> {
      if (evict) SLUICE_TRY(reader.read(ground.at(kRange), 2 * kRange, stream));
      if (!chase) return {};
      return launch_module(ground.device, *module, {.block_x = 32}, &params, stream);
    });
  };
  SLUICE_TAKE(const double us, timed(true));
  if (!evict) return us / kLoads;
  SLUICE_TAKE(const double read_us, timed(false));
  return std::max(us - read_us, 0.0) / kLoads;
}

Result<double> empty_us(const Ground& ground, int ctas) {
  SLUICE_TAKE(const auto module, load_unit(ground.device, kEmpty));
  return us_of_launch(ground.device, 100, [&](int, Stream stream) {
    const i64 unused = 0;
    return launch_module(ground.device, *module, {.grid_x = static_cast<u32>(ctas), .block_x = 128}, &unused,
                         stream);
  });
}

}  // namespace

Result<void> measure_memory(const Device& device, CalibrationRun& run) {
  SLUICE_TAKE(const DeviceBuffer memory, DeviceBuffer::allocate(device, kBytes));
  SLUICE_TAKE(const StreamHandle stream, StreamHandle::create(device));
  SLUICE_TRY(memory.fill(0, stream.get()));
  SLUICE_TRY(stream.synchronize());
  const Ground ground{device, memory, run};
  SLUICE_TRY(measure_rates(ground));
  SLUICE_TRY(measure_intake(ground));
  SLUICE_TAKE(const double far, latency_us(ground, true));
  run.rates.latency_us = ground.note("a load from HBM", far, "us");
  SLUICE_TAKE(const double near, latency_us(ground, false));
  ground.note("a load from L2", near, "us");
  SLUICE_TAKE(const double empty, empty_us(ground, device.info().sm_count));
  run.rates.launch_us = ground.note("an empty kernel, a CTA an SM", empty, "us");
  SLUICE_TAKE(const double least, empty_us(ground, 1));
  ground.note("an empty kernel, one CTA", least, "us");
  return {};
}

std::vector<std::string> memory_unit_texts() {
  return {Reader::unit_text(), kIntake, kChase, kEmpty};
}

}  // namespace sluice::lab
