// SPDX-License-Identifier: Apache-2.0
// Even problems have whole data, where every wrong bit shows; odd ones real data and any activation.
#include "cli/packed_verify.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include <sluice/check/packed_check.h>
#include <sluice/host/driver/events.h>

#include "bench/product.h"
#include "cli/packed_run.h"
#include "cli/terminal.h"
#include "cli/watchdog.h"

namespace sluice::cli {
namespace {

constexpr i64 kLargestOnGpu = 1024, kLargestOnHost = 160;

bool is_given(const std::vector<const CLI::Option*>& options, const char* name) {
  return std::any_of(options.begin(), options.end(), [&](const CLI::Option* option) {
    return option->get_name() == name && option->count() > 0;
  });
}

packed::DataKind kind_of(int index) {
  return index % 2 == 0 ? packed::DataKind::exact : packed::DataKind::real;
}

struct Planned {
  int index;
  packed::Plan plan;
};

std::vector<Planned> plan_all(const VerifyFlags& flags, const PackedVerify& packed, const DeviceInfo& info,
                              const RecordBook& records, i64 largest, Tally& tally) {
  std::vector<Planned> plans;
  for (int i = 0; i < flags.problems; ++i) {
    const RandomSpec spec{
        .seed = flags.seed, .largest = largest, .exact = kind_of(i) == packed::DataKind::exact};
    const PackedProblem problem = random_packed_problem(spec, packed.formats, i);
    Result<packed::Plan> plan = packed::plan(problem, info, packed.overrides, records);
    if (plan)
      plans.push_back({i, *std::move(plan)});
    else
      ++tally.refused[plan.error().message];
  }
  return plans;
}

std::string text_of(const packed::Plan& plan) {
  return fmt::format("{}\n  {}", to_string(plan.problem), to_string(plan.config));
}

Result<Comparison> compare_on_gpu(const Device& device, const packed::Kernel& kernel, packed::DataKind kind,
                                  u64 seed) {
  Result<packed::HostData> host = packed::random_data(kernel.plan().problem, kind, seed);
  if (!host) return host.error();
  const Result<packed::DeviceData> data = packed::DeviceData::create(device, *std::move(host));
  if (!data) return data.error();
  if (Result<void> done = packed::launch(kernel, data->args(), nullptr); !done) return done.error();
  return data->check(0, packed::rounding_of(kernel.plan().config));
}

void count(const Comparison& found, const packed::Plan& plan, Tally& tally) {
  if (found.passed())
    ++tally.right;
  else
    tally.fail(text_of(plan), describe(found));
}

}  // namespace

Result<PackedVerify> packed_verify_of(const RequestFlags& request, const PackedFlags& flags) {
  const Result<WeightFormat> format = format_of(flags);
  if (!format) return format.error();
  if (const char* rule = validate(*format))
    return Error{ErrorCode::invalid_argument, fmt::format("--weights {}: {}", flags.weights, rule)};
  const auto open = [&](const char* name) { return !is_given(flags.format_options, name); };
  return PackedVerify{.formats = {.fixed = *format,
                                  .any_group = open("--group"),
                                  .any_scale = open("--weight-scale"),
                                  .any_zero = open("--zero") && flags.weights != "int4"},
                      .overrides = packed_overrides_of(request, flags)};
}

Result<void> verify_packed_on_gpu(const VerifyFlags& flags, const PackedVerify& packed, const Device& device,
                                  Tally& tally) {
  const i64 largest = flags.largest > 0 ? flags.largest : kLargestOnGpu;
  const std::vector<Planned> planned =
      plan_all(flags, packed, device.info(), device.records(), largest, tally);
  std::vector<packed::Plan> plans;
  for (const Planned& item : planned) plans.push_back(item.plan);
  Progress compiling("compile");
  const auto kernels =
      packed::prepare(device, plans, [&](int done, int total) { compiling.update(done, total); });
  compiling.clear();
  Progress bar("verify");
  Watchdog watchdog(flags.hang_s);
  for (size_t i = 0; i < planned.size(); ++i) {
    const auto& [index, plan] = planned[i];
    bar.update(static_cast<int>(i), static_cast<int>(planned.size()), bench::name_of(plan.problem));
    watchdog.step(text_of(plan));
    if (!kernels[i]) return kernels[i].error();
    const Result<Comparison> found =
        compare_on_gpu(device, *kernels[i], kind_of(index), flags.seed + static_cast<u64>(index));
    if (!found) return found.error();
    if (!found->passed()) bar.clear();
    count(*found, plan, tally);
  }
  return {};
}

Result<void> verify_packed_on_host(const VerifyFlags& flags, const PackedVerify& packed,
                                   const RecordBook& records, Tally& tally) {
  const i64 largest = flags.largest > 0 ? flags.largest : kLargestOnHost;
  const std::vector<Planned> planned = plan_all(flags, packed, DeviceInfo{}, records, largest, tally);
  Progress bar("verify");
  for (size_t i = 0; i < planned.size(); ++i) {
    const auto& [index, plan] = planned[i];
    bar.update(static_cast<int>(i), static_cast<int>(planned.size()), bench::name_of(plan.problem));
    const Result<Comparison> found =
        compare_on_host(plan.problem, kind_of(index), flags.seed + static_cast<u64>(index));
    if (!found) return found.error();
    if (!found->passed()) bar.clear();
    count(*found, plan, tally);
  }
  return {};
}

}  // namespace sluice::cli
