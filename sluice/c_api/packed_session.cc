// SPDX-License-Identifier: Apache-2.0
// The second and every later run of a problem: one look-up under a lock, then packed::launch.
#include <sluice/c_api/packed_session.h>

#include <string>

#include <sluice/host/device/capture.h>
#include <sluice/host/device/device_impl.h>
#include <sluice/host/ops/problem_key.h>
#include <sluice/host/planner/packed/packed_problem_checks.h>
#include <sluice/host/text/pack_units.h>

namespace sluice::c_api {
Result<packed::Kernel> PackedSession::prepare(const PackedProblem& problem, Stream stream) {
  if (std::optional<packed::Kernel> kernel = packed::kernel_of_rows(device_, problem))
    return *std::move(kernel);
  const Result<packed::Plan> plan = packed::plan(problem, device_.info(), {}, device_.records());
  if (!plan) return plan.error();
  if (!packed::is_empty(problem))
    if (Result<void> allowed = refuse_capture(
            device_, stream,
            "no kernel is ready for " + to_string(problem) +
                ": call prepare() (sluice_packed_make_ready) for it, or run it once, before the capture");
        !allowed)
      return allowed.error();
  return packed::prepare(device_, *plan);
}

Result<void> PackedSession::run(const PackedProblem& problem, const packed::Args& args, Stream stream) {
  const ContextScope scope(
      *device_.impl().primary);  // another device may be current: the arrays say whose it is
  if (const Result<void> entered = scope.entered(); !entered) return entered;
  const PackedProblem key = key_of(problem);
  const Result<packed::Kernel> kernel = kernels_.get(key, [&] { return prepare(key, stream); });
  if (!kernel) return kernel.error();
  return packed::launch(*kernel, args, stream);
}

Result<void> PackedSession::make_ready(std::span<const PackedProblem> given) {
  std::vector<PackedProblem> problems;
  for (const PackedProblem& spelled : given) problems.push_back(key_of(spelled));
  return kernels_.make_ready(
      problems,
      [&](const PackedProblem& problem) {
        return packed::plan(problem, device_.info(), {}, device_.records());
      },
      [&](const std::vector<packed::Plan>& plans) { return packed::prepare(device_, plans); });
}

Result<void> PackedSession::use(const packed::Plan& plan) {
  Result<packed::Kernel> kernel = packed::prepare(device_, plan);
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
