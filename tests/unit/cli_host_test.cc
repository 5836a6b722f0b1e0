// SPDX-License-Identifier: Apache-2.0
// The tool without a GPU. The host twin's result is compared with the reference, and a damaged element is
// found. Random problems are valid and repeatable. The doctor distinguishes good machines from bad ones.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <sluice/check/verify_units.h>
#include <sluice/conv.h>

#include "bench/host/host_problem.h"
#include "cache_fake.h"
#include "cli/doctor_checks.h"
#include "cli/target.h"
#include "cli/watchdog.h"
#include "fake_driver.h"
#include "lab/random/problem.h"

namespace sluice::cli {
namespace {

Problem small_problem() {
  Problem p{.m = 70, .n = 48, .k = 96};
  p.epilogue.bias = Bias::column;
  p.epilogue.activation = Activation::gelu;
  return p;
}

TEST(cli_host, the_twin_meets_the_reference_and_one_damaged_element_is_found) {
  const Result<Plan> plan = gemm::plan(small_problem(), DeviceInfo{}, {.schedule = Schedule::ping_pong});
  ASSERT_TRUE(plan) << plan.error().message;
  bench::HostProblem problem(plan->problem, 1.5f, 0.0f, 7);
  EXPECT_FALSE(problem.compare().passed());  // D is NaN until it is written
  const Result<twin::TwinReport> ran = problem.run(*plan, 3);
  ASSERT_TRUE(ran) << ran.error().message;
  const bench::HostComparison good = problem.compare();
  EXPECT_TRUE(good.passed()) << describe(good);
  EXPECT_EQ(good.checked, 70 * 48);

  problem.set_d(5 * 48 + 9, 1000.0);
  const bench::HostComparison bad = problem.compare();
  EXPECT_EQ(bad.wrong, 1);
  EXPECT_NE(describe(bad).find("D[0][5,9]"), std::string::npos) << describe(bad);
}

/// A gated product of fp8 with block scales, whose result the kernel quantises.
TEST(cli_host, scales_of_d_are_compared_and_a_damaged_one_is_found) {
  Problem p{.m = 70, .n = 512, .k = 208, .a = {.type = DType::e4m3}, .b = {.type = DType::e4m3}};
  p.d.type = DType::e4m3;
  p.epilogue = {.scale_a = ScaleMode::block,
                .scale_b = ScaleMode::block,
                .activation = Activation::silu,
                .gated = true,
                .scale_d = ScaleMode::block,
                .row_factors = true};
  const Result<Plan> plan = gemm::plan(p, DeviceInfo{});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(own_outputs(plan->config), 128);
  bench::HostProblem problem(plan->problem, 1.5f, 0.0f, 7);
  EXPECT_FALSE(problem.compare().passed());  // scales are NaN until they are written
  ASSERT_TRUE(problem.run(*plan, 3));
  const bench::HostComparison good = problem.compare();
  EXPECT_TRUE(good.passed()) << describe(good);
  EXPECT_EQ(good.checked, 70 * (256 + 2));
  problem.set_d(5 * 256 + 9, 448.0);
  problem.set_d(5 * 256 + 10, -448.0);
  const bench::HostComparison code = problem.compare();
  EXPECT_GE(code.wrong, 1);
  EXPECT_NE(describe(code).find("D[0][5,"), std::string::npos) << describe(code);
  ASSERT_TRUE(problem.run(*plan, 3));
  EXPECT_TRUE(problem.compare().passed());
  problem.set_scale(2 * 7 + 1, 1e-3f);
  const bench::HostComparison scale = problem.compare();
  EXPECT_GE(scale.wrong, 1);
  EXPECT_NE(describe(scale).find("the scale of D[0][7,128] is 0.001"), std::string::npos) << describe(scale);
}

/// Pixels of dx have 16 channels and are 24 elements apart.
TEST(cli_host, a_convolution_is_compared_pixel_by_pixel_and_between_them) {
  const Conv conv{.op = ConvOp::dgrad,
                  .spatial = 2,
                  .images = 2,
                  .channels = 16,
                  .filters = 32,
                  .size = {7, 6, 1},
                  .filter = {3, 3, 1},
                  .stride = {2, 1, 1},
                  .padding = {1, 0, 0},
                  .padding_after = {1, 1, 0},
                  .x_pitch = 24};
  const Result<Problem> made = conv::problem(conv, DType::bf16, DType::fp32);
  ASSERT_TRUE(made) << made.error().message;
  const Result<Plan> plan = bench::plan_with_roles(*made, {}, RecordBook());
  ASSERT_TRUE(plan) << plan.error().message;
  bench::HostProblem problem(plan->problem, 1.5f, 0.0f, 7);
  EXPECT_FALSE(problem.compare().passed());  // D is NaN until it is written
  const Result<twin::TwinReport> ran = problem.run(*plan, 3);
  ASSERT_TRUE(ran) << ran.error().message;
  const bench::HostComparison good = problem.compare();
  EXPECT_TRUE(good.passed()) << describe(good);
  EXPECT_EQ(good.checked, 2 * 42 * 16);
  EXPECT_GT(good.worst_ratio, 0);

  problem.set_d(5 * 24 + 9, 1000.0);
  const bench::HostComparison bad = problem.compare();
  EXPECT_EQ(bad.wrong, 1);
  EXPECT_NE(describe(bad).find("D[5,9]"), std::string::npos) << describe(bad);
  ASSERT_TRUE(problem.run(*plan, 3));
  problem.set_d(5 * 24 + 16, 0.0);
  const bench::HostComparison outside = problem.compare();
  EXPECT_EQ(outside.wrong, 1);
  EXPECT_NE(describe(outside).find("lies between pixels"), std::string::npos) << describe(outside);
}

TEST(cli_host, random_problems_are_repeatable_and_most_can_be_planned) {
  int planned = 0;
  for (int i = 0; i < 200; ++i) {
    const lab::RandomSpec spec{.seed = 5, .largest = 300, .exact = i % 2 == 0};
    const Problem p = lab::random_problem(spec, i);
    EXPECT_EQ(p, lab::random_problem(spec, i));
    EXPECT_TRUE(p.m <= 300 && p.n <= 300 && p.k <= 300 && p.m >= 0 && p.n >= 0 && p.k >= 0);
    if (spec.exact) {
      EXPECT_LE(static_cast<int>(p.epilogue.activation), static_cast<int>(Activation::relu));
    }
    const Result<Plan> plan = gemm::plan(p, DeviceInfo{});
    EXPECT_TRUE(plan) << plan.error().message << "\n" << to_string(p);
    planned += plan.ok();
  }
  EXPECT_EQ(planned, 200);
}

TEST(cli_host, a_device_is_auto_host_or_a_number) {
  const Result<Target> host = find_target("host", {});
  ASSERT_TRUE(host);
  EXPECT_FALSE(host->device);
  for (const char* wrong : {"gpu", "-1", "0x1", ""}) {
    const Result<Target> target = find_target(wrong, {});
    ASSERT_FALSE(target) << wrong;
    EXPECT_EQ(target.error().code, ErrorCode::invalid_argument) << wrong;
  }
}

TEST(cli_doctor, a_missing_nvrtc_is_found_with_a_remedy) {
  const Check check = check_nvrtc({.nvrtc_path = "/no/such/libnvrtc.so"});
  EXPECT_EQ(check.health, Health::missing);
  EXPECT_NE(check.found.find("/no/such/libnvrtc.so"), std::string::npos) << check.found;
  EXPECT_NE(check.remedy.find("SLUICE_NVRTC"), std::string::npos);
  EXPECT_EQ(verdict({check}), Health::missing);
  EXPECT_EQ(check_compile({.nvrtc_path = "/no/such/libnvrtc.so"}).health, Health::missing);
}

/// The doctor and the page of packed kernels must name the same scanned compiler.
TEST(cli_doctor, the_compiler_that_was_scanned_is_that_of_the_page) {
  std::ifstream file(SLUICE_SOURCE_DIR "/docs/packed.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(page.find("Scanned without a hazard: " + std::string(kScannedCompiler)), std::string::npos);
  const Check check = check_compile({});
  ASSERT_EQ(check.health, Health::ok) << check.found;
  EXPECT_NE(check.found.find(" by NVRTC "), std::string::npos) << check.found;
  EXPECT_EQ(check.found.find(std::string("by ") + kScannedCompiler + ":") == std::string::npos,
            check.found.find("packed kernels were scanned") != std::string::npos)
      << check.found;
}

TEST(cli_doctor, a_cache_that_others_could_write_is_found) {
  const std::string folder = testing::TempDir() + "sluice_doctor_" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  EXPECT_EQ(check_cache({.cache_dir = folder}).health, Health::missing);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  const Check good = check_cache({.cache_dir = folder});
  EXPECT_EQ(good.health, Health::ok) << good.found;
  EXPECT_EQ(check_cache({}).health, Health::optional);
  std::filesystem::remove_all(folder);
}

TEST(cli_doctor, a_driver_of_cuda_12_is_too_old) {
  FakeDriver driver;
  EXPECT_EQ(check_driver(true).health, Health::ok);
  driver.machine.driver_version = 12090;
  const Check check = check_driver(true);
  EXPECT_EQ(check.health, Health::missing);
  EXPECT_NE(check.remedy.find("580"), std::string::npos) << check.remedy;
}

/// If `sluice compile` has filled the cache, the machine needs no compiler, but runs only those kernels.
TEST(cli_doctor, a_filled_cache_stands_in_for_a_missing_compiler) {
  const FakeDriver driver;
  const test::TemporaryFolder folder;
  const DoctorRequest request{
      .options = {.cache_dir = folder / "cache", .nvrtc_path = "/no/such/libnvrtc.so"}};
  EXPECT_EQ(verdict(examine(request)), Health::missing) << "an empty cache";
  const KernelCache maker(test::cache_at(folder / "cache"), test::FakeCompiler{}.seam());
  ASSERT_TRUE(maker.get(verify_unit_text(VerifyUnit::fill)));
  EXPECT_EQ(verdict(examine(request)), Health::missing) << "half of the verifier";
  ASSERT_TRUE(maker.get(verify_unit_text(VerifyUnit::check)));
  EXPECT_EQ(verdict(examine(request)), Health::cached);
  DoctorRequest build_machine = request;
  build_machine.gpu = false;
  EXPECT_EQ(verdict(examine(build_machine)), Health::missing) << "it is there to compile";
}

TEST(cli_doctor, a_machine_without_gpu_is_well_if_it_need_not_have_one) {
  const Check driver = check_driver(false);
  EXPECT_NE(driver.health, Health::missing);
  EXPECT_EQ(verdict({driver, {.name = "x", .health = Health::optional}}), Health::ok);
}

TEST(cli_doctor, a_wrong_peer_is_only_an_absence) {
  EXPECT_EQ(check_cublaslt("/no/such/libcublasLt.so").health, Health::optional);
  EXPECT_EQ(check_cudnn("/no/such/libcudnn.so").health, Health::optional);
}

TEST(watchdog, bites_when_nothing_moves_and_not_before) {
  {
    Watchdog calm(60);
    calm.step("quick");
  }
  EXPECT_EXIT(
      {
        Watchdog watchdog(1);
        watchdog.step("a kernel that hangs");
        sleep(10);
      },
      testing::ExitedWithCode(2), "no progress for 1 s in: a kernel that hangs");
}

}  // namespace
}  // namespace sluice::cli
