// SPDX-License-Identifier: Apache-2.0
// Times variants of a chain of layers ("arms": kinds of overlap, and the peer) in one run. Each is prepared,
// compared with the result without overlap, then timed in turn. A failure is written into the record, and the
// others continue. Used by `sluice chain`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sluice/tools.h>

#include "bench/chain/data.h"
#include "bench/chain/timeline.h"
#include "bench/chain/tune.h"
#include "bench/comparer.h"
#include "bench/session.h"

namespace sluice::bench {

/// One way to run the chain.
struct ArmSpec {
  std::string name;
  ChainOptions options;
  Fusion fusion = Fusion::none;
  double tune_s = 0;   // not 0: seconds for the tuner, which then chooses in place of `options`
  bool guard = false;  // Chain::guarded decides whether it overlaps
  std::vector<TunedStep> choices{};
  std::function<void(const std::string& json)> trials{};  // the tuner's
  std::function<void(std::vector<ChainStep>&)> add{};     // inserts foreign steps between those of the layers
};

struct ArmRecord {
  std::string name, detail;
  Quantiles us;                // time of one layer
  std::vector<double> rounds;  // us per layer, in order
  int kernels = 0, programmatic_edges = 0;
  std::optional<tuning::Found> search{};  // the tuner's
  i64 differing = -1;                     // 16-byte pieces that differ from the overlap off; -1: not compared
  // Distance from the variant without overlap: RMS of the difference at the end of the residual stream,
  // divided by the stream's RMS. Set for the peer and for variants with other kernels.
  double distance = 0;
  i64 replays = 0;    // replays with changing inputs that equal the overlap off
  std::string text;   // explain() of its first layer
  std::string error;  // not empty: not timed
  std::optional<Timeline> timeline{};
  std::string timeline_error{};  // not empty: no timeline could be made

  /// Whether it ran and computed the right values.
  bool right() const;
};

/// The best rate at which chains read HBM: 4.6 TB/s on an H200, elsewhere in proportion to the GPU's rate.
inline double chain_peak_bytes_per_us(const DeviceInfo& device) {
  return 4.6e6 * hbm_share(device);
}

struct ChainRecord {
  LayerSpec spec;
  i64 layer_weight_bytes = 0;
  double peak_bytes_per_us = chain_peak_bytes_per_us({});  // the GPU's HBM, the base of shares
  std::vector<ArmRecord> arms;                             // the first has the overlap off
  std::vector<TunedChain> tuned;  // the tuner's choices for each arm it made, with times
  TelemetrySummary telemetry;
  double wall_s = 0;
  std::string error;  // not empty: nothing could be timed
};
inline constexpr const char* kChainPeer = "cuBLASLt";
inline constexpr const char* kChainOff = "off";

struct ChainCase {
  LayerSpec spec;
  std::vector<ArmSpec> arms;  // besides kChainOff
  bool against_peer = false;
  i64 replays = 0;  // replays of each arm in `arms`, with changing inputs
  // true: after timing, records a timeline of each of our variants with instrumented kernels
  bool timeline = false;
  bool on_fake = false;  // tests on the fake driver, whose kernels compute nothing: products are not checked
};

/// The plan of an arm's chain without a GPU, with imagined memory.
Result<ChainPlan> plan_arm(const LayerSpec& spec, const ArmSpec& arm, const DeviceInfo& device,
                           const RecordBook& records);
/// A line saying that no record covers any step of an arm that follows records; "" if one does.
std::string missing_record(const ChainPlan& plan, const ChainOptions& options);
/// The JIT units that fill and compare data.
std::vector<std::string> data_units_of(const ChainCase& item);
/// All arms' JIT units.
Result<std::vector<std::string>> units_of(const ChainCase& item, const DeviceInfo& device,
                                          const RecordBook& records, Stamping stamping);

ChainRecord measure_chain(const Lab& lab, const ChainCase& item, const Phase& phase);

/// The arm's median; 0 if it is missing or wrong.
double median_of(const ChainRecord& record, const std::string& arm);

}  // namespace sluice::bench
