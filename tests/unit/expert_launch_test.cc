// SPDX-License-Identifier: Apache-2.0
// Launches of route, gather and combine on the fake driver: one kernel each, grids, refusals, no allocation,
// and steps of a chain.
#include <sluice/experts.h>

#include <sluice/chain.h>
#include <sluice/spec/combine.h>

#include "allocation_counter.h"
#include "launch_fixture.h"

namespace sluice {
namespace {

class ExpertLaunch : public LaunchTest {
 protected:
  Router router(const RouteOptions& options = {}) {
    const Result<Router> made = Router::create(device(), options);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    return *made;
  }
  Combiner combiner(const CombineOptions& options = {}) {
    const Result<Combiner> made = Combiner::create(device(), options);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    return *made;
  }
  Quantizer gatherer(const QuantizerOptions& options) {
    const Result<Quantizer> made = Quantizer::create(device(), options);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    return *made;
  }
  int* ints(i64 bytes = 1 << 22) { return static_cast<int*>(driver.memory(bytes)); }
  RouteArgs routing() {
    return {.ids = driver.memory(1 << 22), .ends = ints(), .row_of_slot = ints(), .token_of_row = ints()};
  }
  CombineArgs combining() {
    return {.y = driver.memory(1 << 22),
            .row_of_slot = ints(),
            .weights = static_cast<const float*>(driver.memory(1 << 20)),
            .shared = driver.memory(1 << 22),
            .out = driver.memory(1 << 22)};
  }
  const RouteShape kSlots{.tokens = 512, .chosen = 8, .experts = 256, .rows = 4096};
  const CombineShape kSums{.tokens = 64, .columns = 512, .chosen = 8, .rows = 512};
};

TEST_F(ExpertLaunch, each_step_is_one_kernel_that_allocates_nothing) {
  const Router route = router();
  const Combiner combine = combiner();
  const RouteArgs routed = routing();
  const CombineArgs combined = combining();
  const long before = allocations_of_this_thread();
  const bool ok = route.launch(kSlots, routed, nullptr).ok() && combine.launch(kSums, combined, nullptr).ok();
  EXPECT_EQ(allocations_of_this_thread(), before);
  EXPECT_TRUE(ok);
  EXPECT_EQ(driver.launches(), 2);
  EXPECT_EQ(driver.launch(0).grid_x, 1u) << "4096 slots are one CTA";
  EXPECT_EQ(driver.launch(0).block_x, 1024u);
  EXPECT_EQ(driver.launch(1).grid_x, 64u * 512 / 8 / kCombineThreads);
}

TEST_F(ExpertLaunch, many_slots_are_one_cluster_and_few_a_small_cta) {
  launched(router().launch({.tokens = 4096, .chosen = 8, .experts = 256, .rows = 32768}, routing(), nullptr),
           1);
  EXPECT_EQ(driver.launch(0).grid_x, 8u);
  EXPECT_EQ(driver.launch(0).cluster_x, 8u);
  launched(router().launch({.tokens = 1, .chosen = 8, .experts = 64, .rows = 8}, routing(), nullptr), 2);
  EXPECT_EQ(driver.launch(1).block_x, 64u);
  launched(
      router().launch({.tokens = 1 << 16, .chosen = 8, .experts = 1024, .rows = 1 << 19}, routing(), nullptr),
      3);
  EXPECT_EQ(driver.launch(2).grid_x, 8u);
}

TEST_F(ExpertLaunch, no_tokens_still_write_ends) {
  RouteArgs args = routing();
  args.ids = nullptr, args.row_of_slot = nullptr;
  launched(router().launch({.experts = 8, .rows = 16}, args, nullptr), 1);
  args.token_of_row = nullptr;
  launched(router().launch({.experts = 8}, args, nullptr), 2);
  launched(combiner().launch({.columns = 64, .chosen = 2, .rows = 4}, {}, nullptr), 2);
  launched(gatherer({.gathered = true}).launch({.columns = 64, .input_rows = 4}, {}, nullptr), 2);
}

TEST_F(ExpertLaunch, of_a_chain_are_dependent) {
  const Overlap chain{Wait::first, Trigger::at_start};
  launched(router({.wide_ids = true, .overlap = chain}).launch(kSlots, routing(), nullptr), 1);
  EXPECT_TRUE(driver.launch(0).dependent);
  launched(combiner({.overlap = chain}).launch(kSums, combining(), nullptr), 2);
  EXPECT_TRUE(driver.launch(1).dependent);
}

TEST_F(ExpertLaunch, route_refuses_with_value_rule_and_remedy) {
  const Router route = router();
  const auto refuses = [&](RouteShape shape, ErrorCode code, const std::string& mention) {
    refused(route.launch(shape, routing(), nullptr), code, mention);
  };
  refuses({.tokens = -1}, ErrorCode::invalid_size, "tokens = -1");
  refuses({.tokens = 1, .chosen = 33, .rows = 33}, ErrorCode::invalid_size, "chosen = 33: must be in 1..32");
  refuses({.tokens = 1, .chosen = 0}, ErrorCode::invalid_size, "chosen = 0");
  refuses({.tokens = 1, .experts = 1025}, ErrorCode::invalid_size, "experts = 1025: must be in 1..1024");
  refuses({.tokens = 1, .rows = -1}, ErrorCode::invalid_size, "rows = -1");
  refuses({.tokens = 1, .pitch = 0}, ErrorCode::invalid_size, "pitch = 0");
  refuses({.tokens = i64{1} << 28, .chosen = 8}, ErrorCode::invalid_size, "2^30 slots");
  refuses({.tokens = 4, .chosen = 8, .ids_ld = 7}, ErrorCode::invalid_stride, "ids_ld = 7");
  refuses({.tokens = 4, .chosen = 8, .ids_ld = i64{1} << 40}, ErrorCode::invalid_stride, "2^30");
  RouteArgs bad = routing();
  bad.ends = nullptr;
  refused(route.launch(kSlots, bad, nullptr), ErrorCode::invalid_pointer, "ends is null");
  bad = routing();
  bad.ids = shifted(bad.ids, 2);
  refused(route.launch(kSlots, bad, nullptr), ErrorCode::misaligned, "ids");
  bad.ids = shifted(bad.ids, 2);
  refused(router({.wide_ids = true}).launch(kSlots, bad, nullptr), ErrorCode::misaligned, "ids");
  bad = routing();
  bad.token_of_row = bad.row_of_slot + 4095;
  refused(route.launch(kSlots, bad, nullptr), ErrorCode::aliasing, "token_of_row");
  bad = routing();
  bad.hand_off.bytes = -1;
  refused(route.launch(kSlots, bad, nullptr), ErrorCode::invalid_argument, "hand_off.bytes = -1");
}

TEST_F(ExpertLaunch, combine_refuses_with_value_rule_and_remedy) {
  const Combiner combine = combiner();
  refused(combine.launch({.tokens = 2, .columns = 8, .chosen = 40}, combining(), nullptr),
          ErrorCode::invalid_size, "chosen = 40");
  refused(combine.launch({.tokens = 2, .columns = 8, .rows = -1}, combining(), nullptr),
          ErrorCode::invalid_size, "rows = -1");
  refused(combine.launch({.tokens = i64{1} << 30, .columns = 1 << 20}, combining(), nullptr),
          ErrorCode::invalid_size, "2^31");
  refused(combine.launch({.tokens = 2, .columns = 8, .rows = 4, .y_ld = 7}, combining(), nullptr),
          ErrorCode::invalid_stride, "y_ld = 7");
  CombineArgs bad = combining();
  bad.out = shifted(bad.out, 1);
  refused(combine.launch(kSums, bad, nullptr), ErrorCode::misaligned, "out");
  bad = combining();
  bad.out = const_cast<void*>(bad.y);
  refused(combine.launch(kSums, bad, nullptr), ErrorCode::aliasing, "overlaps y");
  bad = combining();
  bad.row_of_slot = nullptr;
  refused(combine.launch(kSums, bad, nullptr), ErrorCode::invalid_pointer, "row_of_slot is null");
  const Result<Combiner> wide = Combiner::create(device(), {.type = DType::fp32});
  ASSERT_FALSE(wide.ok());
  EXPECT_EQ(wide.error().code, ErrorCode::invalid_type);
}

TEST_F(ExpertLaunch, combine_takes_shared_in_place_and_unaligned_columns) {
  const Combiner combine = combiner();
  CombineArgs args = combining();
  args.shared = args.out;
  launched(combine.launch(kSums, args, nullptr), 1);
  CombineShape other = kSums;
  other.shared_ld = 520;
  EXPECT_FALSE(combine.launch(other, args, nullptr).ok()) << "rows of shared and out lie differently";
  args = combining();
  args.weights = nullptr, args.shared = nullptr;
  launched(combine.launch({.tokens = 3, .columns = 131, .chosen = 2, .rows = 6}, args, nullptr), 2);
}

TEST_F(ExpertLaunch, gather_is_a_quantiser_with_a_table_of_rows) {
  QuantizeArgs args{.input = driver.memory(1 << 20),
                    .output = driver.memory(1 << 20),
                    .scales = static_cast<float*>(driver.memory(1 << 16))};
  const QuantizeShape shape{.rows = 100, .columns = 256, .input_rows = 16};
  const Quantizer blocks = gatherer({.granularity = Granularity::row_block, .gathered = true});
  refused(blocks.launch(shape, args, nullptr), ErrorCode::invalid_pointer, "row_index is null");
  args.row_index = ints();
  QuantizeShape wrong = shape;
  wrong.input_rows = -1;
  refused(blocks.launch(wrong, args, nullptr), ErrorCode::invalid_size, "input_rows = -1");
  wrong = shape;
  wrong.input_ld = 255;
  refused(blocks.launch(wrong, args, nullptr), ErrorCode::invalid_stride, "input_ld = 255");
  QuantizeArgs bad = args;
  bad.row_index = reinterpret_cast<const int*>(shifted(args.row_index, 2));
  refused(blocks.launch(shape, bad, nullptr), ErrorCode::misaligned, "row_index");
  launched(blocks.launch(shape, args, nullptr), 1);
  launched(gatherer({.gathered = true}).launch(shape, args, nullptr), 2);
  args.scale_given = true;
  launched(gatherer({.granularity = Granularity::tensor, .gathered = true}).launch(shape, args, nullptr), 3);
  const Result<Quantizer> copy = Quantizer::create(device(), QuantizerOptions{});
  EXPECT_FALSE(copy.ok()) << "without a table it would be a copy";
}

TEST_F(ExpertLaunch, steps_of_a_chain_overlap_and_know_their_memory) {
  const RouteArgs routed = routing();
  QuantizeArgs gathered{.input = driver.memory(1 << 20),
                        .output = driver.memory(1 << 22),
                        .scales = static_cast<float*>(driver.memory(1 << 16)),
                        .row_index = routed.token_of_row};
  CombineArgs combined = combining();
  combined.row_of_slot = routed.row_of_slot;
  const std::vector<ChainStep> steps{
      {.work = route_step({}, {.tokens = 16, .chosen = 8, .experts = 64, .rows = 128}, routed),
       .name = "route"},
      {.work = QuantizerStep{.granularity = Granularity::row_block,
                             .shape = {.rows = 128, .columns = 512, .input_rows = 16},
                             .args = gathered,
                             .gathered = true},
       .name = "gather"},
      {.work = combine_step({}, {.tokens = 16, .columns = 512, .chosen = 8, .rows = 128}, combined),
       .name = "combine"}};
  const Result<Chain> chain = Chain::prepare(device(), steps, {});
  ASSERT_TRUE(chain.ok()) << chain.error().message;
  const std::string text = explain(chain->plan());
  for (const char* words : {"route 16x8 to 64 experts", "gathered", "combine 16x512 of 8 experts"})
    EXPECT_NE(text.find(words), std::string::npos) << text;
  ASSERT_TRUE(chain->enqueue(nullptr, {}).ok());
  ASSERT_EQ(driver.launches(), 3);
  EXPECT_TRUE(driver.launch(1).dependent);
  EXPECT_TRUE(driver.launch(2).dependent);
}

}  // namespace
}  // namespace sluice
