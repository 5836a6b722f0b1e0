// SPDX-License-Identifier: Apache-2.0
// Times the layers of a model as a chain of launches, in several variants ("arms") in one run: kinds of
// overlap, and cuBLASLt. Each variant is prepared and compared with the result without overlap. Then all are
// timed in turn. A failure is stored in the variant's record, and the others continue. Used by `sluice
// chain`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sluice/bench/session.h>
#include <sluice/chain.h>

namespace sluice {
struct TunedChain;  // sluice/record_file.h stores it
}

namespace sluice::bench {

struct Model {
  std::string name;
  // attention: columns that o reads; inner: columns that down reads, half of gate_up's
  i64 width, qkv, attention, inner;
  /// If not 0, this is no model but four equal products of n x k, for projections only. Each reads k columns.
  /// The previous product wrote the first n of them. `width` holds k.
  i64 n = 0;
};
/// The 70B model has the sizes of one of eight tensor-parallel shards.
const std::vector<Model>& known_models();

/// `text` names one of:
///   llama3-8b                 a known model
///   1280x8192                 four equal products of n x k, n at most k
///   8192x1280x1024x3584       width, columns of qkv, columns that o reads, columns that down reads
///   path/config.json          a dense decoder's sizes as Hugging Face keeps them, or the folder of that
///   file;
///                             with ":8" behind it one of eight tensor-parallel shards
/// Errors: invalid_argument (no such name; the file is none, lacks a size or describes other layers than
/// layer_rules.h takes; shards that do not divide it), io (the file).
Result<Model> parse_model(const std::string& text);

/// Type of the weights. With e4m3 weights the tokens are e4m3 too, with one fixed scale. With int4 weights
/// (scale groups of 128) the tokens are bf16, or e4m3 with one fixed scale.
enum class LayerWeights : u8 { e4m3, bf16, int4 };
/// all: the layer's norms and quantisers too. projections: only the four products, each reading the output of
/// the previous one.
enum class LayerParts : u8 { all, projections };
/// Work that is fused into products instead of separate norms and quantisers; each value includes the
/// previous one. gated: gate_up has a gate, and products that make e4m3 tokens write them. residual: o and
/// down add the residual stream (not to e4m3 tokens of int4 weights). norm: qkv and gate_up norm their input
/// (int4 with up to 8 bf16 tokens).
enum class Fusion : u8 { none, gated, residual, norm };

struct LayerSpec {
  Model model = known_models()[0];
  LayerWeights weights = LayerWeights::e4m3;
  LayerParts parts = LayerParts::all;
  Fusion fusion = Fusion::none;
  i64 tokens = 1;
  int layers = 8;                                // each layer has its own weights
  int passes = 4;                                // times that the chain runs through the layers
  DType tokens_of_int4 = DType::bf16;            // bf16 or e4m3; with other weights the token type is fixed
  Accumulate accumulate = Problem{}.accumulate;  // used for e4m3 weights only
};

/// Returns the reason why layers with such weights and tokens do not support `fusion` (text that follows its
/// name); nullptr if they do. The limit of 8 tokens for norms in products (spec/packed.h) is not checked
/// here.
const char* why_not_fused(const LayerSpec& spec, Fusion fusion);

Result<LayerWeights> parse_layer_weights(const std::string& name);
/// Parses the token type; "" means the weights' default. Errors: `name` is neither bf16 nor e4m3, or the
/// weights allow only one type.
Result<DType> parse_layer_tokens(const std::string& name, LayerWeights weights);
/// Parses the accumulation mode; "" means the default of Problem. Errors: `name` is neither promoted nor
/// fast, or the weights are not e4m3.
Result<Accumulate> parse_layer_sums(const std::string& name, LayerWeights weights);
Result<Fusion> parse_fusion(const std::string& name);
const char* name_of(Fusion fusion);
const char* name_of(LayerWeights weights);
/// Returns for example "llama3-8b e4m3 promoted, 16 tokens, projections". Fast accumulation is not named, as
/// in older results files.
std::string name_of(const LayerSpec& spec);

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

/// The changes that a search of the tuner tried and kept.
struct ChainSearch {
  struct Axis {
    std::string name;
    int tried = 0, kept = 0;
    double gain = 1;  // product of the kept gains: 1.05 is five per cent less time
  };
  std::vector<Axis> axes;   // in the order of the search
  int tried = 0, kept = 0;  // changes, on all axes
  int refused = 0;          // changes after which the chain was invalid or had other results
  std::string why_refused;  // the first of them and its error
};

struct ArmRecord {
  std::string name, detail;
  Quantiles us;                // time of one layer
  std::vector<double> rounds;  // microseconds per layer, in order
  int kernels = 0, programmatic_edges = 0;
  std::optional<ChainSearch> search{};  // result of the tuner's search
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
double chain_peak_bytes_per_us(const DeviceInfo& device);

struct ChainRecord {
  LayerSpec spec;
  i64 layer_weight_bytes = 0;
  double peak_bytes_per_us = chain_peak_bytes_per_us({});  // HBM rate of the GPU; shares are relative to it
  std::vector<ArmRecord> arms;                             // the first one has no overlap
  // For each tuned variant: the tuner's choices and times.
  std::vector<std::shared_ptr<const TunedChain>> tuned;
  TelemetrySummary telemetry;
  double wall_s = 0;
  std::string error;  // empty if something was timed
};
inline constexpr const char* kChainPeer = "cuBLASLt";
inline constexpr const char* kChainOff = "off";

/// Fewest layers of a chain that is tuned. With fewer, the weights would stay in L2 between replays.
inline constexpr int kLeastTunedLayers = 4;

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

/// Returns the rate at which a layer's weights are read, as a fraction of peak_bytes_per_us; 0 if `us` is 0.
double share_of_peak(const ChainRecord& record, double us);

/// Returns indented JSON that ends in a newline; schema "sluice-chain-1". Ignores run.shapes.
std::string to_json(const RunRecord& run, const std::vector<ChainRecord>& chains);
/// Writes that JSON to a file whole. Error: io.
Result<void> write_json(const RunRecord& run, const std::vector<ChainRecord>& chains,
                        const std::string& path);

}  // namespace sluice::bench
