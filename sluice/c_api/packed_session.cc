// SPDX-License-Identifier: Apache-2.0
// The second and every later run of a problem: one look-up under a lock, then mixed::launch.
#include <sluice/c_api/packed_session.h>

#include <string>

#include <sluice/host/capture.h>
#include <sluice/host/device_impl.h>
#include <sluice/host/pack_units.h>
#include <sluice/host/planner/mixed_checks.h>
#include <sluice/host/problem_key.h>

namespace sluice::c_api {
Result<mixed::Kernel> PackedSession::prepare(const MixedProblem& problem, Stream stream) {
  if (std::optional<mixed::Kernel> kernel = mixed::kernel_of_rows(device_, problem))
    return *std::move(kernel);
  const Result<mixed::Plan> plan = mixed::plan(problem, device_.info(), {}, device_.records());
  if (!plan) return plan.error();
  if (!mixed::is_empty(problem))
    if (Result<void> allowed = refuse_capture(
            device_, stream,
            "no kernel is ready for " + to_string(problem) +
                ": call prepare() (sluice_mixed_make_ready) for it, or run it once, before the capture");
        !allowed)
      return allowed.error();
  return mixed::prepare(device_, *plan);
}

Result<void> PackedSession::run(const MixedProblem& problem, const mixed::Args& args, Stream stream) {
  const ContextScope scope(
      *device_.impl().primary);  // another device may be current: the arrays say whose it is
  if (const Result<void> entered = scope.entered(); !entered) return entered;
  const MixedProblem key = key_of(problem);
  const Result<mixed::Kernel> kernel = kernels_.get(key, [&] { return prepare(key, stream); });
  if (!kernel) return kernel.error();
  return mixed::launch(*kernel, args, stream);
}

Result<void> PackedSession::make_ready(std::span<const MixedProblem> given) {
  std::vector<MixedProblem> problems;
  for (const MixedProblem& spelled : given) problems.push_back(key_of(spelled));
  return kernels_.make_ready(
      problems,
      [&](const MixedProblem& problem) {
        return mixed::plan(problem, device_.info(), {}, device_.records());
      },
      [&](const std::vector<mixed::Plan>& plans) { return mixed::prepare(device_, plans); });
}

Result<void> PackedSession::use(const mixed::Plan& plan) {
  Result<mixed::Kernel> kernel = mixed::prepare(device_, plan);
  if (!kernel) return kernel.error();
  kernels_.replace(key_of(plan.problem), *kernel);
  return {};
}

std::optional<Packer> PackedSession::find_packer(const WeightFormat& format) {
  const std::lock_guard lock(mutex_);
  for (const auto& [known, packer] : packers_)
    if (known == format) return packer;
  return {};
}

/// Another thread's stays: work may be on its way with it.
Packer PackedSession::keep(const WeightFormat& format, const Packer& packer) {
  const std::lock_guard lock(mutex_);
  for (const auto& [known, kept] : packers_)
    if (known == format) return kept;
  return packers_.emplace_back(format, packer).second;
}

Result<Packer> PackedSession::packer_for(const WeightFormat& format, Stream stream) {
  if (std::optional<Packer> packer = find_packer(format)) return *std::move(packer);
  if (Result<void> allowed = refuse_capture(
          device_, stream,
          "no packer is ready for " + to_string(format) +
              ": call prepare_packer() (sluice_make_packer_ready) for it, or pack once, before the capture");
      !allowed)
    return allowed.error();
  const Result<Packer> made = Packer::create(device_, format);
  if (!made) return made.error();
  return keep(format, *made);
}

Result<void> PackedSession::pack(const PackCall& call, Stream stream) {
  const ContextScope scope(*device_.impl().primary);
  if (const Result<void> entered = scope.entered(); !entered) return entered;
  const Result<Packer> packer = packer_for(call.format, stream);
  if (!packer) return packer.error();
  return packer->pack(call.shape,
                      {.codes = call.codes, .scales = call.scales, .zeros = call.zeros, .blob = call.blob},
                      stream);
}

Result<void> PackedSession::unpack(const PackCall& call, Stream stream) {
  const ContextScope scope(*device_.impl().primary);
  if (const Result<void> entered = scope.entered(); !entered) return entered;
  const Result<Packer> packer = packer_for(call.format, stream);
  if (!packer) return packer.error();
  return packer->unpack(call.shape,
                        {.blob = call.blob, .codes = call.codes, .scales = call.scales, .zeros = call.zeros},
                        stream);
}

Result<void> PackedSession::make_packer_ready(const WeightFormat& format) {
  if (find_packer(format).has_value()) return {};
  const Result<Packer> made = Packer::create(device_, format);
  if (!made) return made.error();
  keep(format, *made);
  return {};
}

i64 PackedSession::kernels() {
  return static_cast<i64>(kernels_.size());
}

}  // namespace sluice::c_api
