// SPDX-License-Identifier: Apache-2.0
// Chains of layers timed beside each other: arms (ways to overlap, and the peer) are prepared, held to the
// bits of the overlap off, then timed in turn. Whatever fails is written into the record and the rest goes
// on. Used by `sluice chain`.
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
  double tune_s = 0;  // not 0: what the tuner finds in so many seconds, whatever `options` says
  std::vector<TunedStep> choices{};
  std::function<void(std::vector<ChainStep>&)> add{};  // steps of others between those of the layers
};

struct ArmRecord {
  std::string name, detail;
  Spread us;                   // of one layer
  std::vector<double> rounds;  // microseconds a layer, in order
  int kernels = 0, programmatic_edges = 0;
  std::optional<Found> search{};  // by the tuner
  i64 differing = -1;  // pieces of 16 bytes that are not those of the overlap off; -1: not compared
  // Of the peer, and of arms with other kernels than off: RMS of the difference of what the residual stream
  // ends with over its RMS.
  double distance = 0;
  i64 replays = 0;    // with changing inputs, all equal to the overlap off
  std::string text;   // explain() of its first layer
  std::string error;  // not empty: no timing
  std::optional<Timeline> timeline{};
  std::string timeline_error{};  // not empty: none could be made

  /// Did it run, and compute what it should?
  bool right() const;
};

/// Returns the best rate at which chains read HBM: 4.6 TB/s on an H200, elsewhere in proportion to the GPU's
/// own rate.
inline double chain_peak_bytes_per_us(const DeviceInfo& device) {
  return 4.6e6 * hbm_share(device);
}

struct ChainRecord {
  LayerSpec spec;
  i64 layer_weight_bytes = 0;
  double peak_bytes_per_us = chain_peak_bytes_per_us({});  // of the GPU's HBM: what shares are of
  std::vector<ArmRecord> arms;                             // the first has the overlap off
  std::vector<TunedChain> tuned;  // what the tuner found, of each arm that it made, with these times
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
  i64 replays = 0;        // of each of these arms, with changing inputs
  bool timeline = false;  // of each of our arms, by other kernels, when all are timed
  bool on_fake = false;  // kernels compute nothing (tests on the fake driver): their products are not checked
};

/// An arm's chain without a GPU: planned with imagined memory.
Result<ChainPlan> plan_arm(const LayerSpec& spec, const ArmSpec& arm, const DeviceInfo& device,
                           const RecordBook& records);
/// "", or a line that says that no record speaks of any step of an arm that shall follow records.
std::string missing_record(const ChainPlan& plan, const ChainOptions& options);
/// The JIT units of what fills and compares.
std::vector<std::string> data_units_of(const ChainCase& item);
/// All arms' JIT units.
Result<std::vector<std::string>> units_of(const ChainCase& item, const DeviceInfo& device,
                                          const RecordBook& records, Stamping stamping);

ChainRecord measure_chain(const Lab& lab, const ChainCase& item, const Phase& phase);

/// Median of the arm, 0 if it is missing or wrong.
double median_of(const ChainRecord& record, const std::string& arm);

}  // namespace sluice::bench
