// SPDX-License-Identifier: Apache-2.0
// Plans from records, which the tuner measures together with its candidates. The first book that has a record
// decides, for dense and packed products. To see it fail: let recorded_plan() search the last book first.
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/shapes.h"
#include "bench/tune/report.h"
#include "tests/packed_problems.h"

#include <sluice/plan/records/record_book.h>

namespace sluice::bench {
namespace {

/// Reads records as plan() does. A plan that the model picked does not count as recorded.
TEST(recorded_plan, is_what_a_record_makes_of_a_problem) {
  const Problem known = plain_problem(4096, 4096, 4096, DType::bf16);
  const Problem unknown = plain_problem(4097, 4096, 4096, DType::bf16);
  const RecordBook none[] = {RecordBook()}, shipped[] = {RecordBook(), shipped_records()};
  const std::optional<Plan> plan = recorded_plan(known, DeviceInfo{}, shipped);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(is_same(*plan, *gemm::plan(known, DeviceInfo{})));
  EXPECT_FALSE(recorded_plan(unknown, DeviceInfo{}, shipped));
  EXPECT_FALSE(recorded_plan(known, DeviceInfo{}, none));

  // The first book decides. Records that --out would replace are searched before the shipped ones.
  TuneResult other{.problem = plan->problem, .state = TuneState::tuned, .best = 0};
  other.trials.push_back({.plan = gemm::candidates(known, DeviceInfo{})->at(5)});
  const TuningRecord newer =
      record_of(other, {.driver = "580", .date = "2026-11-21T10:00:00Z", .method = "m"});
  const RecordBook both[] = {book_of(std::span(&newer, 1)), shipped_records()};
  const std::optional<Plan> first = recorded_plan(known, DeviceInfo{}, both);
  ASSERT_TRUE(first);
  EXPECT_TRUE(is_same(*first, other.trials[0].plan));
  EXPECT_FALSE(is_same(*first, *plan));
}

TEST(recorded_plan, knows_packed_weights) {
  const Problem packed = PackedProblem{
      .m = 16, .n = 8192, .k = 8192, .x = DType::fp16, .d = DType::fp16, .weights = {.group = 64}};
  const RecordBook shipped[] = {shipped_records()};
  const std::optional<Plan> plan = recorded_plan(packed, DeviceInfo{}, shipped);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(is_same(*plan, *plan));
  const std::vector<Plan> ranked = *candidates_of(request_of(packed), DeviceInfo{});
  EXPECT_EQ(std::count_if(ranked.begin(), ranked.end(), [&](const Plan& x) { return is_same(*plan, x); }), 1);
  const Plan dense = *gemm::plan(plain_problem(16, 8192, 8192, DType::bf16), DeviceInfo{});
  EXPECT_FALSE(is_same(*plan, dense)) << "of another kind";
}

}  // namespace
}  // namespace sluice::bench
