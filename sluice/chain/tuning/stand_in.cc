// SPDX-License-Identifier: Apache-2.0
#include <sluice/chain/tuning/stand_in.h>

#include <sluice/chain/step.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/launch.h>
#include <sluice/try.h>

namespace sluice::tuning {
namespace {

constexpr u32 kThreads = 128;

struct StandInParams {
  u32 nanoseconds, waits, triggers;
};
constexpr const char* kUnit = R"(struct StandInParams { unsigned nanoseconds, waits, triggers; };
__device__ unsigned long long now() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}
extern "C" __global__ void __launch_bounds__(128) sluice_entry(const __grid_constant__ StandInParams params) {
  if (params.triggers) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  if (params.waits) asm volatile("griddepcontrol.wait;" ::: "memory");
  const unsigned long long end = now() + params.nanoseconds;
  while (now() < end) {}
}
)";

}  // namespace

Result<std::function<Result<void>(Stream)>> idle_launch(const Device& device, const IdleLaunch& idle) {
  SLUICE_TAKE(const auto module, device.impl().load_unit(kUnit, 0));
  const StandInParams params{static_cast<u32>(idle.us * 1e3), idle.waits, idle.triggers};
  const LaunchShape shape{.grid_x = idle.ctas, .block_x = kThreads, .dependent = idle.dependent};
  return std::function<Result<void>(Stream)>([device, module, params, shape](Stream stream) -> Result<void> {
    const ContextScope scope(*device.impl().primary);
    SLUICE_TRY(scope.entered());
    return launch_kernel(*device.impl().api, module->function(), shape, &params, stream);
  });
}

Result<std::vector<ChainStep>> with_stand_ins(const Device& device, std::span<const ChainStep> steps) {
  std::vector<ChainStep> made(steps.begin(), steps.end());
  bool first = true;  // no step before it launches anything
  for (ChainStep& each : made) {
    const auto step = step_of(each);
    const bool is_first = first;
    first = first && !step->is_launched();
    if (!step->is_gap()) continue;
    auto& gap = std::get<ForeignStep>(each.work);
    gap.nodes = 1;
    gap.programmatic_edges = 0;
    gap.writes = {{}};
    // The planner makes the first launch of a chain an ordinary one, whatever it waits for.
    SLUICE_TAKE(gap.enqueue, idle_launch(device, {.us = gap.stand_in_us,
                                                  .ctas = static_cast<u32>(device.impl().info().sm_count),
                                                  .triggers = gap.overlapped,
                                                  .waits = gap.waits,
                                                  .dependent = gap.waits && !is_first}));
  }
  return made;
}

}  // namespace sluice::tuning
