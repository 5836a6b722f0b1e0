// SPDX-License-Identifier: Apache-2.0
// Convolutions of whole numbers. Every bit must be right, and no byte outside of D may change. Gaps between
// pixels and memory around tensors hold NaN and must not be read. The verifier on the GPU and
// sluice/reference/conv.h check this. Also equal bits in a hundred runs of real data, and graphs that are
// replayed with other inputs.
//   SLUICE_CONV_FIRST, SLUICE_CONV_COUNT   random cases to run (default 0, 500)
//   SLUICE_CONV_SEED                       seed of the sequence of cases (default 23)
//   SLUICE_TEST_BATCH                      cases between waits (default 500; 1 finds the one that hangs)
// verify_conv_test proves on a CPU that the verifier finds each kind of damage.
#include <sluice/kernels/verify_arith.h>

#include <algorithm>
#include <cstring>

#include <sluice/reference/conv.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/events.h>
#include <sluice/spec/conv_problem.h>

#include "batch_runner.h"
#include "conv_cases.h"
#include "gpu.h"

namespace sluice::testing {
namespace {

constexpr i64 kRandomCases = 500;
constexpr i64 kAtOnce = 400;  // plans that are prepared in one call
constexpr i64 kArenaBytes = i64{512} << 20;
constexpr int kRuns = 100;
constexpr int kShownFailures = 10;

/// One convolution to test.
struct ConvCase {
  Plan plan;
  DataSpec data;
  std::string name;
};

class convolutions : public GpuTest {
 protected:
  /// Compiles all kernels in parallel, then runs each case and checks its result.
  void expect_exact(BatchRunner& runner, const std::vector<ConvCase>& cases) {
    std::vector<Plan> plans;
    for (const ConvCase& item : cases) plans.push_back(item.plan);
    const std::vector<Result<gemm::Kernel>> kernels = gemm::prepare(device(), plans);
    for (size_t i = 0; i < cases.size() && runner.failures().size() < kShownFailures; ++i) {
      ASSERT_TRUE(ok(kernels[i])) << cases[i].name << "\n" << to_string(cases[i].plan.config);
      ASSERT_TRUE(ok(runner.run(*kernels[i], cases[i].data, Judge::exact, cases[i].name))) << cases[i].name;
    }
    ASSERT_TRUE(ok(runner.flush()));
  }
  static void report(const BatchRunner& runner) {
    for (const Failure& failure : runner.failures()) ADD_FAILURE() << describe(failure);
    record("cases", runner.passed());
    record("elements", runner.elements());
    std::printf("%d convolutions, %lld elements of D, all exact: %s\n", runner.passed(), runner.elements(),
                runner.failures().empty() ? "yes" : "NO");
  }
  std::vector<u8> copy_out(const void* from, i64 bytes) const {
    std::vector<u8> to(static_cast<size_t>(bytes));
    const ContextScope scope(*device().impl().primary);
    EXPECT_TRUE(ok(scope.entered()));
    EXPECT_EQ(device().impl().api->cuMemcpyDtoH(to.data(), reinterpret_cast<CUdeviceptr>(from), to.size()),
              CUDA_SUCCESS);
    return to;
  }
};

TEST_F(convolutions, of_every_kind_are_exact) {
  std::vector<ConvCase> cases;
  int refused = 0;
  for (const NamedConv& item : named_convs())
    for (const ConvVariant& variant : conv_variants()) {
      const std::string name = std::string(name_of(variant.op)) + ", " + item.name + ", " + variant.name;
      const Result<Plan> plan = plan_conv(item.conv, variant, device().info());
      const bool planned = variant.overrides == PlanOverrides{};
      ASSERT_TRUE(plan.ok() || !planned) << name << ": " << plan.error().message;
      refused += !plan.ok();  // phases cannot be split, and small products have too few k-tiles
      for (u64 seed = 1; plan.ok() && seed < 4; ++seed)
        cases.push_back({*plan, exact_data(plan->problem, seed), name + ", seed " + std::to_string(seed)});
    }
  EXPECT_LT(refused * 3, static_cast<int>(named_convs().size() * conv_variants().size()))
      << "of the combinations, most can be planned";
  auto runner =
      BatchRunner::create(device(), static_cast<int>(setting("SLUICE_TEST_BATCH", 500)), kArenaBytes);
  ASSERT_TRUE(ok(runner));
  expect_exact(*runner, cases);
  report(*runner);
  std::printf("%d combinations of geometry and kernel cannot be planned\n", refused);
}

/// Compares the planner's choice with the CPU reference: every byte of D, and the bytes between its pixels.
TEST_F(convolutions, are_those_of_the_reference) {
  const auto verifier = Verifier::create(device());
  const auto workspace = Workspace::create(device());
  ASSERT_TRUE(ok(verifier));
  ASSERT_TRUE(ok(workspace));
  i64 judged = 0;
  for (const NamedConv& item : named_convs())
    for (const ConvVariant& variant : conv_variants()) {
      if (variant.overrides != PlanOverrides{}) continue;
      const std::string name = std::string(name_of(variant.op)) + ", " + item.name;
      const auto plan = plan_conv(item.conv, variant, device().info());
      ASSERT_TRUE(ok(plan)) << name;
      const auto kernel = gemm::prepare(device(), *plan);
      ASSERT_TRUE(ok(kernel)) << name;
      const auto data = verifier->make_data(plan->problem, exact_data(plan->problem, 7), nullptr);
      ASSERT_TRUE(ok(data)) << name;
      Conv conv = item.conv;
      conv.op = variant.op;
      const i64 x = x_span(conv) * 2, y = y_span(conv) * 2, w = filter_elements(conv) * 2;
      const i64 d = variant.op == ConvOp::fprop ? y : variant.op == ConvOp::dgrad ? x : w;
      const gemm::Args& from = data->args();
      const std::vector<u8> a = copy_out(from.a, variant.op == ConvOp::fprop ? x : y);
      const std::vector<u8> b = copy_out(from.b, variant.op == ConvOp::wgrad ? x : w);
      std::vector<u8> expected = copy_out(from.d, d);
      // Computes the same product through the public function.
      const conv::Tensors tensors{.x = variant.op == ConvOp::fprop ? from.a : from.b,
                                  .w = from.b,
                                  .y = from.a,
                                  .result = from.d,
                                  .alpha = from.alpha,
                                  .workspace = workspace->view()};
      ASSERT_TRUE(ok(gemm::launch(*kernel, conv::args(conv, tensors), nullptr))) << name;
      ASSERT_TRUE(ok(synchronize(device()))) << name;
      Problem problem = plan->problem;
      problem.conv = conv;  // restores the convolution: a pointwise one has become a plain product
      reference_conv(problem, {.a = a.data(), .b = b.data(), .d = expected.data()}, from.alpha, 0.0f);
      const std::vector<u8> got = copy_out(from.d, d);
      i64 wrong = 0;
      for (i64 i = 0; i < d / 2; ++i) {
        u16 one, other;
        std::memcpy(&one, got.data() + 2 * i, 2);
        std::memcpy(&other, expected.data() + 2 * i, 2);
        wrong += one != other && ((one | other) & 0x7fff) != 0;  // zeros of either sign count as equal
      }
      EXPECT_EQ(wrong, 0) << name << ": elements of D that the reference has otherwise";
      judged += d / 2;
    }
  record("elements", judged);
}

TEST_F(convolutions, of_random_geometries_are_exact) {
  const i64 first = setting("SLUICE_CONV_FIRST", 0), count = setting("SLUICE_CONV_COUNT", kRandomCases);
  const u64 seed = static_cast<u64>(setting("SLUICE_CONV_SEED", 23));
  const std::vector<ConvVariant> variants = conv_variants();
  auto runner =
      BatchRunner::create(device(), static_cast<int>(setting("SLUICE_TEST_BATCH", 500)), kArenaBytes);
  ASSERT_TRUE(ok(runner));
  i64 refused = 0;
  for (i64 begin = first; begin < first + count; begin += kAtOnce) {
    std::vector<ConvCase> cases;
    for (i64 index = begin; index < std::min(begin + kAtOnce, first + count); ++index) {
      const u64 of_case = verify::hash(seed, static_cast<u64>(index));
      const ConvVariant& variant = variants[static_cast<size_t>(index) % variants.size()];
      const Result<Plan> plan = plan_conv(random_conv(of_case), variant, device().info());
      refused += !plan.ok();
      if (!plan) continue;
      cases.push_back({*plan, exact_data(plan->problem, of_case),
                       "SLUICE_CONV_SEED=" + std::to_string(seed) +
                           " SLUICE_CONV_FIRST=" + std::to_string(index) +
                           " SLUICE_CONV_COUNT=1 sluice_gpu_tests "
                           "--gtest_filter=convolutions.of_random_geometries_are_exact"});
    }
    expect_exact(*runner, cases);
    if (HasFatalFailure() || runner->failures().size() >= kShownFailures) break;
  }
  EXPECT_LE(refused * 2, std::max<i64>(count, 2)) << "of the cases, most can be planned";
  report(*runner);
  std::printf("%lld random cases cannot be planned\n", refused);
}

/// Uses real-valued data, which would show another order of summation.
TEST_F(convolutions, have_the_same_bits_in_each_run) {
  const auto verifier = Verifier::create(device());
  const auto workspace = Workspace::create(device());
  ASSERT_TRUE(ok(verifier));
  ASSERT_TRUE(ok(workspace));
  int judged = 0;
  for (const NamedConv& item : named_convs()) {
    const std::string name = item.name;
    if (name != "3x3" && name != "3x3/2" && name != "72 channels" && name != "causal 3x3x3") continue;
    for (const ConvVariant& variant : conv_variants()) {
      const auto plan = plan_conv(item.conv, variant, device().info());
      if (!plan || !variant.deterministic) continue;
      const auto kernel = gemm::prepare(device(), *plan);
      ASSERT_TRUE(ok(kernel)) << name;
      auto data = verifier->make_data(plan->problem, real_data(plan->problem, 5), nullptr);
      ASSERT_TRUE(ok(data)) << name;
      gemm::Args args = data->args();
      args.workspace = workspace->view();
      const Region& region = data->region(kRegionD);
      std::vector<u8> golden;
      for (int run = 0; run < kRuns; ++run) {
        ASSERT_TRUE(ok(verifier->refill(*data, 5, nullptr)));  // also restores D
        ASSERT_TRUE(ok(gemm::launch(*kernel, args, nullptr)));
        ASSERT_TRUE(ok(synchronize(device())));
        std::vector<u8> now = copy_out(region.base, region.span_bytes);
        if (run == 0) golden = now;
        ASSERT_EQ(now, golden) << "run " << run << " differs: " << name << ", " << variant.name;
      }
      const auto found = verifier->check(*data, {.judge = Judge::bounded}, nullptr);
      ASSERT_TRUE(ok(found));
      EXPECT_TRUE(is_right(*found)) << name << ", " << variant.name << "\n" << describe(*found);
      ++judged;
    }
  }
  EXPECT_GT(judged, 40);
  record("cases", i64{judged} * kRuns);
}

TEST_F(convolutions, are_replayed_with_changed_inputs) {
  const auto stream = StreamHandle::create(device());
  const auto verifier = Verifier::create(device());
  const auto workspace = Workspace::create(device());
  ASSERT_TRUE(ok(stream));
  ASSERT_TRUE(ok(verifier));
  ASSERT_TRUE(ok(workspace));
  for (const NamedConv& item : named_convs()) {
    if (item.conv.images > 3) continue;  // only small ones
    for (const ConvVariant& variant : conv_variants()) {
      const auto plan = plan_conv(item.conv, variant, device().info());
      if (!plan) continue;
      const auto kernel = gemm::prepare(device(), *plan);
      ASSERT_TRUE(ok(kernel)) << item.name;
      auto data = verifier->make_data(plan->problem, exact_data(plan->problem, 1), stream->get());
      ASSERT_TRUE(ok(data));
      gemm::Args args = data->args();
      args.workspace = workspace->view();
      const auto graph =
          Graph::capture(device(), stream->get(), [&] { return gemm::launch(*kernel, args, stream->get()); });
      ASSERT_TRUE(ok(graph));
      for (u64 seed = 2; seed < 5; ++seed) {
        ASSERT_TRUE(ok(verifier->refill(*data, seed, stream->get())));
        ASSERT_TRUE(ok(graph->launch(stream->get())));
        const auto found = verifier->check(*data, {}, stream->get());
        ASSERT_TRUE(ok(found));
        ASSERT_TRUE(is_right(*found))
            << item.name << ", " << variant.name << ", replay " << seed << ": " << describe(*found);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::testing
