// SPDX-License-Identifier: Apache-2.0
// Planted bugs in the parts that only convolutions have: the loaders' traversal of pixels and taps, byte
// counts, and phases (see mutants.h).
#pragma once

#include <algorithm>

#include <sluice/twin/record.h>

namespace sluice::twin::mutants {

// ---- walks ----
/// Bug: the filter's position does not advance while weights are loaded ahead of the wait.
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
/// Bug: the gathered operand and the filter advance one common position.
struct OneWalkForBothOperands : Machine {
  using Machine::Machine;
  void load_b(int stage, int k_tile) {
    ConvBoxes boxes{.count = 1};
    boxes.boxes[0] = walk_.next_a(config(), params_).boxes[0];
    record({.kind = StepKind::load_b, .stage = stage, .tile = load_tile_, .k_tile = k_tile, .conv = boxes});
  }
};
/// Bug: a slice starts to load at the tile's first k-tile instead of its own.
struct WalkBeginsWithTheTile : Machine {
  using Machine::Machine;
  void begin_loads(const Tile& tile) {
    Machine::begin_loads(tile);
    Tile whole = tile;
    whole.first_k_tile = 0;
    walk_.begin(config(), params_, whole, cta_rank());
  }
};
/// Bug: each CTA of a cluster loads the multicast slice of the first CTA.
struct WalkForgetsTheSlice : Machine {
  using Machine::Machine;
  void begin_loads(const Tile& tile) {
    Machine::begin_loads(tile);
    walk_.begin(config(), params_, tile, 0);
  }
};
/// Bug: moves on by 64 pixels without carrying to the next image.
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
/// Bug: dgrad visits the taps of dy in forward order instead of reversed.
struct TapsNotReversed : Machine {
  TapsNotReversed(const Scenario& scenario, int cluster, const Agent& agent, StepList& steps)
      : Machine(scenario, cluster, agent, steps) {
    Tap* taps = params_.gather.taps;
    const i64 count = taps_of(scenario.conv);
    for (i64 i = 0; i < count / 2; ++i) std::swap(taps[i].offset, taps[count - 1 - i].offset);
  }
};

// ---- bytes ----
/// Bug: expects the bytes of all atoms of a tile, also past the last column, where none is loaded.
struct AllAtomsExpected : Machine {
  using Machine::Machine;
  void expect_stage(int stage) {
    const int bytes = loaded_bytes_a(config(), params_.m, load_tile_) +
                      config().tile.n / kMnBlock * kMnBlock * kSwizzleRowBytes;
    record({.kind = StepKind::expect, .stage = stage, .count = bytes});
  }
};
/// Bug: a tile outside of D loads no atom and expects none, though its peers wait for its slice.
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
/// Bug: expects the bytes of the whole tile, although a shorter box loads its last rows.
struct NoShorterBoxExpected : Machine {
  using Machine::Machine;
  void expect_stage(int stage) {
    const int bytes = config().tile.m * kSwizzleRowBytes + loaded_bytes_b(config(), params_.n, load_tile_);
    record({.kind = StepKind::expect, .stage = stage, .count = bytes});
  }
};
/// Bug: expects a shorter box for a phase, although a phase's boxes are never shortened.
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
/// Bug: `change` alters the phases in the kernel's parameters.
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
/// Bug: the load role loads as many k-tiles as the largest phase has, the other roles use the right number.
struct LoadsTheLargestPhase : Machine {
  LoadsTheLargestPhase(const Scenario& scenario, int cluster, const Agent& agent, StepList& steps)
      : Machine(scenario, cluster, agent, steps) {
    if (is_load_role()) first_k_tiles(params_.phases);
  }
};
/// Bug: stores a phase's pixels to adjacent rows of dx, although they are a stride apart.
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
