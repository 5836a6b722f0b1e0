// SPDX-License-Identifier: Apache-2.0
// The layout of the state, the enabled transitions, and TMA. simulator_steps.cc has the steps of roles,
// simulator_sums.cc the sums sent between CTAs and elections.
#include <sluice/twin/simulator.h>

#include <fmt/format.h>

#include <sluice/spec/loaded_rows.h>
#include <sluice/twin/local_rules.h>

namespace sluice::twin {

Simulator::Simulator(const ClusterProgram& program) : scenario_(program.scenario), program_(program) {
  const KernelConfig& c = scenario_.config;
  slices_ = c.cluster.n + c.cluster.m;
  agent_words_ = stages_vectors(c.epilogue) ? 4 : 3;
  empty_word_ = 2 * c.stages;
  turn_word_ = 4 * c.stages;
  sync_word_ = turn_word_ + 2 * kMathGroups;
  newest_word_ = sync_word_ + kMathGroups;
  buffer_word_ = newest_word_ + kMathGroups;
  scales_word_ = buffer_word_ + kMathGroups * kStoreBuffers;
  slots_word_ = scales_word_ + (is_block_scaled(c.epilogue) ? c.stages : 0);
  won_word_ = slots_word_ + 2 * c.stages * slices_;
  sums_full_word_ = won_word_ + kMathGroups;
  sums_word_ = sums_full_word_ + (c.cluster.k > 1 ? 4 * kMathGroups : 0);
  words_per_cta_ = sums_word_ + 2 * sums_of_cta();
  first_slot_ = scenario_.agents();
  first_store_read_ = first_slot_ + scenario_.ctas() * c.stages * slices_;
  first_sums_ = first_store_read_ + scenario_.ctas() * kMathGroups * kStoreBuffers;
  first_win_ = first_sums_ + scenario_.ctas() * sums_of_cta();
  sends_.assign(scenario_.agents(), std::vector<std::vector<const Step*>>(scenario_.ctas()));
  for (auto& loads : loads_) loads.resize(scenario_.ctas());
  scales_written_.resize(scenario_.ctas());
  staged_.resize(scenario_.agents());
  for (int agent = 0; agent < scenario_.agents(); ++agent)
    for (const Step& step : program.agents[agent]) {
      const int cta = agent_at(scenario_, agent).cta;
      if (step.kind == StepKind::load_a) loads_[0][cta].push_back(&step);
      if (step.kind == StepKind::load_b) loads_[1][cta].push_back(&step);
      if (step.kind == StepKind::send_sums) sends_[agent][step.target].push_back(&step);
      if (step.kind == StepKind::stage_vectors) staged_[agent].push_back(&step);
      if (step.kind == StepKind::write_scales) scales_written_[cta].push_back(&step);
    }
}

State Simulator::initial(Observer* observer) const {
  State s(cta_base(scenario_.ctas()), 0);
  for (int cta = 0; cta < scenario_.ctas(); ++cta) {
    for (int stage = 0; stage < scenario_.config.stages; ++stage) {
      full(s, cta, stage).init();
      empty(s, cta, stage).init();
    }
    for (int group = 0; group < kMathGroups; ++group) {
      turn(s, cta, group).init();
      if (senders() == 0) continue;
      sums_full(s, cta, group).init();
      sums_empty(s, cta, group).init();
    }
  }
  for (int agent = 0; agent < scenario_.agents(); ++agent)
    (void)settle(s, agent, observer);  // executes only local steps, which cannot fail
  return s;
}

Barrier Simulator::full(State& s, int cta, int stage) const {
  u32* words = &s[cta_base(cta) + 2 * stage];
  return {words[0], words[1], full_arrivals(scenario_.config)};
}
Barrier Simulator::empty(State& s, int cta, int stage) const {
  u32* words = &s[cta_base(cta) + empty_word_ + 2 * stage];
  return {words[0], words[1], empty_arrivals(scenario_.config)};
}
Barrier Simulator::turn(State& s, int cta, int group) const {
  u32* words = &s[cta_base(cta) + turn_word_ + 2 * group];
  return {words[0], words[1], turn_arrivals(scenario_.config)};
}

i64 Simulator::total_steps() const {
  i64 total = 0;
  for (const StepList& steps : program_.agents) total += static_cast<i64>(steps.size());
  return total;
}

void Simulator::enabled(const State& state, std::vector<Transition>& out) const {
  State& s = const_cast<State&>(state);  // the accessors return references; nothing is written here
  out.clear();
  for (int agent = 0; agent < scenario_.agents(); ++agent) {
    const Step* step = next_step(s, agent);
    if (step != nullptr && can_step(s, agent, *step)) out.push_back(agent);
  }
  for (Transition t = first_slot_; t < first_store_read_; ++t)
    if (incoming(s, slot_at(t)) != 0 && !is_strided(slot_at(t).slice)) out.push_back(t);
  for (int cta = 0; cta < scenario_.ctas(); ++cta)
    for (int i = 0; i < kMathGroups * kStoreBuffers; ++i)
      if ((buffer(s, cta, 0, i) & kReading) != 0)
        out.push_back(first_store_read_ + cta * kMathGroups * kStoreBuffers + i);
  for (Transition t = first_sums_; t < first_win_; ++t)
    if (coming_sums(s, sums_at(t)) != 0) out.push_back(t);
  for (int agent = 0; agent < scenario_.agents(); ++agent)
    if (election(s, agent) != nullptr) out.push_back(first_win_ + agent);
}

std::optional<Failure> Simulator::apply(State& s, Transition t, Observer* observer) const {
  if (t < first_slot_ || wins(t)) return take_step(s, agent_of(t), wins(t), observer);
  if (t < first_store_read_) return finish_load(s, slot_at(t), observer);
  if (t >= first_sums_) return finish_sums(s, sums_at(t), observer);
  const int index = t - first_store_read_, per_cta = kMathGroups * kStoreBuffers;
  const int cta = index / per_cta, group = index % per_cta / kStoreBuffers, which = index % kStoreBuffers;
  buffer(s, cta, group, which) &= ~kReading;
  if (observer != nullptr) observer->on_store_read(cta, group, which);
  return std::nullopt;
}

Simulator::SlotAt Simulator::slot_at(Transition t) const {
  const int index = t - first_slot_, stages = scenario_.config.stages;
  return {index / (stages * slices_), index / slices_ % stages, index % slices_};
}

int Simulator::source_of(const SlotAt& at) const {
  if (!multicasts(scenario_.config)) return at.cta;
  const ClusterShape& shape = scenario_.config.cluster;
  const int row = row_of(at.cta), column = column_of(at.cta);
  return at.slice < shape.n ? at.slice * shape.m + row : column * shape.m + (at.slice - shape.n);
}

const Step& Simulator::load_of(const SlotAt& at, u32 sequence) const {
  return *loads_[at.slice < scenario_.config.cluster.n ? 0 : 1][source_of(at)][sequence - 1];
}

int Simulator::bytes_of_slice(int slice, const Step& load) const {
  const KernelConfig& c = scenario_.config;
  const bool is_a = slice < c.cluster.n;
  if (!is_a && c.conv.op == ConvOp::wgrad) return load.conv.count * kMnBlock * kSwizzleRowBytes / c.cluster.m;
  if (is_a && c.conv.phased) return stage_a_bytes(c) / c.cluster.n;  // whole boxes
  if ((is_a ? c.a_major : c.b_major) == Major::mn) {
    const int from = is_a ? load.tile.m_offset : load.tile.n_offset,
              extent = is_a ? scenario_.m : scenario_.n;
    int blocks = 1;  // the first block is always loaded, even outside the matrix
    for (int row = kMnBlock; row < (is_a ? c.tile.m : c.tile.n) && from + row < extent; row += kMnBlock)
      ++blocks;
    return blocks * c.tile.k * kSwizzleRowBytes / (is_a ? c.cluster.n : c.cluster.m);
  }
  const int rows = is_a ? c.tile.m / c.cluster.n : c.tile.n / c.cluster.m;
  const int first =
      (is_a ? load.tile.m_offset : load.tile.n_offset) + (is_a ? slice : slice - c.cluster.n) * rows;
  if (is_a && has_groups(c)) return group_slice_rows(load.tile.row_end, first, rows) * kSwizzleRowBytes;
  return slice_rows(is_a ? scenario_.m : scenario_.n, first, rows, is_a ? kLoadRows : row_group(c)) *
         kSwizzleRowBytes;
}

std::optional<Failure> Simulator::finish_load(State& s, const SlotAt& at, Observer* observer) const {
  const u32 sequence = incoming(s, at);
  const Step& load = load_of(at, sequence);
  const int bytes = bytes_of_slice(at.slice, load);
  const int agent = source_of(at) * scenario_.agents_per_cta();
  if (has_left(s, at.cta))
    return fail(FailureKind::peer_gone, agent, load,
                fmt::format("its bytes come to cta {}, which has left", at.cta));
  Barrier barrier = full(s, at.cta, at.stage);
  if (barrier.phase() != load.pass)
    return fail(FailureKind::lost_signal, agent, load,
                fmt::format("its {} bytes fall into phase {} of full[{}] of cta {}, and are for phase {}",
                            bytes, barrier.phase(), at.stage, at.cta, load.pass));
  content(s, at) = sequence;
  incoming(s, at) = 0;
  if (!barrier.add_bytes(-bytes))
    return fail(FailureKind::tx_overflow, agent, load,
                fmt::format("full[{}] cannot count so many bytes", at.stage));
  if (observer != nullptr) observer->on_load(at.cta, at.slice, load);
  return std::nullopt;
}

std::optional<Failure> Simulator::check_end(const State& state) const {
  State s = state;
  for (int agent = 0; agent < scenario_.agents(); ++agent)
    if (next_step(s, agent) != nullptr)
      return Failure{.kind = FailureKind::deadlock,
                     .message = "nobody can move, and " + agent_name(scenario_, agent) + " is not done",
                     .waiting = describe_waiting(s)};
  for (int cta = 0; cta < scenario_.ctas(); ++cta) {
    if (auto failure = check_stages_end(s, cta)) return failure;
    if (auto failure = check_sums_end(s, cta)) return failure;
  }
  return std::nullopt;
}

std::optional<Failure> Simulator::check_stages_end(State& s, int cta) const {
  const auto left = [&](const std::string& what) {
    return Failure{.kind = FailureKind::unread_stage,
                   .message = fmt::format("cta {} leaves behind {}", cta, what)};
  };
  for (int stage = 0; stage < scenario_.config.stages; ++stage) {
    const Barrier f = full(s, cta, stage), e = empty(s, cta, stage);
    if (f.pending() != f.count || f.tx != 0)
      return left(fmt::format("full[{}] in the middle of phase {}", stage, f.phase()));
    if (e.pending() != e.count)
      return left(fmt::format("empty[{}] in the middle of phase {}", stage, e.phase()));
    if (f.phase() != e.phase())
      return left(fmt::format("stage {}, filled {} times and emptied {} times", stage, f.phase(), e.phase()));
  }
  return std::nullopt;
}

}  // namespace sluice::twin
