// SPDX-License-Identifier: Apache-2.0
// Measures a convolution's shape with a fake cuDNN on the driver that computes nothing. To see it fail: use
// the roles of A and B of another op, so that cuDNN reads dy as x. Or write main_grad's result to D itself,
// so that nothing is added.
#include <gtest/gtest.h>

#include <sluice/conv.h>
#include <sluice/run/jit/compiler.h>

#include <sluice/bench/session.h>
#include <sluice/bench/sets.h>
#include "bench/contender/conv_peers.h"
#include "bench/contender/sluice_contender.h"
#include "fake_cudnn.h"
#include "lab_fixture.h"

namespace sluice::bench {
namespace {

Conv layer(ConvOp op) {
  return {.op = op,
          .images = 2,
          .channels = 64,
          .filters = 64,
          .size = {8, 8, 1},
          .filter = {3, 3, 1},
          .padding = {1, 1, 0},
          .padding_after = {1, 1, 0}};
}

Request request_of(const Conv& conv, const Epilogue& epilogue = {}) {
  const DType output = adds(epilogue) ? DType::fp32 : DType::bf16;
  Problem said;
  said.d.type = output;
  said.epilogue = epilogue;
  return {.problem = *conv_problem(conv, said)};
}

class ConvSession : public LabFixture {
 protected:
  ConvSession() : LabFixture({.rounds = 3}) {}

  void SetUp() override {
    LabFixture::SetUp();
    fake_.proposals[cudnn::HeuristicMode::a] = {{.engine = 1}, {.engine = 2}};
    fake_.engines = 3;
    fake_.notes[1] = {cudnn::kNoteNondeterministic};
    const auto cudnn = Cudnn::with(FakeCudnn::api());
    ASSERT_TRUE(cudnn) << cudnn.error().message;
    lab_->cudnn = *cudnn;
  }

  void TearDown() override { lab_.reset(); }  // before the fake cuDNN is destroyed

  ShapeRecord measured(const Request& request) {
    const Result<Plan> plan = plan_of(request, lab_->device.info(), lab_->device.records());
    return plan ? measure_shape(*lab_, {.request = request, .plan = *plan}, kSilent)
                : unplanned_shape(request, plan.error());
  }
  /// Returns the addresses of x, w and y in the last launch.
  std::vector<void*> last_pointers() {
    return fake_.launches.back().pack.pointers.at(cudnn::Attribute::pack_pointers);
  }

  FakeCudnn fake_;
};

const ContenderRecord* find(const ShapeRecord& shape, const char* name) {
  for (const ContenderRecord& contender : shape.contenders)
    if (contender.name == name) return &contender;
  return nullptr;
}

TEST_F(ConvSession, all_plans_race_and_the_deterministic_ones_for_themselves) {
  const ShapeRecord shape = measured(request_of(layer(ConvOp::wgrad)));
  EXPECT_EQ(shape.error, "");
  EXPECT_EQ(shape.problem.conv, layer(ConvOp::wgrad));
  EXPECT_EQ(shape.peer_algorithms, 3) << "two proposals, and the engine that none proposed";
  for (const char* name : {kSluice, kCudnnFirst, kCudnnBest, kCudnnDeterministic}) {
    const ContenderRecord* contender = find(shape, name);
    ASSERT_NE(contender, nullptr) << name;
    EXPECT_EQ(contender->error, "") << name;
    EXPECT_EQ(contender->rounds.size(), 3u) << name;
  }
  EXPECT_EQ(find(shape, kCudnnFirst)->detail.find("deterministic"), std::string::npos);
  EXPECT_NE(find(shape, kCudnnDeterministic)->detail.find("deterministic"), std::string::npos);
  EXPECT_EQ(find(shape, kPeerFirst), nullptr);
  EXPECT_EQ(find(shape, kReadFloor), nullptr);
}

TEST_F(ConvSession, a_pointwise_one_meets_cudnn_too) {
  Conv conv = layer(ConvOp::fprop);
  conv.filter = kOnes;
  conv.padding = conv.padding_after = {};
  const ShapeRecord shape = measured(request_of(conv));
  EXPECT_EQ(shape.problem.conv, conv);
  EXPECT_EQ(name_of(shape), "fprop 2x64x8x8 * 64x1x1 bf16 > bf16");
  EXPECT_NE(find(shape, kCudnnBest), nullptr);
}

TEST_F(ConvSession, each_op_reads_a_and_b_and_writes_d) {
  for (const ConvOp op : {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad}) {
    const Request request = request_of(layer(op));
    const auto sets = make_copies(*lab_, request.problem, {});
    ASSERT_TRUE(sets) << sets.error().message;
    const auto peers = ConvPeers::create(*lab_, request.problem.conv, *sets);
    ASSERT_TRUE(peers) << peers.error().message;
    const Contender contender = peers->contender(0, kCudnnFirst);
    EXPECT_TRUE(contender.unit_alpha);
    ASSERT_TRUE(contender.launch(1, lab_->stream.get()));
    const gemm::Args& args = sets->at(1).args();
    const std::vector<void*> p = last_pointers();
    const std::vector<const void*> got{p[0], p[1], p[2]};
    const std::vector<const void*> expected =
        op == ConvOp::fprop   ? std::vector{args.a, args.b, (const void*)args.d}
        : op == ConvOp::dgrad ? std::vector{(const void*)args.d, args.b, args.a}
                              : std::vector{args.b, (const void*)args.d, args.a};
    EXPECT_EQ(got, expected) << name_of(op);
  }
}

TEST_F(ConvSession, main_grad_is_cudnns_result_then_added) {
  const Request request = request_of(layer(ConvOp::wgrad), {.update = Update::add});
  const auto sets = make_copies(*lab_, request.problem, {});
  ASSERT_TRUE(sets);
  const auto peers = ConvPeers::create(*lab_, request.problem.conv, *sets);
  ASSERT_TRUE(peers) << peers.error().message;
  const Contender contender = peers->contender(0, kCudnnFirst);
  EXPECT_NE(contender.detail.find("+ add"), std::string::npos);
  const int before = driver_.calls();
  ASSERT_TRUE(contender.launch(0, lab_->stream.get()));
  EXPECT_GT(driver_.calls(), before) << "the kernel that adds";
  EXPECT_NE(last_pointers()[1], sets->at(0).args().d);
  const ShapeRecord shape = measured(request);
  EXPECT_EQ(shape.error, "");
  EXPECT_NE(find(shape, kCudnnBest), nullptr);
}

TEST_F(ConvSession, what_cudnn_is_not_asked_is_told) {
  const Request request = request_of(layer(ConvOp::fprop), {.activation = Activation::relu});
  const ShapeRecord shape = measured(request);
  ASSERT_NE(find(shape, kCudnnFirst), nullptr);
  EXPECT_NE(find(shape, kCudnnFirst)->error.find("without bias, activation and residual"), std::string::npos);
  lab_->cudnn = nullptr;
  lab_->without_cudnn = "no cuDNN here";
  EXPECT_EQ(find(measured(request_of(layer(ConvOp::fprop))), kCudnnFirst)->error, "no cuDNN here");
}

TEST(conv_peers, the_kernels_that_add_compile_for_hopper) {
  const auto compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  for (const DType type : {DType::bf16, DType::fp16}) {
    const auto cubin = (*compiler)->compile(add_unit_text(type));
    ASSERT_TRUE(cubin) << cubin.error().message;
    EXPECT_EQ(cubin->report.spill_bytes, 0);
  }
}

}  // namespace
}  // namespace sluice::bench
