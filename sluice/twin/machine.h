// SPDX-License-Identifier: Apache-2.0
// The host twin of device/machine.cuh: it has the same steps, but records them instead of executing them.
// kernels/gemm.cuh runs on it once per role; Simulator then executes the recorded steps in any interleaving.
// Mutants (planted bugs, tests/protocol) derive from it and shadow a step; run_roles() is a template, so it
// calls the mutant's step.
#pragma once

#include <sluice/spec/loaded_rows.h>
#include <sluice/twin/conv_walk.h>
#include <sluice/twin/scenario.h>
#include <sluice/kernels/gemm.cuh>

namespace sluice::twin {

class Machine {
 public:
  Machine(const Scenario& scenario, int cluster, const Agent& agent, StepList& steps)
      : scenario_(scenario), cluster_(cluster), agent_(agent), steps_(steps) {
    params_.grid = scenario.grid();
    params_.raster = scenario.split.raster;
    params_.raster_group = scenario.split.group;
    params_.slices = scenario.slices();
    params_.m = scenario.m;
    params_.n = scenario.n;
    if (!is_conv(scenario.conv)) return;
    const int block = scenario.config.tile.k;
    params_.gather = gather_for(scenario.conv, block);
    if (!scenario.config.conv.phased) return;
    fill_phases(scenario.conv, block, params_.phases);
    if (scenario.k == 0)  // alpha is 0
      for (PhaseParams& phase : params_.phases) phase.k_tiles = 0;
  }

  const KernelConfig& config() const { return scenario_.config; }
  const GemmParams& params() const { return params_; }
  int cta_rank() const { return agent_.cta; }
  int cluster_index() const { return cluster_; }
  int cluster_count() const { return scenario_.split.clusters; }

  bool is_load_role() const { return agent_.role != Role::math; }
  bool is_load_warp() const { return is_load_thread(); }
  bool is_load_thread() const { return agent_.role == Role::load; }
  bool is_scale_warp() const { return agent_.role == Role::copies && is_block_scaled(config().epilogue); }
  bool is_strided_warp() const { return agent_.role == Role::copies && loads_strided(config()); }
  void start() {}
  void meet() {}  // not recorded: the simulator begins with initialised barriers
  void enter_load_role() {}
  void enter_math_role() {}
  void wait_prerequisites() {
    if (config().overlap.wait != Wait::none) record({.kind = StepKind::wait_prerequisites});
  }
  void launch_dependents() { record({.kind = StepKind::launch_dependents}); }
  void prefetch() {}  // a hint
  void hand_off() {}
  void read_list() { record({.kind = StepKind::read_list}); }
  GroupTable<GroupInts> groups() const { return {scenario_.groups, config().groups.most}; }
  void read_tensor_scales() { record({.kind = StepKind::read_tensor_scales}); }
  int math_group() const { return agent_.group; }

  void wait_empty(int stage, u32 parity) {
    record({.kind = StepKind::wait_empty, .stage = stage, .parity = parity});
  }
  void begin_loads(const Tile& tile) {
    load_tile_ = tile;
    if (is_conv(scenario_.conv)) walk_.begin(config(), params_, tile, cta_rank());
  }
  void expect_stage(int stage) {
    const int bytes =
        loaded_bytes_a(config(), params_.m, load_tile_) + loaded_bytes_b(config(), params_.n, load_tile_);
    record({.kind = StepKind::expect, .stage = stage, .count = bytes});
  }
  void load_a(int stage, int k_tile) {
    if (config().load_a == Load::tma) bring_a(stage, k_tile);
  }
  void load_b(int stage, int k_tile) {
    if (config().load_b == Load::tma) bring_b(stage, k_tile);
  }
  void begin_strided(const Tile& tile) { load_tile_ = tile; }
  void fetch_strided(int) { record({.kind = StepKind::fetch_strided}); }
  void write_strided(int stage, int k_tile) {
    if (config().load_a == Load::strided) bring_a(stage, k_tile);
    if (config().load_b == Load::strided) bring_b(stage, k_tile);
  }
  void publish_strided(int stage) {
    record({.kind = StepKind::publish, .stage = stage});
    arrive_strided(stage, kStridedWarps);
  }

  void begin_scales(const Tile& tile) { load_tile_ = tile; }
  void fetch_scales(int) { record({.kind = StepKind::fetch_scales}); }
  void write_scales(int stage, int k_tile) {
    record({.kind = StepKind::write_scales, .stage = stage, .tile = load_tile_, .k_tile = k_tile});
  }
  void publish_scales(int stage) {
    record({.kind = StepKind::arrive_full, .stage = stage, .count = kScaleWarps});
  }

  void stage_vectors(const Tile& own) {
    if (stages_vectors(config().epilogue)) record({.kind = StepKind::stage_vectors, .tile = own});
  }
  void wait_vectors() {
    if (stages_vectors(config().epilogue)) record({.kind = StepKind::wait_vectors});
  }

  void begin_tile(int k_tiles) { record({.kind = StepKind::begin_tile, .count = k_tiles}); }
  void wait_full(int stage, u32 parity) {
    record({.kind = StepKind::wait_full, .stage = stage, .parity = parity});
  }
  void read_scales(int stage) {
    if (is_block_scaled(config().epilogue)) record({.kind = StepKind::read_scales, .stage = stage});
  }
  void issue_mma(int unit, int stage, bool fresh) {
    record({.kind = StepKind::issue_mma, .fresh = fresh, .stage = stage, .unit = unit});
  }
  void pass_stage(int stage, const Tile& tile, int k_tile) {
    record(
        {.kind = StepKind::pass_stage, .stage = stage, .tile = tile, .k_tile = tile.first_k_tile + k_tile});
  }
  void wait_mma_but_newest() { record({.kind = StepKind::retire_older}); }
  void wait_mma() { record({.kind = StepKind::retire_all}); }
  void promote(int unit, int stage) {
    if (scales_each_column(config().epilogue)) record({.kind = StepKind::read_columns, .stage = stage});
    record({.kind = StepKind::promote, .unit = unit});
  }
  void release_stage(int stage) { release(stage, arrivals()); }
  void clear_rest(int stage, const Tile& tile) {
    if (tile.k_end - tile.k_begin == tile.k_tiles * config().tile.k) return;
    record({.kind = StepKind::clear_rest, .stage = stage, .tile = tile});
    record({.kind = StepKind::publish});
    group_sync();
  }
  void wait_turn(u32 parity) { record({.kind = StepKind::wait_turn, .parity = parity}); }
  void pass_turn() { record({.kind = StepKind::pass_turn, .count = arrivals()}); }

  int exchange_passes() const { return sluice::exchange_passes(config()); }
  bool has_rows(const Tile& tile) const { return live_rows(tile) > 0; }
  void wait_sums_empty(u32 parity) { record({.kind = StepKind::wait_sums_empty, .parity = parity}); }
  void send_sums(const Tile& tile, int pass) {
    const int bytes = config().cluster.k * exchange_live_bytes(config(), live_rows(tile));
    if (is_elected()) record({.kind = StepKind::expect_sums, .count = bytes});
    for (int cta = 0; cta < scenario_.ctas(); ++cta) send_sums_to(cta, tile, pass);
  }
  void wait_sums_full(u32 parity) { record({.kind = StepKind::wait_sums_full, .parity = parity}); }
  void receive_sums(const Tile& tile, int pass) {
    record({.kind = StepKind::receive_sums, .stage = pass, .count = sent_bytes(tile), .tile = tile});
  }
  void release_sums() {
    for (int cta = 0; cta < scenario_.ctas(); ++cta) release_sums_to(cta);
  }

  void write_partial(const Tile& tile) {
    wait_vectors();
    record({.kind = StepKind::write_partial, .tile = tile});
  }
  void publish_partial() { group_sync(); }
  /// Returns true: which CTA is the last depends on the interleaving. Later steps are recorded as if this CTA
  /// were the last; the simulator skips them if it is not.
  bool is_last_arriver(const Tile& tile) {
    count_arrival(tile, tile.sharing.peers - 1);
    group_sync();
    return guarded_ = true;
  }
  void sum_partials(const Tile& tile) { record({.kind = StepKind::sum_partials, .tile = tile}); }
  void end_tile() { guarded_ = false; }

  void wait_store_buffer() {
    if (is_elected()) record({.kind = StepKind::wait_store, .count = kStoreBuffers - 1});
    group_sync();
  }
  void write_chunk(int buffer, const Tile& tile, int wave, int column) {
    record({.kind = StepKind::write_chunk, .stage = buffer, .tile = tile, .wave = wave, .column = column});
  }
  void publish_chunk() {
    record({.kind = StepKind::publish});
    group_sync();
  }
  void issue_store(int buffer, const Tile& tile, int wave, int column) {
    if (has_groups(config()) && live_rows(tile) < (wave + 1) * kWaveRows)
      return record(
          {.kind = StepKind::copy_chunk, .stage = buffer, .tile = tile, .wave = wave, .column = column});
    if (!is_elected()) return;
    record({.kind = StepKind::issue_store,
            .adds = adds(config().epilogue),
            .stage = buffer,
            .tile = tile,
            .wave = wave,
            .column = column,
            .conv = stored_pixels(config(), params_, tile, group_row() + wave * kWaveRows)});
  }
  void finish_stores() {
    if (config().store == StorePath::tma && is_elected()) record({.kind = StepKind::wait_store});
  }
  void store_direct(const Tile& tile) {
    if (stages_vectors(config().epilogue)) group_sync();
    record({.kind = StepKind::store_direct, .adds = adds(config().epilogue), .tile = tile});
    if (stages_vectors(config().epilogue)) group_sync();
  }

 protected:
  void bring_a(int stage, int k_tile) {
    record({.kind = StepKind::load_a,
            .stage = stage,
            .tile = load_tile_,
            .k_tile = k_tile,
            .conv = walk_.next_a(config(), params_)});
  }
  void bring_b(int stage, int k_tile) {
    record({.kind = StepKind::load_b,
            .stage = stage,
            .tile = load_tile_,
            .k_tile = k_tile,
            .conv = walk_.next_b(config(), params_)});
  }
  void arrive_strided(int stage, int count) {
    record({.kind = StepKind::arrive_full, .stage = stage, .count = count});
  }
  /// Thrown if a role does not end; caught by record_agent() below.
  struct Endless {};
  static constexpr size_t kMaxSteps = size_t{1} << 20;

  void record(const Step& step) {
    if (steps_.size() == kMaxSteps) throw Endless{};
    steps_.push_back(step);
    steps_.back().guarded = guarded_;
  }
  /// Signals every CTA whose multicast loads write to this one: those of its cluster row and cluster column.
  void release(int stage, int count) {
    const int rows = config().cluster.m, row = cta_rank() % rows, column = cta_rank() / rows;
    for (int cta = 0; cta < scenario_.ctas(); ++cta)
      if (multicasts(config()) ? cta % rows == row || cta / rows == column : cta == cta_rank())
        record({.kind = StepKind::arrive_empty, .stage = stage, .count = count, .target = cta});
  }
  void send_sums_to(int cta, const Tile& tile, int pass) {
    record(
        {.kind = StepKind::send_sums, .stage = pass, .count = sent_bytes(tile), .target = cta, .tile = tile});
  }
  void release_sums_to(int cta) {
    record({.kind = StepKind::arrive_sums_empty, .count = arrivals(), .target = cta});
  }
  void count_arrival(const Tile& tile, int bound) {
    if (is_elected()) record({.kind = StepKind::elect, .count = bound, .tile = tile});
  }
  /// Bytes that this agent's warps send to one CTA in one pass; a warp has 16 of a wave's 64 rows.
  int sent_bytes(const Tile& tile) const {
    int blocks = 0;
    for (int row = 0; row < min(live_rows(tile), group_rows(config())); row += kWarpRows)
      if (row / kWarpRows % kMathWarps / arrivals() == agent_.warp) ++blocks;
    return blocks * kWarpRows * pass_columns(config()) * 4;
  }
  /// Number of rows of this group that are inside the matrix.
  int live_rows(const Tile& tile) const { return scenario_.row_end_of(tile) - tile.m_offset - group_row(); }
  int group_row() const {
    return config().schedule == Schedule::cooperative ? math_group() * group_rows(config()) : 0;
  }
  void group_sync() {
    if (scenario_.warps_per_group == 1) return;  // the whole group is one agent
    record({.kind = StepKind::sync_arrive});
    record({.kind = StepKind::sync_wait, .count = ++syncs_});
  }
  bool is_elected() const { return agent_.warp == 0; }
  int arrivals() const { return kMathWarps / scenario_.warps_per_group; }

  const Scenario& scenario_;
  int cluster_;
  Agent agent_;
  StepList& steps_;
  PhasedParams params_{};
  Tile load_tile_{};  // the tile whose operands or block scales are loaded
  ConvWalk walk_;
  int syncs_ = 0;
  bool guarded_ = false;  // recorded steps happen only if this CTA is the last peer of its tile

  template <class AnyMachine>
  friend bool record_agent(const Scenario&, int, const Agent&, StepList&);
};

/// Records one role of kernels/gemm.cuh on `AnyMachine`. Returns false if the role does not end.
template <class AnyMachine>
bool record_agent(const Scenario& scenario, int cluster, const Agent& agent, StepList& steps) {
  try {
    AnyMachine machine(scenario, cluster, agent, steps);
    run_roles(machine);
    return true;
  } catch (const Machine::Endless&) {
    return false;
  }
}

}  // namespace sluice::twin
