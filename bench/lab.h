// SPDX-License-Identifier: Apache-2.0
// The objects of a Lab (sluice/bench/session.h).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <sluice/bench/session.h>
#include <sluice/check/verify.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/memory.h>
#include <sluice/run/ops/replay_timer.h>

#include "bench/contender/cublaslt.h"
#include "bench/contender/cudnn.h"
#include "bench/sm_clock.h"
#include "bench/telemetry.h"

namespace sluice::bench {

struct Lab {
  Device device;
  StreamHandle stream;
  ReplayTimer timer;
  Verifier verifier;
  std::optional<SmClock> clock;  // empty if its kernel could not be made; clocks are then not measured
  Telemetry telemetry;
  std::shared_ptr<const CublasLt> cublaslt;  // null if not found
  std::string without_cublaslt;              // why it is null
  std::shared_ptr<const Cudnn> cudnn;        // used for convolutions; null if not found or not loaded
  std::string without_cudnn;
  DeviceBuffer peer_workspace;
  Workspace workspace;  // for sluice's kernels
  Method method;
};

inline constexpr i64 kPeerWorkspaceBytes = i64{64} << 20;
/// Upper limit of operand sets. 512 sets of 360 KB are three times an L2 of 60 MB. Smaller weights stay
/// partly in L2.
inline constexpr int kMostCopies = 512;

}  // namespace sluice::bench
