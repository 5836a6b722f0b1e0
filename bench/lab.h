// SPDX-License-Identifier: Apache-2.0
// Objects that the measurements of all shapes share: the device, a stream, a timer, the verifier, cuBLASLt
// and cuDNN, workspaces and clocks. Made once per command and used from one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <sluice/check/verify.h>
#include <sluice/tools.h>

#include "bench/contender/cublaslt.h"
#include "bench/contender/cudnn.h"
#include "bench/sm_clock.h"
#include "bench/telemetry.h"

namespace sluice::bench {

/// How contenders are timed. Rounds, rests and replay length are stored in the results file.
struct Method {
  // true: each launch uses the next of several sets of A, B and D, so that L2 holds none of them
  bool cold = true;
  int rounds = 9;           // timed replays per contender; contenders take turns
  double rest_ms = 20;      // idle time before each replay, so that all contenders run at the same clocks
  double replay_us = 3000;  // duration of one replay, from which the number of launches in it follows
  bool peer = true;         // true: load cuBLASLt for comparison
  int heuristics = 16;      // number of algorithms to ask cuBLASLt's heuristic for
  int tune = 0;             // number of the planner's candidates to time; 0: only its pick
  u64 seed = 1;
  Fill fill = Fill::normal;  // distribution of the values of A and B
};

struct Lab {
  Device device;
  StreamHandle stream;
  ReplayTimer timer;
  Verifier verifier;
  std::optional<SmClock> clock;  // empty if its kernel could not be made; clocks are then not measured
  Telemetry telemetry;
  std::shared_ptr<const CublasLt> cublaslt;  // null if not found; `without_peer` says why
  std::string without_peer;
  std::shared_ptr<const Cudnn> cudnn;  // used for convolutions; null if not found or not loaded
  std::string without_cudnn;
  DeviceBuffer peer_workspace;
  Workspace workspace;  // for sluice's kernels
  Method method;
};

inline constexpr i64 kPeerWorkspaceBytes = i64{64} << 20;
/// Upper limit of operand sets. 512 sets of 360 KB are three times an L2 of 60 MB. Smaller weights stay
/// partly in L2.
inline constexpr int kMostCopies = 512;

/// Opens a lab. Errors: driver, toolchain (no NVRTC for the checking kernels). A missing cuBLASLt is not an
/// error.
Result<Lab> open_lab(const Device& device, const Method& method, const std::string& cublaslt_path);
/// Loads cuDNN, for labs that measure convolutions. If it is missing, that is not an error.
void load_cudnn(Lab& lab, const std::string& path);

}  // namespace sluice::bench
