// SPDX-License-Identifier: Apache-2.0
// A valid record, which tests of the tuner change.
#pragma once

#include <sluice/plan/dense/tuned_choice.h>
#include <sluice/plan/records/record_book.h>

#include "tests/packed_problems.h"

namespace sluice {

inline Problem tuned_problem() {
  Problem p{.m = 1024, .n = 4096, .k = 4096};
  return p;
}

inline PackedProblem tuned_packed_problem() {
  return {.m = 16, .n = 4096, .k = 4096, .x = DType::fp16, .d = DType::fp16, .weights = {.group = 64}};
}

/// Returns a record whose choice is not the model's pick, so that a plan shows its source.
inline TuningRecord sample_record(const Problem& problem = tuned_problem()) {
  return {.key = key_of(problem, DeviceInfo{}),
          .choice = TunedChoice{.schedule = Schedule::ping_pong,
                                .tile_m = 64,
                                .tile_n = 96,
                                .cluster = {1, 2},
                                .raster = Raster::along_n,
                                .raster_group = 3,
                                .clusters = 40,
                                .measured_us = 48.125},
          .estimate_us = 50.5,
          .model_us = 49.25,
          .sluice = "0.1.0",
          .driver = "580.159.04",
          .date = "2026-11-21T10:00:00Z",
          .method = "cold, 9 rounds"};
}

/// Returns a valid record of packed weights.
inline TuningRecord sample_packed_record(const PackedConfig& config = NarrowConfig{
                                             .token_blocks = 2, .row_blocks = 2, .warps = 4, .stages = 5}) {
  TuningRecord record = sample_record();
  record.key = key_of(tuned_packed_problem(), DeviceInfo{});
  record.choice = choice_of(Plan{.config = config_of(config)}, 7.125);
  return record;
}

inline TunedChoice& dense_choice(TuningRecord& record) {
  return record.choice;
}
inline Recipe& dense_recipe(TuningRecord& record) {
  return record.key.recipe;
}

}  // namespace sluice
