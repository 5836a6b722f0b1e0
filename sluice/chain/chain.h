// SPDX-License-Identifier: Apache-2.0
// What the files of chains share: what a step reads early and what it writes, the units of a plan, and the
// launches of a prepared chain. Called by chain*.cc and by `sluice chain --compile-only`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <sluice/chain.h>
#include <sluice/host/ops/gemm.h>

namespace sluice {

/// The head of a row of B that is left out: `bytes` in each of `parts` equal parts of it.
struct SkippedK {
  i64 bytes = 0;
  int parts = 1;
};

/// Of what is brought into L2 early: more bytes put out what others are about to read.
inline constexpr double kMostOfL2 = 0.4;

/// Memory of a step, from its first byte to one past the last; gaps between rows count as its own.
struct StepRange {
  const char* name = "";
  const void* data = nullptr;
  i64 bytes = 0;
};

/// What the step may read before the launches in front have ended.
std::vector<StepRange> weights_of(const ChainStep& step);
std::vector<StepRange> written_by(const ChainStep& step);
/// B as rows that lie apart: of n, or of k where it is MN-major. Of a batch with gaps, the first matrix.
struct RowsOfB {
  const void* data = nullptr;
  i64 rows = 0, bytes = 0, stride = 0;
};
RowsOfB rows_of_b(const ProductStep& step);
/// The range that hand-off and prefetch are of; no bytes without one.
StepRange main_weights(const ChainStep& step);
/// `bytes` of it at most, evenly spread, so that every CTA that reads it finds the same share in L2. `skip`:
/// of each row's k, what is on its way to shared memory anyway; rows of packed weights have no such head.
WarmRange share_of_weights(const ChainStep& step, i64 bytes, const SkippedK& skip = {});
/// Does it launch anything at all?
bool is_launched(const ChainStep& step);
/// Bytes that it must move, weights and all.
i64 step_bytes(const ChainStep& step);

/// Makes the step what a record, or a tuner, says of it; false, and nothing done: it is a choice of another
/// kind of step.
bool put_choice(const TunedStep& choice, ChainStep& step);
/// Every step that has a record, may have its kernel, and says nothing itself. One entry a step.
void take_records(const std::vector<std::optional<TunedStep>>& records, const DeviceInfo& device,
                  std::vector<PlannedStep>& steps);
/// What was decided about a step, whoever decided it.
TunedStep choice_of(const ChainPlan& plan, const PlannedStep& planned);

/// The short name of a product's kernel, whatever its overlap; empty for other steps.
std::string product_kernel(const ChainPlan& plan, const PlannedStep& planned);
/// "step 3 (gate_up)"
std::string step_name(const ChainStep& step, size_t index);

/// Is what it writes not known?
bool writes_anything(const ChainStep& step);

/// What each step brings into L2, and when.
void set_warm_ranges(ChainPlan& plan, const ChainOptions& options, const DeviceInfo& device);

/// Error aliasing: a step that reads its weights early has weights that a step before it writes.
Result<void> check_weights_unwritten(const std::vector<PlannedStep>& steps);

/// A chain's plan that was made or changed by hand is as welcome as plan_chain's, if it keeps what that
/// promises. Errors: invalid_argument, aliasing.
Result<void> check_chain_plan(const ChainPlan& plan);

/// All JIT units that preparing the plan takes, some more than once.
std::vector<std::string> units_of(const ChainPlan& plan, Stamping stamping);

struct ChainLaunch {
  std::function<Result<void>(const WorkspaceView& workspace, Stream stream)> launch;
  int kernels = 1;
  int programmatic = 0;  // of them
};

struct Chain::Impl {
  Device device;
  ChainPlan plan;
  std::vector<ChainLaunch> launches;
};

}  // namespace sluice
