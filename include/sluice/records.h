// SPDX-License-Identifier: Apache-2.0
// A book of tuning records: earlier measurements, one for a problem and GPU. gemm::plan looks a problem up
// before it asks its model; `sluice tune` writes records (docs/tuning.md). A book is read
// once. A device's own also takes in what that device's races find, below the records; no other book changes.
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

class Device;      // sluice/gemm.h
struct ChainStep;  // sluice/chain.h

/// The fields of a plan that a record stores; all others follow from the problem.
struct TunedChoice {
  Schedule schedule = Schedule::cooperative;
  int tile_m = 128, tile_n = 128;
  ClusterShape cluster{};
  bool swapped = false;  // the kernel multiplies B by A; m and n of tile, cluster and raster are that
                         // product's
  Raster raster = Raster::along_m;
  int raster_group = 8;                     // cluster tiles per band
  Numbering numbering = Numbering::launch;  // numbering of clusters
  int clusters = 1;                         // launched clusters
  int slices = 1;                           // slices along k of every tile
  Combine combine = Combine::last_arriver;  // how slices are combined
  // 0 where the schedule has none. plain ones: warps, stages. narrow: warps, stages, ctas. wide: stages,
  // w_stages. strip: stages, k_groups.
  int warps = 0, stages = 0, ctas = 0, w_stages = 0, k_groups = 0;
  double measured_us = 0;  // time of one launch when the record was made

  bool operator==(const TunedChoice&) const = default;
};

/// The recorded choice for a step, tuned between the neighbours that it has now (docs/chains.md).
struct TunedStep {
  std::optional<TunedChoice> kernel{};  // set for products
  Overlap overlap{};
  i64 hand_off_bytes = 0, prefetch_bytes = 0;

  bool operator==(const TunedStep&) const = default;
};

/// Cheap to copy, usable from any thread.
class RecordBook {
 public:
  RecordBook();  // empty: every plan is chosen by the model

  /// Returns the tuned choice for a problem; empty if the problem was never tuned on such a GPU. Problems
  /// share a record if they have the same sizes, types, layouts, accumulation mode and epilogue. Strides
  /// (except whether TMA can store D), scales per tensor, scale_d and relu do not count. In a device's book,
  /// if there is no record, the result of a race of this card, driver and version is used. `problem` must be
  /// one that gemm::plan accepts.
  std::optional<TunedChoice> find(const Problem& problem, const DeviceInfo& device) const;
  /// For each step of a chain, the choice that was tuned between the same two neighbours; empty if there is
  /// none. The beginning and the end of the chain count as neighbours. If several records match, the one that
  /// covers most steps is used. `steps` must be ones that plan_chain accepts.
  std::vector<std::optional<TunedStep>> find(std::span<const ChainStep> steps,
                                             const DeviceInfo& device) const;
  int size() const;  // tuned chains count as one, results of races not at all
  /// Skipped files and records: one line each, with the broken rule and the remedy.
  const std::vector<std::string>& troubles() const;

  struct Impl;
  explicit RecordBook(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

/// The records that ship with the library; parsed at the first call.
const RecordBook& shipped_records();

/// The shipped records, and the user's from options.records_dir, which win over them. Results of races count
/// only for problems that neither has.
/// Never fails: a missing folder has no records, and unusable files are listed in troubles().
RecordBook open_records(const Options& options);

/// Keeps a plan and its measured_us as the user's tuned record of its problem, in the place of any other, for
/// devices that are opened from now on. `pick_us`: the time of the model's pick in the same measurement.
/// `method` says how it was measured. Errors: io (Options::records_dir is empty, or cannot be written to),
/// invalid_argument (no record can hold the choice: k = 0; a packed product with a gate, a norm or a
/// residual).
Result<void> keep_record(const Device& device, const Plan& plan, double pick_us, const std::string& method);

}  // namespace sluice
