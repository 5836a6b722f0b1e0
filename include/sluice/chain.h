// SPDX-License-Identifier: Apache-2.0
// A chain plans launches that depend on each other in stream order, such as the layers of a model, as a
// whole. Each launch begins before the one before it has ended.
//   auto chain = sluice::Chain::prepare(*device, steps, {});
//   auto done  = chain->enqueue(stream, workspace->view());
//   auto graph = sluice::ChainGraph::capture(*chain, stream, workspace->view());   // graph->replay(stream)
// Results have the same bits as with the overlap off, unless `tuned` takes another kernel. docs/chains.md has
// the contract: which step may read and write which memory, and when.
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

/// A product. B, scale_b and bias are its weights: they are read before earlier launches have ended.
/// Combine::separate needs an override, and then begins when all earlier launches have ended. The chain sets
/// PlanOverrides::overlap and Args::workspace, prefetch and hand_off.
struct ProductStep {
  Problem problem{};
  PlanOverrides overrides{};
  gemm::Args args{};
};
/// A product with packed weights. The chain sets Overrides::overlap and Args::prefetch and hand_off.
struct PackedStep {
  PackedProblem problem{};
  packed::Overrides overrides{};
  packed::Args args{};
};
/// A norm; gamma is its weights. The chain sets NormOptions::overlap and NormArgs::hand_off.
struct NormStep {
  NormOptions options{};
  NormShape shape{};
  NormArgs args{};
};
/// A quantiser of one kernel: Granularity::tensor only with scale_given. Without a granularity it computes
/// silu(gate) * up. The chain sets QuantizeArgs::hand_off.
struct QuantizerStep {
  DType input = DType::bf16;
  std::optional<Granularity> granularity = Granularity::tensor;
  Gate gate = Gate::none;
  QuantizeShape shape{};
  QuantizeArgs args{};
};

/// Launches of other libraries in between: attention, a rotation, an all-reduce. They begin when all earlier
/// launches have ended. Later steps begin when they have ended, unless the step is `overlapped`.
struct ForeignStep {
  /// Enqueues into the given stream and nowhere else, the same `nodes` each time. A launch behind an
  /// overlapped step relies on these nodes, which capture counts and enqueue cannot. Called for every
  /// enqueue, by any thread. Exceptions pass through.
  std::function<Result<void>(Stream)> enqueue{};
  int nodes = 1;               // nodes that it adds to a graph; 0: the step is left out
  int programmatic_edges = 0;  // programmatic edges between those nodes; the first node is an ordinary launch
  /// The last node is a kernel, and the next launch may begin once all of its CTAs have triggered
  /// (griddepcontrol.launch_dependents) or ended. Later steps may then read their weights early.
  bool overlapped = false;
  struct Range {
    const void* data = nullptr;
    i64 bytes = 0;
  };
  std::vector<Range> reads{};   // for explain() only: later writers of this memory wait in any case
  std::vector<Range> writes{};  // empty: unknown, so possibly anything; {{}}: nothing
};

class Step;
/// A step of an operation that the library does not list (sluice/chain/shaped_step.h).
struct OpStep {
  std::shared_ptr<const Step> step{};
};

struct ChainStep {
  std::variant<ProductStep, PackedStep, NormStep, QuantizerStep, ForeignStep, OpStep> work{};
  std::string name{};                   // shown by explain() and in messages: "qkv"
  std::optional<Overlap> overlap{};     // replaces what ChainOptions gives
  std::optional<i64> hand_off_bytes{};  // replaces ChainOptions::hand_off_bytes
  std::optional<i64> prefetch_bytes{};
};

/// The record of a step that was tuned between its present neighbours (docs/chains.md).
struct TunedStep {
  std::variant<std::monostate, TunedChoice, packed::TunedChoice> kernel{};  // kernel of a product
  Overlap overlap{};
  i64 hand_off_bytes = 0, prefetch_bytes = 0;

  bool operator==(const TunedStep&) const = default;
};

/// off: every launch begins when the one before it has ended. wait_first: it may begin earlier, and waits
/// before it loads anything. weights_first: it fills its ring with weights before it waits. tuned: the step's
/// record for its neighbours decides, kernel included. Without a record it is as weights_first, and packed
/// products have the kernel that the model thinks best between neighbours.
enum class ChainOverlap : u8 { off, wait_first, weights_first, tuned };

struct ChainOptions {
  ChainOverlap overlap = ChainOverlap::tuned;
  // These four apply to steps without a record.
  Trigger trigger = Trigger::at_start;  // every step but the last; ignored with the overlap off
  Spacing spacing = Spacing::even;      // ignored with the overlap off
  /// Bytes of the next weights that a step prefetches into L2 once it is done loading; norms and quantisers
  /// do so before they wait. At most 0.4 of L2, and no bytes that the next launch's rings hold before it
  /// waits. If the rings hold all of them, the bytes come from a later step, up to four launches ahead. The
  /// step ends only when the bytes are in L2.
  i64 hand_off_bytes = 0;
  // bytes of its own weights that a product prefetches into L2 before it waits; also at most 0.4 of L2
  i64 prefetch_bytes = 0;
  /// Most shared memory of a product's CTA, reached by fewer stages; 0: no limit. Two kernels share an SM
  /// only if their registers allow it, which kernels with roles never do, and if their spacing differs.
  i64 smem_limit = 0;
  // most stages of a product's ring; 0: as planned. Both limits apply to dense products, and no record is
  // used then.
  int most_stages = 0;
};
/// A CTA with this much shared memory fits on an SM beside one that is spaced by memory.
inline constexpr i64 kHalfFootprint = kBesideAlone;

/// The plan of a step. Its type is the operation's: Plan, packed::Plan, NormOptions or QuantizerOptions.
class StepPlan {
 public:
  StepPlan() = default;
  template <class P>
  requires(!std::same_as<P, StepPlan>) explicit StepPlan(const P& plan) : plan_(plan) {}

  /// Null for a plan of another type.
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

/// A step with every choice made.
struct PlannedStep {
  ChainStep step{};
  int plan = -1;         // index in ChainPlan::plans; -1: a foreign step, which has none
  bool launched = true;  // false: the step has nothing to do
  bool tuned = false;    // kernel and overlap come from a record
  Overlap overlap{};
  // parts of its own weights and of the next ones; evenly spread over their rows
  WarmRange prefetch{}, hand_off{};
  i64 weight_bytes = 0;
  double estimate_us = 0;  // estimate for the step by itself, cold L2
};

/// Each distinct plan appears once, however many steps share it.
struct ChainPlan {
  std::vector<PlannedStep> steps{};
  std::vector<StepPlan> plans{};
  i64 workspace_bytes = 0;  // bytes that enqueue needs; 0: none
};

/// Plans every step. The first launching step, and any step after a foreign step that is not overlapped,
/// never wait. The last step never triggers. Pure.
/// Errors, with the step's name: those of gemm::plan and packed::plan, and of norms and quantisers for their
/// options and shapes. invalid_argument: the step sets a field that the chain sets, its place forbids its
/// overlap, or a quantiser needs two kernels. invalid_config: smem_limit or most_stages cannot be met.
/// aliasing: weights that are read early are written by an earlier step.
Result<ChainPlan> plan_chain(std::span<const ChainStep> steps, const DeviceInfo& device,
                             const ChainOptions& options = {}, const RecordBook& records = shipped_records());

/// The plan as text: one line a step (kernel, overlap, bytes, estimate), then the sum.
std::string explain(const ChainPlan& plan);

/// How Chain::tune searches.
struct ChainTuning {
  /// For changes of single steps. Those of all steps together come first and are always timed.
  double seconds = 3;
  ChainOptions start{};  // the search begins here and with the overlap off
  bool keep = true;      // among the user's records (Options::records_dir)
  std::function<void(const std::string& what)> progress{};
  std::function<void(const std::string& json)> trials{};  // one line of JSON for each change that was timed
};

/// A planned chain with its kernels loaded. Cheap to copy; may be enqueued from any thread.
class Chain {
 public:
  /// Compiles the kernels or finds them in the cache, and loads them. Arguments of every step are checked
  /// here, so that no step is refused after earlier ones were launched; owners of memory are checked by the
  /// launch. A plan that was changed by hand must keep plan_chain's promises.
  /// Errors: those of gemm::prepare and its like; those of a step's launch that need no driver, with its
  /// name; invalid_argument, aliasing (the plan).
  static Result<Chain> prepare(const Device& device, const ChainPlan& plan,
                               const gemm::Progress& progress = {});
  /// plan_chain() with the device's records, then prepare().
  static Result<Chain> prepare(const Device& device, std::span<const ChainStep> steps,
                               const ChainOptions& options = {}, const gemm::Progress& progress = {});
  /// prepare() under a guard: the first part of tune(), some tenths of a second and its compilations. Off
  /// stays unless another chain takes 1 % less and is faster in nine rounds of ten; plan() says which it is.
  /// Give it as many layers as L2 does not hold: with fewer, replays find weights there. Everything else is
  /// as in tune(). Nothing is kept. A chain's results are compared with those of the overlap off, which takes
  /// twice their memory meanwhile. Off stays where they differ, or where that memory is not left. Errors:
  /// those of prepare() and of ChainGraph::capture(); invalid_argument (smem_limit or most_stages).
  static Result<Chain> guarded(const Device& device, std::span<const ChainStep> steps,
                               const ChainOptions& options = {}, const gemm::Progress& progress = {});

  /// Searches kernels and overlaps for the steps, on their own memory, and returns the fastest chain that it
  /// finds; with the overlap off if none is faster by 1 %. The choices for a layer are kept among the user's
  /// records, where plan_chain finds them. Kernels that the caller chose stay; another kernel of a step may
  /// give other bits, within its bound. A step's own overlap and bytes count only for the first of all
  /// changes, which is the chain as asked. Steps that repeat, such as layers, get equal choices, and steps
  /// outside of the repetition those of `tuning.start`. No change is kept whose results differ from the plain
  /// chain's, as in guarded(). Whatever the steps write is undefined afterwards, and foreign steps are
  /// enqueued and must give the same each time, so call it when weights are loaded and nothing else is. Waits
  /// for the GPU. Errors: those of prepare() and of ChainGraph::capture(); invalid_argument (weights of less
  /// than three times L2; smem_limit or most_stages; negative seconds).
  static Result<Chain> tune(const Device& device, std::span<const ChainStep> steps,
                            const ChainTuning& tuning = {});

  /// Enqueues all launches in order. No allocation, no synchronisation; may be captured. `workspace`: at
  /// least workspace_bytes(), used by this stream only. Errors: workspace (too small; nothing is launched),
  /// else the first error of a launch; earlier launches stay enqueued.
  Result<void> enqueue(Stream stream, const WorkspaceView& workspace = {}) const;

  const ChainPlan& plan() const;
  i64 workspace_bytes() const { return plan().workspace_bytes; }
  int kernels() const;             // kernels that enqueue launches; foreign steps count their nodes
  int programmatic_edges() const;  // launches that may begin before the one before them has ended

  struct Impl;
  explicit Chain(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

/// A chain as one CUDA graph. It keeps the chain; the workspace and all memory of the steps must live as
/// long.
class ChainGraph {
 public:
  /// Captures, counts kernels and programmatic edges, instantiates and uploads. `stream` must not be the
  /// legacy default one. Errors: those of enqueue; driver; internal (the graph has other edges than the
  /// chain: something else was captured between its launches, or the driver lost the attribute).
  static Result<ChainGraph> capture(const Chain& chain, Stream stream, const WorkspaceView& workspace = {});

  /// Enqueues the graph. No allocation, no synchronisation. Error driver.
  Result<void> replay(Stream stream) const;
  int kernels() const;
  int programmatic_edges() const;  // kernel to kernel, as counted by the driver

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

}  // namespace sluice
