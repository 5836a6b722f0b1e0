// SPDX-License-Identifier: Apache-2.0
// The real cuDNN, if the machine has one, makes plans for an H100 that is described by text, so no GPU is
// needed. It must accept our descriptors and propose more than one plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "bench/contender/cudnn_problem.h"

namespace sluice::bench {
namespace {

/// A device in cuDNN's JSON form (DEVICEPROP_JSON_REPRESENTATION), with only the keys that cuDNN reads.
constexpr const char* kH100 = R"({"deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900, "driverVer": 13000,
  "cudaDeviceId": 0, "totalGlobalMem": 85000000000, "multiProcessorCount": 132,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
  "maxRegistersPerSM": 65536, "warpSize": 32, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
  "maxThreadsPerSM": 2048, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024, "l2CacheSize": 52428800, "smClockRateKHz": 1980000,
  "memClockRateKHz": 2619000, "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1})";

/// Returns a layer of ResNet-50: 56 x 56 pixels, 3x3 filter, 64 channels to 64.
CudnnConvolution layer(ConvOp op) {
  return {.conv = {.op = op,
                   .spatial = 2,
                   .images = 32,
                   .channels = 64,
                   .filters = 64,
                   .size = {56, 56, 1},
                   .filter = {3, 3, 1},
                   .padding = {1, 1, 0},
                   .padding_after = {1, 1, 0}}};
}

class RealCudnn : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::shared_ptr<const Cudnn>> loaded = Cudnn::load_for("", kH100);
    // The JSON text is in the form of cuDNN 9.19. Other versions may expect another form, or a driver.
    const bool known = loaded || loaded.error().message.starts_with("cuDNN 9.19.");
    if (!known) GTEST_SKIP() << loaded.error().message;
    ASSERT_TRUE(loaded) << loaded.error().message;
    cudnn_ = *loaded;
  }
  std::shared_ptr<const Cudnn> cudnn_;
};

TEST_F(RealCudnn, plans_each_operation) {
  for (const ConvOp op : {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad}) {
    const Result<CudnnPlans> found = plans_of(*cudnn_, layer(op));
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_GT(found->plans.size(), 10u) << name_of(op);
    EXPECT_GT(found->engines, found->engines_refused);
    EXPECT_EQ(found->plans.front().origin, "heuristic A");
    std::set<std::string> tags;
    for (const CudnnPlan& plan : found->plans) {
      EXPECT_TRUE(tags.insert(plan.tag).second) << plan.tag;
      EXPECT_LE(plan.workspace_bytes, kMostCudnnWorkspace);
    }
    EXPECT_TRUE(std::any_of(found->plans.begin(), found->plans.end(),
                            [](const CudnnPlan& plan) { return plan.notes().starts_with("tensor core"); }));
    EXPECT_TRUE(std::any_of(found->plans.begin(), found->plans.end(),
                            [](const CudnnPlan& plan) { return plan.origin == "engine"; }));
  }
}

TEST_F(RealCudnn, names_plans_of_wgrad_that_are_not_deterministic) {
  const Result<CudnnPlans> found = plans_of(*cudnn_, layer(ConvOp::wgrad));
  ASSERT_TRUE(found) << found.error().message;
  const auto deterministic = std::count_if(found->plans.begin(), found->plans.end(),
                                           [](const CudnnPlan& plan) { return plan.deterministic(); });
  EXPECT_GT(deterministic, 0);
  EXPECT_LT(static_cast<size_t>(deterministic), found->plans.size());
}

TEST_F(RealCudnn, keeps_to_the_workspace) {
  const Result<CudnnPlans> all = plans_of(*cudnn_, layer(ConvOp::wgrad));
  const Result<CudnnPlans> few = plans_of(*cudnn_, layer(ConvOp::wgrad), 0);
  ASSERT_TRUE(all && few);
  EXPECT_LT(few->plans.size(), all->plans.size());
  for (const CudnnPlan& plan : few->plans) EXPECT_EQ(plan.workspace_bytes, 0);
  EXPECT_TRUE(std::any_of(few->refused.begin(), few->refused.end(), [](const CudnnRefusal& refusal) {
    return refusal.why.find("of workspace") != std::string::npos;
  }));
}

TEST_F(RealCudnn, takes_axes_of_all_counts_and_types) {
  const CudnnConvolution line{.conv = {.op = ConvOp::fprop,
                                       .spatial = 1,
                                       .images = 8,
                                       .channels = 64,
                                       .filters = 64,
                                       .size = {512, 1, 1},
                                       .filter = {5, 1, 1},
                                       .padding = {2, 0, 0},
                                       .padding_after = {2, 0, 0}}};
  const CudnnConvolution room{.conv = {.op = ConvOp::wgrad,
                                       .spatial = 3,
                                       .images = 1,
                                       .channels = 96,
                                       .filters = 96,
                                       .size = {16, 16, 16},
                                       .filter = {3, 3, 3},
                                       .padding = kOnes,
                                       .padding_after = kOnes}};
  CudnnConvolution strided = layer(ConvOp::dgrad);
  strided.conv.stride = {2, 2, 1};
  strided.inputs = strided.result = DType::fp16;
  for (const CudnnConvolution& p : {line, room, strided}) {
    const Result<CudnnPlans> found = plans_of(*cudnn_, p);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_FALSE(found->plans.empty()) << name_of(p.conv.op) << " of " << p.conv.spatial << " axes";
  }
}

/// cuDNN 9.19 has no engine that writes an fp32 dw from 16-bit inputs. The list is then empty, which is not
/// an error.
TEST_F(RealCudnn, may_have_no_plan) {
  CudnnConvolution p = layer(ConvOp::wgrad);
  p.result = DType::fp32;
  const Result<CudnnPlans> found = plans_of(*cudnn_, p);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_GT(found->engines_refused + static_cast<int>(found->plans.size()), 0);
}

/// cuDNN computes y's dimensions from x, filter, stride, dilation and padding, and compares. It refuses a
/// descriptor with an axis in the wrong place.
TEST_F(RealCudnn, agrees_on_the_order_of_axes) {
  CudnnConvolution p = layer(ConvOp::fprop);
  p.conv.size = {40, 30, 1};
  p.conv.filter = {5, 3, 1};
  p.conv.stride = {2, 1, 1};
  p.conv.dilation = {1, 3, 1};
  p.conv.padding = {1, 4, 0};
  p.conv.padding_after = {1, 4, 0};
  const Result<CudnnPlans> found = plans_of(*cudnn_, p);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_FALSE(found->plans.empty());
}

TEST_F(RealCudnn, launches_nothing_for_a_described_gpu) {
  const Result<CudnnPlans> found = plans_of(*cudnn_, layer(ConvOp::fprop));
  ASSERT_TRUE(found) << found.error().message;
  const Result<void> launched = launch(found->plans.front(), {}, nullptr, nullptr);
  ASSERT_FALSE(launched);
  EXPECT_NE(launched.error().message.find("described GPU"), std::string::npos);
}

TEST(cudnn_library, a_wrong_path_is_an_error_that_names_it) {
  const Result<std::shared_ptr<const Cudnn>> loaded = Cudnn::load("/no/such/libcudnn.so.9");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::toolchain);
  EXPECT_NE(loaded.error().message.find("/no/such/libcudnn.so.9"), std::string::npos);
  EXPECT_NE(loaded.error().message.find("SLUICE_CUDNN"), std::string::npos);
}

TEST(cudnn_library, the_environment_names_the_only_place) {
  ASSERT_EQ(setenv("SLUICE_CUDNN", "/no/such/place", 1), 0);
  EXPECT_EQ(cudnn_places(""), std::vector<std::string>{"/no/such/place"});
  EXPECT_EQ(cudnn_places("/given"), std::vector<std::string>{"/given"});
  unsetenv("SLUICE_CUDNN");
  const std::vector<std::string> places = cudnn_places("");
  ASSERT_GE(places.size(), 2u);
  EXPECT_EQ(places.front(), "libcudnn.so.9");
}

}  // namespace
}  // namespace sluice::bench
