// SPDX-License-Identifier: Apache-2.0
// The public interface: open a device, plan a problem, prepare a kernel, launch it.
//   auto device = sluice::Device::open(0, sluice::options_from_environment());
//   auto plan   = sluice::gemm::plan(problem, device->info(), {}, device->records());
//   auto kernel = sluice::gemm::prepare(*device, *plan);
//   auto done   = sluice::gemm::launch(*kernel, args, stream);
// examples/gemm.cc is a complete program.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <sluice/kernel.h>
#include <sluice/options.h>
#include <sluice/plan.h>
#include <sluice/records.h>
#include <sluice/rows.h>

struct CUstream_st;

namespace sluice {

using Stream = CUstream_st*;  // a CUstream or cudaStream_t; nullptr is the legacy default stream

/// A GPU and the kernels loaded on it. Cheap to copy (shared handle); all members may be called from any
/// thread. It uses the device's primary context, as the CUDA runtime and PyTorch do.
class Device {
 public:
  /// Loads the CUDA driver and retains the primary context of device `ordinal`. Errors: driver (missing, too
  /// old, no such device), unsupported_arch (not compute capability 9.0).
  static Result<Device> open(int ordinal, const Options& options);

  /// Facts about this GPU for the planner. The first call queries the driver and NVML, and takes 20 ms. Facts
  /// that they do not report are assumed; DeviceInfo::sources says which.
  const DeviceInfo& info() const;
  /// The options with which the device was opened.
  const Options& options() const;
  /// The shipped records and the user's, as they were when the device was opened, and below them the results
  /// of races on this card, with those of this device since. run() plans with them.
  const RecordBook& records() const;
  /// CUDA's number of the GPU.
  int ordinal() const;

  struct Impl;
  explicit Device(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

/// Device memory of a workspace, from a Workspace or from the caller. It is aligned to 128 bytes, and its
/// first 64 KB are zeroed once before the first launch.
struct WorkspaceView {
  void* data = nullptr;
  i64 bytes = 0;
};

/// Device memory through which CTAs combine the slices of a split-K product. It begins with counters. Each
/// kernel leaves them zero, so they are zeroed once, not per launch, and plans with different splits can
/// share it. Launches that may run at the same time need one workspace each: one per stream, and one per
/// branch of a graph.
class Workspace {
 public:
  /// Allocates `bytes` and zeroes the counters. bytes = 0 is legal and allocates nothing. The default is
  /// enough for every plan, unless you raise PlanOverrides::workspace_limit. Errors: invalid_size (negative),
  /// driver (out of memory).
  static Result<Workspace> create(const Device& device, i64 bytes = kWorkspaceLimit);

  void* data() const;
  i64 bytes() const;
  WorkspaceView view() const { return {data(), bytes()}; }
  /// Waits for the device and checks that the counters are zero. Error workspace: the first counter that is
  /// not.
  Result<void> verify() const;
  /// Zeroes the whole workspace in stream order. Needed only after a kernel was aborted or two launches
  /// shared it. Error: driver.
  Result<void> reset(Stream stream);

  struct Impl;
  explicit Workspace(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

namespace gemm {

/// The pointers and scalars of one launch. All pointers are to device memory. A, B and (with StorePath::tma)
/// D need 16-byte alignment, the others that of an element. Packed weights (B) need 128-byte alignment, and
/// gamma 16. Unused pointers may be null.
struct Args {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;  // not read if beta == 0
  void* d = nullptr;        // also read if the epilogue's update is add
  const float* scale_a = nullptr;
  const float* scale_b = nullptr;
  const float* scale_d = nullptr;  // one value; read after the PDL wait, so an earlier launch may write it
  float* scale_out = nullptr;      // with scale_d = block: the scales that the kernel computes
  const void* bias = nullptr;
  const float* row_factors = nullptr;  // with Epilogue::row_factors: m values; read after the PDL wait
  const int* groups = nullptr;  // with Problem::groups: a number for each group; read after the PDL wait
  const void* gamma = nullptr;  // with Problem::norm_a: k bf16 values. Read before the PDL wait, as B is
  float epsilon = 1e-5f;        // with Problem::norm_a: added to the mean of squares
  float alpha = 1.0f;           // 0: A and B are not read. With packed weights it must be 1
  float beta = 1.0f;          // used only with a residual; 0: C is not read. With packed weights it must be 1
  WorkspaceView workspace{};  // needed if Plan::workspace_bytes is not 0
  WarmRange prefetch{};       // this launch's own weights, prefetched into L2 before its PDL wait
  WarmRange hand_off{};       // the next launch's weights, prefetched into L2 after the last load
  /// The caller's names for error messages: of a, b, c, d, bias, scale_a, scale_b, scale_d, gamma,
  /// groups, scale_out and row_factors. A name that is null, or no list, stands for the member's own.
  const char* const* names = nullptr;
};

using Kernel = BasicKernel<Plan>;

/// Compiles the plan's kernel, or finds it in the cache, and loads it. Checks plans that were made by hand.
/// The first plan that numbers clusters by GPC also locates the device's GPCs, with a few launches of a
/// microsecond each in a separate stream. Do not call while a stream is being captured: it loads and
/// allocates. Errors: those of plan(), toolchain, driver. A failure of the cache folder is not an error.
Result<Kernel> prepare(const Device& device, const Plan& plan);

/// Called after each finished compile with (done, total). Calls come from any thread, one at a time. It must
/// not throw.
using Progress = std::function<void(int done, int total)>;

/// Prepares many plans in parallel; equal configs are compiled once. Result i belongs to plan i.
std::vector<Result<Kernel>> prepare(const Device& device, std::span<const Plan> plans,
                                    const Progress& progress = {});

/// Chooses, compiles and loads the kernels of a range. From then on run() on this device serves every m of
/// the range without compiling, loading or searching, also while the stream is capturing. Ranges may overlap:
/// the first prepared range that contains an m serves it. Kernels stay loaded as long as the device exists.
/// Errors: those of plan_rows and of prepare.
Result<RowSummary> prepare(const Device& device, const Problem& problem, RowRange rows,
                           const Progress& progress = {});

/// Prepares, in parallel, the kernels that run() needs for these problems, and keeps them. A problem without
/// a record races `race` plans first, 0..kMostRacers; 0 or 1: the model decides, which pins its pick.
/// kUsualRace: what Options::race says; if it says nothing, kUsualRacers plans of a problem race once per
/// process. Such a race is left out while a stream that waits for the legacy stream captures, and with
/// Options::cache_read_only. It takes at most 1/8 of the free device memory and 4 GiB, or is left out. A
/// problem that run() or prepare() has met keeps its kernel, unless `race` is above 1 and the model chose it.
/// If a plan fails, nothing is prepared. Errors: invalid_argument (race), those of plan() and prepare().
Result<void> prepare(const Device& device, std::span<const Problem> problems, int race = kUsualRace);

/// Checks the arguments and enqueues one kernel, or two in a row if the plan says Combine::separate. The
/// narrow kernel of packed weights is launched once per 500,000 rows of A. No
/// allocation, no synchronisation; the stream may be capturing. The Kernel and its workspace must outlive
/// work in flight and captured graphs.
/// Launches nothing, and succeeds, if m, n or batch is 0, or if D is added to and alpha or k is 0. Errors
/// (nothing is launched): invalid_pointer, invalid_argument (alpha, beta or epsilon with packed weights),
/// misaligned, aliasing, workspace (too small), wrong_device, driver. If the driver takes the first of two
/// kernels and refuses the second, D is not written and later launches are unharmed.
Result<void> launch(const Kernel& kernel, const Args& args, Stream stream);

/// Plans, prepares and launches. The device keeps the kernel for the next call with an equal problem. If
/// `args` has no workspace, the device lends one; the first call of a problem that has one gets a plan that
/// fits it. Each stream has its own, kept for good: reuse streams.
/// Each captured graph has one per stream captured into it, until the graph and its executables are
/// destroyed. Copies of one graph (two executables, a clone, a child of two graphs) share it.
/// Error not_prepared: the stream is capturing and this problem's kernel is not loaded; call run() once
/// before capture. Error workspace: `args` has none, the plan needs one, and the workspaces of streams
/// (destroyed ones included) already take their limit of 4 GB.
Result<void> run(const Device& device, const Problem& problem, const Args& args, Stream stream);

/// Times `candidates` likely plans of the problem, first one of each schedule, on memory that it allocates.
/// Returns the winner with its measured_us. The model's pick wins unless another plan takes 1 % less and is
/// faster in nine rounds of ten. Plans whose results differ from the others' are dropped. If rounds of one
/// plan differ by more than 5 %, other work was on the GPU: then the model's pick is returned, its source is
/// `model`, and nothing is stored. Otherwise the result is
/// stored in the device's book and, for this card, driver and version, in the user's folder
/// (docs/decisions/0027-results-of-races.md). If a problem already has a record or such a result, its plan is
/// returned and nothing is timed. Takes about 20 ms in addition to the compiles. Waits for the GPU, also when
/// it frees its memory. It does not use the legacy stream, and does not end a capture. Only one race at a
/// time runs in a process. With Options::race, run() races by itself. Errors: invalid_argument (candidates
/// not in 1..kMostRacers), those of plan() and prepare(), invalid_size (operands of more than 4 GiB), driver
/// (out of memory), toolchain.
Result<Plan> race(const Device& device, const Problem& problem, int candidates = kUsualRacers);

}  // namespace gemm
}  // namespace sluice
