// SPDX-License-Identifier: Apache-2.0
// The results of measurements: times, verdicts and errors of each contender, problem by problem, with the
// machine and the method. to_json() writes them; tools/report.py and `sluice_lab fit` read the JSON.
#pragma once

#include <string>
#include <vector>

#include <sluice/bench/request.h>
#include <sluice/bench/whole_file.h>
#include <sluice/quantiles.h>

namespace sluice::bench {

/// Summary of the NVML samples of one shape. `samples` is 0 if NVML could not be read.
struct TelemetrySummary {
  int samples = 0;
  double sm_mhz_median = 0, sm_mhz_min = 0;
  double power_w_mean = 0, power_w_max = 0;
  double celsius_max = 0;
};

struct ContenderRecord {
  std::string name, detail;
  Quantiles us;                // microseconds per launch
  std::vector<double> rounds;  // microseconds per launch, by round
  int launches = 0;            // launches in one replay
  double sm_mhz = 0;           // measured SM clock; 0: not measured
  double host_us = 0;          // CPU time of one launch call, microseconds; 0: not measured
  double bytes = 0;            // bytes that must move at least once; 0: as computed from the shape
  bool verified = false;       // true: enough of D was checked, and all of it is right
  bool wrong = false;          // true: D is wrong, so the contender is not timed again
  std::string verdict;         // text of the check's result
  std::string error;           // empty if the contender was timed
};

/// A candidate of the planner that `--tune` timed briefly.
struct CandidateRecord {
  std::string name, config, split;  // short_name and to_string
  Estimate estimate;
  double us = 0;  // screening time in microseconds; 0 if there is an error
  bool verified = false;
  std::string error;
  Plan plan{};
};

struct ShapeRecord {
  Problem problem;  // the product that sluice computes; `conv` is set if it computes a convolution
  PlanSource source = PlanSource::model;  // where the plan of kSluice comes from
  int copies = 0;                         // number of operand sets
  double compile_s = 0;                   // wall time of compiling and loading all kernels
  double race_ms = 0;                     // wall time of the race that found kSluiceRaced; 0: no race
  double wall_s = 0;
  int peer_algorithms = 0;  // number of algorithms that cuBLASLt's heuristic returned, or of cuDNN's plans
  std::string peer_caveat;
  std::vector<ContenderRecord> contenders;
  std::vector<CandidateRecord> candidates;
  int ranked = 0, possible = 0;  // set by `sluice tune`: as in TuneResult
  TelemetrySummary telemetry;
  std::string error;  // empty if something was timed
};

/// Machine, versions, method and shapes of one run.
struct RunRecord {
  std::string command, commit, started;  // ISO 8601, UTC
  std::string gpu, driver, cpu, host_system;
  int sm_count = 0;
  double power_limit_w = 0, max_sm_mhz = 0;
  double fp16_peak_tflops = 0, fp8_peak_tflops = 0, hbm_gbps = 0;  // sustained rates of `device`
  DeviceInfo device;                                               // properties of the GPU and their sources
  std::string nvrtc, cublaslt, cublaslt_path, cudnn, cudnn_path;
  std::string method;  // "cold" or "warm"
  int rounds = 0, tune = 0;
  double rest_ms = 0, replay_us = 0;
  std::string fill;
  std::vector<ShapeRecord> shapes;
};

inline constexpr const char* kSluice = "sluice";
inline constexpr const char* kSluiceTuned = "sluice tuned";
inline constexpr const char* kSluiceRaced = "sluice raced";  // winner of the race that --race asks for
inline constexpr const char* kSluiceRecorded =
    "sluice recorded";  // set by `sluice tune`: the plan of the previous tuning record
inline constexpr const char* kPeerFirst = "cuBLASLt first";
inline constexpr const char* kPeerBest = "cuBLASLt best";
// cuDNN's contenders: the first plan of heuristic A, the fastest of all plans, and the fastest whose result
// has the same bits on every run.
inline constexpr const char* kCudnnFirst = "cuDNN first";
inline constexpr const char* kCudnnBest = "cuDNN best";
inline constexpr const char* kCudnnDeterministic = "cuDNN same bits";
// A kernel that only reads the weights by plain loads. Some GEMM kernels are faster.
inline constexpr const char* kReadFloor = "read floor";
// Dense products that packed ones are compared with.
inline constexpr const char* kSluiceFp8 = "sluice FP8";
inline constexpr const char* kFp8PeerBest = "cuBLASLt FP8";
inline constexpr const char* kHalfPeerBest = "cuBLASLt 16";
// The faster of sluice FP8 and cuBLASLt FP8, not a contender of its own.
inline constexpr const char* kBestFp8 = "best FP8";

/// The shape's name, as of its Request.
std::string name_of(const ShapeRecord& shape);
/// Returns the contender's median time in microseconds; 0 if it is missing or failed.
double median_of(const ShapeRecord& shape, const std::string& contender);
/// Returns the time of `peer` (a contender or kBestFp8) divided by that of `ours`: above 1, ours is faster. 0
/// if either is missing or not verified. For kPeerBest and kCudnnBest it uses the fastest of that library's
/// contenders.
double ratio(const ShapeRecord& shape, const std::string& ours, const std::string& peer);
/// Sustained peak rate of the problem's input type.
double peak_tflops(const RunRecord& run, const Problem& problem);
/// True if all contenders ran and no sluice kernel is wrong.
bool all_verified(const ShapeRecord& shape);

struct RatioSummary {
  int count = 0;
  double geometric_mean = 0;
  double least = 0;
};
RatioSummary summarise_ratio(const RunRecord& run, const std::string& ours, const std::string& peer);

/// Returns indented JSON that ends in a newline; schema "sluice-bench-1".
std::string to_json(const RunRecord& run);
/// Writes the JSON to a file, all of it or nothing (whole_file.h). Error: io.
Result<void> write_json(const RunRecord& run, const std::string& path);

}  // namespace sluice::bench
