// SPDX-License-Identifier: Apache-2.0
// Chains of overlapping launches (sluice/twin/chain.h), of two CTAs each, in every interleaving. The dense
// kernel's events are recorded; other kernels have lists written by hand. chain_mutants_test.cc shows what
// makes these tests fail.
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>

#include "chain_scenarios.h"

namespace sluice::twin {
namespace {

constexpr Wait kWaits[] = {Wait::none, Wait::first, Wait::weights_first};
constexpr Trigger kTriggers[] = {Trigger::never, Trigger::at_start, Trigger::after_loads};

struct Sum {
  i64 chains = 0, states = 0, most = 0;
  void add(const Exploration& found, const std::string& name) {
    expect_complete(found, name);
    ++chains;
    states += found.states;
    most = std::max(most, found.states);
  }
  void print(const char* name) const {
    std::printf("             %s: %lld chains, %lld states, at most %lld\n", name, chains, states, most);
  }
};

/// Arrays that the launches use. over_input: the third launch reads the first one's output as its residual,
/// and overwrites the first one's input. over_output: it reads the first one's input, and overwrites the
/// first one's output.
ThreeArrays row() {
  return {};
}
ThreeArrays over_input() {
  ThreeArrays arrays;
  arrays.third.residual = "y", arrays.third.output = "x";
  return arrays;
}
ThreeArrays over_output() {
  ThreeArrays arrays;
  arrays.third.residual = "x", arrays.third.output = "y";
  return arrays;
}
constexpr ThreeArrays (*kLayouts[])() = {row, over_input, over_output};

using Lists = std::function<KernelLists(Overlap)>;

/// Explores all combinations of overlap. The first launch never waits, and the third one's trigger is fixed
/// because nothing follows it.
void explore_overlaps(const char* name, const Lists& first, const Lists& second, const Lists& third,
                      Reduction reduction = Reduction::segments) {
  Sum sum;
  for (const Trigger t0 : kTriggers)
    for (const Wait w1 : kWaits)
      for (const Trigger t1 : kTriggers)
        for (const Wait w2 : kWaits) {
          const KernelLists lists[] = {first({Wait::none, t0}), second({w1, t1}),
                                       third({w2, Trigger::at_start})};
          for (const auto layout : kLayouts) {
            const ThreeArrays arrays = layout();
            sum.add(explore_chain({launch_of(lists[0], arrays.first), launch_of(lists[1], arrays.second),
                                   launch_of(lists[2], arrays.third)},
                                  {.reduction = reduction}),
                    std::string(name) + ": " + name_of(t0) + ", " + name_of(w1) + " " + name_of(t1) + ", " +
                        name_of(w2));
          }
        }
  sum.print(name);
}
Lists recorded(const ProductKind& kind) {
  return [&kind](Overlap overlap) { return product(kind, overlap); };
}

TEST(chain_explore, every_overlap_of_three_equal_products) {
  for (const ProductKind* kind :
       {&kPingPong, &kCooperative, &kResidual, &kSwapped, &kSplit, &kBlockScales, &kIdle, &kPair})
    explore_overlaps(kind->name, recorded(*kind), recorded(*kind), recorded(*kind));
}

/// Three products of different kinds in a chain, which share a workspace. The second has an idle CTA.
TEST(chain_explore, products_of_different_kinds) {
  explore_overlaps("split, idle, split", recorded(kSplit), recorded(kIdle), recorded(kSplit));
  explore_overlaps("idle, block scales, residual", recorded(kIdle), recorded(kBlockScales),
                   recorded(kResidual));
}

TEST(chain_explore, kernels_written_down_by_hand) {
  explore_overlaps("plain, narrow", plain_lists, plain_lists, plain_lists);
  explore_overlaps("strip", strip_lists, strip_lists, strip_lists);
  explore_overlaps("wide", wide_lists, wide_lists, wide_lists);
  explore_overlaps("norms", norm_lists, norm_lists, norm_lists);
  explore_overlaps("quantizers", quantize_lists, quantize_lists, quantize_lists);
  explore_overlaps("product, norm, product", recorded(kPingPong), norm_lists, recorded(kPingPong));
  explore_overlaps("plain, quantizer, product", plain_lists, quantize_lists, recorded(kBlockScales));
  explore_overlaps("route, gather, product", route_lists, quantize_lists, recorded(kBlockScales));
  explore_overlaps("product, combine, norm", recorded(kPingPong), combine_lists, norm_lists);
}

/// qkv, then add + norm + quantise in place, gate_up and silu. Scales and the residual stream pass through
/// the chain.
TEST(chain_explore, four_launches_of_a_layer) {
  Sum sum;
  for (const Trigger trigger : kTriggers)
    for (const Wait wait : {Wait::first, Wait::weights_first}) {
      const Overlap o{wait, trigger};
      sum.add(explore_chain(
                  {launch_of(product(kPingPong, {Wait::none, trigger}),
                             {.name = "o", .edge = Edge::stream, .output = "y"}),
                   launch_of(norm_lists(o), {.name = "norm",
                                             .tokens = "y",
                                             .residual = "stream",
                                             .output = "z",
                                             .output_scales = "z scales",
                                             .sum = "stream"}),
                   launch_of(product(kBlockScales, o),
                             {.name = "gate_up", .tokens = "z", .token_scales = "z scales", .output = "y"}),
                   launch_of(quantize_lists(o),
                             {.name = "silu", .tokens = "y", .output = "z", .output_scales = "z scales"})}),
              "layer");
    }
  sum.print("o, norm, gate_up, silu");
}

/// The second kernel of Combine::separate adds up the slices. It is a dependent launch that never triggers.
/// The next product uses the same workspace.
TEST(chain_explore, sums_of_parts_and_what_is_behind_them) {
  Sum sum;
  for (const Wait wait : kWaits)
    for (const ProductKind* next : {&kSplit, &kResidual})
      sum.add(
          explore_chain({launch_of(plain_lists({Wait::none, Trigger::at_start}),
                                   {.name = "first", .edge = Edge::stream, .output = "y"}),
                         launch_of(product(kSeparate, {}), {.name = "parts", .tokens = "y", .output = "z"}),
                         launch_of(sum_parts_lists(), {.name = "sums", .residual = "x", .output = "z"}),
                         launch_of(product(*next, {wait, Trigger::never}),
                                   {.name = "next", .tokens = "z", .residual = "y", .output = "x"})}),
          "separate");
  sum.print("parts, sums, next");
}

/// A graph of two or three launches, replayed twice. The second replay overwrites everything that the first
/// one read.
TEST(chain_explore, a_graph_replayed_twice) {
  Sum sum;
  for (const ProductKind* kind : {&kPingPong, &kSplit}) {
    std::vector<ChainLaunch> chain;
    for (int replay = 0; replay < 2; ++replay) {
      const ThreeArrays arrays = over_input();
      chain.push_back(launch_of(product(*kind, {Wait::none, Trigger::at_start}), arrays.first));
      chain.push_back(launch_of(norm_lists(kEager), arrays.second));
      chain.push_back(launch_of(product(*kind, {Wait::weights_first, Trigger::never}), arrays.third));
    }
    sum.add(explore_chain(chain), kind->name);
  }
  sum.print("replayed twice");
}

/// A foreign launch in the middle of the chain. It never waits, and starts after an ordinary edge of a stream
/// or graph. It may trigger or not.
TEST(chain_explore, a_foreign_launch_in_between) {
  Sum sum;
  for (const bool triggers : {false, true})
    for (const Edge edge : {Edge::stream, Edge::graph})
      for (const auto layout : kLayouts)
        for (const Wait wait : {Wait::first, Wait::weights_first}) {
          ThreeArrays arrays = layout();
          arrays.second.edge = edge;
          sum.add(explore_chain({launch_of(product(kPingPong, {Wait::none, Trigger::at_start}), arrays.first),
                                 launch_of(product(kIdle, kEager), {.name = "to the graph", .output = "w"}),
                                 launch_of(foreign_lists(triggers), arrays.second),
                                 launch_of(product(kPingPong, {wait, Trigger::at_start}), arrays.third)}),
                  "foreign");
        }
  sum.print("foreign");
}

/// Searches without reduction: every interleaving of single events of different CTAs, in launches of one CTA.
/// With two peers, in either order of the peers.
TEST(chain_explore, every_interleaving_of_single_events) {
  for (const ProductKind* kind : {&kOne, &kOneScaled})
    explore_overlaps(kind->name, recorded(*kind), recorded(*kind), recorded(*kind), Reduction::none);
  explore_overlaps("norms", norm_lists, norm_lists, norm_lists, Reduction::none);
  explore_overlaps("one, norm, one", recorded(kOne), norm_lists, recorded(kOne), Reduction::none);
  const ThreeArrays arrays = over_input();
  const KernelLists peers = product(kSplit, kEager);
  const std::vector<ChainLaunch> chain{launch_of(peers, arrays.first),
                                       launch_of(norm_lists(kEager), arrays.second),
                                       launch_of(peers, arrays.third)};
  const Exploration equals = explore_chain(chain, {.reduction = Reduction::equals}),
                    segments = explore_chain(chain);
  expect_complete(equals, "two peers");
  expect_complete(segments, "two peers");
  EXPECT_GT(equals.states, segments.states);
  std::printf("             two peers: %lld states, %lld of segments\n", equals.states, segments.states);
}

// ---- the lists ----
std::string text_of(const AgentList& agent) {
  static constexpr const char* kOperands[] = {"tokens", "weights",       "token_scales", "table", "residual",
                                              "output", "output_scales", "sum",          "slots", "counters"};
  std::string text;
  for (const OperandEvent& e : agent.events) {
    text += text.empty() ? "" : ", ";
    if (e.kind == EventKind::trigger) text += "trigger";
    if (e.kind == EventKind::wait) text += "wait";
    if (e.kind == EventKind::read) text += std::string("read ") + kOperands[static_cast<int>(e.operand)];
    if (e.kind == EventKind::write) text += std::string("write ") + kOperands[static_cast<int>(e.operand)];
  }
  return text;
}
std::vector<std::string> first_cta(const KernelLists& lists) {
  std::vector<std::string> texts;
  for (const AgentList& agent : lists.ctas.front()) texts.push_back(text_of(agent));
  return texts;
}

/// Checks that recorded lists contain events, since a chain with empty lists has no faults.
TEST(chain_explore, lists_of_the_recorded_kernel) {
  using Texts = std::vector<std::string>;
  const std::string scales = "wait, read token_scales, read weights, ";
  const Overlap after_loads{Wait::weights_first, Trigger::after_loads}, first{Wait::first, Trigger::at_start};
  EXPECT_EQ(
      first_cta(product(kPingPong, after_loads)),
      (Texts{"read weights, wait, read tokens, trigger", scales + "write output", scales + "write output"}));
  EXPECT_EQ(first_cta(product(kSwapped, first)), (Texts{"trigger, wait, read tokens, read weights",
                                                        scales + "write output", scales + "write output"}));
  EXPECT_EQ(
      first_cta(product(kResidual, {})),
      (Texts{"read tokens, read weights", "read token_scales, read weights, read residual, write output",
             "read token_scales, read weights, read residual, write output"}));
  const std::string splits = scales + "write slots, write counters, read slots, write output";
  EXPECT_EQ(first_cta(product(kSplit, kEager)),
            (Texts{"trigger, read weights, wait, read tokens", splits, splits}));
  EXPECT_EQ(first_cta(product(kBlockScales, kEager))[1], "wait, read token_scales, read weights");
  EXPECT_EQ(first_cta(product(kSeparate, {}))[0], "trigger, read tokens, read weights");
  const KernelLists idle = product(kIdle, kEager);
  ASSERT_EQ(idle.ctas.size(), 2u);
  EXPECT_EQ(text_of(idle.ctas[1][0]), "trigger, wait");
}

/// Counts waits and triggers in the kernels' sources. If this fails, compare the kernel with its list in
/// twin/kernel_lists.cc, then update the counts here.
TEST(chain_explore, lists_by_hand_are_those_of_the_source) {
  struct Kernel {
    const char* file;
    int waits, triggers;
  };
  for (const Kernel& kernel : {Kernel{"plain.cuh", 2, 2},  // with slots it waits before its table, too
                               {"narrow.cuh", 2, 2},       // with groups, too
                               {"strip.cuh", 3, 2},
                               {"wide.cuh", 3, 2},
                               {"norm.cuh", 1, 2},
                               {"quantize.cuh", 1, 2},
                               {"sum_parts.cuh", 1, 0}}) {
    std::ifstream file(std::string(SLUICE_SOURCE_DIR "/sluice/kernels/") + kernel.file);
    const std::string source{std::istreambuf_iterator<char>(file), {}};
    const auto calls = [&](std::initializer_list<const char*> names) {
      int count = 0;
      for (const std::string name : names)
        for (size_t at = source.find(name); at != std::string::npos; at = source.find(name, at + 1)) ++count;
      return count;
    };
    EXPECT_EQ(calls({"Launch::fill(", "Launch::wait()", "Launch::wait_for_weights()",
                     "::wait_for_prerequisites()"}),
              kernel.waits)
        << kernel.file;
    EXPECT_EQ(calls({"Launch::begin()", "Launch::loaded()", "::launch_dependents()"}), kernel.triggers)
        << kernel.file;
  }
}

}  // namespace
}  // namespace sluice::twin
