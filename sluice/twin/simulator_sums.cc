// SPDX-License-Identifier: Apache-2.0
// Sums that the CTAs of a cluster along k send to each other, and steps that are skipped after a lost
// election. See simulator.h.
#include <fmt/format.h>

#include <sluice/twin/local_rules.h>
#include <sluice/twin/simulator.h>

namespace sluice::twin {

Barrier Simulator::sums_full(State& s, int cta, int group) const {
  u32* words = &s[cta_base(cta) + sums_full_word_ + 2 * group];
  return {words[0], words[1], sums_full_arrivals(scenario_.config)};
}
Barrier Simulator::sums_empty(State& s, int cta, int group) const {
  u32* words = &s[cta_base(cta) + sums_full_word_ + 2 * (kMathGroups + group)];
  return {words[0], words[1], sums_empty_arrivals(scenario_.config)};
}

Simulator::SumsAt Simulator::sums_at(Transition t) const {
  const int index = t - first_sums_, warps = scenario_.warps_per_group;
  return {.cta = index / sums_of_cta(),
          .group = index % sums_of_cta() / (senders() * warps),
          .sender = index / warps % senders(),
          .warp = index % warps};
}
int Simulator::sender_agent(const SumsAt& at) const {
  return at.sender * scenario_.agents_per_cta() + scenario_.first_math() +
         at.group * scenario_.warps_per_group + at.warp;
}
const Step& Simulator::send_of(const SumsAt& at, u32 number) const {
  return *sends_[sender_agent(at)][at.cta][number - 1];
}

/// Sends sums; from now on they may arrive at any time.
std::optional<Failure> Simulator::do_send(State& s, int agent, const Step& step) const {
  if (step.count == 0) return std::nullopt;
  const Agent at = agent_at(scenario_, agent);
  const SumsAt place{step.target, at.group, at.cta, at.warp};
  if (auto failure = check_peer(s, agent, step, step.target)) return failure;
  const u32 coming = coming_sums(s, place), unread = unread_sums(s, place);
  if (coming != 0)
    return fail(FailureKind::exchange_overwritten, agent, step,
                "still on their way there: " + to_string(send_of(place, coming)));
  if (unread != 0)
    return fail(FailureKind::exchange_overwritten, agent, step,
                "not read yet: " + to_string(send_of(place, unread)));
  coming_sums(s, place) = static_cast<u32>(step.pass + 1);
  return std::nullopt;
}

std::optional<Failure> Simulator::finish_sums(State& s, const SumsAt& at, Observer* observer) const {
  const u32 number = coming_sums(s, at);
  const Step& send = send_of(at, number);
  const int agent = sender_agent(at);
  if (has_left(s, at.cta))
    return fail(FailureKind::peer_gone, agent, send, "its bytes come to a cta that has left");
  Barrier barrier = sums_full(s, at.cta, at.group);
  if (barrier.phase() != send.pass)
    return fail(FailureKind::lost_signal, agent, send,
                fmt::format("its bytes fall into phase {} of sums_full[{}], and are for phase {}",
                            barrier.phase(), at.group, send.pass));
  unread_sums(s, at) = number;
  coming_sums(s, at) = 0;
  if (!barrier.add_bytes(-send.count))
    return fail(FailureKind::tx_overflow, agent, send, "sums_full cannot count so many bytes");
  if (observer != nullptr) observer->on_sums(at.cta, at.group, at.sender, send);
  return std::nullopt;
}

std::optional<Failure> Simulator::do_receive(State& s, int agent, const Step& step) const {
  if (step.count == 0) return std::nullopt;
  const Agent me = agent_at(scenario_, agent);
  for (int sender = 0; sender < senders(); ++sender) {
    const SumsAt at{me.cta, me.group, sender, me.warp};
    if (unread_sums(s, at) == 0)
      return fail(FailureKind::exchange_unready, agent, step,
                  fmt::format("the sums of cta {} have not all come", sender));
    const Step& send = send_of(at, unread_sums(s, at));
    if (send.stage != step.stage || send.tile.m_offset != step.tile.m_offset ||
        send.tile.n_offset != step.tile.n_offset || send.tile.batch != step.tile.batch)
      return fail(FailureKind::wrong_bytes, agent, step, "found the result of " + to_string(send));
    unread_sums(s, at) = 0;
  }
  return std::nullopt;
}

const Step* Simulator::election(const State& s, Transition t) const {
  if (t >= first_slot_ && !wins(t)) return nullptr;
  const Step* step = next_step(s, agent_of(t));
  return step != nullptr && step->kind == StepKind::elect ? step : nullptr;
}

/// Skips a step after a lost election. A barrier that the whole group skips counts as passed; a chunk that is
/// not stored uses no store buffer.
void Simulator::leave_out(State& s, int agent, const Step& step) const {
  const Agent at = agent_at(scenario_, agent);
  if (step.kind == StepKind::sync_arrive) ++syncs(s, at.cta, at.group);
  if (step.kind == StepKind::write_chunk) flip(s, agent) ^= 1;
}

void Simulator::tell(State& s, int agent, const Step& step, Observer* observer) const {
  if (observer == nullptr) return;
  const bool names_buffer = step.kind == StepKind::write_chunk || step.kind == StepKind::issue_store;
  if (!names_buffer || flip(s, agent) == 0) return observer->on_step(agent, step);
  Step done = step;
  done.stage ^= 1;
  observer->on_step(agent, done);
}

std::optional<Failure> Simulator::check_sums_end(State& s, int cta) const {
  const auto left = [&](const std::string& what) {
    return fail_at_end(FailureKind::unread_stage, cta, "leaves behind " + what);
  };
  for (int group = 0; senders() != 0 && group < kMathGroups; ++group) {
    const Barrier f = sums_full(s, cta, group), e = sums_empty(s, cta, group);
    if (f.pending() != f.count || f.tx != 0)
      return left(fmt::format("sums_full[{}] in the middle of phase {}", group, f.phase()));
    if (e.pending() != e.count)
      return left(fmt::format("sums_empty[{}] in the middle of phase {}", group, e.phase()));
  }
  for (int i = 0; i < sums_of_cta(); ++i)
    if (s[cta_base(cta) + sums_word_ + 2 * i] != 0) return left("sums that nobody has read");
  return std::nullopt;
}

}  // namespace sluice::twin
