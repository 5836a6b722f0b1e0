// SPDX-License-Identifier: Apache-2.0
// Planted bugs in what is a convolution's own: the walks of its loaders, byte counts, phases (mutants.h).
#pragma once

#include <algorithm>

#include <sluice/twin/record.h>

namespace sluice::twin::mutants {

// ---- walks ----
/// A filter's State that stands still while weights are loaded ahead of the wait.
struct FilterWalkStandsStillEarly : Machine {
  using Machine::Machine;
  void wait_prerequisites() {
    Machine::wait_prerequisites();
    waited = true;
  }
  void load_b(int stage, int k_tile) {
    const ConvWalk before = walk_;
    Machine::load_b(stage, k_tile);
    if (!waited) walk_ = before;
  }
  bool waited = false;
};
/// Both operands count taps in one State.
struct OneWalkForBothOperands : Machine {
  using Machine::Machine;
  void load_b(int stage, int k_tile) {
    ConvBoxes boxes{.count = 1};
    boxes.boxes[0] = walk_.next_a(config(), params_).boxes[0];
    record({.kind = StepKind::load_b, .stage = stage, .tile = load_tile_, .k_tile = k_tile, .conv = boxes});
  }
};
/// A split's run begins at the tile's first k-tile.
struct WalkBeginsWithTheTile : Machine {
  using Machine::Machine;
  void begin_loads(const Tile& tile) {
    Machine::begin_loads(tile);
    Tile whole = tile;
    whole.first_k_tile = 0;
    walk_.begin(config(), params_, whole, cta_rank());
  }
};
/// Every CTA of a cluster loads the slice of the first.
struct WalkForgetsTheSlice : Machine {
  using Machine::Machine;
  void begin_loads(const Tile& tile) {
    Machine::begin_loads(tile);
    walk_.begin(config(), params_, tile, 0);
  }
};
/// 64 pixels further in the row, whatever its length: nothing is carried to the next image.
struct PixelsWithoutCarry : Machine {
  PixelsWithoutCarry(const Scenario& scenario, int cluster, const Agent& agent, StepList& steps)
      : Machine(scenario, cluster, agent, steps) {
    params_.gather.advance_images = 0;
  }
};
struct OneBlockTooMany : Machine {
  OneBlockTooMany(const Scenario& scenario, int cluster, const Agent& agent, StepList& steps)
      : Machine(scenario, cluster, agent, steps) {
    ++params_.gather.blocks;
  }
};
/// dgrad's taps go forwards through dy.
struct TapsNotReversed : Machine {
  TapsNotReversed(const Scenario& scenario, int cluster, const Agent& agent, StepList& steps)
      : Machine(scenario, cluster, agent, steps) {
    Tap* taps = params_.gather.taps;
    const i64 count = taps_of(scenario.conv);
    for (i64 i = 0; i < count / 2; ++i) std::swap(taps[i].offset, taps[count - 1 - i].offset);
  }
};

// ---- bytes ----
/// Every atom of the tile is counted, also those past the last column.
struct AllAtomsExpected : Machine {
  using Machine::Machine;
  void expect_stage(int stage) {
    const int bytes = loaded_bytes_a(config(), params_.m, load_tile_) +
                      config().tile.n / kMnBlock * kMnBlock * kSwizzleRowBytes;
    record({.kind = StepKind::expect, .stage = stage, .count = bytes});
  }
};
/// A tile outside brings no atom, and expects none.
struct NoAtomOutside : Machine {
  using Machine::Machine;
  void expect_stage(int stage) {
    if (inside()) return Machine::expect_stage(stage);
    record(
        {.kind = StepKind::expect, .stage = stage, .count = loaded_bytes_a(config(), params_.m, load_tile_)});
  }
  void load_b(int stage, int k_tile) {
    if (inside()) Machine::load_b(stage, k_tile);
  }
  bool inside() const { return load_tile_.n_offset < params_.n; }
};
/// The whole tile is expected where the last rows come in a shorter box.
struct NoShorterBoxExpected : Machine {
  using Machine::Machine;
  void expect_stage(int stage) {
    const int bytes = config().tile.m * kSwizzleRowBytes + loaded_bytes_b(config(), params_.n, load_tile_);
    record({.kind = StepKind::expect, .stage = stage, .count = bytes});
  }
};
/// A shorter box is expected of a phase, whose boxes are all whole.
struct ShorterBoxOfAPhaseExpected : Machine {
  using Machine::Machine;
  void expect_stage(int stage) {
    const int rows = tile_rows_loaded(params_.m, load_tile_.m_offset, config().tile.m, config().cluster.n);
    record({.kind = StepKind::expect,
            .stage = stage,
            .count = rows * kSwizzleRowBytes + loaded_bytes_b(config(), params_.n, load_tile_)});
  }
};

// ---- phases ----
/// `change` gets all phases of the kernel's parameters.
template <void (*change)(PhaseParams (&)[kMostPhases])>
struct ChangedPhases : Machine {
  ChangedPhases(const Scenario& scenario, int cluster, const Agent& agent, StepList& steps)
      : Machine(scenario, cluster, agent, steps) {
    change(params_.phases);
  }
};
inline void next_k_tiles(PhaseParams (&phases)[kMostPhases]) {
  for (int i = 0; i + 1 < kMostPhases; ++i) phases[i].k_tiles = phases[i + 1].k_tiles;
}
inline void first_k_tiles(PhaseParams (&phases)[kMostPhases]) {
  for (PhaseParams& phase : phases) phase.k_tiles = phases[0].k_tiles;
}
inline void first_taps(PhaseParams (&phases)[kMostPhases]) {
  for (PhaseParams& phase : phases) phase.first_tap = 0;
}
inline void first_pixels(PhaseParams (&phases)[kMostPhases]) {
  for (PhaseParams& phase : phases) phase.pixels = phases[0].pixels;
}
/// The load role takes the k-tiles of the largest phase, and the others their own.
struct LoadsTheLargestPhase : Machine {
  LoadsTheLargestPhase(const Scenario& scenario, int cluster, const Agent& agent, StepList& steps)
      : Machine(scenario, cluster, agent, steps) {
    if (is_load_role()) first_k_tiles(params_.phases);
  }
};
/// A phase's store goes to a row of dx, as if its pixels were neighbours.
struct StoresRowsOfAPhase : Machine {
  using Machine::Machine;
  void issue_store(int buffer, const Tile& tile, int wave, int column) {
    if (!is_elected()) return;
    ConvBoxes row{.count = 1};
    row.pixel[0] = tile.m_offset + group_row() + wave * kWaveRows;
    record({.kind = StepKind::issue_store,
            .stage = buffer,
            .tile = tile,
            .wave = wave,
            .column = column,
            .conv = row});
  }
};

}  // namespace sluice::twin::mutants
