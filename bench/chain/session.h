// SPDX-License-Identifier: Apache-2.0
// Times variants ("arms") of a chain of layers in one run: several kinds of overlap, and cuBLASLt. Each
// variant is prepared and compared with the result without overlap. Then all are timed in turn. A failure is
// stored in the variant's record, and the others continue. Used by `sluice chain`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sluice/tools.h>

#include "bench/chain/data.h"
#include "bench/chain/tune.h"
#include "bench/comparer.h"
#include "bench/session.h"

namespace sluice::bench {

/// One variant of the chain to measure.
struct ArmSpec {
  std::string name;
  ChainOptions options;
  Fusion fusion = Fusion::none;
  double tune_s = 0;   // seconds given to the tuner, which then replaces `options`; 0: no tuning
  bool guard = false;  // true: Chain::guarded decides whether kernels overlap
  std::vector<TunedStep> choices{};
  std::function<void(const std::string& json)> trials{};  // receives one JSON line per trial of the tuner
  // Inserts the caller's own steps between those of the layers.
  std::function<void(std::vector<ChainStep>&)> add{};
};

struct ArmRecord {
  std::string name, detail;
  Quantiles us;                // time of one layer
  std::vector<double> rounds;  // microseconds per layer, in order
  int kernels = 0, programmatic_edges = 0;
  std::optional<tuning::Found> search{};  // result of the tuner's search
  i64 differing = -1;  // 16-byte pieces that differ from the result without overlap; -1: not compared
  // RMS of the difference from the variant without overlap, divided by the RMS of the residual stream, both
  // at its end. Set for cuBLASLt and for variants with other kernels.
  double distance = 0;
  i64 replays = 0;    // replays with changing inputs that equal the overlap off
  std::string text;   // explain() of its first layer
  std::string error;  // not empty: not timed

  /// True if the variant ran and computed the right values.
  bool right() const;
};

/// The best rate at which chains read HBM: 4.6 TB/s on an H200, elsewhere in proportion to the GPU's rate.
inline double chain_peak_bytes_per_us(const DeviceInfo& device) {
  return 4.6e6 * hbm_share(device);
}

struct ChainRecord {
  LayerSpec spec;
  i64 layer_weight_bytes = 0;
  double peak_bytes_per_us = chain_peak_bytes_per_us({});  // HBM rate of the GPU; shares are relative to it
  std::vector<ArmRecord> arms;                             // the first one has no overlap
  std::vector<TunedChain> tuned;  // for each tuned variant: the tuner's choices and times
  TelemetrySummary telemetry;
  double wall_s = 0;
  std::string error;  // empty if something was timed
};
inline constexpr const char* kChainPeer = "cuBLASLt";
inline constexpr const char* kChainOff = "off";

struct ChainCase {
  LayerSpec spec;
  std::vector<ArmSpec> arms;  // variants other than kChainOff, which is always measured
  bool against_peer = false;
  i64 replays = 0;       // replays of each arm in `arms`, with changing inputs
  bool on_fake = false;  // tests on the fake driver, whose kernels compute nothing: products are not checked
};

/// Plans a variant's chain without a GPU, on fake addresses.
Result<ChainPlan> plan_arm(const LayerSpec& spec, const ArmSpec& arm, const DeviceInfo& device,
                           const RecordBook& records);
/// Returns a line saying that the options follow records but no record covers any step of the plan; else "".
std::string missing_record(const ChainPlan& plan, const ChainOptions& options);
/// Source texts of the kernels that fill and compare data.
std::vector<std::string> data_units_of(const ChainCase& item);
/// Source texts of the kernels of all variants.
Result<std::vector<std::string>> units_of(const ChainCase& item, const DeviceInfo& device,
                                          const RecordBook& records);

ChainRecord measure_chain(const Lab& lab, const ChainCase& item, const Phase& phase);

/// Returns the variant's median time per layer; 0 if it is missing or wrong.
double median_of(const ChainRecord& record, const std::string& arm);

}  // namespace sluice::bench
