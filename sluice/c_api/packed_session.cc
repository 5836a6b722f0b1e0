// SPDX-License-Identifier: Apache-2.0
// The second and every later run of a problem: one look-up under a lock, then mixed::launch.
#include <sluice/c_api/packed_session.h>

#include <string>

#include <sluice/host/capture.h>
#include <sluice/host/pack_units.h>
#include <sluice/host/planner/mixed_checks.h>

namespace sluice::c_api {
namespace {

/// One form of what is the same product, so that what was prepared in another spelling is found.
MixedProblem key_of(const MixedProblem& problem) {
  MixedProblem key = problem;
  if (key.ld_x == 0 || key.m <= 1 || key.k == 0) key.ld_x = key.k;
  if (key.ld_d == 0 || key.m <= 1) key.ld_d = key.n;
  if (key.bias == Bias::none) key.bias_type = MixedProblem{}.bias_type;
  return key;
}

}  // namespace

std::optional<mixed::Kernel> PackedSession::find(const MixedProblem& problem) {
  const std::lock_guard lock(mutex_);
  const auto found = kernels_.find(problem);
  if (found == kernels_.end()) return {};
  return found->second;
}

Result<mixed::Kernel> PackedSession::kernel_for(const MixedProblem& problem, Stream stream) {
  if (std::optional<mixed::Kernel> kernel = find(problem)) return *std::move(kernel);
  const Result<mixed::Plan> plan = mixed::plan(problem, device_.info());
  if (!plan) return plan.error();
  if (!mixed::is_empty(problem)) {
    const Result<bool> capturing = is_capturing(device_, stream);
    if (!capturing) return capturing.error();
    if (*capturing)
      return Error{ErrorCode::not_prepared,
                   "the stream is capturing and no kernel is ready for " + to_string(problem) +
                       ": call prepare() (sluice_mixed_make_ready) for it, or run it once, before the "
                       "capture"};
  }
  Result<mixed::Kernel> kernel = mixed::prepare(device_, *plan);
  if (!kernel) return kernel.error();
  const std::lock_guard lock(mutex_);
  return kernels_.emplace(problem, *std::move(kernel)).first->second;
}

Result<void> PackedSession::run(const MixedProblem& problem, const mixed::Args& args, Stream stream) {
  const Result<mixed::Kernel> kernel = kernel_for(key_of(problem), stream);
  if (!kernel) return kernel.error();
  return mixed::launch(*kernel, args, stream);
}

Result<void> PackedSession::make_ready(std::span<const MixedProblem> given) {
  std::vector<MixedProblem> missing;
  std::vector<mixed::Plan> plans;
  for (const MixedProblem& spelled : given) {
    const MixedProblem problem = key_of(spelled);
    if (find(problem).has_value()) continue;
    Result<mixed::Plan> plan = mixed::plan(problem, device_.info());
    if (!plan) return plan.error();
    missing.push_back(problem);
    plans.push_back(*std::move(plan));
  }
  std::vector<Result<mixed::Kernel>> kernels = mixed::prepare(device_, plans);
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (!kernels[i]) return kernels[i].error();
    kernels_.emplace(missing[i], *std::move(kernels[i]));
  }
  return {};
}

Result<void> PackedSession::use(const mixed::Plan& plan) {
  Result<mixed::Kernel> kernel = mixed::prepare(device_, plan);
  if (!kernel) return kernel.error();
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = kernels_.emplace(key_of(plan.problem), *kernel);
  if (!is_new) retired_.push_back(std::exchange(entry->second, *kernel));
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
  const Result<bool> capturing = is_capturing(device_, stream);
  if (!capturing) return capturing.error();
  if (*capturing)
    return Error{ErrorCode::not_prepared, "the stream is capturing and no packer is ready for " +
                                              to_string(format) +
                                              ": call prepare_packer() (sluice_make_packer_ready) for it, or "
                                              "pack once, before the capture"};
  const Result<Packer> made = Packer::create(device_, format);
  if (!made) return made.error();
  return keep(format, *made);
}

Result<void> PackedSession::pack(const PackCall& call, Stream stream) {
  const Result<Packer> packer = packer_for(call.format, stream);
  if (!packer) return packer.error();
  return packer->pack(call.shape,
                      {.codes = call.codes, .scales = call.scales, .zeros = call.zeros, .blob = call.blob},
                      stream);
}

Result<void> PackedSession::unpack(const PackCall& call, Stream stream) {
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
  const std::lock_guard lock(mutex_);
  return static_cast<i64>(kernels_.size());
}

}  // namespace sluice::c_api
