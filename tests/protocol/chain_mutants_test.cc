// SPDX-License-Identifier: Apache-2.0
// Planted bugs of overlapping launches, and the rules that detect each. Rules are checked one at a time: if
// only one rule detects a bug, the bug would pass without that rule. Each chain has no fault without its bug.
#include "chain_scenarios.h"
#include "overlap_mutants.h"

namespace sluice::twin {
namespace {

using Kinds = std::set<std::string>;
const Kinds kNobody{};

struct Chain {
  KernelLists first = product(kPingPong, {.trigger = Trigger::at_start}), second = product(kPingPong, kEager),
              third = product(kPingPong, kEager);
  ThreeArrays arrays{};

  std::vector<ChainLaunch> launches() const {
    return {launch_of(first, arrays.first), launch_of(second, arrays.second), launch_of(third, arrays.third)};
  }
};
Chain with_second(KernelLists second, Chain chain = {}) {
  chain.second = std::move(second);
  return chain;
}
Chain with_third(KernelLists third, Chain chain = {}) {
  chain.third = std::move(third);
  return chain;
}
/// Expects the broken chain to violate exactly the rules in `kinds`, each checked alone, and the clean one to
/// violate none.
void expect_falls(const Chain& broken, const Kinds& kinds, const Chain& clean = {}) {
  expect_complete(explore_chain(clean.launches()), "without the bug");
  EXPECT_EQ(caught_by(broken.launches()), kinds);
  const Exploration found = explore_chain(broken.launches());
  ASSERT_TRUE(found.failure);
  EXPECT_TRUE(kinds.contains(name_of(found.failure->kind))) << describe(*found.failure);
  EXPECT_FALSE(found.failure->trace.empty());
}
/// Removes all events of one kind, from CTA `cta_from` on, from a kernel's hand-written list.
KernelLists without(KernelLists lists, EventKind kind, size_t cta_from = 0) {
  for (size_t cta = cta_from; cta < lists.ctas.size(); ++cta)
    for (AgentList& agent : lists.ctas[cta])
      std::erase_if(agent.events, [&](const OperandEvent& event) { return event.kind == kind; });
  return lists;
}

// ---- the wait ----
/// A launch without work exits without waiting for the launch before it, and is then complete. The third
/// launch waits only for this one, so it may start before the first has ended.
TEST(chain_mutants, a_launch_of_idle_ctas_leaves_without_waiting) {
  Chain clean;
  clean.arrays.third.tokens = "y";  // the second launch uses other arrays than the third
  clean.arrays.second.tokens = "x";
  const Chain broken = with_second(product<AllCtasLeave>(kPingPong, kEager), clean);
  expect_falls(broken, {"no_wait", "read_early"}, clean);
}
/// One of two CTAs leaves without waiting. The launch still completes only after the other CTA, so no data
/// race happens. The contract is stricter than the chain needs, and only the rule "no_wait" finds the bug.
/// check_waits (local_rules.h) covers math groups that leave a CTA whose load thread waits (overlap_test.cc).
TEST(chain_mutants, one_idle_cta_leaves_without_waiting) {
  const Chain clean = with_second(product(kIdle, kEager));
  expect_falls(with_second(product<IdleCtaLeaves>(kIdle, kEager)), {"no_wait"}, clean);
  EXPECT_EQ(caught_by(with_second(product<IdleCtasLeave>(kIdle, kEager)).launches()), kNobody);
}
/// One CTA that leaves early does no harm while another one waits. If all leave early, a later launch reads
/// too early.
TEST(chain_mutants, a_companion_whose_ctas_all_leave_early) {
  Chain clean = with_second(norm_lists(kEager));
  clean.arrays.second.tokens = "x", clean.arrays.third.tokens = "y";
  Chain half = clean, all = clean;
  half.second = without(clean.second, EventKind::wait, 1);
  all.second = without(clean.second, EventKind::wait);
  expect_falls(half, {"no_wait"}, clean);
  expect_falls(all, {"no_wait", "read_early"}, clean);
}
TEST(chain_mutants, a_product_that_never_waits) {
  expect_falls(with_second(product<NeverWaits>(kPingPong, kEager)), {"no_wait", "read_early"});
}
/// Only the load thread waits. The math groups, which write D and leave last, do not.
TEST(chain_mutants, only_the_load_role_waits) {
  Chain clean;
  clean.arrays.third.output = "y", clean.arrays.third.tokens = "x";
  expect_falls(with_third(product<OnlyLoadWaits>(kPingPong, kEager), clean),
               {"write_over_read", "write_over_write"}, clean);
}
/// A kernel without a wait is launched as a dependent launch. The host refuses this.
TEST(chain_mutants, a_dependent_launch_of_code_without_the_wait) {
  KernelLists companion = quantize_lists({.wait = Wait::none, .trigger = Trigger::never});
  companion.dependent = true;
  expect_falls(with_second(companion), {"no_wait", "read_early"}, with_second(quantize_lists(kEager)));
  // Without triggers it is wrong too: a launch is not complete when its CTAs have exited.
  Chain silent = with_second(companion);
  silent.first = product(kPingPong, {});
  expect_falls(silent, {"no_wait", "read_early"});
}
/// The middle launch triggers but never waits, and shares no memory with the others. The third waits only for
/// the middle one, although it shares memory with the first.
TEST(chain_mutants, a_launch_in_the_middle_that_only_triggers) {
  Chain clean = with_second(product(kPingPong, {.trigger = Trigger::at_start}));
  clean.arrays.second.tokens = "other", clean.arrays.second.output = "others'";
  clean.arrays.third.tokens = "y", clean.arrays.third.output = "x";
  Chain broken = clean;
  broken.second.dependent = true;
  expect_falls(broken, {"no_wait", "read_early", "write_over_read"}, clean);
}

// ---- events before the wait ----
TEST(chain_mutants, tokens_loaded_with_the_weights) {
  expect_falls(with_second(product<LoadsAEarly>(kPingPong, kEager)), {"read_early"});
  const Chain clean = with_third(product(kSwapped, kEager));
  KernelLists judged = product(kSwapped, kEager);  // with swapped operands, B holds the tokens
  for (auto& cta : judged.ctas)
    for (AgentList& agent : cta)
      for (OperandEvent& event : agent.events)
        if (event.operand == Operand::tokens || event.operand == Operand::weights)
          event.operand = event.operand == Operand::tokens ? Operand::weights : Operand::tokens;
  expect_falls(with_third(judged), {"read_early"}, clean);
}
TEST(chain_mutants, scales_fetched_early) {
  Chain clean;
  clean.second = quantize_lists(kEager), clean.third = product(kBlockScales, kEager);
  clean.arrays.second.output_scales = clean.arrays.third.token_scales = "z scales";
  expect_falls(with_third(product<FetchesScalesEarly>(kBlockScales, kEager), clean), {"read_early"}, clean);
}
/// The third launch overwrites memory that the first one still uses. The second launch does not touch that
/// memory.
TEST(chain_mutants, d_stored_before_the_wait) {
  Chain over_input, over_output;
  over_input.arrays.third.output = "x";
  expect_falls(with_third(product<StoresEarly>(kPingPong, kEager), over_input), {"write_over_read"},
               over_input);
  over_output.arrays.first.output = over_output.arrays.third.output = "out";  // no launch reads this array
  expect_falls(with_third(product<StoresEarly>(kPingPong, kEager), over_output), {"write_over_write"},
               over_output);
}
TEST(chain_mutants, the_workspace_touched_before_the_wait) {
  Chain clean;
  clean.first = product(kSplit, {.trigger = Trigger::at_start});
  clean.third = product(kSplit, kEager);
  for (const bool middle : {false, true}) {
    if (middle) clean.second = product(kSplit, kEager);
    expect_falls(with_third(product<CountsEarly>(kSplit, kEager), clean), {"write_over_write"}, clean);
    expect_falls(with_third(product<WritesSlotEarly>(kSplit, kEager), clean),
                 {"write_over_read", "write_over_write"}, clean);
  }
}

// ---- requests that the host refuses ----
/// With overlap, weights may be read before the wait, so no earlier launch may write them. Without overlap it
/// may.
TEST(chain_mutants, weights_that_a_launch_in_front_writes) {
  for (const char* written : {"y", "z"}) {
    Chain broken;
    broken.arrays.third.weights = written;
    Chain first = broken, none = broken;
    first.third = product(kPingPong, {.wait = Wait::first});
    none.third = product(kPingPong, {});
    expect_falls(broken, {"read_early"}, none);
    expect_complete(explore_chain(first.launches()), "loads nothing before it waits");
    // Even with Wait::first, norms read gamma before the wait, and packed kernels read scales and bias.
    const Overlap waits_first{.wait = Wait::first};
    for (const KernelLists& early : {norm_lists(waits_first), strip_lists(waits_first)})
      expect_falls(with_third(early, broken), {"read_early"}, none);
    for (const KernelLists& late : {plain_lists(waits_first), wide_lists(waits_first)})
      expect_complete(explore_chain(with_third(late, broken).launches()), "waits before its weights");
  }
}
/// A graph's edge waits only for the launch directly before it; a stream waits for all earlier launches.
TEST(chain_mutants, a_foreign_launch_behind_one_that_did_not_wait) {
  Chain clean = with_third(foreign_lists(false));
  clean.arrays.second.tokens = "x", clean.arrays.third.tokens = "y";
  clean.arrays.third.edge = Edge::graph;
  Chain broken = with_second(product<AllCtasLeave>(kPingPong, kEager), clean);
  expect_falls(broken, {"no_wait", "read_early"}, clean);
  broken.arrays.third.edge = Edge::stream;
  EXPECT_EQ(caught_by(broken.launches()), Kinds{"no_wait"});
}
/// A foreign launch that waits for a flag which the next launch sets. The next launch starts only when this
/// one triggers.
TEST(chain_mutants, a_launch_that_waits_for_the_next_one) {
  const auto chain = [](bool triggers) {
    Chain c = with_second(foreign_lists(triggers));
    std::vector<ChainLaunch> launches = c.launches();
    for (ChainCta& cta : launches[1].ctas) cta.agents[0].events.push_back({EventKind::spin, "flag"});
    for (ChainCta& cta : launches[2].ctas)
      cta.agents[0].events.insert(cta.agents[0].events.begin(), {EventKind::write, "flag"});
    return launches;
  };
  expect_complete(explore_chain(chain(true)), "triggers");
  EXPECT_EQ(caught_by(chain(false)), Kinds{"deadlock"});
  const Exploration found = explore_chain(chain(false));
  ASSERT_TRUE(found.failure);
  EXPECT_NE(found.failure->waiting.find("spins on flag"), std::string::npos) << found.failure->waiting;
}

// ---- a gap ----
/// Product, gap and product: the gap's kernel triggers at its start, and the next product begins while the
/// first still runs. The gap reads what the first writes, and writes what the third reads.
Chain with_gap(KernelLists gap) {
  Chain chain = with_second(std::move(gap));
  chain.first = chain.third = product(kOne, kEager);
  return chain;
}
/// Moves an event of a kernel's hand-written list to the front.
KernelLists first(KernelLists lists, EventKind kind) {
  for (std::vector<AgentList>& cta : lists.ctas)
    for (AgentList& agent : cta) {
      const auto at = std::find_if(agent.events.begin(), agent.events.end(),
                                   [&](const OperandEvent& event) { return event.kind == kind; });
      std::rotate(agent.events.begin(), at, at + 1);
    }
  return lists;
}
TEST(chain_mutants, a_gap_that_reads_or_writes_before_its_wait) {
  const Chain clean = with_gap(gap_lists());
  expect_falls(with_gap(first(gap_lists(), EventKind::read)), {"read_early"}, clean);
  // Its output is a buffer that the first product still reads.
  const auto reusing = [](KernelLists gap) {
    Chain chain = with_gap(std::move(gap));
    chain.arrays.second.output = chain.arrays.third.tokens = chain.arrays.first.tokens;
    return chain;
  };
  expect_falls(reusing(first(gap_lists(), EventKind::write)), {"write_over_read"}, reusing(gap_lists()));
}
TEST(chain_mutants, a_gap_that_does_not_wait) {
  expect_falls(with_gap(without(gap_lists(), EventKind::wait)), {"no_wait", "read_early"},
               with_gap(gap_lists()));
}
/// It costs time and no bits: the next launch begins when the gap's CTAs have exited.
TEST(chain_mutants, a_gap_that_does_not_trigger) {
  expect_complete(explore_chain(with_gap(without(gap_lists(), EventKind::trigger)).launches()), "no trigger");
}
/// The next product waits for the launch directly in front of it, which is not the one that the chain knows.
TEST(chain_mutants, a_gap_of_one_node_more) {
  std::vector<ChainLaunch> launches = with_gap(gap_lists()).launches();
  LaunchArrays elsewhere{.name = "more", .tokens = "u", .output = "v"};
  launches.insert(launches.begin() + 2, launch_of(gap_lists(), elsewhere));
  expect_complete(explore_chain(launches), "one that waits does no harm");
  launches[2] = launch_of(without(gap_lists(), EventKind::wait), elsewhere);
  EXPECT_EQ(caught_by(launches), (Kinds{"no_wait", "read_early"}));
}

// ---- the search ----
/// Each Reduction of the search finds every bug.
TEST(chain_mutants, fall_in_every_reduction) {
  const KernelLists one = product(kOne, kEager);
  Chain over_input{one, one, product<StoresEarly>(kOne, kEager)};
  over_input.arrays.third.output = "x";
  Chain weights{one, one, one};
  weights.arrays.third.weights = "y";
  Chain idle{one, product<AllCtasLeave>(kOne, kEager), one};
  idle.arrays.second.tokens = "x", idle.arrays.third.tokens = "y";
  const Chain tokens{one, product<LoadsAEarly>(kOne, kEager), one}, clean{one, one, one};
  for (const Reduction reduction : {Reduction::none, Reduction::equals, Reduction::segments}) {
    const auto first_failure = [&](const Chain& chain, std::vector<FailureKind> left_out = {}) {
      const Exploration found = explore_chain(chain.launches(), {std::move(left_out), reduction});
      return std::string(found.failure    ? name_of(found.failure->kind)
                         : found.complete ? "clean"
                                          : "too large");
    };
    EXPECT_EQ(first_failure(clean), "clean");
    EXPECT_EQ(first_failure(over_input), "write_over_read");
    EXPECT_EQ(first_failure(weights), "read_early");
    EXPECT_EQ(first_failure(tokens), "read_early");
    EXPECT_EQ(first_failure(tokens, {FailureKind::read_early}), "clean");
    EXPECT_EQ(first_failure(idle, {FailureKind::no_wait}), "read_early");
  }
}
/// The third launch starts while the first one still runs, so its reads before the wait are too early. If one
/// CTA of the second launch triggers only after its own wait, they are not.
TEST(chain_mutants, three_launches_run_at_one_time) {
  Chain chain;
  chain.arrays.third.weights = "y";
  const Exploration found = explore_chain(chain.launches());
  ASSERT_TRUE(found.failure);
  EXPECT_NE(found.failure->message.find("launch 2 (third)"), std::string::npos) << found.failure->message;
  EXPECT_NE(found.failure->message.find("which first may still write"), std::string::npos);
  chain.second.ctas[1] = product(kPingPong, {Wait::first, Trigger::after_loads}).ctas[1];
  EXPECT_EQ(caught_by(chain.launches()), kNobody);
}

}  // namespace
}  // namespace sluice::twin
