// SPDX-License-Identifier: Apache-2.0
// `sluice tune` without a GPU. Misuse is refused with a reason before a GPU is searched for, and verbs that
// plan use the records. tune_search_test.cc tests the search. To see it fail: do not pass options.records_dir
// on in find_target; the plan is then the model's.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <sluice/run/driver/api.h>
#include <sluice/run/records/record_store.h>

#include "run_tool.h"
#include "tuner_fixture.h"

namespace sluice {
namespace {

class CliTune : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "sluice_tune_" + std::to_string(getpid());
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Outcome sluice(const std::string& arguments) const {
    return run_tool("SLUICE_CACHE_DIR='" + folder_ + "/cache' SLUICE_RECORDS_DIR='" + folder_ + "/records'",
                    arguments);
  }
  void expect_refused(const std::string& arguments, const std::string& reason) const {
    const Outcome outcome = sluice("tune " + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments << ": " << outcome.text;
    EXPECT_TRUE(outcome.has(reason)) << arguments << ": " << outcome.text;
  }

  std::string folder_;
};

TEST_F(CliTune, misuse_is_refused_with_the_reason) {
  expect_refused("", "nothing to tune: name problems with --set, --shapes or --model");
  expect_refused("--set nonsense", "no problem set \"nonsense\"; there are: engine");
  expect_refused("--set smoke --shape 64x64x64", "--shape has no effect with --set smoke");
  expect_refused("--set smoke --only q8_0", "no problem of the list has \"q8_0\" in its name");
  expect_refused("--shape 64x64x0", "nothing to tune");
  expect_refused("--shape 64x64x100 --dtype e4m3", "misaligned");
  expect_refused("--shape 64x64x64 --budget-s 0", "--budget-s 0 must be above 0");
  expect_refused("--shape 64x64x64 --top 0", "--top");
  expect_refused("--shape 64x64x64 --rounds 1", "--rounds");
  expect_refused("--shape 64x64x64 --beta 1", "--alpha and --beta have no effect");
  expect_refused("--shape 64x64x64 --tile 128x128", "--tile has no effect here");
  expect_refused("--shape 64x64x64 --no-records", "--no-records has no effect here");
  expect_refused("--shape 64x64x64 --device host", "tune measures GPUs");
  expect_refused("--shapes /no/such/file", "/no/such/file cannot be read");
}

TEST_F(CliTune, misuse_with_convolutions_is_refused_with_the_reason) {
  const std::string conv = "--conv wgrad --input 2x64x8x8 --filter 64x3x3 ";
  expect_refused("--conv wgrad", "--conv needs --input");
  expect_refused("--set vgg", "say which product with --conv");
  expect_refused("--set vgg --conv wgrad --only 1x1", "no problem of the list has \"1x1\" in its name");
  expect_refused(conv + "--tile 128x128", "--tile has no effect here");
  expect_refused(conv + "--top 3 --all", "--all");
  expect_refused(conv + "--dtype e4m3", "wgrad");
  expect_refused(conv + "--device host", "tune measures GPUs");
}

TEST_F(CliTune, misuse_with_packed_weights_is_refused_with_the_reason) {
  const std::string packed = "--weights int4 --shape 64x64x64 ";
  expect_refused(packed + "--warps 4", "--warps has no effect here: tune chooses the configuration itself");
  expect_refused(packed + "--k-groups 2", "--k-groups has no effect here");
  expect_refused(packed + "--stages 3", "--stages has no effect here");
  expect_refused(packed + "--no-records", "--no-records has no effect here");
  expect_refused(packed + "--scale-a tensor", "scale_a is tensor and A is bf16");
  expect_refused(packed + "--device host", "tune measures GPUs");
  expect_refused("--weights int5 --shape 64x64x64",
                 "--weights \"int5\" is not one of: int4, uint4, int8, e4m3");
  expect_refused("--weights int4 --group 48 --shape 64x64x64", "group");
  expect_refused("--weights int4 --shape 64x64x0", "nothing to tune");
  expect_refused("--weights int4 --shape 4x64x100 --ld-a 100", "a.ld = 100 must be a multiple of 8");
  expect_refused("--weights int4", "nothing to tune: name problems");
  expect_refused("--group 64 --shape 64x64x64", "--group has no effect without --weights");
  expect_refused("--set packed --only q8_0", "no problem of the list has \"q8_0\" in its name");
  expect_refused("--set packed --group 64", "--group has no effect with --set packed");
  std::ofstream(folder_ + "/packed.txt") << "64x64x64\n64x64x64 --weights int4 --w-stages 4\n";
  expect_refused("--shapes '" + folder_ + "/packed.txt'", "64x64x64 bf16 * uint4 g128 > bf16: tune chooses");
}

TEST_F(CliTune, records_of_packed_weights_reach_the_verbs_that_plan) {
  const std::string shape = "plan --device host --weights int4 --group 64 --dtype fp16 --shape 16x4096x4096";
  EXPECT_TRUE(sluice(shape + " --no-records").has("chosen by  the cost model"));
  ASSERT_TRUE(RecordStore::open_folder(folder_ + "/records")->save(sample_packed_record()));
  const Outcome with = sluice(shape);
  EXPECT_TRUE(with.has("chosen by  a record, measured 7.12")) << with.text;
  EXPECT_TRUE(with.has("narrow 16x32 w4 s5 p1 b1")) << with.text;
  EXPECT_TRUE(sluice(shape + " --no-records").has("chosen by  the cost model"));
  EXPECT_TRUE(sluice(shape + " --warps 8").has("chosen by  the cost model"));
}

TEST_F(CliTune, verify_takes_packed_weights) {
  const Outcome good = sluice("verify --device host --weights uint4 --problems 12 --largest 64");
  EXPECT_EQ(good.code, 0) << good.text;
  EXPECT_TRUE(good.has("12 problems on the CPU, through the packed blob: 12 right, 0 wrong, 0 refused"))
      << good.text;
  const auto refused = [&](const std::string& flags, const std::string& reason) {
    const Outcome outcome = sluice("verify --device host " + flags);
    EXPECT_EQ(outcome.code, 2) << flags;
    EXPECT_TRUE(outcome.has(reason)) << flags << ": " << outcome.text;
  };
  refused("--stages 3", "--stages has no effect without --weights");
  refused("--k-groups 2", "--k-groups has no effect without --weights");
  refused("--weights int4 --group 48", "group");
  refused("--weights e4m3 --zero per_group", "e4m3 weights have no zeros");
  EXPECT_EQ(sluice("verify --device host --weights int4 --problems 3 --warps 4 --cluster 1x2").code, 1)
      << "all refused is not right";
}

TEST_F(CliTune, a_problem_file_with_overrides_is_refused) {
  std::ofstream(folder_ + "/problems.txt") << "64x64x64 --tile 128x128\n";
  expect_refused("--shapes '" + folder_ + "/problems.txt'", "tune chooses schedule, tile and order itself");
}

TEST_F(CliTune, a_place_that_cannot_be_written_is_refused_before_anything_is_measured) {
  expect_refused("--shape 64x64x64 --records /dev/null/records", "the folder of tuning records");
  expect_refused("--shape 64x64x64 --out /no/such/folder/h200.json", "cannot be written to");
  expect_refused("--shape 64x64x64 --records x --out y", "give one of them");
}

TEST_F(CliTune, without_a_gpu_it_says_so) {
  if (load_driver()) GTEST_SKIP() << "there is a driver here";
  expect_refused("--set smoke", "tune measures GPUs: without one there are plan and compile");
}

TEST_F(CliTune, records_reach_the_verbs_that_plan_and_no_records_leaves_them_out) {
  const std::string shape = "plan --device host --shape 1024x4096x4096";
  EXPECT_TRUE(sluice(shape + " --no-records").has("chosen by  the cost model"));
  ASSERT_TRUE(RecordStore::open_folder(folder_ + "/records")->save(sample_record()));
  const Outcome with = sluice(shape);
  EXPECT_TRUE(with.has("chosen by  a record, measured 48.1")) << with.text;
  EXPECT_TRUE(with.has("ping_pong 64x96x64")) << with.text;
  const Outcome without = sluice(shape + " --no-records");
  EXPECT_TRUE(without.has("chosen by  the cost model")) << without.text;
  EXPECT_TRUE(sluice(shape + " --tile 128x128").has("chosen by  the cost model"));
}

}  // namespace
}  // namespace sluice
