// SPDX-License-Identifier: Apache-2.0
// The public headers that the tool stands on: record_file.h, compile.h, machine.h, bench/verify.h and
// bench/host.h. To see it fail: leave the driver out of RecordFile::has(), or the question for elements out
// of bench::verify().
#include <gtest/gtest.h>

#include <sluice/bench/host.h>
#include <sluice/bench/sets.h>
#include <sluice/bench/verify.h>
#include <sluice/compile.h>
#include <sluice/machine.h>
#include <sluice/record_file.h>

#include "cache_fake.h"
#include "lab_fixture.h"
#include "tuner_fixture.h"

namespace sluice {
namespace {

TEST(public_tools, a_record_holds_for_its_driver_and_its_version) {
  const test::TemporaryFolder folder;
  const std::string file = folder / "records.json";
  TuningRecord record = sample_record();
  record.sluice = library_version();
  const Problem problem = example_of(record.key.recipe);
  DeviceInfo device;
  device.name = record.key.gpu;
  device.sm_count = record.key.sm_count;
  Result<RecordFile> records = RecordFile::open(file, "", {});
  ASSERT_TRUE(records) << records.error().message;
  EXPECT_FALSE(records->has(problem, device, record.driver));
  ASSERT_TRUE(records->save(record));
  EXPECT_TRUE(records->has(problem, device, record.driver));
  EXPECT_FALSE(records->has(problem, device, "1.2"));
  EXPECT_EQ(records->book().size(), 1u);
  const Result<RecordFile> again = RecordFile::open(file, "", {});
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->has(problem, device, record.driver)) << "it is on disk";
  record.sluice = "0.0.1";
  ASSERT_TRUE(records->save(record));
  EXPECT_FALSE(records->has(problem, device, record.driver)) << "another version made it";
  EXPECT_FALSE(RecordFile::open(file, "folder too", {}));
  EXPECT_FALSE(RecordFile::open("", "", {}));
  EXPECT_EQ(records_in(folder / "nowhere"), 0);
}

TEST(public_tools, problems_share_a_record_if_only_strides_of_no_effect_differ) {
  const DeviceInfo device;
  Problem one{.m = 64, .n = 256, .k = 128}, same = one, other = one;
  same.a.ld = 128;  // the value that 0 stands for
  other.n = 512;
  EXPECT_EQ(*record_name(one, device), *record_name(same, device));
  EXPECT_NE(*record_name(one, device), *record_name(other, device));
  EXPECT_FALSE(record_name({.m = -1}, device));
}

TEST(public_tools, a_unit_is_compiled_once_and_then_found) {
  const Result<Plan> plan = gemm::plan({.m = 64, .n = 64, .k = 64}, DeviceInfo{});
  ASSERT_TRUE(plan);
  const std::vector<std::string> units = gemm::units_of(*plan);
  const test::TemporaryFolder folder;
  const Options options = test::cache_at(folder / "cache");
  EXPECT_FALSE(has_kernels(options, units));
  if (!find_nvrtc(options)) GTEST_SKIP() << "no NVRTC";
  const Result<BuiltKernel> first = build_unit(units.front(), options);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(first->compiled);
  EXPECT_GT(first->registers, 0);
  EXPECT_EQ(first->not_stored, "");
  const Result<BuiltKernel> second = build_unit(units.front(), options);
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->compiled);
  EXPECT_EQ(second->registers, first->registers);
  EXPECT_EQ(second->bytes, first->bytes);
  EXPECT_TRUE(has_kernels(options, units));
  const Result<Compiled> all = compile_units(units, options);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->already_there, static_cast<int>(units.size()));
}

TEST(public_tools, a_cache_that_cannot_be_used_is_explained) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(examine_cache(test::cache_at(folder / "cache")).unused, "");
  EXPECT_NE(examine_cache(test::cache_at("/proc/nowhere/x")).unused, "");
}

TEST(public_tools, the_host_runs_products_convolutions_and_packed_weights) {
  bench::Request conv;
  conv.problem = *bench::conv_problem({.op = ConvOp::fprop,
                                       .images = 1,
                                       .channels = 16,
                                       .filters = 16,
                                       .size = {5, 5, 1},
                                       .filter = {1, 1, 1}},
                                      {});
  const bench::Request requests[] = {
      {.problem = {.m = 64, .n = 64, .k = 64}},
      {.problem = packed_problem(4, 128, 128, DType::fp16, DType::fp16, {.group = 64})},
      conv};
  for (const bench::Request& request : requests) {
    SCOPED_TRACE(bench::name_of(request));
    const Result<Plan> plan = bench::plan_for_host(request);
    ASSERT_TRUE(plan) << plan.error().message;
    const Result<bench::HostRun> run = bench::run_on_host(request, *plan, 3);
    ASSERT_TRUE(run) << run.error().message;
    EXPECT_EQ(run->verdicts.size(), is_packed(request.problem) ? 2u : 1u);
    EXPECT_EQ(run->twin.empty(), is_packed(request.problem));
    for (const bench::HostVerdict& verdict : run->verdicts) EXPECT_TRUE(verdict.right) << verdict.text;
  }
  EXPECT_FALSE(bench::plan_for_host({.problem = {.m = 8192, .n = 8192, .k = 8192}}));
}

class VerifyOnFake : public bench::LabFixture {
 protected:
  VerifyOnFake() : LabFixture({.cold = false, .rounds = 1, .peer = false}) {}
};

/// The fake driver's kernels compute nothing, and the checking kernel counts no element. That is no verdict.
TEST_F(VerifyOnFake, a_check_that_saw_nothing_is_an_error) {
  const Result<Plan> plan = gemm::plan({.m = 64, .n = 64, .k = 64}, DeviceInfo{});
  ASSERT_TRUE(plan);
  const Result<bench::Verified> verified = bench::verify(*lab_, *plan);
  ASSERT_FALSE(verified);
  EXPECT_NE(verified.error().message.find("no element"), std::string::npos) << verified.error().message;
  EXPECT_EQ(bench::verifier_units({}).size(), 2u);
  EXPECT_EQ(bench::verifier_units(packed_problem(1, 64, 64, DType::fp16, DType::fp16, {})).size(), 5u);
}

}  // namespace
}  // namespace sluice
