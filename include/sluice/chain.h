// SPDX-License-Identifier: Apache-2.0
// A chain: launches that depend on each other in stream order, a layer of a model or many, planned as a whole
// so that each begins before the one before it has ended.
//   auto chain = sluice::Chain::prepare(*device, steps, {});
//   auto done  = chain->enqueue(stream, workspace->view());
//   auto graph = sluice::ChainGraph::capture(*chain, stream, workspace->view());   // graph->replay(stream)
// Results have the same bits as with the overlap off. docs/chains.md has the contract: who may read and write
// what, and when.
#pragma once

#include <any>
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <sluice/norm.h>
#include <sluice/packed.h>
#include <sluice/quantize.h>
#include <sluice/records.h>
#include <sluice/spec/smem_room.h>

namespace sluice {

/// A product. B, scale_b and bias are its weights: they are read before the launches in front have ended.
/// No plan has Combine::separate unless the overrides ask for it; it begins when all before it have ended
/// then. PlanOverrides::overlap and Args::workspace, prefetch and hand_off are the chain's to set.
struct ProductStep {
  Problem problem{};
  PlanOverrides overrides{};
  gemm::Args args{};
};
/// A product with packed weights. Overrides::overlap and Args::prefetch and hand_off are the chain's to
/// set.
struct PackedStep {
  PackedProblem problem{};
  packed::Overrides overrides{};
  packed::Args args{};
};
/// NormOptions::overlap and NormArgs::hand_off are the chain's to set. gamma is its weights.
struct NormStep {
  NormOptions options{};
  NormShape shape{};
  NormArgs args{};
};
/// One kernel: Granularity::tensor only with scale_given; no granularity: silu(gate) * up alone.
/// QuantizeArgs::hand_off is the chain's to set.
struct QuantizerStep {
  DType input = DType::bf16;
  std::optional<Granularity> granularity = Granularity::tensor;
  Gate gate = Gate::none;
  QuantizeShape shape{};
  QuantizeArgs args{};
};

/// Launches of somebody else in between: attention, a rotation, an all-reduce. It begins when all before it
/// have ended, and what is behind it when it has ended, unless it is `overlapped`.
struct ForeignStep {
  /// Enqueues into the stream it is given and nowhere else, the same `nodes` each time: a launch behind an
  /// overlapped one trusts that it is there, which capture counts and enqueue cannot. Called for every
  /// enqueue, by any thread. What it throws goes through.
  std::function<Result<void>(Stream)> enqueue{};
  int nodes = 1;               // that it adds to a graph; 0: the step is left out
  int programmatic_edges = 0;  // of them, to each other; the first is an ordinary launch
  /// Its last node is a kernel, and the next launch may begin beside it: from where all of its CTAs have
  /// triggered (griddepcontrol.launch_dependents), or else ended. So what comes behind may read its weights
  /// early.
  bool overlapped = false;
  struct Range {
    const void* data = nullptr;
    i64 bytes = 0;
  };
  std::vector<Range> reads{};   // for explain() alone: who writes them waits in any case
  std::vector<Range> writes{};  // empty: not known, so it may be anything; {{}}: nothing
};

/// A step of an operation that this header does not list (sluice/chain/shaped_step.h).
class Step;
struct OpStep {
  std::shared_ptr<const Step> step{};
};

struct ChainStep {
  std::variant<ProductStep, PackedStep, NormStep, QuantizerStep, ForeignStep, OpStep> work{};
  std::string name{};                   // in explain() and in messages: "qkv"
  std::optional<Overlap> overlap{};     // instead of what ChainOptions make of it
  std::optional<i64> hand_off_bytes{};  // instead of ChainOptions::hand_off_bytes
  std::optional<i64> prefetch_bytes{};
};

/// What a record says of a step that was tuned between the neighbours it has (docs/chains.md).
struct TunedStep {
  std::variant<std::monostate, TunedChoice, packed::TunedChoice> kernel{};  // of a product
  Overlap overlap{};
  i64 hand_off_bytes = 0, prefetch_bytes = 0;

  bool operator==(const TunedStep&) const = default;
};

/// off: every launch begins when the one before it has ended. wait_first: it may begin earlier and waits
/// before it loads anything. weights_first: it fills its ring with weights before it waits. tuned: what a
/// record says of the step between its neighbours, kernel and all; weights_first where there is none.
enum class ChainOverlap : u8 { off, wait_first, weights_first, tuned };

struct ChainOptions {
  ChainOverlap overlap = ChainOverlap::tuned;
  // These four are of steps that no record speaks of.
  Trigger trigger = Trigger::at_start;  // of every step but the last; nothing with the overlap off
  Spacing spacing = Spacing::memory;    // of launches of one wave; nothing with the overlap off
  /// A step brings so much of the weights that come next into L2 when it is done loading (norms and
  /// quantisers before they wait); at most 0.4 of L2, and none that the rings of their launch hold before it
  /// waits: where they hold all, those of the step behind it, up to four launches ahead, foreign ones between
  /// or not. It ends only when they are there.
  i64 hand_off_bytes = 0;
  i64 prefetch_bytes = 0;  // a product brings so much of its own weights into L2 before it waits; bounded too
  /// Of a product's CTA, by fewer stages; 0: none. Two kernels share an SM only if their registers allow it,
  /// which those of kernels with roles never do, and if they are not spaced alike.
  i64 smem_limit = 0;
  int most_stages = 0;  // of a product; 0: as planned. Both are of dense products, and no record is used
};
/// A CTA of so much shared memory fits on an SM beside one that is spaced by memory.
inline constexpr i64 kHalfFootprint = kBesideAlone;

/// The plan of a step, of its operation's type: Plan, packed::Plan, NormOptions or QuantizerOptions.
class StepPlan {
 public:
  StepPlan() = default;
  template <class P>
    requires(!std::same_as<P, StepPlan>)
  explicit StepPlan(const P& plan) : plan_(plan) {}

  /// nullptr: it is of another type.
  template <class P>
  const P* get() const {
    return std::any_cast<P>(&plan_);
  }
  template <class P>
  P* get() {
    return std::any_cast<P>(&plan_);
  }

 private:
  std::any plan_{};
};

/// A step with everything decided about it.
struct PlannedStep {
  ChainStep step{};
  int plan = -1;         // index among ChainPlan's plans; -1: a foreign step, which has none
  bool launched = true;  // false: nothing is there to do
  bool tuned = false;    // kernel and overlap are a record's
  Overlap overlap{};
  WarmRange prefetch{}, hand_off{};  // of its own weights, of the next ones; evenly spread over their rows
  i64 weight_bytes = 0;
  double estimate_us = 0;  // alone, cold L2
};

/// Different plans once each, whatever number of steps share one.
struct ChainPlan {
  std::vector<PlannedStep> steps{};
  std::vector<StepPlan> plans{};
  i64 workspace_bytes = 0;  // what enqueue must be given; 0: nothing
};

/// Decides about every step. The first that launches anything never waits, nor does who comes behind a
/// foreign step that does not let go; the last never triggers. Pure. Errors: those of gemm::plan and
/// packed::plan, and of norms and quantisers for their options and shapes, with the step's name in front;
/// invalid_argument (what is the chain's to set was set, an
/// overlap that a step's place forbids, two kernels in one quantiser); invalid_config (smem_limit or
/// most_stages cannot be kept); aliasing (a step that reads weights early has weights that a step before it
/// writes).
Result<ChainPlan> plan_chain(std::span<const ChainStep> steps, const DeviceInfo& device,
                             const ChainOptions& options = {}, const RecordBook& records = shipped_records());

/// For people: one line a step (kernel, overlap, bytes, estimate), then the sum.
std::string explain(const ChainPlan& plan);

/// A planned chain with its kernels loaded. Cheap to copy; may be enqueued from any thread.
class Chain {
 public:
  /// Compiles or finds in the cache, and loads. The arguments of every step are looked at here, so that none
  /// is refused behind another's launch; whose memory they are, by the launch. A plan that was changed by
  /// hand must keep what plan_chain promises. Errors: those of gemm::prepare and its like; those of a step's
  /// launch that need no driver, with its name; invalid_argument, aliasing (the plan).
  static Result<Chain> prepare(const Device& device, const ChainPlan& plan,
                               const gemm::Progress& progress = {});
  /// plan_chain with the device's records, then the same.
  static Result<Chain> prepare(const Device& device, std::span<const ChainStep> steps,
                               const ChainOptions& options = {}, const gemm::Progress& progress = {});

  /// All launches in order. No allocation, no synchronisation; may be captured. `workspace`: at least
  /// workspace_bytes(), of this stream alone. Errors: workspace (too small; nothing is launched), else the
  /// first that a launch reports: those before it stay enqueued.
  Result<void> enqueue(Stream stream, const WorkspaceView& workspace = {}) const;

  const ChainPlan& plan() const;
  i64 workspace_bytes() const { return plan().workspace_bytes; }
  int kernels() const;             // that enqueue launches; of foreign steps, the nodes
  int programmatic_edges() const;  // how many of them may begin before the one before has ended

  struct Impl;
  explicit Chain(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

/// A chain as one CUDA graph. Keeps the chain; its workspace and all memory of its steps must live as long.
class ChainGraph {
 public:
  /// Captures, counts kernels and programmatic edges, instantiates and uploads. `stream` must not be the
  /// legacy default one. Errors: those of enqueue; driver; internal (the graph has other edges than the
  /// chain: something else was captured between its launches, or the driver lost the attribute).
  static Result<ChainGraph> capture(const Chain& chain, Stream stream, const WorkspaceView& workspace = {});

  /// Enqueues the graph. No allocation, no synchronisation. Error driver.
  Result<void> replay(Stream stream) const;
  int kernels() const;
  int programmatic_edges() const;  // kernel to kernel, as the driver tells them

  struct Impl;
  explicit ChainGraph(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

constexpr const char* name_of(ChainOverlap overlap) {
  switch (overlap) {
    case ChainOverlap::off: return "off";
    case ChainOverlap::wait_first: return "wait_first";
    case ChainOverlap::weights_first: return "weights_first";
    case ChainOverlap::tuned: return "tuned";
  }
  return "?";
}

/// CUTLASS example 63's `overlap_ratio`, the share of k-tiles after which it triggers: below 0 it never
/// does; else the nearest place that there is here.
constexpr Trigger trigger_of_overlap_ratio(double ratio) {
  if (ratio < 0) return Trigger::never;
  return ratio < 0.5 ? Trigger::at_start : Trigger::after_loads;
}
/// Its `prefetch_ratio`, a share of every second k-tile of the weights, in bytes; below 0 ("best effort") it
/// prefetches nothing.
constexpr i64 bytes_of_prefetch_ratio(double ratio, i64 weight_bytes) {
  return ratio <= 0 ? 0 : static_cast<i64>(0.5 * (ratio < 1 ? ratio : 1) * static_cast<double>(weight_bytes));
}

}  // namespace sluice
