// SPDX-License-Identifier: Apache-2.0
// A chain plans a sequence of dependent launches in one stream, such as the layers of a model, as a whole.
// Each launch begins before its predecessor has ended (programmatic dependent launch).
//   auto chain = sluice::Chain::prepare(*device, steps, {});
//   auto done  = chain->enqueue(stream, workspace->view());
//   auto graph = sluice::ChainGraph::capture(*chain, stream, workspace->view());   // graph->replay(stream)
// Results are bit-identical to those without overlap, unless `tuned` selects another kernel. docs/chains.md
// has the contract: which step may read and write which memory, and when.
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

#include <sluice/experts.h>
#include <sluice/gemm.h>
#include <sluice/norm.h>
#include <sluice/quantize.h>
#include <sluice/records.h>
#include <sluice/spec/smem_room.h>

struct CUgraph_st;

namespace sluice {

/// A product. B, scale_b, bias and gamma count as weights: they are read before earlier launches have ended.
/// Combine::separate must be requested by an override; such a step begins when all earlier launches have
/// ended. Leave PlanOverrides::overlap and Args::workspace, prefetch and hand_off unset: the chain sets them.
struct ProductStep {
  Problem problem{};
  PlanOverrides overrides{};
  gemm::Args args{};
  std::optional<TunedChoice> choice{};  // a known kernel, in the place of overrides and search
};
/// A norm; gamma counts as its weights. Leave NormOptions::overlap and NormArgs::hand_off unset: the chain
/// sets them.
struct NormStep {
  NormOptions options{};
  NormShape shape{};
  NormArgs args{};
};
/// A quantiser that is one kernel: Granularity::tensor only with scale_given. Without a granularity it
/// computes silu(gate) * up. Leave QuantizeArgs::hand_off unset: the chain sets it.
struct QuantizerStep {
  DType input = DType::bf16;
  std::optional<Granularity> granularity = Granularity::tensor;
  Gate gate = Gate::none;
  QuantizeShape shape{};
  QuantizeArgs args{};
  bool gathered = false;  // QuantizerOptions::gathered
};

/// Launches of other libraries between steps: attention, a rotation, an all-reduce. They begin when all
/// earlier launches have ended, unless they `wait`. Later steps begin when these launches have ended, unless
/// the step is `overlapped`.
struct ForeignStep {
  /// Enqueues into the given stream only, and the same number of `nodes` on each call. A launch behind an
  /// overlapped step relies on that number: capture checks it, Chain::enqueue cannot. Called once per
  /// enqueue, from any thread. Exceptions pass through. Without it the step is a gap, where the caller
  /// launches between two parts of the chain (Chain::enqueue_part).
  std::function<Result<void>(Stream)> enqueue{};
  int nodes = 1;               // nodes that it adds to a graph; 0: the step is skipped
  int programmatic_edges = 0;  // programmatic edges between those nodes
  /// True: the first node is a kernel that is launched dependent (programmatic stream serialisation). Each of
  /// its CTAs waits (griddepcontrol.wait) before it reads what an earlier launch writes, before it writes,
  /// and before it exits. The launch in front may then trigger. False: it is an ordinary launch.
  bool waits = false;
  /// True: the last node is a kernel, and the next launch may begin once all of its CTAs have triggered
  /// (griddepcontrol.launch_dependents) or exited. Later steps may then read their weights early.
  bool overlapped = false;
  struct Range {
    const void* data = nullptr;
    i64 bytes = 0;
  };
  std::vector<Range> reads{};   // shown by explain(); later writers of this memory wait anyway
  std::vector<Range> writes{};  // empty: unknown, so any memory; {{}}: no memory
  /// Microseconds of the kernel that stands in a gap while the chain is tuned or guarded.
  double stand_in_us = 5;
};

class Step;
/// A step of an operation that has no type above (sluice/chain/shaped_step.h).
struct OpStep {
  std::shared_ptr<const Step> step{};
};
/// Steps of experts. Leave `overlap` of the options and `hand_off` of the arguments unset: the chain sets
/// them.
OpStep route_step(const RouteOptions& options, const RouteShape& shape, const RouteArgs& args);
OpStep combine_step(const CombineOptions& options, const CombineShape& shape, const CombineArgs& args);

struct ChainStep {
  std::variant<ProductStep, NormStep, QuantizerStep, ForeignStep, OpStep> work{};
  std::string name{};                   // shown by explain() and in messages: "qkv"
  std::optional<Overlap> overlap{};     // replaces the overlap of ChainOptions
  std::optional<i64> hand_off_bytes{};  // replaces ChainOptions::hand_off_bytes
  std::optional<i64> prefetch_bytes{};
};

/// How steps overlap.
/// - off: each launch begins when its predecessor has ended.
/// - wait_first: a launch begins earlier, and waits before its first load.
/// - weights_first: a launch begins earlier and loads weights into its ring before it waits. A product of
///   groups cannot: it reads its table first, so it is wait_first.
/// - tuned: the step's tuning record for its neighbours decides, kernel included. Without a record it is
///   weights_first, and packed products use the kernel that the model estimates fastest between neighbours.
enum class ChainOverlap : u8 { off, wait_first, weights_first, tuned };

struct ChainOptions {
  ChainOverlap overlap = ChainOverlap::tuned;
  // These four apply to steps without a record.
  Trigger trigger = Trigger::at_start;  // every step but the last; ignored if overlap is off
  Spacing spacing = Spacing::even;      // ignored if overlap is off
  /// Bytes of the next launch's weights that a step prefetches into L2 after its last load (norms and
  /// quantisers: before their wait). At most 40 % of L2 is used. Weights that the next launch loads into
  /// shared memory before its wait are skipped. If that is all of them, weights of a later step are
  /// prefetched instead, up to four launches ahead. The step ends only when the bytes are in L2.
  i64 hand_off_bytes = 0;
  // bytes of its own weights that a product prefetches into L2 before it waits; also at most 40 % of L2
  i64 prefetch_bytes = 0;
  /// Limit for the shared memory of a product's CTA, met by using fewer stages; 0: no limit. Two kernels run
  /// on one SM at the same time only if their registers also fit, which never holds for kernels with roles,
  /// and if their spacing differs.
  i64 smem_limit = 0;
  // Most stages of a product's ring; 0: as planned. smem_limit and most_stages do not apply to packed
  // weights; if either is set, no record is used.
  int most_stages = 0;
};
/// Shared memory with which a CTA fits on an SM together with a CTA that is spaced by memory (Spacing).
inline constexpr i64 kHalfFootprint = kBesideAlone;

/// The plan of a step. Its type depends on the operation: Plan, NormOptions or
/// QuantizerOptions.
class StepPlan {
 public:
  StepPlan() = default;
  template <class P>
  requires(!std::same_as<P, StepPlan>) explicit StepPlan(const P& plan) : plan_(plan) {}

  /// The plan as a P; null if it has another type.
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
  int plan = -1;         // index in ChainPlan::plans; -1 for a foreign step
  bool launched = true;  // false: the step has nothing to do
  bool tuned = false;    // kernel and overlap come from a record
  Overlap overlap{};
  // ranges of the step's own weights and of a later step's, spread evenly over their rows
  WarmRange prefetch{}, hand_off{};
  i64 weight_bytes = 0;
  double estimate_us = 0;  // microseconds, for the step by itself with cold L2
};

/// Each distinct plan appears once, however many steps share it.
struct ChainPlan {
  std::vector<PlannedStep> steps{};
  std::vector<StepPlan> plans{};
  i64 workspace_bytes = 0;  // workspace that enqueue needs; 0: none
};

/// Plans every step. The first launch, and a step after a foreign step that is not overlapped, have no PDL
/// wait; a foreign step that waits must not be behind one. The last step has no trigger. Pure function.
/// Errors, with the step's name: those of gemm::plan, and of norms and quantisers for their
/// options and shapes. invalid_argument: the step sets a field that the chain sets, its position does not
/// allow its overlap, or a quantiser needs two kernels. invalid_config: smem_limit or most_stages cannot be
/// met. aliasing: an earlier step writes weights that are read early.
Result<ChainPlan> plan_chain(std::span<const ChainStep> steps, const DeviceInfo& device,
                             const ChainOptions& options = {}, const RecordBook& records = shipped_records());

/// The plan as text: one line per step (kernel, overlap, bytes, estimate), then the totals.
std::string explain(const ChainPlan& plan);

/// How Chain::tune searches.
struct ChainTuning {
  /// Time limit for changes of single steps. Changes of all steps together are timed first, without a limit.
  double seconds = 3;
  ChainOptions start{};  // the search starts from these options and from the overlap off
  bool keep = true;      // store the result in the user's records (Options::records_dir)
  std::function<void(const std::string& what)> progress{};
  std::function<void(const std::string& json)> trials{};  // receives one line of JSON per change that was
                                                          // timed
};

/// A planned chain with its kernels loaded. Cheap to copy; enqueue() may be called from any thread.
class Chain {
 public:
  /// Compiles the kernels or finds them in the cache, and loads them. The arguments of every step are checked
  /// here, so that no step fails after earlier ones were launched. Which device owns the memory is checked at
  /// launch. If you change a plan by hand, keep to the rules of plan_chain.
  /// Errors: those of gemm::prepare and the other prepare functions; argument errors of a step's launch, with
  /// the step's name; invalid_argument, aliasing (the plan).
  static Result<Chain> prepare(const Device& device, const ChainPlan& plan,
                               const gemm::Progress& progress = {});
  /// plan_chain() with the device's records, then prepare().
  static Result<Chain> prepare(const Device& device, std::span<const ChainStep> steps,
                               const ChainOptions& options = {}, const gemm::Progress& progress = {});
  /// prepare() under a guard: the first part of tune(), which takes some tenths of a second and its
  /// compilations. The overlap stays off unless another chain takes 1 % less and is faster in nine rounds of
  /// ten. plan() says which chain was chosen. Pass as many layers as L2 cannot hold: with fewer, replays find
  /// weights in L2. Everything else is as in tune(), but nothing is stored. Results of a chain are compared
  /// with those without overlap, which takes twice their memory for that time. If they differ, or the memory
  /// is not available, the overlap stays off. Errors: those of prepare() and of ChainGraph::capture();
  /// invalid_argument (smem_limit or most_stages).
  static Result<Chain> guarded(const Device& device, std::span<const ChainStep> steps,
                               const ChainOptions& options = {}, const gemm::Progress& progress = {});

  /// Searches kernels and overlaps for the steps, on their own memory, and returns the fastest chain that it
  /// finds. If none is faster by 1 %, the overlap is off. The choices for a layer are stored among the user's
  /// records, where plan_chain finds them. Kernels that the caller chose are kept. Another kernel of a step
  /// may give other bits, within its error bound. A step's own overlap and bytes only affect the first change
  /// that is tried, which is the chain as requested. Steps that repeat, such as layers, get equal choices.
  /// Steps outside of the repetition get those of `tuning.start`. A change is not kept if its results differ
  /// from those without overlap, as in guarded(). The contents of what the steps write are undefined
  /// afterwards. Foreign steps are enqueued, and must compute the same each time. So call it when weights are
  /// loaded and nothing else is. In a gap, a kernel of stand_in_us takes the place of the caller's launches,
  /// so a record serves all that launch there. Waits for the GPU. Errors: those of prepare() and of
  /// ChainGraph::capture(); invalid_argument (weights of less than three times L2; smem_limit or most_stages;
  /// negative seconds).
  static Result<Chain> tune(const Device& device, std::span<const ChainStep> steps,
                            const ChainTuning& tuning = {});

  /// Enqueues all launches in order, without allocation or synchronisation; the stream may be capturing.
  /// `workspace`: at least workspace_bytes(), used by this stream only. Errors: workspace (too small; nothing
  /// is launched), else the first error of a launch; earlier launches stay enqueued; invalid_argument (the
  /// chain has gaps).
  Result<void> enqueue(Stream stream, const WorkspaceView& workspace = {}) const;
  /// Enqueues the launches in front of gap `part`, back to the gap before it; part parts() - 1 is what
  /// follows the last gap. Enqueue the parts in order and the gaps' launches between them, into one stream,
  /// with nothing else between. As enqueue() otherwise. Error: invalid_argument (no such part).
  Result<void> enqueue_part(int part, Stream stream, const WorkspaceView& workspace = {}) const;
  int parts() const;  // gaps + 1
  /// Checks that a captured graph holds the chain's launches in order, with what the gaps say between them,
  /// and that each dependent launch has its programmatic edge. Other nodes may come before and behind. It
  /// captures the parts into a stream of its own to compare. Errors: internal (names the first step that is
  /// missing or has an ordinary edge, and what stands in front of it); driver.
  Result<void> check(CUgraph_st* graph) const;

  const ChainPlan& plan() const;
  i64 workspace_bytes() const { return plan().workspace_bytes; }
  int kernels() const;             // kernels per enqueue; a foreign step counts its nodes
  int programmatic_edges() const;  // launches that may begin before their predecessor has ended

  struct Impl;
  explicit Chain(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

/// A chain as one CUDA graph. It keeps the chain alive; the workspace and all memory of the steps must stay
/// allocated as long as the graph exists.
class ChainGraph {
 public:
  /// Captures, counts kernels and programmatic edges, instantiates and uploads. `stream` must not be the
  /// legacy default one. Errors: those of enqueue; driver; internal (the graph's edges differ from the
  /// chain's: other work was captured between its launches, or the driver dropped the launch attribute).
  static Result<ChainGraph> capture(const Chain& chain, Stream stream, const WorkspaceView& workspace = {});

  /// Enqueues the graph without allocation or synchronisation. Error: driver.
  Result<void> replay(Stream stream) const;
  int kernels() const;
  int programmatic_edges() const;  // kernel-to-kernel edges, as counted by the driver

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
