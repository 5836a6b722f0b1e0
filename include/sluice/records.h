// SPDX-License-Identifier: Apache-2.0
// What was measured before: a book of tuning records, one a problem and GPU. gemm::plan and packed::plan
// look a problem up in one before they ask their model; `sluice tune` writes them (docs/tuning.md). A book is
// read once and never changes, so plans stay a function of what goes in.
//   auto plan = sluice::gemm::plan(problem, device->info(), {}, device->records());
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sluice/options.h>
#include <sluice/plan.h>

namespace sluice {

struct ChainStep;  // sluice/chain.h
struct TunedStep;
struct PackedProblem;  // sluice/packed.h
namespace packed {
struct TunedChoice;
}

/// What a record fixes of a plan; the rest follows from the problem.
struct TunedChoice {  // of a dense product
  Schedule schedule = Schedule::cooperative;
  int tile_m = 128, tile_n = 128;
  ClusterShape cluster{};
  bool swapped = false;  // B by A: m and n of tile, cluster and raster are those of that product
  Raster raster = Raster::along_m;
  int raster_group = 8;                     // cluster tiles in a band
  Numbering numbering = Numbering::launch;  // of clusters
  int clusters = 1;                         // launched
  int streamed = 0;                         // cluster tiles dealt out by k-tile
  Combine combine = Combine::last_arriver;  // of those
  int warps = 0, stages = 0;                // of plain schedules; 0 of the others
  double measured_us = 0;                   // of one launch, when the record was made

  bool operator==(const TunedChoice&) const = default;
};

/// Immutable, cheap to copy, usable from any thread.
class RecordBook {
 public:
  RecordBook();  // empty: every plan is the model's

  /// Nothing if this problem was never tuned on such a GPU. Problems share a record if they have the same
  /// sizes, types, layouts, sums and epilogue; strides (but for whether TMA can store D), scales of a tensor,
  /// scale_d and relu do not count. `problem` is one that gemm::plan accepts.
  std::optional<TunedChoice> find(const Problem& problem, const DeviceInfo& device) const;
  /// The same of products of packed weights; `problem` is one that packed::plan accepts.
  std::optional<packed::TunedChoice> find(const PackedProblem& problem, const DeviceInfo& device) const;
  /// Of each step of a chain what was chosen where it stood between the same two neighbours; nothing if it
  /// never did, or if it has none. Of several records the one that knows most of the steps is asked first. An
  /// end of the chain is like any neighbour. `steps` are ones that
  /// plan_chain accepts.
  std::vector<std::optional<TunedStep>> find(std::span<const ChainStep> steps,
                                             const DeviceInfo& device) const;
  int size() const;  // tuned chains count as one
  /// Files and records that were passed over: a line each, with the rule they broke and the remedy.
  const std::vector<std::string>& troubles() const;

  struct Impl;
  explicit RecordBook(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

/// The records that come with the library; parsed at the first call.
const RecordBook& shipped_records();

/// The shipped records, and over them the user's own of options.records_dir. Never fails: a missing folder
/// has no records, and what cannot be used is in troubles().
RecordBook open_records(const Options& options);

}  // namespace sluice
