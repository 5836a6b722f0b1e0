// SPDX-License-Identifier: Apache-2.0
// Runs WGMMA from shared memory with two warpgroups per SM, on random values. Pauses keep the tensor cores
// busy for a given share of the time. Each SM records its cycle counter and the GPU's time at the start and
// the end. Power takes seconds to settle, so the tensor cores first run for some seconds without a record.
#include <algorithm>
#include <cmath>

#include <sluice/run/driver/events.h>
#include <sluice/try.h>

#include "bench/device.h"
#include "bench/sm_clock.h"
#include "lab/calibrate/calibrate.h"

namespace sluice::lab {

using namespace bench;
namespace {

constexpr int kThreads = 256, kSmemBytes = (16 + 32) * 1024 + 1024;
// Per k-step of 16: two warpgroups, each with four WGMMAs of 64 x 256.
constexpr double kFlopsOfStep16 = 2.0 * 4 * 2 * 64 * 256 * 16;
constexpr double kHeatSeconds = 3, kSustainedSeconds = 0.4, kPointSeconds = 0.15;
/// Points below this share of busy time are left out of the fit. GEMM kernels never run at a higher clock
/// than at this share. Below it, the clock is higher: 1901 MHz at a quarter (docs/findings/calibration.md).
constexpr double kLightUse = 0.45;
constexpr int kBurst = 8;  // k-steps between two pauses: 5 us

struct TensorParams {
  ClockNote* begin;
  ClockNote* end;
  u32 bursts, clocks_of_burst;  // number of bursts; SM clocks of one burst with its pause
  float* sink;                  // always null; a possible store keeps the accumulators in registers
};

constexpr const char* kHeaders =
    "#include <sluice/device/ptx/generated/wgmma_n256.cuh>\n"
    "#include <sluice/device/ptx/special_registers.cuh>\n"
    "#include <sluice/device/ptx/tma.cuh>\n";
constexpr const char* kUnit = R"(struct Note { unsigned long long cycles, nanoseconds; };
struct TensorParams { Note *begin, *end; unsigned bursts, clocks_of_burst; float* sink; };
__device__ unsigned long long cycles() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
  return now;
}
__device__ unsigned hashed(unsigned x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}
extern "C" __global__ void __launch_bounds__(256) sluice_entry(const __grid_constant__ TensorParams params) {
  using namespace sluice;
  extern __shared__ unsigned char raw[];
  const unsigned base = (static_cast<unsigned>(__cvta_generic_to_shared(raw)) + 1023) & ~1023u;
  for (unsigned i = threadIdx.x; i < 48 * 256; i += 256) {
    // Signs, fractions and two bits of the exponent are random: values as of a normal distribution.
    const unsigned bits = hashed(i * 132 + blockIdx.x);
    const unsigned word = kIs16 ? (bits & 0x80ff80ffu) | 0x3f003f00u : (bits & 0x9f9f9f9fu) + 0x28282828u;
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(base + 4 * i), "r"(word) : "memory");
  }
  ptx::fence_proxy_async();
  __syncthreads();
  const unsigned long long a = ptx::smem_descriptor(base + threadIdx.x / 128 * 8192, 16, 1024);
  const unsigned long long b = ptx::smem_descriptor(base + 16384, 16, 1024);
  float d[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) d[i] = 0;
  const unsigned long long first = cycles();
  if (threadIdx.x == 0) params.begin[blockIdx.x] = {first, ptx::nanoseconds()};
  for (unsigned burst = 0; burst < params.bursts; ++burst) {
    for (int step = 0; step < 8; ++step) {
      ptx::wgmma_fence();
#pragma unroll
      for (int k = 0; k < 4; ++k)
        ptx::Wgmma<kType, kType, 256>::mma<0, 0>(d, a + 2 * k, b + 2 * k, step + k > 0);
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<1>();
    }
    if (params.clocks_of_burst == 0) continue;
    ptx::wgmma_wait_group<0>();
    while (cycles() < first + (burst + 1ull) * params.clocks_of_burst) {}
  }
  ptx::wgmma_wait_group<0>();
  ptx::pin_registers(d);
  if (params.sink != nullptr)
#pragma unroll
    for (int i = 0; i < 128; ++i) params.sink[i * 256 + threadIdx.x] = d[i];
  if (threadIdx.x == 0) params.end[blockIdx.x] = {cycles(), ptx::nanoseconds()};
}
)";

std::string unit_of(bool is_16bit) {
  return kHeaders + std::string("constexpr bool kIs16 = ") + (is_16bit ? "true" : "false") +
         ";\nconstexpr sluice::DType kType = sluice::DType::" + (is_16bit ? "bf16" : "e4m3") + ";\n" + kUnit;
}

/// Results of one run of the kernel.
struct Heard {
  double mhz = 0, flops_per_clock = 0, seconds = 0;  // flops_per_clock is for one SM
};

class TensorLoad {
 public:
  static Result<TensorLoad> create(const Device& device, bool is_16bit) {
    SLUICE_TAKE(auto module, load_unit(device, unit_of(is_16bit), kSmemBytes));
    SLUICE_TAKE(DeviceBuffer notes,
                DeviceBuffer::allocate(device, 2 * device.info().sm_count * i64{sizeof(ClockNote)}));
    SLUICE_TAKE(StreamHandle stream, StreamHandle::create(device));
    return TensorLoad(device, std::move(module), std::move(notes), std::move(stream), is_16bit ? 1 : 2);
  }

  /// Runs for about `seconds`, with the tensor cores busy for `share` of the time (1: without pauses).
  /// `per_clock` is the number of operations per clock and SM; it sets the length of a pause.
  Result<Heard> run(double seconds, double share, double per_clock) const {
    const double burst_clocks = kBurst * kFlopsOfStep16 * scale_ / per_clock / share;
    const double bursts = std::max(1.0, seconds * 1.6e9 / burst_clocks);
    const size_t sms = static_cast<size_t>(device_.info().sm_count);
    auto* const begin = static_cast<ClockNote*>(notes_.data());
    const TensorParams params{begin, begin + sms, static_cast<u32>(bursts),
                              share < 1 ? static_cast<u32>(burst_clocks) : 0, nullptr};
    SLUICE_TRY(launch_module(device_, *module_,
                             {.grid_x = static_cast<u32>(sms), .block_x = kThreads, .smem_bytes = kSmemBytes},
                             &params, stream_.get()));
    SLUICE_TRY(stream_.synchronize());
    std::vector<ClockNote> notes(2 * sms);
    SLUICE_TRY(notes_.download(notes.data(), notes_.bytes()));
    const std::span all(notes);
    const auto mean = [&](u64 ClockNote::*member) {
      double sum = 0;
      for (size_t sm = 0; sm < sms; ++sm)
        sum += static_cast<double>(notes[sms + sm].*member - notes[sm].*member) / static_cast<double>(sms);
      return std::max(sum, 1.0);
    };
    return Heard{mean_mhz(all.first(sms), all.last(sms)),
                 params.bursts * kBurst * kFlopsOfStep16 * scale_ / mean(&ClockNote::cycles),
                 1e-9 * mean(&ClockNote::nanoseconds)};
  }

 private:
  TensorLoad(const Device& device, std::shared_ptr<const Module> module, DeviceBuffer notes,
             StreamHandle stream, int scale)
      : device_(device),
        module_(std::move(module)),
        notes_(std::move(notes)),
        stream_(std::move(stream)),
        scale_(scale) {}
  Device device_;
  std::shared_ptr<const Module> module_;
  DeviceBuffer notes_;
  StreamHandle stream_;
  int scale_;  // operations of one k-step, relative to 16-bit inputs
};

double sustained(const Device& device, const Heard& heard) {
  return heard.flops_per_clock * heard.mhz * device.info().sm_count;
}

}  // namespace

void fit_clock(std::span<const ClockPoint> points, double heavy_mhz, DeviceRates& rates) {
  double light_mhz = heavy_mhz;
  for (const ClockPoint& point : points)
    if (point.share > kLightUse) light_mhz = std::max(light_mhz, point.mhz);
  rates.light_mhz = light_mhz;
  if (light_mhz < 1.02 * heavy_mhz) return;
  constexpr double kStep = 0.05;
  double least = 1e30;
  for (double light = 0.2; light < 0.95; light += kStep)
    for (double heavy = light + kStep; heavy < 1.3; heavy += kStep) {
      double squares = 0;
      for (const ClockPoint& point : points) {
        if (point.share < kLightUse) continue;
        const double weight = std::clamp((point.share - light) / (heavy - light), 0.0, 1.0);
        squares += std::pow(light_mhz - (light_mhz - heavy_mhz) * weight - point.mhz, 2);
      }
      if (squares >= least) continue;
      least = squares;
      rates.light_share = light;
      rates.heavy_share = heavy;
    }
}

Result<void> measure_tensor(const Device& device, CalibrationRun& run) {
  DeviceRates& rates = run.rates;
  const auto note = [&](const std::string& name, double value, const char* unit) {
    run.readings.push_back({name, value, unit});
  };
  SLUICE_TAKE(const TensorLoad wide, TensorLoad::create(device, true));
  SLUICE_TAKE(const TensorLoad narrow, TensorLoad::create(device, false));
  SLUICE_TAKE(const Heard cold, wide.run(2e-3, 1, rates.fp16_flops_per_clock));
  note("clock of the first 2 ms", cold.mhz, "MHz");
  rates.fp16_flops_per_clock = cold.flops_per_clock;
  SLUICE_TAKE(const Heard cold8, narrow.run(2e-3, 1, rates.fp8_flops_per_clock));
  rates.fp8_flops_per_clock = cold8.flops_per_clock;

  SLUICE_TAKE(const Heard heat, wide.run(kHeatSeconds, 1, rates.fp16_flops_per_clock));
  note("clock while it gets warm", heat.mhz, "MHz");
  SLUICE_TAKE(const Heard heavy, wide.run(kSustainedSeconds, 1, rates.fp16_flops_per_clock));
  rates.fp16_flops_per_us = sustained(device, heavy);
  SLUICE_TAKE(const Heard heavy8, narrow.run(kSustainedSeconds, 1, rates.fp8_flops_per_clock));
  rates.fp8_flops_per_us = sustained(device, heavy8);
  note("clock of 16 bits at all of the time", heavy.mhz, "MHz");
  note("clock of fp8 at all of the time", heavy8.mhz, "MHz");
  std::vector<ClockPoint> points{{1, heavy.mhz}};
  for (const int percent : {90, 75, 60, 50}) {
    SLUICE_TAKE(const Heard heard, wide.run(kPointSeconds, percent / 100.0, rates.fp16_flops_per_clock));
    points.push_back({heard.flops_per_clock / rates.fp16_flops_per_clock, heard.mhz});
    note("clock at " + std::to_string(percent) + " %", heard.mhz, "MHz");
    note("busy at " + std::to_string(percent) + " %", 100 * points.back().share, "%");
  }
  fit_clock(points, heavy.mhz, rates);
  return {};
}

std::vector<std::string> tensor_unit_texts() {
  return {unit_of(true), unit_of(false)};
}

}  // namespace sluice::lab
