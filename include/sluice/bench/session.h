// SPDX-License-Identifier: Apache-2.0
// Measures one shape: prepares, fills, verifies, screens, and times contenders in turn. A dense product is
// compared with cuBLASLt's algorithms, a convolution with cuDNN's plans. A packed product is compared with a
// plain read of its blob, with FP8 products of its size (cuBLASLt's and ours), and with cuBLASLt's 16-bit
// one. Failures are stored in the record and the rest continues. Only a lost GPU ends a bench (still_alive).
//   auto lab = sluice::bench::open_lab(device, {.method = {.rounds = 9}});
//   auto shape = sluice::bench::measure_shape(**lab, {.request = request, .plan = plan}, {});
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <sluice/bench/record.h>
#include <sluice/gemm.h>

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
  bool uniform = false;  // values of A and B: uniform in [-1, 1); false: normal, with variance 1
};

/// Objects that the measurements of all shapes share: the device, a stream, a timer, the verifier, cuBLASLt,
/// cuDNN, workspaces and clocks. Made once per program and used from one thread.
struct Lab;

struct LabSetup {
  Method method{};
  std::string cublaslt{};     // the libcublasLt to load; "": the first that is found
  bool convolutions = false;  // true: load cuDNN
  std::string cudnn{};        // the libcudnn to load; "": the first that is found
};
/// Errors: driver, toolchain (no NVRTC for the checking kernels). A missing cuBLASLt or cuDNN is not an
/// error.
Result<std::shared_ptr<const Lab>> open_lab(const Device& device, const LabSetup& setup);
const Device& device_of(const Lab& lab);
const Method& method_of(const Lab& lab);
/// Why cuBLASLt, or cuDNN, is not loaded; "" if it is.
const std::string& without_cublaslt(const Lab& lab);
const std::string& without_cudnn(const Lab& lab);

/// Returns where cuBLASLt, or cuDNN, would be loaded from. The error lists why each place failed.
Result<std::string> find_cublaslt(const std::string& path);
Result<std::string> find_cudnn(const std::string& path);

/// Receives the name of each phase as it begins, for progress lines and watchdogs.
using Phase = std::function<void(const std::string& what)>;

/// Measures one shape: the given plan, the winner of its race and, with Method::tune, the planner's other
/// candidates.
ShapeRecord measure_shape(const Lab& lab, const Planned& item, const Phase& phase);
/// Returns the record of a problem that could not be planned.
ShapeRecord unplanned_shape(const Request& request, const Error& error);

/// Checks the GPU. Error driver: a kernel faulted and the context is lost, so this process can measure
/// nothing more.
Result<void> still_alive(const Lab& lab);

/// Fills the parts of a RunRecord that do not depend on shapes. The caller sets `command` and `commit`.
RunRecord describe_run(const Lab& lab);

}  // namespace sluice::bench
