// SPDX-License-Identifier: Apache-2.0
// Names and texts of failures and steps.
#include <sluice/twin/failure.h>

#include <fmt/format.h>

#include <sluice/twin/step.h>

namespace sluice::twin {

const char* name_of(FailureKind kind) {
  switch (kind) {
    case FailureKind::deadlock: return "deadlock";
    case FailureKind::stage_overwritten: return "stage_overwritten";
    case FailureKind::stage_unready: return "stage_unready";
    case FailureKind::wrong_bytes: return "wrong_bytes";
    case FailureKind::wrong_boxes: return "wrong_boxes";
    case FailureKind::over_arrival: return "over_arrival";
    case FailureKind::lost_signal: return "lost_signal";
    case FailureKind::tx_overflow: return "tx_overflow";
    case FailureKind::peer_gone: return "peer_gone";
    case FailureKind::store_buffer_overwritten: return "store_buffer_overwritten";
    case FailureKind::store_unpublished: return "store_unpublished";
    case FailureKind::vectors_unready: return "vectors_unready";
    case FailureKind::accumulator_in_flight: return "accumulator_in_flight";
    case FailureKind::accumulator_wrong: return "accumulator_wrong";
    case FailureKind::tile_twice: return "tile_twice";
    case FailureKind::tile_missing: return "tile_missing";
    case FailureKind::wrong_update: return "wrong_update";
    case FailureKind::unread_stage: return "unread_stage";
    case FailureKind::exchange_overwritten: return "exchange_overwritten";
    case FailureKind::exchange_unready: return "exchange_unready";
    case FailureKind::partial_unready: return "partial_unready";
    case FailureKind::wrong_election: return "wrong_election";
    case FailureKind::counter_left: return "counter_left";
    case FailureKind::workspace_overlap: return "workspace_overlap";
    case FailureKind::before_the_wait: return "before_the_wait";
    case FailureKind::no_wait: return "no_wait";
    case FailureKind::read_early: return "read_early";
    case FailureKind::write_over_read: return "write_over_read";
    case FailureKind::write_over_write: return "write_over_write";
    case FailureKind::endless_role: return "endless_role";
  }
  return "?";
}

const char* name_of(StepKind kind) {
  switch (kind) {
    case StepKind::wait_empty: return "wait_empty";
    case StepKind::expect: return "expect_stage";
    case StepKind::load_a: return "load_a";
    case StepKind::load_b: return "load_b";
    case StepKind::write_scales: return "write_scales";
    case StepKind::arrive_full: return "publish_scales";
    case StepKind::wait_full: return "wait_full";
    case StepKind::read_scales: return "read_scales";
    case StepKind::read_columns: return "read_columns";
    case StepKind::issue_mma: return "issue_mma";
    case StepKind::pass_stage: return "pass_stage";
    case StepKind::clear_rest: return "clear_rest";
    case StepKind::retire_older: return "wait_mma_but_newest";
    case StepKind::retire_all: return "wait_mma";
    case StepKind::arrive_empty: return "release_stage";
    case StepKind::wait_turn: return "wait_turn";
    case StepKind::pass_turn: return "pass_turn";
    case StepKind::begin_tile: return "begin_tile";
    case StepKind::promote: return "promote";
    case StepKind::stage_vectors: return "stage_vectors";
    case StepKind::wait_vectors: return "wait_vectors";
    case StepKind::wait_store: return "wait_store_buffer";
    case StepKind::write_chunk: return "write_chunk";
    case StepKind::publish: return "publish_chunk";
    case StepKind::sync_arrive: return "group_sync (arrive)";
    case StepKind::sync_wait: return "group_sync (wait)";
    case StepKind::issue_store: return "issue_store";
    case StepKind::store_direct: return "store_direct";
    case StepKind::wait_sums_empty: return "wait_sums_empty";
    case StepKind::expect_sums: return "expect_sums";
    case StepKind::send_sums: return "send_sums";
    case StepKind::wait_sums_full: return "wait_sums_full";
    case StepKind::receive_sums: return "receive_sums";
    case StepKind::arrive_sums_empty: return "arrive_sums_empty";
    case StepKind::write_partial: return "write_partial";
    case StepKind::elect: return "elect";
    case StepKind::sum_partials: return "sum_partials";
    case StepKind::reset_counter: return "reset_counter";
    case StepKind::wait_prerequisites: return "wait_prerequisites";
    case StepKind::launch_dependents: return "launch_dependents";
    case StepKind::read_tensor_scales: return "read_tensor_scales";
    case StepKind::copy_chunk: return "copy_chunk";
    case StepKind::read_list: return "read_list";
    case StepKind::fetch_scales: return "fetch_scales";
    case StepKind::fetch_strided: return "fetch_strided";
  }
  return "?";
}

std::string to_string(const Step& s) {
  const std::string tile =
      fmt::format("tile (m {}, n {}, batch {})", s.tile.m_offset, s.tile.n_offset, s.tile.batch);
  switch (s.kind) {
    case StepKind::wait_empty:
    case StepKind::wait_full: return fmt::format("{} stage {} parity {}", name_of(s.kind), s.stage, s.parity);
    case StepKind::expect: return fmt::format("{} stage {}, {} bytes", name_of(s.kind), s.stage, s.count);
    case StepKind::load_a:
    case StepKind::load_b:
    case StepKind::write_scales:
    case StepKind::read_scales:
    case StepKind::read_columns:
    case StepKind::issue_mma:
    case StepKind::pass_stage:
      return fmt::format("{} stage {} {} k-tile {}", name_of(s.kind), s.stage, tile, s.k_tile);
    case StepKind::arrive_empty:
      return fmt::format("{} stage {}: {} arrivals at cta {}", name_of(s.kind), s.stage, s.count, s.target);
    case StepKind::arrive_full:
      return fmt::format("{} stage {}: {} arrivals", name_of(s.kind), s.stage, s.count);
    case StepKind::promote: return fmt::format("{} unit {}", name_of(s.kind), s.unit);
    case StepKind::wait_turn: return fmt::format("{} parity {}", name_of(s.kind), s.parity);
    case StepKind::pass_turn: return fmt::format("{}: {} arrivals", name_of(s.kind), s.count);
    case StepKind::wait_store: return fmt::format("{}: at most {} reads left", name_of(s.kind), s.count);
    case StepKind::sync_wait: return fmt::format("{} number {}", name_of(s.kind), s.count);
    case StepKind::write_chunk:
    case StepKind::copy_chunk:
    case StepKind::issue_store:
      return fmt::format("{} buffer {} {} wave {} column {}", name_of(s.kind), s.stage, tile, s.wave,
                         s.column);
    case StepKind::wait_sums_empty:
    case StepKind::wait_sums_full: return fmt::format("{} parity {}", name_of(s.kind), s.parity);
    case StepKind::expect_sums: return fmt::format("{}: {} bytes", name_of(s.kind), s.count);
    case StepKind::send_sums:
      return fmt::format("{} of {} pass {} to cta {}, {} bytes", name_of(s.kind), tile, s.stage, s.target,
                         s.count);
    case StepKind::receive_sums: return fmt::format("{} of {} pass {}", name_of(s.kind), tile, s.stage);
    case StepKind::arrive_sums_empty:
      return fmt::format("{}: {} arrivals at cta {}", name_of(s.kind), s.count, s.target);
    case StepKind::write_partial:
    case StepKind::elect:
    case StepKind::sum_partials:
    case StepKind::reset_counter:
      return fmt::format("{} of {} by peer {} of {}", name_of(s.kind), tile, s.tile.sharing.rank,
                         s.tile.sharing.peers);
    case StepKind::stage_vectors:
    case StepKind::store_direct: return fmt::format("{} {}", name_of(s.kind), tile);
    default: return name_of(s.kind);
  }
}

std::string describe(const Failure& f) {
  std::string text = fmt::format("{}: {}", name_of(f.kind), f.message);
  if (f.seed) text += fmt::format("\nseed {}", *f.seed);
  if (!f.waiting.empty()) text += "\nwho waits:\n" + f.waiting;
  if (!f.trace.empty()) text += "\nlast steps:\n" + f.trace;
  return text;
}

}  // namespace sluice::twin
