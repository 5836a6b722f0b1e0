// SPDX-License-Identifier: Apache-2.0
// The objects that measurements of all shapes share: the device, a stream, a timer, the verifier, the peer
// libraries and their workspace, the clocks. Made once per command; used from one thread.
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

/// How things are timed. A results file states rounds, rests and replay length.
struct Method {
  bool cold = true;         // rotate over copies of A, B and D so that L2 holds none of them
  int rounds = 9;           // timed replays of each contender, in turn
  double rest_ms = 20;      // idle before each, so that all contenders meet the same clocks
  double replay_us = 3000;  // length of one replay; gives the number of launches in it
  bool peer = true;         // load cuBLASLt to compare with
  int heuristics = 16;      // cuBLASLt algorithms to ask for
  int tune = 0;             // number of the planner's candidates to time; 0: only its pick
  u64 seed = 1;
  Fill fill = Fill::normal;  // values of A and B
};

struct Lab {
  Device device;
  StreamHandle stream;
  ReplayTimer timer;
  Verifier verifier;
  std::optional<SmClock> clock;  // nullopt: its kernel could not be made, and clocks are unknown
  Telemetry telemetry;
  std::shared_ptr<const CublasLt> cublaslt;  // nullptr: not found; `without_peer` says why
  std::string without_peer;
  std::shared_ptr<const Cudnn> cudnn;  // the peer of convolutions, likewise
  std::string without_cudnn;
  DeviceBuffer peer_workspace;
  Workspace workspace;  // for our kernels
  Method method;
};

inline constexpr i64 kPeerWorkspaceBytes = i64{64} << 20;
/// The most sets of operands. 512 sets of 360 KB exceed 60 MB of L2 three times; smaller weights stay partly
/// in L2.
inline constexpr int kMostCopies = 512;

/// Opens a lab. Errors: driver, toolchain (NVRTC for the verifier). A missing peer is not an error.
Result<Lab> open_lab(const Device& device, const Method& method, const std::string& cublaslt_path);
/// Loads cuDNN, for labs that measure convolutions. A missing cuDNN is not an error.
void load_cudnn(Lab& lab, const std::string& path);

}  // namespace sluice::bench
