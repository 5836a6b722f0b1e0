// SPDX-License-Identifier: Apache-2.0
// Guards chains by timing them on the GPU where they run. No model can guarantee that an overlap is not
// slower on an unseen layer: one of five models is slower with every overlap that is planned
// (docs/findings/even-grids.md).
#include <sluice/chain/step.h>
#include <sluice/chain/tuning/tune.h>
#include <sluice/records/record_store.h>
#include <sluice/try.h>

namespace sluice {
namespace {

/// The chain that a search finds faster than the one with the overlap off, or that one. Off stays unless
/// another takes 1 % less and is faster in nine rounds of ten.
Result<Chain> searched(const Device& device, std::span<const ChainStep> steps, const ChainPlan& asked,
                       PlanMemo& memo, const tuning::TuneRequest& request) {
  const ChainOptions& start = request.tuning.start;
  if (start.smem_limit > 0 || start.most_stages > 0)
    return refused("smem_limit and most_stages choose kernels, and so does a tuner: leave them out");
  SLUICE_TAKE(const tuning::Tuning tuning, tune_steps(device, steps, asked, memo, request));
  const auto& [off, found] = tuning.found.confirmed;
  const bool gains = is_safely_faster(found, off);
  const double share = static_cast<double>(tuning.repeats.period) / static_cast<double>(steps.size());
  // Without a folder, or one that cannot be written to, the next process tunes again.
  if (request.tuning.keep)
    static_cast<void>(
        keep_record(device, record_of(device, tuning, gains, share * found.median, share * off.median)));
  SLUICE_TAKE(const ChainPlan plan,
              plan_chosen(tuning.steps, device.info(), {.overlap = ChainOverlap::off}, device.records(),
                          choices_of(tuning, gains ? tuning.found.choices : tuning.alone), memo));
  return Chain::prepare(device, plan);
}

}  // namespace

Result<Chain> Chain::guarded(const Device& device, std::span<const ChainStep> steps,
                             const ChainOptions& options, const gemm::Progress& progress) {
  // If the chain cannot be planned or prepared as requested, that is an error, whatever a search would find.
  PlanMemo memo;
  SLUICE_TAKE(const ChainPlan plan, plan_chain(steps, device.info(), options, device.records(), memo));
  SLUICE_TAKE(Chain asked, prepare(device, plan, progress));
  if (options.overlap == ChainOverlap::off || asked.kernels() == 0) return asked;
  return searched(device, steps, plan, memo,
                  {.tuning = {.seconds = 0, .start = options, .keep = false}, .cold = false});
}

Result<Chain> Chain::tune(const Device& device, std::span<const ChainStep> steps, const ChainTuning& tuning) {
  if (!(tuning.seconds >= 0))
    return refused("seconds = " + std::to_string(tuning.seconds) + " must not be negative");
  PlanMemo memo;
  SLUICE_TAKE(const ChainPlan plan, plan_chain(steps, device.info(), tuning.start, device.records(), memo));
  SLUICE_TAKE(Chain asked, prepare(device, plan));
  if (asked.kernels() == 0) return asked;
  return searched(device, steps, plan, memo, {.tuning = tuning, .cold = true});
}

}  // namespace sluice
