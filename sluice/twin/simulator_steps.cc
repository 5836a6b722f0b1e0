// SPDX-License-Identifier: Apache-2.0
// The effect of each step of a role on the state, and the rules that it may break. See simulator.h.
#include <fmt/format.h>

#include <cstdlib>

#include <sluice/twin/local_rules.h>
#include <sluice/twin/simulator.h>

namespace sluice::twin {
namespace {

// An agent's products in flight, in one word. Bit i: an older product reads stage i. From bit 16: 1 + the
// stage of the newest product.
constexpr u32 kNewestShift = 16;
u32 older_and_newest(u32 word) {
  const u32 newest = word >> kNewestShift;
  return (word & 0xffff) | (newest != 0 ? 1u << (newest - 1) : 0);
}

/// Returns true for steps that no other agent can observe. They are executed together with the step before,
/// which saves interleavings. Sending sums is one of them, because arrival is a separate, arbitrarily late
/// transition: a rule that a later send would break is broken by an earlier one too.
bool is_local(const Step& step) {
  switch (step.kind) {
    case StepKind::begin_tile:
    case StepKind::stage_vectors:  // as early as possible: the worst case for readers of the previous vectors
    case StepKind::wait_vectors:
    case StepKind::promote:
    case StepKind::store_direct:
    case StepKind::publish:
    case StepKind::send_sums:
    case StepKind::write_partial:  // only other clusters observe it; CombineModel checks that
    case StepKind::sum_partials:
    case StepKind::wait_prerequisites:  // local_rules.h checks the steps before it
    case StepKind::launch_dependents:
    case StepKind::read_tensor_scales:
    case StepKind::read_list:
    case StepKind::fetch_scales:
    case StepKind::fetch_strided:
    case StepKind::reset_counter: return true;
    case StepKind::receive_sums: return step.count == 0;
    default: return false;
  }
}

}  // namespace

const Step* Simulator::next_step(const State& s, int agent) const {
  const StepList& steps = program_.agents[agent];
  return pc(s, agent) < steps.size() ? &steps[pc(s, agent)] : nullptr;
}

bool Simulator::has_left(const State& s, int cta) const {
  const int first = cta * scenario_.agents_per_cta();
  for (int agent = first; agent < first + scenario_.agents_per_cta(); ++agent)
    if (next_step(s, agent) != nullptr) return false;
  return true;
}

Failure Simulator::fail(FailureKind kind, int agent, const Step& step, const std::string& why) const {
  return {kind, fmt::format("{}: {}: {}", agent_name(scenario_, agent), to_string(step), why)};
}

std::optional<Failure> Simulator::check_peer(State& s, int agent, const Step& step, int cta) const {
  if (!has_left(s, cta)) return std::nullopt;
  return fail(FailureKind::peer_gone, agent, step, fmt::format("cta {} has left", cta));
}

Failure Simulator::fail_at_end(FailureKind kind, int cta, const std::string& why) {
  return {.kind = kind, .message = fmt::format("cta {} {}", cta, why)};
}

bool Simulator::can_step(State& s, int agent, const Step& step) const {
  const Agent at = agent_at(scenario_, agent);
  switch (step.kind) {
    case StepKind::wait_empty: return empty(s, at.cta, step.stage).passes(step.parity);
    case StepKind::wait_full: return full(s, at.cta, step.stage).passes(step.parity);
    case StepKind::wait_turn: return turn(s, at.cta, at.group).passes(step.parity);
    case StepKind::wait_sums_empty: return sums_empty(s, at.cta, at.group).passes(step.parity);
    case StepKind::wait_sums_full: return sums_full(s, at.cta, at.group).passes(step.parity);
    case StepKind::sync_wait:
      return syncs(s, at.cta, at.group) >= static_cast<u32>(step.count * scenario_.warps_per_group);
    case StepKind::wait_store:  // bulk groups complete in order: only the newest may be left
      if (step.count >= kStoreBuffers) return true;
      for (int i = 0; i < kStoreBuffers; ++i) {
        const bool is_newest = newest(s, at.cta, at.group) == static_cast<u32>(i + 1);
        if ((buffer(s, at.cta, at.group, i) & kReading) != 0 && (step.count == 0 || !is_newest)) return false;
      }
      return true;
    default: return true;
  }
}

std::optional<Failure> Simulator::do_step(State& s, int agent, const Step& step) const {
  const Agent at = agent_at(scenario_, agent);
  switch (step.kind) {
    case StepKind::expect:
    case StepKind::expect_sums: return do_expect(s, agent, step);
    case StepKind::load_a:
    case StepKind::load_b: return do_load(s, agent, step);
    case StepKind::write_scales:
      scales(s, at.cta, step.stage) = static_cast<u32>(step.sequence);
      return std::nullopt;
    case StepKind::read_scales:
    case StepKind::read_columns: return do_read_scales(s, agent, step);
    case StepKind::issue_mma: return do_mma(s, agent, step);
    case StepKind::pass_stage: return check_stage(s, agent, step);
    case StepKind::retire_older: reading(s, agent) &= ~0xffffu; return std::nullopt;
    case StepKind::retire_all: reading(s, agent) = 0; return std::nullopt;
    case StepKind::arrive_full:
    case StepKind::arrive_empty:
    case StepKind::arrive_sums_empty:
    case StepKind::pass_turn: return do_arrive(s, agent, step);
    case StepKind::sync_arrive: ++syncs(s, at.cta, at.group); return std::nullopt;
    case StepKind::stage_vectors:
    case StepKind::wait_vectors: return do_vectors(s, agent, step);
    case StepKind::store_direct: return check_vectors(s, agent, step);
    case StepKind::write_chunk:
      if (auto failure = check_vectors(s, agent, step)) return failure;
      return do_store(s, agent, step);
    case StepKind::publish:
    case StepKind::copy_chunk:
    case StepKind::issue_store: return do_store(s, agent, step);
    case StepKind::send_sums: return do_send(s, agent, step);
    case StepKind::receive_sums: return do_receive(s, agent, step);
    default: return std::nullopt;  // waits have no effect other than having passed
  }
}

std::optional<Failure> Simulator::do_expect(State& s, int agent, const Step& step) const {
  const Agent at = agent_at(scenario_, agent);
  Barrier barrier =
      step.kind == StepKind::expect ? full(s, at.cta, step.stage) : sums_full(s, at.cta, at.group);
  if (!barrier.add_bytes(step.count))
    return fail(FailureKind::tx_overflow, agent, step, "more pending bytes than an mbarrier counts");
  if (!barrier.arrive(1)) return fail(FailureKind::over_arrival, agent, step, "the phase has its arrival");
  return std::nullopt;
}

std::optional<Failure> Simulator::do_load(State& s, int agent, const Step& step) const {
  const KernelConfig& c = scenario_.config;
  const Agent at = agent_at(scenario_, agent);
  const int row = row_of(at.cta), column = column_of(at.cta);
  const bool is_a = step.kind == StepKind::load_a;
  const int peers = is_a ? c.cluster.n : c.cluster.m;
  for (int peer = 0; peer < peers; ++peer) {
    const int cta = !multicasts(c) ? at.cta : is_a ? peer * c.cluster.m + row : column * c.cluster.m + peer;
    const SlotAt slot{cta, step.stage, is_a ? column : c.cluster.n + row};
    if (auto failure = check_peer(s, agent, step, cta)) return failure;
    if (incoming(s, slot) != 0)
      return fail(FailureKind::stage_overwritten, agent, step,
                  fmt::format("cta {} still receives {}", cta, to_string(load_of(slot, incoming(s, slot)))));
    const int first = cta * scenario_.agents_per_cta();
    for (int reader = first + scenario_.first_math(); reader < first + scenario_.agents_per_cta(); ++reader)
      if ((older_and_newest(reading(s, reader)) >> step.stage & 1) != 0)
        return fail(FailureKind::stage_overwritten, agent, step,
                    agent_name(scenario_, reader) + " has a product in flight that reads it");
    incoming(s, slot) = static_cast<u32>(step.sequence);
  }
  return std::nullopt;
}

void Simulator::publish_strided(State& s, int cta, int stage) const {
  for (int slice = 0; slice < slices_; ++slice) {
    const SlotAt slot{cta, stage, slice};
    if (!is_strided(slice) || incoming(s, slot) == 0) continue;
    content(s, slot) = incoming(s, slot);
    incoming(s, slot) = 0;
  }
}

std::optional<Failure> Simulator::check_stage(State& s, int agent, const Step& step) const {
  const Agent at = agent_at(scenario_, agent);
  for (int slice = 0; slice < slices_; ++slice) {
    const SlotAt slot{at.cta, step.stage, slice};
    const bool is_a = slice < scenario_.config.cluster.n;
    const char* operand = is_a ? "A" : "B";
    if (incoming(s, slot) != 0)
      return fail(FailureKind::stage_unready, agent, step,
                  fmt::format("slice {} of {} is being written",
                              is_a ? slice : slice - scenario_.config.cluster.n, operand));
    if (content(s, slot) == 0)
      return fail(FailureKind::stage_unready, agent, step, fmt::format("{} was never written", operand));
    const Step& load = load_of(slot, content(s, slot));
    const bool same =
        load.k_tile == step.k_tile && load.tile.batch == step.tile.batch &&
        (is_a ? load.tile.m_offset == step.tile.m_offset : load.tile.n_offset == step.tile.n_offset);
    if (!same) return fail(FailureKind::wrong_bytes, agent, step, "the stage holds " + to_string(load));
  }
  return std::nullopt;
}

std::optional<Failure> Simulator::do_mma(State& s, int agent, const Step& step) const {
  if (auto failure = check_stage(s, agent, step)) return failure;
  u32& word = reading(s, agent);
  word = older_and_newest(word) | static_cast<u32>(step.stage + 1) << kNewestShift;
  return std::nullopt;
}

std::optional<Failure> Simulator::do_read_scales(State& s, int agent, const Step& step) const {
  const int cta = agent_at(scenario_, agent).cta;
  const u32 sequence = scales(s, cta, step.stage);
  if (sequence == 0)
    return fail(FailureKind::stage_unready, agent, step, "no scales were ever written there");
  const Step& written = *scales_written_[cta][sequence - 1];
  if (written.k_tile != step.k_tile || written.tile.batch != step.tile.batch ||
      written.tile.m_offset != step.tile.m_offset || written.tile.n_offset != step.tile.n_offset)
    return fail(FailureKind::wrong_bytes, agent, step, "found the result of " + to_string(written));
  return std::nullopt;
}

std::optional<Failure> Simulator::do_arrive(State& s, int agent, const Step& step) const {
  const Agent at = agent_at(scenario_, agent);
  const bool to_others = step.kind == StepKind::arrive_empty || step.kind == StepKind::arrive_sums_empty;
  const int cta = to_others ? step.target : at.cta;
  if (has_left(s, cta)) return fail(FailureKind::peer_gone, agent, step, fmt::format("cta {} has left", cta));
  Barrier barrier = step.kind == StepKind::pass_turn           ? turn(s, cta, 1 - at.group)
                    : step.kind == StepKind::arrive_full       ? full(s, cta, step.stage)
                    : step.kind == StepKind::arrive_sums_empty ? sums_empty(s, cta, at.group)
                                                               : empty(s, cta, step.stage);
  if (barrier.phase() != step.pass)
    return fail(FailureKind::lost_signal, agent, step,
                fmt::format("falls into phase {}, and is for phase {}", barrier.phase(), step.pass));
  const int pending = barrier.pending();
  if (!barrier.arrive(step.count))
    return fail(FailureKind::over_arrival, agent, step, fmt::format("only {} are pending", pending));
  return std::nullopt;
}

std::optional<Failure> Simulator::do_store(State& s, int agent, const Step& step) const {
  const Agent at = agent_at(scenario_, agent);
  const u32 me = 1u << at.warp;
  if (step.kind == StepKind::publish && at.role == Role::copies) {
    publish_strided(s, at.cta, step.stage);
    return std::nullopt;
  }
  if (step.kind == StepKind::publish) {
    for (int i = 0; i < kStoreBuffers; ++i) {
      u32& word = buffer(s, at.cta, at.group, i);
      if ((word & me) != 0) word = (word & ~me) | me << 4;
    }
    return std::nullopt;
  }
  const int which = step.stage ^ static_cast<int>(flip(s, agent));
  u32& word = buffer(s, at.cta, at.group, which);
  if (step.kind == StepKind::write_chunk) {
    if ((word & kReading) != 0)
      return fail(FailureKind::store_buffer_overwritten, agent, step, "TMA still reads the buffer");
    word = (word & ~(me << 4)) | me;
    return std::nullopt;
  }
  const u32 all = (1u << scenario_.warps_per_group) - 1;
  if (word != all << 4)
    return fail(FailureKind::store_unpublished, agent, step,
                fmt::format("warps with unfenced writes {:#x}, with published ones {:#x} of {:#x}",
                            word & 0xf, word >> 4 & 0xf, all));
  // Threads that copy have read the buffer when the step ends. The elected one commits an empty bulk group.
  if (step.kind != StepKind::copy_chunk) word = kReading;
  if (at.warp == 0) newest(s, at.cta, at.group) = static_cast<u32>(which + 1);
  return std::nullopt;
}

std::optional<Failure> Simulator::take_step(State& s, int agent, bool wins, Observer* observer) const {
  const Step& step = *next_step(s, agent);
  ++pc(s, agent);
  if (auto failure = do_step(s, agent, step)) return failure;
  if (step.kind == StepKind::elect) {
    const Agent at = agent_at(scenario_, agent);
    won(s, at.cta, at.group) = wins ? 1 : 0;
  }
  tell(s, agent, step, observer);
  return settle(s, agent, observer);
}

std::optional<Failure> Simulator::settle(State& s, int agent, Observer* observer) const {
  const Agent at = agent_at(scenario_, agent);
  const Step* step = next_step(s, agent);
  for (; step != nullptr; step = next_step(s, agent)) {
    const bool left_out = step->guarded && won(s, at.cta, at.group) == 0;
    if (!left_out && !is_local(*step)) break;
    ++pc(s, agent);
    if (left_out) {
      leave_out(s, agent, *step);
      continue;
    }
    if (auto failure = do_step(s, agent, *step)) return failure;
    tell(s, agent, *step, observer);
  }
  if (step == nullptr && has_left(s, at.cta)) return check_exit(s, at.cta);
  return std::nullopt;
}

std::optional<Failure> Simulator::check_exit(State& s, int cta) const {
  const auto gone = [&](const std::string& what) {
    return fail_at_end(FailureKind::peer_gone, cta, "leaves while " + what);
  };
  for (int stage = 0; stage < scenario_.config.stages; ++stage)
    for (int slice = 0; slice < slices_; ++slice)
      if (incoming(s, {cta, stage, slice}) != 0) return gone(fmt::format("TMA writes stage {}", stage));
  const int first = cta * scenario_.agents_per_cta();
  for (int i = 0; agent_words_ > 3 && i < scenario_.agents_per_cta(); ++i)
    if (vectors(s, first + i) != 0 && (vectors(s, first + i) & kCome) == 0)
      return gone("scale vectors are on their way");
  for (int i = 0; i < kMathGroups * kStoreBuffers; ++i)
    if ((buffer(s, cta, 0, i) & kReading) != 0) return gone("TMA reads a store buffer");
  for (int i = 0; i < sums_of_cta(); ++i)
    if (s[cta_base(cta) + sums_word_ + 2 * i + 1] != 0) return gone("sums are on their way to it");
  return std::nullopt;
}

}  // namespace sluice::twin
