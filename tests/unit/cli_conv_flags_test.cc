// SPDX-License-Identifier: Apache-2.0
// Convolutions on the command line, in files and in sets. Fails if axes are read in another order, if a flag
// is accepted and not used, or if padding counts as work.
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>

#include <sluice/spec/conv_problem.h>

#include "bench/conv.h"
#include "bench/shapes.h"
#include "cli/requests.h"
#include "lab/random/problem.h"

namespace sluice::cli {
namespace {

using bench::Request;

Result<std::vector<Request>> requests(const std::string& line) {
  CLI::App app;
  RequestFlags flags;
  add_many_requests_flags(app, flags);
  app.parse(line);
  const Result<std::vector<bench::Request>> any = requests_of(flags);
  if (!any) return any.error();
  std::vector<Request> dense;
  for (const bench::Request& request : *any) dense.push_back(request);
  return dense;
}

Request one(const std::string& line) {
  const auto list = requests(line);
  EXPECT_TRUE(list) << line << ": " << (list ? "" : list.error().message);
  return list ? list->at(0) : Request{};
}

void refused(const std::string& line, const std::string& mention) {
  const auto list = requests(line);
  ASSERT_FALSE(list) << line;
  EXPECT_NE(list.error().message.find(mention), std::string::npos) << line << ": " << list.error().message;
}

const std::string kVae = "--conv fprop --input 1x192x17x240x416 --filter 192x3x3x3 --padding 0:2x1x1 ";

TEST(CliConvFlags, axes_come_outermost_first) {
  const Conv v = one(kVae).problem.conv;
  EXPECT_EQ(v.op, ConvOp::fprop);
  EXPECT_EQ(v.spatial, 3);
  EXPECT_EQ(v.images, 1);
  EXPECT_EQ(v.channels, 192);
  EXPECT_EQ(v.filters, 192);
  EXPECT_EQ(v.size, (Axes{416, 240, 17}));
  EXPECT_EQ(v.filter, (Axes{3, 3, 3}));
  EXPECT_EQ(v.padding, (Axes{1, 1, 0}));
  EXPECT_EQ(v.padding_after, (Axes{1, 1, 2}));
  const Conv strided =
      one("--conv dgrad --input 8x64x20x30 --filter 64x1x3 --stride 1x2 --dilation 1x3").problem.conv;
  EXPECT_EQ(strided.stride, (Axes{2, 1, 1}));
  EXPECT_EQ(strided.dilation, (Axes{3, 1, 1}));
  EXPECT_EQ(strided.filter, (Axes{3, 1, 1}));
}

TEST(CliConvFlags, one_number_holds_for_all_axes_and_no_other) {
  const Conv v = one("--conv wgrad --input 2x64x40 --filter 64x31 --stride 2 --padding 0:30").problem.conv;
  EXPECT_EQ(v.spatial, 1);
  EXPECT_EQ(v.stride, (Axes{2, 1, 1}));
  EXPECT_EQ(v.padding, Axes{});
  EXPECT_EQ(v.padding_after, (Axes{30, 0, 0}));
}

TEST(CliConvFlags, the_product_follows_with_types_epilogue_and_overrides) {
  const Request request =
      one("--conv wgrad --input 4x64x9x9 --filter 128x3x3 --padding 1 --dtype fp16 --update add --any-order "
          "--tile 128x192 --x-pitch 80");
  const Problem& p = request.problem;
  EXPECT_EQ(p.m, 128);
  EXPECT_EQ(p.n, 9 * 64);
  EXPECT_EQ(p.k, 4 * 81);
  EXPECT_EQ(p.a.type, DType::fp16);
  EXPECT_EQ(p.d.type, DType::fp32);
  EXPECT_TRUE(adds(p.epilogue));
  EXPECT_FALSE(p.deterministic);
  EXPECT_EQ(p.conv.x_pitch, 80);
  EXPECT_EQ(p.b.ld, 80);
  EXPECT_EQ(request.overrides.tile_n, 192);
  const Request forward =
      one("--conv fprop --input 4x64x9x9 --filter 128x3x3 --bias --activation relu --residual --alpha 2");
  EXPECT_EQ(forward.problem.epilogue.bias, Bias::column);
  EXPECT_TRUE(forward.problem.epilogue.residual);
  EXPECT_EQ(forward.beta, 1.0f);
  EXPECT_EQ(forward.alpha, 2.0f);
}

TEST(CliConvFlags, a_pointwise_convolution_is_a_plain_product_that_keeps_its_name) {
  const Request request = one("--conv wgrad --input 32x64x56x56 --filter 256x1x1");
  EXPECT_TRUE(is_conv(request.problem.conv));
  const Result<Plan> plan = gemm::plan(request.problem, DeviceInfo{});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE(is_conv(plan->problem.conv)) << "the planner lowers it";
  const Result<Plan> plain = gemm::plan(bench::lowered(request.problem), DeviceInfo{});
  ASSERT_TRUE(plain);
  EXPECT_EQ(plan->problem, plain->problem);
  EXPECT_EQ(plan->config, plain->config);
  EXPECT_EQ(plan->split, plain->split);
  EXPECT_EQ(bench::name_of(bench::Request(request)), "wgrad 32x64x56x56 * 256x1x1 bf16 > bf16");
  EXPECT_EQ(bench::name_of(bench::lowered(request.problem)), "256x64x100352 bf16 > bf16 mn/mn-major");
  EXPECT_NE(pointwise_line(bench::Request(request)).find("a plain product"), std::string::npos);
  EXPECT_EQ(pointwise_line(bench::Request(one(kVae))), "");
}

TEST(CliConvFlags, names_are_the_flags) {
  EXPECT_EQ(bench::name_of(bench::Request(one(kVae + "--bias"))),
            "fprop 1x192x17x240x416 * 192x3x3x3 padding 0:2x1x1 bf16 > bf16 bias");
  EXPECT_EQ(bench::name_of(bench::Request(one(
                "--conv dgrad --input 8x64x20x30 --filter 64x3x3 --stride 2 --dilation 1x3 --y-pitch 72"))),
            "dgrad 8x64x20x30 * 64x3x3 stride 2 dilation 1x3 y-pitch 72 bf16 > bf16");
}

TEST(CliConvFlags, work_counts_no_padding_of_blocks_and_phases) {
  // 40 channels count as one block of 64 in k. y has 12 x 12 pixels.
  const Request forward = one("--conv fprop --input 2x40x14x14 --filter 24x3x3");
  EXPECT_EQ(bench::flops_of(forward.problem), 2.0 * 2 * 144 * 24 * 40 * 9);
  EXPECT_EQ(bench::bytes_of_traffic(forward.problem), 2.0 * (2 * 196 * 40 + 24 * 9 * 40 + 2 * 144 * 24));
  // A 1x1 filter with stride 2 reads every second pixel along both axes. Its dgrad writes all of dx.
  const Request sparse = one("--conv wgrad --input 1x64x8x8 --filter 64x1x1 --stride 2");
  EXPECT_EQ(bench::bytes_of_traffic(sparse.problem), 2.0 * (16 * 64 + 64 * 64 + 16 * 64));
  const Request back = one("--conv dgrad --input 1x64x8x8 --filter 64x1x1 --stride 2");
  EXPECT_EQ(bench::bytes_of_traffic(back.problem), 2.0 * (16 * 64 + 64 * 64 + 64 * 64));
  EXPECT_EQ(bench::flops_of(back.problem), 2.0 * 16 * 64 * 64);
}

TEST(CliConvFlags, what_has_no_effect_is_refused) {
  const std::string conv = "--conv wgrad --input 2x64x8x8 --filter 64x3x3 ";
  refused("--input 2x64x8x8 --shape 8x8x8", "--input has no effect without --conv");
  refused("--stride 2 --m 8 --n 8 --k 8", "--stride has no effect without --conv");
  for (const char* flag : {"--shape 8x8x8", "--m 4", "--batch 2", "--a-layout mn", "--ld-d 64", "--gated"})
    refused(conv + flag, "has no effect with --conv");
  refused(conv + "--weights int4", "--weights has no effect with --conv");
  refused(conv + "--group 64", "--group has no effect");
  refused(conv + "--set engine", "sets of convolutions are resnet50_32");
  refused("--set vgg", "say which product with --conv");
  refused("--set vgg --conv wgrad --stride 2", "--stride has no effect with --set vgg");
  refused("--set vgg --conv wgrad --m 2", "--m has no effect with --conv");
}

TEST(CliConvFlags, malformed_values_are_named) {
  refused("--conv sideways --input 2x64x8x8 --filter 64x3x3", "is not one of: fprop, dgrad, wgrad");
  refused("--conv none --input 2x64x8x8 --filter 64x3x3", "is not one of: fprop, dgrad, wgrad");
  refused("--conv wgrad --filter 64x3x3", "needs --input");
  refused("--conv wgrad --input 2x64x8x8", "needs --filter");
  refused("--conv wgrad --input 2x64 --filter 64", "must be N x C and 1 to 3 sizes");
  refused("--conv wgrad --input 2x64x8x8x8x8 --filter 64x3x3x3x3", "must be N x C and 1 to 3 sizes");
  refused("--conv wgrad --input 2x64x8x8 --filter 64x3", "must be 3 numbers joined by x");
  const std::string conv = "--conv wgrad --input 2x64x8x8 --filter 64x3x3 ";
  refused(conv + "--stride 1x2x3", "has 3 numbers and the input has 2 axes");
  refused(conv + "--stride 0", "must be at least 1");
  refused(conv + "--dilation 1x0", "must be at least 1");
  for (const char* padding : {"1:", ":1", "1:2:3", "x", "1x", "a", "-1", "1:2x"})
    refused(conv + "--padding " + padding, "padding");
  refused(conv + "--stride 3000000000", "must be at most 2147483647");
  refused(conv + "--a bf16 --b fp16", "one type");
  refused(conv + "--dtype e4m3", "wgrad");
}

class CliConvFiles : public testing::Test {
 protected:
  CliConvFiles() : path_(testing::TempDir() + "sluice_conv_" + std::to_string(getpid())) {
    std::ofstream(path_)
        << "# two layers\n--input 2x64x8x8 --filter 64x3x3 --padding 1\n"
        << "--conv dgrad --input 2x64x8x8 --filter 64x1x1 --stride 2 --d fp32 # its own op\n";
  }
  ~CliConvFiles() override { std::remove(path_.c_str()); }
  const std::string path_;
};

TEST_F(CliConvFiles, the_command_line_gives_op_types_and_overrides) {
  const auto list = requests("--shapes " + path_ + " --conv wgrad --dtype fp16 --tile 128x64");
  ASSERT_TRUE(list) << list.error().message;
  ASSERT_EQ(list->size(), 2u);
  EXPECT_EQ(list->at(0).problem.conv.op, ConvOp::wgrad);
  EXPECT_EQ(list->at(0).problem.conv.padding, (Axes{1, 1, 0}));
  EXPECT_EQ(list->at(0).problem.d.type, DType::fp16);
  EXPECT_EQ(list->at(1).problem.conv.op, ConvOp::dgrad);
  EXPECT_EQ(list->at(1).problem.a.type, DType::fp16);
  EXPECT_EQ(list->at(1).problem.d.type, DType::fp32);
  for (const Request& request : *list) EXPECT_EQ(request.overrides.tile_n, 64);
}

TEST_F(CliConvFiles, a_line_without_an_op_is_refused) {
  refused("--shapes " + path_, "line 2: --input has no effect without --conv");
  refused("--shapes " + path_ + " --conv wgrad --padding 2", "--padding has no effect with --shapes");
  std::ofstream(path_) << "64x64x64\n";
  refused("--shapes " + path_ + " --conv wgrad", "line 1: --shape has no effect with --conv");
  EXPECT_TRUE(requests("--shapes " + path_));
}

TEST(CliConvSets, sets_are_the_shape_files) {
  const std::pair<const char*, const char*> files[] = {{"resnet50_32", "conv_resnet50_32"},
                                                       {"resnet50_64", "conv_resnet50_64"},
                                                       {"resnet50_256", "conv_resnet50_256"},
                                                       {"vgg", "conv_vgg_32"},
                                                       {"sdxl_2", "conv_sdxl_2"},
                                                       {"sdxl_8", "conv_sdxl_8"},
                                                       {"vae", "conv_vae_1"}};
  EXPECT_EQ(bench::conv_set_names().size(), std::size(files));
  for (const char* op : {"fprop", "dgrad", "wgrad"})
    for (const auto& [set, file] : files) {
      const std::string conv = std::string(" --conv ") + op;
      const auto of_set = requests("--set " + std::string(set) + conv);
      const auto of_file =
          requests("--shapes " SLUICE_SOURCE_DIR "/bench/shapes/" + std::string(file) + ".txt" + conv);
      ASSERT_TRUE(of_set) << set << ": " << of_set.error().message;
      ASSERT_TRUE(of_file) << file << ": " << of_file.error().message;
      ASSERT_EQ(of_set->size(), of_file->size()) << set;
      for (size_t i = 0; i < of_set->size(); ++i) {
        EXPECT_EQ(of_set->at(i).problem.conv, of_file->at(i).problem.conv)
            << bench::name_of(bench::Request(of_set->at(i)));
        EXPECT_EQ(of_set->at(i).problem, of_file->at(i).problem);
      }
    }
}

TEST(CliConvSets, random_geometries_are_many_kinds_and_mostly_taken) {
  int taken = 0, pointwise = 0, phased = 0, strided = 0, dilated = 0, uneven = 0, odd_channels = 0;
  int axes[4] = {}, ops[4] = {};
  constexpr int kCount = 600;
  for (int i = 0; i < kCount; ++i) {
    const lab::RandomSpec spec{.largest = 160, .exact = i % 2 == 0};
    const Result<Problem> made = lab::random_conv(spec, {}, i);
    const Result<Problem> again = lab::random_conv(spec, {}, i);
    ASSERT_EQ(bool(made), bool(again));
    if (!made) continue;
    EXPECT_EQ(*made, *again);
    ++taken;
    const Conv& v = made->conv;
    pointwise += !is_conv(v);
    if (!is_conv(v)) continue;
    ++axes[v.spatial];
    ++ops[static_cast<int>(v.op)];
    phased += is_phased(v);
    strided += !(v.stride == kOnes);
    dilated += !(v.dilation == kOnes);
    uneven += !(v.padding == v.padding_after);
    odd_channels += v.channels % 64 != 0;
    EXPECT_LE(static_cast<double>(made->m) * static_cast<double>(made->k) * static_cast<double>(made->n),
              2.0e8);
  }
  EXPECT_GT(taken, kCount * 8 / 10);
  for (const int count : {axes[1], axes[2], axes[3], ops[1], ops[2], ops[3], phased, strided, dilated, uneven,
                          odd_channels, pointwise})
    EXPECT_GT(count, 5);
  for (int i = 0; i < 50; ++i) {
    const Result<Problem> made = lab::random_conv({.largest = 64}, ConvOp::dgrad, i);
    if (made && is_conv(made->conv)) {
      EXPECT_EQ(made->conv.op, ConvOp::dgrad);
    }
  }
}

}  // namespace
}  // namespace sluice::cli
