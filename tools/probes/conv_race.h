// SPDX-License-Identifier: Apache-2.0
// One convolution through all of cuDNN's plans: built, checked against each other and against samples from
// the definition, then timed cold in CUDA graphs. A plan that fails is listed and left out.
#pragma once

#include <string>
#include <vector>

#include "bench/contender/cudnn_problem.h"
#include "bench/json.h"
#include "bench/lab.h"
#include "bench/session.h"
#include "tools/probes/conv_device.h"

namespace sluice::probes {

struct RaceRules {
  i64 most_workspace = bench::kMostCudnnWorkspace;
  int finalists = 6;        // fastest plans that are timed with all rounds; the first and the fastest
                            // deterministic ones are added
  double hopeless = 4;      // a plan so many times slower than the fastest is not screened
  double tolerance = 0.02;  // Difference::relative and SampleError::worst up to this are right
  i64 sampled_products = 1 << 24;
};

/// How far a plan's timing went. probe: one warm launch; screen: three short cold rounds; final: all rounds.
enum class Timed { no, probe, screen, final };

struct PlanRecord {
  bench::CudnnPlan plan;
  Timed timed = Timed::no;
  double probe_us = 0;
  bench::Spread us;  // in the last stage
  double sm_mhz = 0;
  Difference difference;  // from the first plan that ran
  bool wrong = false;
  std::string error;

  bool usable() const { return error.empty() && !wrong && timed >= Timed::screen; }
};

struct ConvRecord {
  bench::CudnnConvolution problem;
  std::vector<PlanRecord> plans;
  std::vector<bench::CudnnRefusal> refused;
  int engines = 0, engines_refused = 0;
  int copies = 0;
  double set_mb = 0, build_s = 0, wall_s = 0;
  int samples = 0;
  double sample_error = 0;
  bool samples_wrong = false;
  bench::TelemetrySummary telemetry;
  std::string error;  // not empty: nothing could be timed

  const PlanRecord* first() const;               // heuristic A's first that runs
  const PlanRecord* best() const;                // nullptr: none
  const PlanRecord* best_deterministic() const;  // without the note that says otherwise
};

/// Never fails as a whole; the record says what went wrong.
ConvRecord race(const bench::Lab& lab, const bench::Cudnn& cudnn, const ConvKernels& kernels,
                const bench::CudnnConvolution& problem, const RaceRules& rules, const bench::Phase& phase);

/// Sets of operands so that a set is cold when its turn comes: others of three times the L2 lie between.
int copies_of(i64 set_bytes, i64 l2_bytes, bool cold);

bench::Json conv_json(const ConvRecord& record);
/// One line for a terminal.
std::string conv_line(const ConvRecord& record);

}  // namespace sluice::probes
