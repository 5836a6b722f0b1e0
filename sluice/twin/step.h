// SPDX-License-Identifier: Apache-2.0
// One step of a role, as Machine recorded it. Of all steps of kernels/gemm.cuh, only `elect` returns a value
// that depends on other agents; steps that depend on its result are recorded and marked as guarded. So a role
// is a fixed list of steps. An interleaving is an order of all roles' steps, with a result for each `elect`.
// Written by Machine, read by Simulator.
#pragma once

#include <string>

#include <sluice/spec/smem_layout.h>
#include <sluice/spec/work_split.h>

namespace sluice::twin {

enum class StepKind : u8 {
  wait_empty,     // stage, parity
  expect,         // stage, count = bytes
  load_a,         // stage, tile, k_tile: by TMA, or by the role that copies
  load_b,         // stage, tile, k_tile
  write_scales,   // stage, tile, k_tile: into shared memory
  arrive_full,    // stage, count arrivals of the warps that wrote scales or operands
  wait_full,      // stage, parity
  read_scales,    // stage: into registers
  read_columns,   // stage: those of B's columns, while their sums are promoted
  issue_mma,      // unit, stage, fresh
  pass_stage,     // stage, tile, k_tile: has no rows there, and reads nothing
  clear_rest,     // stage, tile: zeros the rows of k behind the group's end
  retire_older,   // all products but the newest
  retire_all,     //
  arrive_empty,   // stage, count arrivals at CTA `target`
  wait_turn,      // parity
  pass_turn,      // count arrivals at the other group
  begin_tile,     // count = k_tiles
  promote,        // unit
  stage_vectors,  // tile: begins copying this role's share of the row and column scales
  wait_vectors,   // until the copy is complete
  wait_store,     // until at most `count` stores of this role are still reading their buffers
  write_chunk,    // buffer, tile, wave, column
  publish,        // the proxy fence over this role's writes
  sync_arrive,    // the group's named barrier, in two steps: warps wait for each other
  sync_wait,      // count = number of the group's barrier, from 1
  issue_store,    // buffer, tile, wave, column
  store_direct,   // tile
  copy_chunk,     // buffer, tile, wave, column: the live rows of a chunk, by all warps of the group
  // The exchange in a cluster along k:
  wait_sums_empty,    // parity
  expect_sums,        // count = bytes, of all warps of this group in all CTAs
  send_sums,          // stage = pass, tile, target, count = bytes of this role's warps (0: rows outside of D)
  wait_sums_full,     // parity
  receive_sums,       // stage = pass, tile, count = bytes that each sender's warps sent
  arrive_sums_empty,  // count arrivals at the corresponding group of CTA `target`
  // The combination of a shared tile:
  write_partial,  // tile: this group's sums, to its slot
  elect,  // tile: counts one arrival, wrapping at `count`; decides whether later guarded steps are executed
  sum_partials,   // tile: the slots of all peers, in order, into the sums
  reset_counter,  // tile: planted bugs only
  // Steps that concern other launches (spec/overlap.h):
  wait_prerequisites,  // until earlier launches have ended
  launch_dependents,   // the next launch may begin
  read_tensor_scales,  // into registers
  read_list,           // the table of groups
  fetch_scales,        // into registers: block scales
  fetch_strided,       // into registers: a strided operand's first part
};
const char* name_of(StepKind kind);

/// One box of a convolution's load: the offsets of its tap, the filter's matrix of that tap, and its first
/// channel.
struct TapBox {
  u16 offset[kMostSpatial] = {};
  u16 filter = 0;
  int channel = 0;

  bool operator==(const TapBox&) const = default;
};
/// The TMA coordinates of one load of a convolution, or of one store of a phase.
struct ConvBoxes {
  static constexpr int kMost = 256 / kMnBlock;  // the most boxes of a load: the column blocks of a wgrad tile

  int pixel[kMostSpatial] = {}, image = 0;  // the first pixel, before a tap's offset
  int count = 0;                            // 0: a plain matrix
  TapBox boxes[kMost] = {};

  bool operator==(const ConvBoxes&) const = default;
};

struct Step {
  StepKind kind = StepKind::begin_tile;
  bool fresh = false;
  bool adds = false;     // stores: adds to D instead of overwriting
  bool guarded = false;  // only if this role's group was the last peer of the tile
  int stage = 0;         // the stage, the store buffer, or the pass of the exchange
  u32 parity = 0;
  int count = 0;
  int target = 0;
  int unit = 0;
  Tile tile{};
  int k_tile = 0;
  int wave = 0;
  int column = 0;
  ConvBoxes conv{};
  // Filled in by annotate(), from the whole list:
  int pass = -1;  // loads, sums, arrivals: the phase of the barrier in which this step must be counted
  // loads and scales: number of the k-tile in this role, from 1; vectors: number of the tile
  int sequence = 0;
};

/// "load_a stage 2 of tile (128, 0) k-tile 3"
std::string to_string(const Step& step);

}  // namespace sluice::twin
