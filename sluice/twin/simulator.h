// SPDX-License-Identifier: Apache-2.0
// Executes the recorded steps of one cluster: barriers, stages, TMA, products in flight, store buffers, sums
// in flight to a peer CTA. Other clusters are modelled only by one choice: at a shared tile, either all peers
// have arrived before, or not. A state is a flat array of words, so that it can be copied, hashed and
// compared. Invariant: every rule of docs/host-twin.md is checked in the transition that breaks it. Called by
// the explorers (explore.h) and by run.cc, which adds real numbers through an Observer.
#pragma once

#include <vector>

#include <sluice/twin/barrier.h>
#include <sluice/twin/failure.h>
#include <sluice/twin/scenario.h>

namespace sluice::twin {

using State = std::vector<u32>;
/// The next step of an agent (an election that it loses), a completion by TMA, or an election that the agent
/// wins.
using Transition = int;

/// Is notified of events in their order.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Agent `agent` executed `step`, which names the store buffer that was actually used.
  virtual void on_step(int agent, const Step& step) = 0;
  /// TMA has written slice `slice` of the tile that `load` names into `load.stage` of CTA `cta`.
  virtual void on_load(int cta, int slice, const Step& load) = 0;
  /// TMA has read a store buffer.
  virtual void on_store_read(int cta, int group, int buffer) = 0;
  /// The sums that CTA `sender` sent with the step `send` to the same group of CTA `cta` have arrived.
  virtual void on_sums(int cta, int group, int sender, const Step& send) = 0;
};

class Simulator {
 public:
  /// `program` must be annotated, and must outlive the simulator.
  explicit Simulator(const ClusterProgram& program);

  State initial(Observer* observer = nullptr) const;
  /// Lists the transitions that can happen next, agents first.
  void enabled(const State& state, std::vector<Transition>& out) const;
  std::optional<Failure> apply(State& state, Transition transition, Observer* observer = nullptr) const;
  /// Checks a state without enabled transitions: returns a deadlock, or a rule about the end that is broken.
  std::optional<Failure> check_end(const State& state) const;

  int transitions() const { return first_win_ + scenario_.agents(); }
  /// Returns the election step that this transition decides; nullptr for other transitions.
  const Step* election(const State& state, Transition transition) const;
  bool wins(Transition transition) const { return transition >= first_win_; }
  int agent_of(Transition transition) const {
    return wins(transition) ? transition - first_win_ : transition;
  }
  i64 total_steps() const;
  const Scenario& scenario() const { return scenario_; }

  std::string describe_transition(const State& state, Transition transition) const;
  /// Returns text: each waiting agent with its barrier, and the pending completions of TMA.
  std::string describe_waiting(const State& state) const;

 private:
  struct SlotAt {
    int cta, stage, slice;
  };
  /// Where sums of one warp of `sender`'s group arrive.
  struct SumsAt {
    int cta, group, sender, warp;
  };

  // Positions in a state.
  u32& pc(State& s, int agent) const { return s[agent]; }
  u32 pc(const State& s, int agent) const { return s[agent]; }
  u32& reading(State& s, int agent) const { return s[scenario_.agents() + agent]; }
  /// 1: the agent's next chunk uses the store buffer opposite to the recorded one, because chunks were
  /// skipped.
  u32& flip(State& s, int agent) const { return s[2 * scenario_.agents() + agent]; }
  Barrier full(State& s, int cta, int stage) const;
  Barrier empty(State& s, int cta, int stage) const;
  Barrier turn(State& s, int cta, int group) const;
  Barrier sums_full(State& s, int cta, int group) const;
  Barrier sums_empty(State& s, int cta, int group) const;
  u32& syncs(State& s, int cta, int group) const { return s[cta_base(cta) + sync_word_ + group]; }
  /// The buffer from which the group stored last, plus one.
  u32& newest(State& s, int cta, int group) const { return s[cta_base(cta) + newest_word_ + group]; }
  /// kReading | warps whose write is published << 4 | warps whose write is not published.
  u32& buffer(State& s, int cta, int group, int buffer) const {
    return s[cta_base(cta) + buffer_word_ + group * kStoreBuffers + buffer];
  }
  /// Sequence number of the load whose bytes are in the slot, and of the one in flight (0: none).
  u32& content(State& s, const SlotAt& at) const { return s[slot_word(at)]; }
  u32& incoming(State& s, const SlotAt& at) const { return s[slot_word(at) + 1]; }
  int cta_base(int cta) const { return agent_words_ * scenario_.agents() + cta * words_per_cta_; }
  /// Sequence number of the block scales stored with a stage (0: none yet).
  u32& scales(State& s, int cta, int stage) const { return s[cta_base(cta) + scales_word_ + stage]; }
  /// 1: the group was the last peer of its last shared tile.
  u32& won(State& s, int cta, int group) const { return s[cta_base(cta) + won_word_ + group]; }
  /// Number of the agent's stage_vectors (from 1) << 1, plus 1 if the vectors have arrived. 0: none yet.
  static constexpr u32 kCome = 1;
  u32& vectors(State& s, int agent) const { return s[3 * scenario_.agents() + agent]; }
  /// Number (from 1) of the send whose sums have arrived and are unread, and of the send in flight.
  u32& unread_sums(State& s, const SumsAt& at) const { return s[sums_word(at)]; }
  u32& coming_sums(State& s, const SumsAt& at) const { return s[sums_word(at) + 1]; }
  int sums_word(const SumsAt& at) const { return cta_base(at.cta) + sums_word_ + 2 * sums_index(at); }
  int sums_index(const SumsAt& at) const {
    return (at.group * senders() + at.sender) * scenario_.warps_per_group + at.warp;
  }
  int senders() const { return scenario_.config.cluster.k == 1 ? 0 : scenario_.config.cluster.k; }
  int sums_of_cta() const { return kMathGroups * senders() * scenario_.warps_per_group; }
  bool is_strided(int slice) const {
    const KernelConfig& c = scenario_.config;
    return (slice < c.cluster.n ? c.load_a : c.load_b) == Load::strided;
  }
  int slot_word(const SlotAt& at) const {
    return cta_base(at.cta) + slots_word_ + 2 * (at.stage * slices_ + at.slice);
  }

  // Steps of agents.
  const Step* next_step(const State& s, int agent) const;
  std::optional<Failure> take_step(State& s, int agent, bool wins, Observer* observer) const;
  void tell(State& s, int agent, const Step& step, Observer* observer) const;
  void leave_out(State& s, int agent, const Step& step) const;
  bool can_step(State& s, int agent, const Step& step) const;
  std::optional<Failure> do_step(State& s, int agent, const Step& step) const;
  std::optional<Failure> do_load(State& s, int agent, const Step& step) const;
  /// Makes the copying role's writes visible to products. Until then they count as still in flight.
  void publish_strided(State& s, int cta, int stage) const;
  /// Checks that the stage holds the step's k-tile.
  std::optional<Failure> check_stage(State& s, int agent, const Step& step) const;
  std::optional<Failure> do_mma(State& s, int agent, const Step& step) const;
  std::optional<Failure> do_read_scales(State& s, int agent, const Step& step) const;
  std::optional<Failure> do_arrive(State& s, int agent, const Step& step) const;
  std::optional<Failure> do_store(State& s, int agent, const Step& step) const;
  std::optional<Failure> do_expect(State& s, int agent, const Step& step) const;
  std::optional<Failure> do_send(State& s, int agent, const Step& step) const;
  std::optional<Failure> do_receive(State& s, int agent, const Step& step) const;
  std::optional<Failure> do_vectors(State& s, int agent, const Step& step) const;
  /// Checks that the scale vectors of `store` have arrived and belong to its tile.
  std::optional<Failure> check_vectors(State& s, int agent, const Step& store) const;
  std::optional<Failure> settle(State& s, int agent, Observer* observer) const;
  bool has_left(const State& s, int cta) const;
  std::optional<Failure> check_exit(State& s, int cta) const;

  // Completions by TMA.
  SlotAt slot_at(Transition transition) const;
  SumsAt sums_at(Transition transition) const;
  int sender_agent(const SumsAt& at) const;
  const Step& send_of(const SumsAt& at, u32 number) const;
  std::optional<Failure> finish_sums(State& s, const SumsAt& at, Observer* observer) const;
  /// Returns the CTA's row in the cluster. Without multicast (a cluster along k) each CTA loads for itself:
  /// 0.
  int row_of(int cta) const { return multicasts(scenario_.config) ? cta % scenario_.config.cluster.m : 0; }
  int column_of(int cta) const { return multicasts(scenario_.config) ? cta / scenario_.config.cluster.m : 0; }
  /// The CTA that loads a slice, and its load.
  int source_of(const SlotAt& at) const;
  /// Returns the bytes that `load` writes into slice `slice`.
  int bytes_of_slice(int slice, const Step& load) const;
  const Step& load_of(const SlotAt& at, u32 sequence) const;
  std::optional<Failure> finish_load(State& s, const SlotAt& at, Observer* observer) const;

  std::optional<Failure> check_stages_end(State& s, int cta) const;
  std::optional<Failure> check_sums_end(State& s, int cta) const;
  Failure fail(FailureKind kind, int agent, const Step& step, const std::string& why) const;
  /// Returns a failure if the step accesses a CTA that has exited (all of its agents are done).
  std::optional<Failure> check_peer(State& s, int agent, const Step& step, int cta) const;
  static Failure fail_at_end(FailureKind kind, int cta, const std::string& why);

  static constexpr u32 kReading = 1u << 8;

  const Scenario& scenario_;
  const ClusterProgram& program_;
  std::vector<std::vector<const Step*>> loads_[2];            // loads of A and of B: [cta][sequence - 1]
  std::vector<std::vector<const Step*>> scales_written_;      // writes of block scales: [cta][sequence - 1]
  std::vector<std::vector<const Step*>> staged_;              // scale vectors: [agent][sequence - 1]
  std::vector<std::vector<std::vector<const Step*>>> sends_;  // [agent][target][number - 1]
  int slices_ = 0;       // slices of a stage: cluster.n of A, then cluster.m of B
  int agent_words_ = 3;  // words of each agent: pc, reading, flip, and vectors if there are any
  int words_per_cta_ = 0;
  int empty_word_ = 0, turn_word_ = 0, sync_word_ = 0, newest_word_ = 0, buffer_word_ = 0, scales_word_ = 0,
      slots_word_ = 0, won_word_ = 0, sums_full_word_ = 0, sums_word_ = 0;
  int first_slot_ = 0, first_store_read_ = 0, first_sums_ = 0, first_win_ = 0;  // transitions
};

}  // namespace sluice::twin
