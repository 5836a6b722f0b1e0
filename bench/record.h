// SPDX-License-Identifier: Apache-2.0
// The results of a bench as values. session.cc fills them, record.cc writes them as JSON, tools/report.py and
// sluice_fit read that. tools/report.py holds the same names.
#pragma once

#include <string>
#include <vector>

#include "bench/product.h"
#include "bench/statistics.h"
#include "bench/telemetry.h"
#include "bench/whole_file.h"

namespace sluice::bench {

struct ContenderRecord {
  std::string name, detail;
  Quantiles us;                // one launch
  std::vector<double> rounds;  // microseconds, in order
  int launches = 0;            // in one replay
  double sm_mhz = 0;           // the SMs' measured clock; 0: not measured
  double host_us = 0;          // CPU time of a launch call; 0: not measured
  double bytes = 0;            // bytes that must move once; 0: those of the shape
  bool verified = false;       // enough of D was checked, and nothing is wrong
  bool wrong = false;          // D is wrong; the contender is not timed again
  std::string verdict;         // the check's words
  std::string error;           // not empty: no timing
};

/// One of the planner's candidates, screened by `--tune`.
struct CandidateRecord {
  std::string name, config, split;  // short_name and to_string
  Estimate estimate;
  double us = 0;  // screening time; 0 with an error
  bool verified = false;
  std::string error;
  AnyPlan plan{};
};

struct ShapeRecord {
  AnyProblem problem;                     // the problem that sluice computes
  Conv conv{};                            // the convolution that it is, a pointwise one too
  PlanSource source = PlanSource::model;  // the origin of kSluice's plan
  int copies = 0;                         // sets of operands rotated over
  double compile_s = 0;                   // wall time of preparing all kernels
  double race_ms = 0;                     // wall time of the race of kSluiceRaced; 0: there was none
  double wall_s = 0;
  int peer_algorithms = 0;  // returned by cuBLASLt's heuristic; of a convolution: cuDNN's plans
  std::string peer_caveat;
  std::vector<ContenderRecord> contenders;
  std::vector<CandidateRecord> candidates;
  int ranked = 0, possible = 0;  // by sluice tune: TuneResult's
  TelemetrySummary telemetry;
  std::string error;  // not empty: nothing could be timed
};

/// The machine, the versions and the method of one run.
struct RunRecord {
  std::string command, commit, started;  // ISO 8601, UTC
  std::string gpu, driver, cpu, host_system;
  int sm_count = 0;
  double power_limit_w = 0, max_sm_mhz = 0;
  double fp16_peak_tflops = 0, fp8_peak_tflops = 0, hbm_gbps = 0;  // sustained rates of `device`
  DeviceInfo device;                                               // the facts and their sources
  std::string nvrtc, cublaslt, cublaslt_path, cudnn, cudnn_path;
  std::string method;  // "cold" or "warm"
  int rounds = 0, tune = 0;
  double rest_ms = 0, replay_us = 0;
  std::string fill;
  std::vector<ShapeRecord> shapes;
};

inline constexpr const char* kSluice = "sluice";
inline constexpr const char* kSluiceTuned = "sluice tuned";
inline constexpr const char* kSluiceRaced = "sluice raced";  // the winner of the race of --race
inline constexpr const char* kSluiceRecorded =
    "sluice recorded";  // by sluice tune: what a record said before
inline constexpr const char* kPeerFirst = "cuBLASLt first";
inline constexpr const char* kPeerBest = "cuBLASLt best";
// Peers of convolutions: heuristic A's first plan, the fastest of all plans, and of those that give the same
// bits every time.
inline constexpr const char* kCudnnFirst = "cuDNN first";
inline constexpr const char* kCudnnBest = "cuDNN best";
inline constexpr const char* kCudnnDeterministic = "cuDNN same bits";
// A plain read of the weights, which some kernels beat.
inline constexpr const char* kReadFloor = "read floor";
// Dense peers of packed products.
inline constexpr const char* kSluiceFp8 = "sluice FP8";
inline constexpr const char* kFp8PeerBest = "cuBLASLt FP8";
inline constexpr const char* kHalfPeerBest = "cuBLASLt 16";
inline constexpr const char* kBestFp8 = "best FP8";  // not a contender: the faster of the two

/// The name of a shape, as of its request.
std::string name_of(const ShapeRecord& shape);
/// Returns the contender's median time in us; 0 if it is missing or failed.
double median_of(const ShapeRecord& shape, const std::string& contender);
/// Time of `peer` (a contender, or kBestFp8) over time of `ours`: above 1, ours is faster. 0 if either is
/// missing or not verified. kPeerBest and kCudnnBest are the peer's fastest in the race, its first one
/// included.
double ratio(const ShapeRecord& shape, const std::string& ours, const std::string& peer);
/// Sustained peak rate of the inputs' type.
double peak_tflops(const RunRecord& run, const AnyProblem& problem);
/// Whether all contenders ran and none of ours is wrong.
bool all_verified(const ShapeRecord& shape);

struct RatioSummary {
  int count = 0;
  double geometric_mean = 0;
  double least = 0;
};
RatioSummary summarise_ratio(const RunRecord& run, const std::string& ours, const std::string& peer);

/// Indented JSON, ended by a newline; schema "sluice-bench-1".
std::string to_json(const RunRecord& run);
/// The whole file or nothing (whole_file.h). Error io.
Result<void> write_json(const RunRecord& run, const std::string& path);

}  // namespace sluice::bench
