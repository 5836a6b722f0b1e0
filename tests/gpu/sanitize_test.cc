// SPDX-License-Identifier: Apache-2.0
// Tests that tools/gpu_sanitize.py runs under compute-sanitizer, one class of kernel each. No tool may report
// anything, and results must be right. For companions it runs norms.of_random_shapes,
// *quantize.of_random_shapes and pack.random_sizes_are_the_references. With SLUICE_CHANGE
// (kernel_changes.cc), kernels have a planted bug that the tool must report. Problems are small, because a
// tool makes a kernel a hundred times slower.
#include <cstdio>

#include <sluice/check/packed_check.h>
#include <sluice/check/verify_units.h>
#include <sluice/plan/text/pack_units.h>
#include <sluice/plan/text/units.h>
#include <sluice/run/jit/cache.h>
#include <sluice/run/ops/gemm.h>

#include "batch_runner.h"
#include "gpu.h"
#include "sanitize_pool.h"
#include "tests/packed_problems.h"

namespace sluice::testing {
namespace {

class SanitizeTest : public GpuTest {
 protected:
  void expect_exact(const std::vector<Plan>& plans) {
    auto runner = BatchRunner::create(device(), 1, i64{32} << 20);
    ASSERT_TRUE(ok(runner));
    ASSERT_TRUE(ok(runner->leave_parts_unwritten(device())));
    for (const Plan& plan : plans) {
      const auto kernel = gemm::prepare(device(), plan);
      ASSERT_TRUE(ok(kernel));
      ASSERT_TRUE(
          ok(runner->run(*kernel, exact_data(plan.problem, 1), Judge::exact, to_string(plan.config))));
    }
    ASSERT_TRUE(ok(runner->flush()));
    for (const Failure& failure : runner->failures()) ADD_FAILURE() << describe(failure);
  }
};

class sanitize_dense : public SanitizeTest, public ::testing::WithParamInterface<KernelConfig> {};

TEST_P(sanitize_dense, is_right) {
  expect_exact(sanitize_plans(GetParam(), device().info()));
}

class sanitize_conv : public SanitizeTest, public ::testing::WithParamInterface<ConvVariant> {};

TEST_P(sanitize_conv, is_right) {
  const std::vector<Plan> plans = sanitize_plans(GetParam(), device().info());
  ASSERT_FALSE(plans.empty()) << "no geometry can be planned";
  expect_exact(plans);
}

class sanitize_packed : public GpuTest, public ::testing::WithParamInterface<PackedConfig> {};

TEST_P(sanitize_packed, is_right) {
  const PackedProblem problem = sanitize_problem(GetParam());
  SCOPED_TRACE(to_string(problem));
  auto host = packed::random_data(problem, packed::DataKind::exact, 1);
  ASSERT_TRUE(ok(host));
  const auto data = packed::DeviceData::create(device(), *std::move(host));
  ASSERT_TRUE(ok(data));
  const auto found = packed::check_config(device(), *data, config_of(GetParam()), nullptr);
  ASSERT_TRUE(ok(found));
  EXPECT_TRUE(is_right(*found)) << describe(*found);
}

/// Compiles all kernels into the cache, in parallel and without a GPU. The tests run in separate processes,
/// which would compile one after another.
TEST(sanitize_kernels, compile) {
  std::vector<std::string> units = {verify_unit_text(VerifyUnit::fill), verify_unit_text(VerifyUnit::check),
                                    packed::reference_unit_text()};
  for (const auto& pool : {sanitize_dense_pool(), sanitize_strided_pool(), sanitize_plain_pool(),
                           sanitize_conv_pool(), sanitize_conv_field_pool()})
    for (const KernelConfig& config : pool)
      for (std::string& unit : unit_texts(config)) units.push_back(std::move(unit));
  for (const auto& pool : {sanitize_narrow_pool(), sanitize_strip_pool(), sanitize_wide_pool()})
    for (const PackedConfig& config : pool) {
      const PackedProblem problem = sanitize_problem(config);
      for (std::string& unit : gemm::units_of({.problem = problem, .config = config_of(config)}))
        units.push_back(std::move(unit));
      units.push_back(pack_unit_text({PackStep::pack, problem.weights, CodeStorage::byte}));
      units.push_back(pack_unit_text({PackStep::unpack, problem.weights, CodeStorage::byte}));
    }
  const Result<KernelCache> cache = kernel_cache(options_from_environment());
  ASSERT_TRUE(ok(cache));
  const auto built = cache->get_all(units, 0, [](int done, int total) {
    if (done % 50 == 0 || done == total) std::printf("%d of %d\n", done, total);
  });
  for (const auto& one : built) ASSERT_TRUE(one.ok()) << one.error().message;
}

constexpr auto kNameOf = [](const auto& info) { return class_name(info.param); };
INSTANTIATE_TEST_SUITE_P(dense, sanitize_dense, ::testing::ValuesIn(sanitize_dense_pool()), kNameOf);
INSTANTIATE_TEST_SUITE_P(strided, sanitize_dense, ::testing::ValuesIn(sanitize_strided_pool()), kNameOf);
INSTANTIATE_TEST_SUITE_P(conv, sanitize_dense, ::testing::ValuesIn(sanitize_conv_field_pool()), kNameOf);
INSTANTIATE_TEST_SUITE_P(plain, sanitize_dense, ::testing::ValuesIn(sanitize_plain_pool()), kNameOf);
INSTANTIATE_TEST_SUITE_P(conv, sanitize_conv, ::testing::ValuesIn(conv_variants()), kNameOf);
INSTANTIATE_TEST_SUITE_P(narrow, sanitize_packed, ::testing::ValuesIn(sanitize_narrow_pool()), kNameOf);
INSTANTIATE_TEST_SUITE_P(strip, sanitize_packed, ::testing::ValuesIn(sanitize_strip_pool()), kNameOf);
INSTANTIATE_TEST_SUITE_P(wide, sanitize_packed, ::testing::ValuesIn(sanitize_wide_pool()), kNameOf);

}  // namespace
}  // namespace sluice::testing
