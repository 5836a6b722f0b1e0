// SPDX-License-Identifier: Apache-2.0
#include "bench/chain/clock.h"

#include <fmt/format.h>

#include <algorithm>

#include <sluice/tools.h>
#include <sluice/try.h>

namespace sluice::bench {
namespace {

constexpr int kReplays = 7, kWarmReplays = 3;

/// The device memory in which the kernels of one module record their timeline.
struct Marks {
  std::shared_ptr<const Module> module;
  ModuleGlobal marks, counts;
};

Result<std::vector<Marks>> marks_of(const Device& device) {
  std::vector<Marks> all;
  for (const std::shared_ptr<const Module>& module : tools::loaded_modules(device)) {
    SLUICE_TAKE(const ModuleGlobal marks, module->global(kTimelineName));
    SLUICE_TAKE(const ModuleGlobal counts, module->global(kTimelineCountsName));
    if (marks.bytes > 0) all.push_back({module, marks, counts});
  }
  return all;
}

Result<void> clear(const DriverApi& api, const std::vector<Marks>& all, Stream stream) {
  for (const Marks& each : all)
    for (const ModuleGlobal& global : {each.marks, each.counts})
      if (const CUresult code =
              api.cuMemsetD8Async(global.address, 0, static_cast<size_t>(global.bytes), stream);
          code != CUDA_SUCCESS)
        return driver_error(api, code, "cuMemsetD8Async", "times of a kernel");
  return {};
}

Result<std::vector<std::vector<u32>>> read(const DriverApi& api, const std::vector<Marks>& all) {
  std::vector<std::vector<u32>> words;
  for (const Marks& each : all) {
    words.emplace_back(static_cast<size_t>(each.marks.bytes) / sizeof(u32));
    if (const CUresult code =
            api.cuMemcpyDtoH(words.back().data(), each.marks.address, static_cast<size_t>(each.marks.bytes));
        code != CUDA_SUCCESS)
      return driver_error(api, code, "cuMemcpyDtoH", "times of a kernel");
  }
  return words;
}

/// Times of the launched steps of one layer.
std::vector<StepTimes> steps_of_layer(const ChainPlan& plan, const LayerSpec& spec) {
  std::vector<StepTimes> names;
  const size_t steps = plan.steps.size() / static_cast<size_t>(spec.layers * spec.passes);
  for (size_t i = 0; i < steps; ++i)
    if (plan.steps[i].launched)
      names.push_back({.name = plan.steps[i].step.name, .weight_bytes = plan.steps[i].weight_bytes});
  return names;
}

Result<Timeline> one_replay(const Work& work, const Device& device, const ReplayCall& replay,
                            const std::vector<Marks>& marks, const std::vector<StepTimes>& names) {
  const ContextScope scope(tools::context_of(device));
  SLUICE_TRY(scope.entered());
  for (int i = 0; i < kWarmReplays; ++i) SLUICE_TRY(replay(work.stream()));
  const DriverApi& api = tools::driver_of(device);
  SLUICE_TRY(clear(api, marks, work.stream()));
  SLUICE_TRY(replay(work.stream()));
  SLUICE_TRY(work.lab.stream.synchronize());
  SLUICE_TAKE(const std::vector<std::vector<u32>> words, read(api, marks));
  return timeline_of(launches_of(words), names);
}

}  // namespace

CompilerSeam timeline_compiler(const Options& options) {
  CompilerSeam compiler = nvrtc_compiler(options.nvrtc_path);
  compiler.prologue = kTimelinePrologue;
  return compiler;
}

Result<Device> open_timeline_device(const Lab& lab) {
  Result<Device> device = Device::open(lab.device.ordinal(), lab.device.options());
  if (device)
    tools::kernel_cache(*device) = KernelCache(device->options(), timeline_compiler(device->options()));
  return device;
}

Result<Timeline> clock_arm(const Work& work, const Device& device, const Arm& arm) {
  SLUICE_TAKE(const Chain chain, Chain::prepare(device, arm.chain->plan()));
  SLUICE_TAKE(const ChainGraph graph, ChainGraph::capture(chain, work.stream(), work.workspace.view()));
  Arm timed{.chain = chain,
            .replay = [graph](Stream stream) { return graph.replay(stream); },
            .reference = arm.reference,
            .record = {}};
  SLUICE_TRY(compare_arm(work, timed));
  if (timed.record.differing != 0)
    return Error{ErrorCode::internal,
                 fmt::format("with times written down {} pieces of 16 bytes differ", timed.record.differing)};
  SLUICE_TAKE(const std::vector<Marks> marks, marks_of(device));
  const std::vector<StepTimes> names = steps_of_layer(chain.plan(), work.data.spec());
  std::vector<Timeline> timelines;
  for (int i = 0; i < kReplays; ++i) {
    SLUICE_TAKE(Timeline made, one_replay(work, device, timed.replay, marks, names));
    timelines.push_back(std::move(made));
  }
  const auto middle = timelines.begin() + kReplays / 2;
  std::nth_element(timelines.begin(), middle, timelines.end(),
                   [](const Timeline& a, const Timeline& b) { return a.mean_layer_us < b.mean_layer_us; });
  return *middle;
}

}  // namespace sluice::bench
