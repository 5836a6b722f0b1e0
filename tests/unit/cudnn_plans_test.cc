// SPDX-License-Identifier: Apache-2.0
// Plans of a convolution from a fake cuDNN: which are kept, the attributes that are set, the launch of a
// plan, and that no failure leaks.
#include <gtest/gtest.h>

#include "fake_cudnn.h"

namespace sluice::bench {
namespace {

using cudnn::Attribute;
using cudnn::HeuristicMode;
using cudnn::Kind;
using List = std::vector<i64>;

CudnnConvolution layer(ConvOp op) {
  return {.conv = {.op = op,
                   .spatial = 2,
                   .images = 2,
                   .channels = 16,
                   .filters = 24,
                   .size = {10, 6, 1},
                   .filter = {5, 3, 1},
                   .stride = {2, 1, 1},
                   .dilation = {1, 2, 1},
                   .padding = {2, 1, 0},
                   .padding_after = {3, 0, 0}}};
}

class CudnnPlansTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_.proposals[HeuristicMode::a] = {{7, {{13, 1}, {2, 5}}}, {9, {{2, 4}}}, {7, {{2, 6}}}};
    fake_.proposals[HeuristicMode::b] = {{7, {{2, 5}, {13, 1}}},
                                         // The first config is heuristic A's, with its knobs in another
                                         // order.
                                         {8, {}}};
    fake_.proposals[HeuristicMode::fallback] = {{1, {}}};
    fake_.engines = 5;
    fake_.unfit = {0, 3};
    fake_.broken = {9};
    fake_.workspace = {{8, 1000}, {2, 4096}, {7, 100}};
    fake_.notes = {{8, {0, 4}}, {7, {0}}};
  }

  /// Fails if a descriptor or handle was not destroyed.
  void TearDown() override {
    EXPECT_EQ(fake_.alive, 0);
    EXPECT_EQ(fake_.handles, 0);
  }

  Result<CudnnPlans> plans(const CudnnConvolution& problem, i64 most = kMostCudnnWorkspace) {
    const Result<std::shared_ptr<const Cudnn>> cudnn = Cudnn::with(FakeCudnn::api());
    if (!cudnn) return cudnn.error();
    return plans_of(**cudnn, problem, most);
  }

  FakeCudnn fake_;
};

std::vector<std::string> tags_of(const CudnnPlans& found) {
  std::vector<std::string> tags;
  for (const CudnnPlan& plan : found.plans) tags.push_back(plan.tag);
  return tags;
}

TEST_F(CudnnPlansTest, each_kernel_once_in_the_order_of_the_heuristics) {
  const Result<CudnnPlans> found = plans(layer(ConvOp::wgrad));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(tags_of(*found), (std::vector<std::string>{"engine 7 k2=5 k13=1", "engine 7 k2=6", "engine 8",
                                                       "engine 1", "engine 2", "engine 4"}));
  EXPECT_EQ(found->plans[0].origin, "heuristic A");
  EXPECT_EQ(found->plans[2].origin, "heuristic B");
  EXPECT_EQ(found->plans[3].origin, "fallback");
  EXPECT_EQ(found->plans[5].origin, "engine");
  EXPECT_EQ(found->engines, 5);
  EXPECT_EQ(found->engines_refused, 2);
  ASSERT_EQ(found->refused.size(), 1u);
  EXPECT_EQ(found->refused[0].tag, "engine 9 k2=4");
  EXPECT_NE(found->refused[0].why.find("NOT_SUPPORTED: as planned"), std::string::npos);
}

TEST_F(CudnnPlansTest, workspace_and_notes_are_kept) {
  const Result<CudnnPlans> found = plans(layer(ConvOp::wgrad), 1000);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->plans[2].tag, "engine 8");
  EXPECT_EQ(found->plans[2].workspace_bytes, 1000);
  EXPECT_FALSE(found->plans[2].deterministic());
  EXPECT_EQ(found->plans[2].notes(), "tensor core, nondeterministic");
  EXPECT_TRUE(found->plans[0].deterministic());
  ASSERT_EQ(found->refused.size(), 2u);
  EXPECT_EQ(found->refused[1].tag, "engine 2");
  EXPECT_EQ(found->refused[1].why, "wants 4096 bytes of workspace, at most 1000 are given");
}

TEST_F(CudnnPlansTest, descriptors_say_what_the_convolution_is) {
  ASSERT_TRUE(plans(layer(ConvOp::wgrad)));
  const FakeCudnn::Node* convolution = fake_.last(Kind::convolution);
  ASSERT_NE(convolution, nullptr);
  EXPECT_EQ(convolution->numbers.at(Attribute::convolution_axes), List{2});
  EXPECT_EQ(convolution->numbers.at(Attribute::convolution_strides), (List{1, 2}));
  EXPECT_EQ(convolution->numbers.at(Attribute::convolution_dilations), (List{2, 1}));
  EXPECT_EQ(convolution->numbers.at(Attribute::convolution_padding_before), (List{1, 2}));
  EXPECT_EQ(convolution->numbers.at(Attribute::convolution_padding_after), (List{0, 3}));
  EXPECT_EQ(convolution->numbers.at(Attribute::convolution_mode), List{1});
  EXPECT_EQ(convolution->numbers.at(Attribute::convolution_compute), List{0});
  const FakeCudnn::Node* y = fake_.last(Kind::tensor);
  ASSERT_NE(y, nullptr);
  EXPECT_EQ(y->numbers.at(Attribute::tensor_id), List{3});
  EXPECT_EQ(y->numbers.at(Attribute::tensor_type), List{9});
  EXPECT_EQ(y->numbers.at(Attribute::tensor_dimensions), (List{2, 24, 3, 6}));
  EXPECT_EQ(y->numbers.at(Attribute::tensor_strides), (List{3 * 6 * 24, 1, 6 * 24, 24}));
}

TEST_F(CudnnPlansTest, each_operation_has_its_own_attributes) {
  const struct {
    ConvOp op;
    Kind kind;
    Attribute x, alpha, beta;
  } all[] = {{ConvOp::fprop, Kind::fprop, Attribute::fprop_x, Attribute::fprop_alpha, Attribute::fprop_beta},
             {ConvOp::dgrad, Kind::dgrad, Attribute::dgrad_dx, Attribute::dgrad_alpha, Attribute::dgrad_beta},
             {ConvOp::wgrad, Kind::wgrad, Attribute::wgrad_x, Attribute::wgrad_alpha, Attribute::wgrad_beta}};
  for (const auto& [op, kind, x, alpha, beta] : all) {
    ASSERT_TRUE(plans(layer(op)));
    const FakeCudnn::Node* operation = fake_.last(kind);
    ASSERT_NE(operation, nullptr) << name_of(op);
    EXPECT_EQ(operation->pointers.count(x), 1u);
    EXPECT_EQ(operation->pointers.size(), 4u);  // the convolution, x, w and y
    EXPECT_EQ(operation->numbers.at(alpha), List{1});
    EXPECT_EQ(operation->numbers.at(beta), List{0});
  }
}

TEST_F(CudnnPlansTest, a_launch_hands_over_pointers_workspace_and_stream) {
  const Result<CudnnPlans> found = plans(layer(ConvOp::dgrad));
  ASSERT_TRUE(found) << found.error().message;
  char x, w, y, workspace;
  const Stream stream = reinterpret_cast<Stream>(&x);
  ASSERT_TRUE(launch(found->plans[1], {&x, &w, &y}, &workspace, stream));
  ASSERT_EQ(fake_.launches.size(), 1u);
  const FakeCudnn::Launch& seen = fake_.launches[0];
  EXPECT_EQ(seen.stream, stream);
  EXPECT_EQ(seen.pack.numbers.at(Attribute::pack_ids), (List{1, 2, 3}));
  EXPECT_EQ(seen.pack.pointers.at(Attribute::pack_pointers), (std::vector<void*>{&x, &w, &y}));
  EXPECT_EQ(seen.pack.pointers.at(Attribute::pack_workspace), std::vector<void*>{&workspace});
  EXPECT_TRUE(seen.pack.finished && seen.plan.finished);
}

TEST_F(CudnnPlansTest, a_bad_convolution_reaches_no_descriptor) {
  CudnnConvolution p = layer(ConvOp::fprop);
  p.conv.filter.w = 40;
  const Result<CudnnPlans> found = plans(p);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::invalid_size);
  EXPECT_TRUE(fake_.finished.empty());
}

/// Any call may fail. The result is then an error, or the list without the affected plans. TearDown() detects
/// leaks.
TEST_F(CudnnPlansTest, no_failing_call_leaks) {
  const auto run = [&]() -> Result<void> {
    const Result<CudnnPlans> found = plans(layer(ConvOp::wgrad));
    if (!found) return found.error();
    return launch(found->plans.at(0), {}, nullptr, nullptr);
  };
  fake_.calls = 0;
  ASSERT_TRUE(run());
  const int calls = fake_.calls;
  int errors = 0;
  for (int call = 0; call < calls; ++call) {
    fake_.calls = 0;
    fake_.fail_at = call;
    errors += !run();
    ASSERT_EQ(fake_.alive, 0) << "call " << call;
    ASSERT_EQ(fake_.handles, 0) << "call " << call;
  }
  EXPECT_GT(calls, 200);
  EXPECT_GT(errors, 30);  // calls for the handle, the graph and the launch
  EXPECT_LT(errors, calls - 100);
}

}  // namespace
}  // namespace sluice::bench
