// SPDX-License-Identifier: Apache-2.0
// A record that is right in every field, for tests of the tuner to bend.
#pragma once

#include <sluice/tuner/record_book.h>

namespace sluice {

inline Problem tuned_problem() {
  Problem p{.m = 1024, .n = 4096, .k = 4096};
  return p;
}

/// Not what the model picks, so that a plan shows who chose.
inline TuningRecord sample_record(const Problem& problem = tuned_problem()) {
  return {.key = key_of(problem, DeviceInfo{}),
          .choice = {.schedule = Schedule::ping_pong,
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

}  // namespace sluice
