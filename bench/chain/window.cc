// SPDX-License-Identifier: Apache-2.0
#include "bench/chain/window.h"

#include <algorithm>

#include <sluice/chain/chain.h>
#include <sluice/host/device/device_impl.h>
#include <sluice/host/driver/launch.h>

namespace sluice::bench {
namespace {

struct IdleParams {
  u32 nanoseconds, triggers;
};
constexpr u32 kIdleThreads = 128;

constexpr const char* kUnit = R"(struct IdleParams { unsigned nanoseconds, triggers; };
__device__ unsigned long long now() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}
extern "C" __global__ void __launch_bounds__(128) sluice_entry(const __grid_constant__ IdleParams params) {
  if (params.triggers) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  const unsigned long long end = now() + params.nanoseconds;
  while (now() < end) {}
}
)";

bool has_window(const WindowSpec& window, const ChainStep& step) {
  if (window.us <= 0) return false;
  return window.before == "all" ? main_weights(step).bytes > 0 : step.name == window.before;
}

}  // namespace

const char* Idler::unit_text() {
  return kUnit;
}

Result<Idler> Idler::create(const Lab& lab) {
  auto module = lab.device.impl().load_unit(kUnit, 0);
  if (!module) return module.error();
  return Idler(lab.device, *std::move(module));
}

Result<void> Idler::enqueue(const WindowSpec& window, Stream stream) const {
  const ContextScope scope(*device_.impl().primary);
  if (Result<void> entered = scope.entered(); !entered) return entered;
  const IdleParams params{static_cast<u32>(window.us * 1e3), window.overlapped ? 1u : 0u};
  return launch_kernel(*device_.impl().api, module_->function(),
                       {.grid_x = static_cast<u32>(window.ctas), .block_x = kIdleThreads}, &params, stream);
}

void add_windows(const WindowSpec& window, const Idler* idler, std::vector<ChainStep>& steps) {
  std::vector<ChainStep> made;
  for (ChainStep& step : steps) {
    if (has_window(window, step)) {
      ForeignStep idle{
          .enqueue = [](Stream) { return Result<void>{}; }, .overlapped = window.overlapped, .writes = {{}}};
      if (idler != nullptr)
        idle.enqueue = [window, idler = *idler](Stream stream) { return idler.enqueue(window, stream); };
      if (window.hand_off_bytes > 0 && !made.empty()) made.back().hand_off_bytes = window.hand_off_bytes;
      made.push_back({.work = idle, .name = "window"});
      if (window.prefetch_bytes > 0) step.prefetch_bytes = window.prefetch_bytes;
    }
    made.push_back(std::move(step));
  }
  steps = std::move(made);
}

double allowed_us(const WindowSpec& window, const LayerSpec& spec, const DeviceInfo& device) {
  LayerSpec layer = spec;
  layer.layers = layer.passes = 1;
  double allowed = 0;
  for (const ChainStep& step : steps_of(layer, imagined_memory(layer))) {
    if (!has_window(window, step)) continue;
    const double fits = std::min(kMostOfL2 * static_cast<double>(device.l2_bytes),
                                 static_cast<double>(main_weights(step).bytes));
    allowed += std::min(window.us, fits / device.hbm_bytes_per_us);
  }
  return allowed;
}

}  // namespace sluice::bench
