// SPDX-License-Identifier: Apache-2.0
// A problem in host memory, filled and checked by the verification kernels on simulated threads. The CPU
// reference replaces the GEMM kernel. Used by verify_kernels_test.cc and judge_test.cc.
#pragma once

#include <memory>

#include <sluice/check/verify_data.h>
#include <sluice/reference/gemm.h>

#include "simulated_grid.h"
//
#include <sluice/kernels/verify.cuh>

namespace sluice::test {

/// A problem's operands in host memory, written by the fill kernel.
struct HostData {
  Problem problem;
  DataSpec spec;
  std::unique_ptr<u8[]> memory;
  FillParams fill{};
  CheckLog log{};

  HostData(const Problem& p, const DataSpec& s) : problem(with_strides(p)), spec(s) {
    const auto layout = lay_out(p, s);
    memory = std::make_unique<u8[]>(layout->bytes + 16);
    u8* base = memory.get() + (16 - reinterpret_cast<size_t>(memory.get()) % 16);
    for (int i = 0; i < kRegionCount; ++i) {
      fill.regions[i] = layout->regions[i];
      fill.regions[i].base = base + layout->region_begin[i];
      fill.first_chunk[i + 1] = fill.first_chunk[i] + layout->regions[i].span_bytes / kChunkBytes;
    }
    run_fill(nullptr);
    const std::vector<int> table = table_of(problem, spec.routing, spec.seed);
    std::copy(table.begin(), table.end(), reinterpret_cast<int*>(operand(kRegionGroups)));
  }
  void run_fill(CheckLog* to) {
    fill.log = to;
    simulated_grid::launch(1, [&] { verify::fill_regions(fill); });
  }
  u8* operand(int region) const { return fill.regions[region].base + fill.regions[region].element_begin; }
  const int* groups() const { return reinterpret_cast<const int*>(operand(kRegionGroups)); }
  float* scale(int region) const { return reinterpret_cast<float*>(operand(region)); }

  void multiply() const {
    const HostBuffers buffers{.a = operand(0),
                              .b = operand(1),
                              .c = operand(2),
                              .d = operand(kRegionD),
                              .scale_a = scale(5),
                              .scale_b = scale(6),
                              .bias = operand(4),
                              .scale_d = scale(7),
                              .groups = groups(),
                              .scale_out = scale(kRegionScaleOut),
                              .row_factors = scale(kRegionRowFactors)};
    reference_gemm(problem, buffers, spec.alpha, spec.beta);
  }
  CheckParams params(Judge judge, u64 sample_every = 1) {
    const Problem judged = verify::judged_problem(problem);
    return {.problem = judged,
            .y_size = verify::y_size_of(judged.conv),
            .a = operand(0),
            .b = operand(1),
            .c = operand(2),
            .d = operand(kRegionD),
            .scale_a = scale(5),
            .scale_b = scale(6),
            .scale_d = scale(7),
            .row_factors = scale(kRegionRowFactors),
            .scale_out = scale(kRegionScaleOut),
            .bias = operand(4),
            .groups = groups(),
            .alpha = spec.alpha,
            .beta = spec.beta,
            .old_d = fill.regions[kRegionD].fill,
            .old_d_seed = fill.regions[kRegionD].seed,
            .judge = judge,
            .block_rows = ceil_div(judged.m, i64{kCheckTile}),
            .block_columns = ceil_div(d_columns(judged), i64{kCheckTile}),
            .sample_every = sample_every,
            .log = &log};
  }
  CheckLog check(Judge judge, u64 sample_every = 1) {
    log = {};
    run_fill(&log);
    const CheckParams given = params(judge, sample_every);
    simulated_grid::launch(3, [&] { verify::check_output(given); });
    return log;
  }
};

}  // namespace sluice::test
