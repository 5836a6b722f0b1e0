// SPDX-License-Identifier: Apache-2.0
// Everything a measurement needs that outlives one shape: the device, a stream and two events, the verifier,
// the peer library and its workspace, the clocks. Made once by `sluice bench` and `sluice run`; one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <sluice/check/verify.h>
#include <sluice/tools.h>

#include "bench/contender/cublaslt.h"
#include "bench/sm_clock.h"
#include "bench/telemetry.h"

namespace sluice::bench {

/// How things are timed. A file of results says which rounds, rests and replays it had.
struct Method {
  bool cold = true;         // rotate over copies of A, B and D so that L2 holds none of them
  int rounds = 9;           // timed replays of every contender, in turn
  double rest_ms = 20;      // idle before each, so that every contender meets the same clocks
  double replay_us = 3000;  // length of one replay, from which the launches in it follow
  bool peer = true;         // load cuBLASLt, to compare with
  int heuristics = 16;      // cuBLASLt algorithms to ask for
  int tune = 0;             // time that many of the planner's candidates too; 0: its pick alone
  u64 seed = 1;
  Fill fill = Fill::normal;  // of A and B
};

struct Lab {
  Device device;
  StreamHandle stream;
  Event start, stop;
  Verifier verifier;
  std::optional<SmClock> clock;  // nullopt: its kernel could not be made here, and clocks are not known
  Telemetry telemetry;
  std::shared_ptr<const CublasLt> cublaslt;  // nullptr: not here, and `without_peer` says why
  std::string without_peer;
  DeviceBuffer peer_workspace;
  Workspace workspace;  // of our kernels
  Method method;
};

inline constexpr i64 kPeerWorkspaceBytes = i64{64} << 20;
/// Sets of operands at most: enough that weights of 360 KB are cold in 60 MB of L2. Smaller ones stay in
/// part.
inline constexpr int kMostCopies = 512;

/// Errors: driver, toolchain (NVRTC for the verifier). A missing peer is no error.
Result<Lab> open_lab(const Device& device, const Method& method, const std::string& cublaslt_path);

}  // namespace sluice::bench
