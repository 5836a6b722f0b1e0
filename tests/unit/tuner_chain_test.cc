// SPDX-License-Identifier: Apache-2.0
// Tuned chains: JSON form, refusals, lookup of steps in a book, and their use by plan_chain. To see it fail:
// leave neighbours out of at_place, so that a step of another chain gets the choice; or call take_record
// after the overlap is decided.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include <sluice/chain/chain.h>
#include <sluice/plan/dense/candidates.h>
#include <sluice/plan/dense/tuned_choice.h>
#include <sluice/plan/records/record_book.h>
#include <sluice/run/records/record_store.h>

#include "bench/chain/layers.h"
#include "tests/packed_problems.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;
using bench::LayerSpec;
using bench::LayerWeights;

std::vector<ChainStep> layers(LayerWeights weights, i64 tokens = 16) {
  const LayerSpec spec{.weights = weights, .tokens = tokens, .layers = 3, .passes = 1};
  return steps_of(spec, imagined_memory(spec));
}

ChainPlan planned(const std::vector<ChainStep>& steps, const RecordBook& book,
                  ChainOverlap overlap = ChainOverlap::tuned) {
  const Result<ChainPlan> plan = plan_chain(steps, DeviceInfo{}, {.overlap = overlap}, book);
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? *plan : ChainPlan{};
}

/// Returns a record with the choices of the second layer, planned without overlap. The overlap is changed, so
/// that a plan shows that it follows the record.
TunedChain sample_chain(LayerWeights weights = LayerWeights::e4m3) {
  const std::vector<ChainStep> steps = layers(weights);
  const ChainPlan off = planned(steps, RecordBook(), ChainOverlap::off);
  const size_t count = steps.size() / 3;
  std::vector<TunedStep> choices;
  for (size_t i = count; i < 2 * count; ++i) {
    choices.push_back(choice_of(off, off.steps[i]));
    choices.back().overlap = {i % 2 == 0 ? Wait::first : Wait::weights_first, Trigger::after_loads};
    choices.back().hand_off_bytes = static_cast<i64>(i % 2) << 20;
    choices.back().prefetch_bytes = static_cast<i64>(i % 3) << 20;
    const auto ranked = [&](const auto& step) {
      if constexpr (requires { gemm::candidates(step.problem, DeviceInfo{}); })
        choices.back().kernel = choice_of((*gemm::candidates(step.problem, DeviceInfo{}))[3]);
      if constexpr (requires { gemm::candidates(step.problem, DeviceInfo{}); })
        choices.back().kernel = choice_of((*gemm::candidates(step.problem, DeviceInfo{}))[3]);
    };
    std::visit(ranked, steps[i].work);
  }
  return {.gpu = DeviceInfo{}.name,
          .sm_count = DeviceInfo{}.sm_count,
          .steps = tuned_steps(std::span(steps).subspan(count, count), choices),
          .us = 60.5,
          .off_us = 70.25,
          .name = "llama3-8b e4m3, 16 tokens",
          .sluice = "0.1.0",
          .driver = "580.159.04",
          .date = "2026-11-22T10:00:00Z"};
}

RecordBook book_with(const TunedChain& chain) {
  return book_of(ParsedRecords{.chains = {chain}});
}

TEST(tuner_chain, goes_through_json_and_back) {
  for (const LayerWeights weights : {LayerWeights::e4m3, LayerWeights::bf16, LayerWeights::int4}) {
    const TunedChain chain = sample_chain(weights);
    const ParsedRecords parsed = parse_records(to_json({}, {chain}), "FILE");
    EXPECT_EQ(parsed.troubles, std::vector<std::string>{});
    EXPECT_EQ(parsed.chains, std::vector{chain});
  }
}

TEST(tuner_chain, says_what_spaces_ctas_only_where_it_is_not_memory) {
  TunedChain chain = sample_chain();
  EXPECT_EQ(to_json({}, {chain}).find("spacing"), std::string::npos)
      << "as records were before there was any";
  chain.steps[1].choice.overlap.spacing = Spacing::registers;
  chain.steps[2].choice.overlap.spacing = Spacing::none;
  std::string text = to_json({}, {chain});
  EXPECT_EQ(parse_records(text, "FILE").chains, std::vector{chain});
  text.replace(text.find("\"registers\""), 11, "\"tape\"");
  const ParsedRecords bent = parse_records(text, "FILE");
  ASSERT_EQ(bent.troubles.size(), 1u);
  EXPECT_NE(bent.troubles.front().find("\"spacing\" = \"tape\" must be one of: memory, registers, none"),
            std::string::npos)
      << bent.troubles.front();
}

TEST(tuner_chain, every_missing_or_bent_field_is_named) {
  const Json sample = Json::parse(to_json(sample_chain()));
  const auto trouble = [](const Json& bent) {
    const ParsedRecords parsed = parse_records(bent.dump(), "FILE");
    EXPECT_TRUE(parsed.chains.empty());
    return parsed.troubles.empty() ? "" : parsed.troubles.front();
  };
  for (const auto& [name, value] : sample.items()) {
    Json bent = sample;
    bent.erase(name);
    const bool is_chain = name != kTunedChainSteps;  // without steps the record is read as that of a product
    EXPECT_NE(trouble(bent).find(is_chain ? '"' + name + "\" is missing" : "must be"), std::string::npos)
        << trouble(bent);
    bent[name] = nullptr;
    EXPECT_NE(trouble(bent).find('"' + name + "\" = null must be"), std::string::npos) << trouble(bent);
  }
  for (size_t i = 0; i < sample["steps"].size(); ++i)
    for (const auto& [name, value] : sample["steps"][i].items()) {
      Json bent = sample;
      bent["steps"][i][name] = -1;
      const std::string place = "FILE: step " + std::to_string(i) + ": \"" + name + "\"";
      EXPECT_EQ(trouble(bent).substr(0, place.size()), place);
    }
  Json more = sample;
  more["steps"][0]["luck"] = 1;
  EXPECT_NE(trouble(more).find("\"luck\" is no field of version 1"), std::string::npos) << trouble(more);
}

TEST(tuner_chain, a_plan_takes_each_step_from_it_and_the_ends_as_they_must) {
  for (const LayerWeights weights : {LayerWeights::e4m3, LayerWeights::int4}) {
    const TunedChain chain = sample_chain(weights);
    const ChainPlan plan = planned(layers(weights), book_with(chain));
    const size_t count = chain.steps.size();
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      TunedStep wanted = chain.steps[i % count].choice;
      if (i == 0) wanted.overlap.wait = Wait::none;
      if (i + 1 == plan.steps.size()) wanted.overlap.trigger = Trigger::never;
      const PlannedStep& step = plan.steps[i];
      EXPECT_TRUE(step.tuned) << i;
      EXPECT_EQ(step.overlap, wanted.overlap) << i;
      EXPECT_EQ(choice_of(plan, step).kernel, wanted.kernel) << i;
    }
    EXPECT_NE(explain(plan).find(", tuned"), std::string::npos);
  }
}

TEST(tuner_chain, counts_for_nothing_elsewhere) {
  const RecordBook book = book_with(sample_chain());
  const auto tuned = [&](const std::vector<ChainStep>& steps, ChainOverlap overlap) {
    const ChainPlan plan = planned(steps, book, overlap);
    return std::count_if(plan.steps.begin(), plan.steps.end(), [](const auto& s) { return s.tuned; });
  };
  const std::vector<ChainStep> all = layers(LayerWeights::e4m3);
  EXPECT_EQ(tuned(all, ChainOverlap::weights_first), 0);
  EXPECT_EQ(tuned(all, ChainOverlap::off), 0);
  EXPECT_EQ(tuned(layers(LayerWeights::e4m3, 17), ChainOverlap::tuned), 0) << "other sizes";
  EXPECT_EQ(tuned({all[1]}, ChainOverlap::tuned), 0) << "no neighbour at all";
  std::vector<ChainStep> without_norm(all.begin(), all.begin() + 8);
  without_norm.erase(without_norm.begin() + 4);
  EXPECT_EQ(tuned(without_norm, ChainOverlap::tuned), 5) << "o and gate_up have other neighbours";
  TunedChain elsewhere = sample_chain();
  elsewhere.gpu = "NVIDIA H100 PCIe";
  EXPECT_EQ(planned(all, book_with(elsewhere)).steps[1].tuned, false);
}

/// Packed products of equal sizes with different fusion: a gate, a norm before, a residual after.
TEST(tuner_chain, of_a_packed_layer_is_for_layers_that_are_fused_alike) {
  const std::vector<ChainStep> plain = layers(LayerWeights::int4);
  void (*const fused[])(Problem&) = {[](Problem& p) { p.epilogue.gated = true; },
                                     [](Problem& p) { p.norm_a = true; },
                                     [](Problem& p) { add_residual(p); }};
  for (const auto& fuse : fused) {
    ChainStep other = plain[1];
    fuse(std::get<ProductStep>(other.work).problem);
    TunedChain chain = sample_chain(LayerWeights::int4);
    EXPECT_TRUE(planned(plain, book_with(chain)).steps[1].tuned);
    chain.steps[1].recipe = recipe_of(other);
    EXPECT_NE(chain.steps[1].recipe, recipe_of(plain[1]));
    EXPECT_FALSE(planned(plain, book_with(chain)).steps[1].tuned);
    const ParsedRecords parsed = parse_records(to_json({}, {chain}), "FILE");
    ASSERT_EQ(parsed.chains.size(), 1u);
    EXPECT_EQ(parsed.chains[0].steps[1].recipe, chain.steps[1].recipe) << "through JSON and back";
  }
}

TEST(tuner_chain, a_step_that_says_anything_itself_is_left_alone) {
  std::vector<ChainStep> steps = layers(LayerWeights::e4m3);
  steps[9].overlap = Overlap{Wait::weights_first, Trigger::at_start};
  steps[11].hand_off_bytes = 0;
  std::get<ProductStep>(steps[13].work).overrides.stages = 3;
  const ChainPlan plan = planned(steps, book_with(sample_chain()));
  for (const size_t i : {9, 11, 13}) EXPECT_FALSE(plan.steps[i].tuned) << i;
  EXPECT_EQ(plan.steps[9].overlap.trigger, Trigger::at_start);
  EXPECT_TRUE(plan.steps[10].tuned);
}

TEST(tuner_chain, a_kernel_that_the_planner_would_not_consider_is_not_taken) {
  const std::vector<ChainStep> steps = layers(LayerWeights::e4m3);
  const auto tuned_with = [&](const TunedChoice& kernel) {
    TunedChain chain = sample_chain();
    chain.steps[1].choice.kernel = kernel;
    const ChainPlan plan = planned(steps, book_with(chain));
    EXPECT_TRUE(plan.steps[2].tuned) << "its neighbours are";
    return plan.steps[1].tuned;
  };
  const TunedChoice good = *sample_chain().steps[1].choice.kernel;
  EXPECT_TRUE(tuned_with(good));
  TunedChoice impossible = good, unlisted = good, separate = good;
  impossible.tile_n = 1000;
  unlisted = {.schedule = Schedule::plain, .tile_m = 16, .tile_n = 32, .warps = 4, .stages = 9};
  const PlanOverrides same{.schedule = Schedule::plain, .tile_m = 16, .tile_n = 32, .stages = 9, .warps = 4};
  ASSERT_TRUE(gemm::plan(std::get<ProductStep>(steps[1].work).problem, DeviceInfo{}, same));
  separate.combine = Combine::separate;
  for (const TunedChoice& bad : {impossible, unlisted, separate}) EXPECT_FALSE(tuned_with(bad));

  TunedChain packed = sample_chain(LayerWeights::int4);
  packed.steps[1].choice.kernel->warps = 5;
  EXPECT_FALSE(planned(layers(LayerWeights::int4), book_with(packed)).steps[1].tuned);
}

/// To see it fail: leave the numbering out of plan_of().
TEST(tuner_chain, a_choice_sets_the_numbering_of_its_step) {
  const std::vector<ChainStep> steps = layers(LayerWeights::e4m3);
  const auto ranked = *gemm::candidates(std::get<ProductStep>(steps[1].work).problem, DeviceInfo{});
  const auto roles = std::find_if(ranked.begin(), ranked.end(), [](const Plan& plan) {
    return !is_plain(plan.config.schedule) && plan.config.combine != Combine::separate;
  });
  ASSERT_NE(roles, ranked.end());
  for (const Numbering numbering : {Numbering::launch, Numbering::gpc}) {
    TunedChain chain = sample_chain();
    TunedChoice choice = choice_of(*roles);
    choice.numbering = numbering;
    chain.steps[1].choice.kernel = choice;
    const ChainPlan plan = planned(steps, book_with(chain));
    ASSERT_TRUE(plan.steps[1].tuned);
    EXPECT_EQ(choice_of(plan, plan.steps[1]).kernel->numbering, numbering);
  }
}

TEST(tuner_chain, a_footprint_is_of_kernels_that_are_best_alone) {
  for (const ChainOptions& options :
       {ChainOptions{.smem_limit = kHalfFootprint}, ChainOptions{.most_stages = 2}}) {
    const auto plan =
        plan_chain(layers(LayerWeights::e4m3), DeviceInfo{}, options, book_with(sample_chain()));
    ASSERT_TRUE(plan) << plan.error().message;
    for (const PlannedStep& step : plan->steps) EXPECT_FALSE(step.tuned);
  }
}

TEST(tuner_chain, foreign_steps_are_neighbours_like_any_other) {
  std::vector<ChainStep> steps = layers(LayerWeights::e4m3);
  const ForeignStep attention{.enqueue = [](Stream) { return Result<void>(); }, .writes = {{}}};
  const size_t count = steps.size() / 3;
  for (size_t layer = 3; layer-- > 0;)
    steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(layer * count + 2), {.work = attention});
  const ChainPlan off = planned(steps, RecordBook(), ChainOverlap::off);
  TunedChain chain = sample_chain();
  std::vector<TunedStep> choices;
  const auto layer = std::span(steps).subspan(count + 1, count + 1);
  for (size_t i = count + 1; i < 2 * (count + 1); ++i) choices.push_back(choice_of(off, off.steps[i]));
  chain.steps = tuned_steps(layer, choices);
  EXPECT_EQ(parse_records(to_json({}, {chain}), "FILE").chains, std::vector{chain});
  const ChainPlan plan = planned(steps, book_with(chain));
  for (const PlannedStep& step : plan.steps)
    EXPECT_NE(step.tuned, std::holds_alternative<ForeignStep>(step.step.work)) << step.step.name;
}

TEST(tuner_chain, of_two_the_newer_wins_and_the_users_over_both) {
  TunedChain old = sample_chain(), own = sample_chain(), fresh = sample_chain();
  old.date = "2026-01-01T00:00:00Z";
  own.date = "2025-01-01T00:00:00Z";
  old.steps[1].choice.overlap.trigger = Trigger::never;
  own.steps[1].choice.overlap.trigger = Trigger::at_start;
  const std::vector<ChainStep> steps = layers(LayerWeights::e4m3);
  const auto trigger = [&](const RecordBook& book) {
    return (*book.find(steps, DeviceInfo{})[1]).overlap.trigger;
  };
  EXPECT_EQ(trigger(book_of(ParsedRecords{.chains = {fresh, old}})), Trigger::after_loads);
  EXPECT_EQ(trigger(book_of(ParsedRecords{.chains = {old, fresh}})), Trigger::after_loads);
  EXPECT_EQ(trigger(book_of({.chains = {fresh, old}}, {.chains = {own}})), Trigger::at_start);
}

TEST(tuner_chain, the_record_that_knows_most_of_a_chain_is_asked_first) {
  TunedChain other = sample_chain();  // newer, and of a model whose layers differ in the last two steps only
  other.date = "2027-01-01T00:00:00Z";
  std::get<Recipe>(other.steps[5].recipe).n = 24576;
  std::get<Recipe>(other.steps[7].recipe).k = 12288;
  for (TunedChain::Step& step : other.steps) step.choice.overlap.trigger = Trigger::at_start;
  const std::vector<ChainStep> steps = layers(LayerWeights::e4m3);
  for (const auto& choice :
       book_of(ParsedRecords{.chains = {sample_chain(), other}}).find(steps, DeviceInfo{}))
    EXPECT_EQ(choice->overlap.trigger, Trigger::after_loads);
}

TEST(tuner_chain, every_shipped_one_is_read_found_and_used) {
  ASSERT_EQ(shipped_records().troubles(), std::vector<std::string>{});
  ASSERT_GT(embedded_records().chains.size(), 20u);
  for (const TunedChain& chain : embedded_records().chains) {
    EXPECT_GT(chain.off_us, chain.us) << chain.name << ": else it must be off";
    EXPECT_EQ(chain.gpu, DeviceInfo{}.name);
  }
  for (const i64 tokens : {1, 4, 16, 64})
    for (const bench::Model& model : bench::known_models()) {
      LayerSpec spec{.model = model,
                     .fusion = bench::Fusion::gated,
                     .tokens = tokens,
                     .layers = 3,
                     .passes = 1,
                     .accumulate = Accumulate::fast};  // these records were made before decision 0018
      const ChainPlan plan = planned(steps_of(spec, imagined_memory(spec)), shipped_records());
      for (const PlannedStep& step : plan.steps)
        EXPECT_TRUE(step.tuned) << name_of(spec) << " " << step.step.name;
    }
}

/// prepare() accepts every plan of plan_chain(), whatever the record, fusion or overlap. A memo that has seen
/// other options gives the same plan: to see it fail, leave between_neighbours out of PlanMemo's comparison.
TEST(tuner_chain, plans_of_all_models_keep_what_is_promised) {
  int checked = 0;
  for (const bench::Model& model : bench::known_models())
    for (const LayerWeights weights : {LayerWeights::e4m3, LayerWeights::bf16, LayerWeights::int4})
      for (const bench::Fusion fusion :
           {bench::Fusion::none, bench::Fusion::gated, bench::Fusion::residual, bench::Fusion::norm})
        for (const i64 tokens : {1, 16, 64}) {
          LayerSpec spec{.model = model, .weights = weights, .tokens = tokens, .layers = 2, .passes = 1};
          if (fusion == bench::Fusion::norm && tokens > kNormTokens) continue;
          if (fusion != bench::Fusion::none && why_not_fused(spec, fusion) != nullptr) continue;
          spec = fused(spec, fusion);
          PlanMemo memo;
          for (const ChainOptions& options :
               {ChainOptions{}, ChainOptions{.overlap = ChainOverlap::off},
                ChainOptions{.overlap = ChainOverlap::wait_first, .hand_off_bytes = 1 << 20},
                ChainOptions{.overlap = ChainOverlap::weights_first, .spacing = Spacing::registers}}) {
            const auto plan =
                plan_chain(steps_of(spec, imagined_memory(spec)), DeviceInfo{}, options, shipped_records());
            ASSERT_TRUE(plan.ok()) << name_of(spec) << ": " << plan.error().message;
            const auto again = plan_chain(steps_of(spec, imagined_memory(spec)), DeviceInfo{}, options,
                                          shipped_records(), memo);
            ASSERT_TRUE(again.ok()) << again.error().message;
            EXPECT_EQ(explain(*again), explain(*plan));
            const Result<void> kept = check_chain_plan(*plan);
            EXPECT_TRUE(kept.ok()) << name_of(spec) << ": " << kept.error().message;
            ++checked;
          }
        }
  EXPECT_GT(checked, 200);
}

TEST(tuner_chain, stores_keep_one_of_the_same_steps) {
  const std::string folder = testing::TempDir() + "sluice_tuned_chains_" + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  TunedChain again = sample_chain();
  again.us = 50;
  for (const bool in_file : {false, true}) {
    std::filesystem::create_directories(folder);
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
    const std::string place = in_file ? folder + "/file.json" : folder + "/own";
    Result<RecordStore> store = in_file ? RecordStore::open_file(place) : RecordStore::open_folder(place);
    ASSERT_TRUE(store) << store.error().message;
    ASSERT_TRUE(store->save(sample_chain()));
    ASSERT_TRUE(store->save(sample_chain(LayerWeights::int4)));
    ASSERT_TRUE(store->save(again));
    const Result<RecordStore> read =
        in_file ? RecordStore::open_file(place) : RecordStore::open_folder(place);
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ(read->chains().size(), 2u);
    EXPECT_EQ(read->troubles(), std::vector<std::string>{});
    EXPECT_EQ(std::count(read->chains().begin(), read->chains().end(), again), 1);
  }
  std::filesystem::remove_all(folder);
}

/// Plans the choice of a candidate again, and compares the plans.
void expect_same(const Plan& plan) {
  const std::optional<Plan> again = gemm::plan_of(choice_of(plan), plan.problem, DeviceInfo{});
  ASSERT_TRUE(again) << short_name(plan.config);
  EXPECT_EQ(again->config, plan.config) << to_string(again->config) << " for " << to_string(plan.config);
  EXPECT_EQ(again->split, plan.split) << short_name(plan.config) << to_string(again->split);
  EXPECT_EQ(again->estimate, plan.estimate) << short_name(plan.config);
  EXPECT_EQ(again->smem_bytes, plan.smem_bytes);
  EXPECT_EQ(again->workspace_bytes, plan.workspace_bytes);
}

/// To see it fail: leave choose_split() out of plan_of(), or the half rings out of is_tried().
TEST(tuned_choice, every_candidate_is_planned_again_from_its_choice) {
  for (const i64 m : {1, 16, 64, 300}) {
    const auto candidates = gemm::candidates({.m = m, .n = 4096, .k = 8192}, DeviceInfo{});
    for (const Plan& plan : *candidates) {
      expect_same(plan);
    }
  }
  std::vector<PackedProblem> packed;
  for (const i64 m : {1, 16, 200}) packed.push_back({.m = m, .n = 4096, .k = 8192});
  packed.push_back(
      {.m = 16, .n = 4096, .k = 8192, .x = DType::e4m3, .scale_x = ScaleMode::tensor, .d = DType::bf16});
  packed.back().weights.order = FragmentOrder::byte;
  for (const PackedProblem& p : packed) {
    const auto candidates = gemm::candidates(p, DeviceInfo{});
    ASSERT_TRUE(candidates) << candidates.error().message;
    for (const Plan& plan : *candidates) {
      expect_same(plan);
    }
  }
}

}  // namespace
}  // namespace sluice
