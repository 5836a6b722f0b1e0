// SPDX-License-Identifier: Apache-2.0
// The parts of sluice_conv_peers that need no GPU: lines of convolutions, samples of results, its kernels'
// texts, cold sets and JSON.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include <sluice/reference/element.h>
#include <sluice/tools.h>

#include "tools/probes/conv_device.h"
#include "tools/probes/conv_lines.h"
#include "tools/probes/conv_race.h"
#include "tools/probes/conv_sample.h"

namespace sluice::probes {
namespace {

using bench::CudnnConvolution;

const CudnnConvolution kDefaults{.conv = {.op = ConvOp::wgrad}};

TEST(conv_lines, lists_are_outermost_first) {
  const Result<CudnnConvolution> p = parse_conv(
      "--input 2x24x5x7 --filter 40x2x3 --stride 1x2 --padding 0:1x1:4 --dilation 1x2 --dtype fp16",
      kDefaults);
  ASSERT_TRUE(p) << p.error().message;
  const CudnnConvolution expected{.conv = {.op = ConvOp::wgrad,
                                           .spatial = 2,
                                           .images = 2,
                                           .channels = 24,
                                           .filters = 40,
                                           .size = {7, 5, 1},
                                           .filter = {3, 2, 1},
                                           .stride = {2, 1, 1},
                                           .dilation = {2, 1, 1},
                                           .padding = {1, 0, 0},
                                           .padding_after = {4, 1, 0}},
                                  .inputs = DType::fp16,
                                  .result = DType::fp16};
  EXPECT_EQ(*p, expected);
  EXPECT_EQ(short_name(*p), "wgrad 2x24x5x7 * 40x2x3 /1x2 p0:1x1:4 d1x2 fp16");
}

TEST(conv_lines, one_number_is_for_all_axes_and_none_is_the_default) {
  const Result<CudnnConvolution> room = parse_conv(
      "--conv dgrad --input 1x96x9x8x7 --filter 64x3x3x3 --stride 2 --padding 1 --d fp32", kDefaults);
  ASSERT_TRUE(room) << room.error().message;
  EXPECT_EQ(room->conv.op, ConvOp::dgrad);
  EXPECT_EQ(room->conv.stride, (Axes{2, 2, 2}));
  EXPECT_EQ(room->conv.padding_after, kOnes);
  EXPECT_EQ(room->result, DType::fp32);
  const Result<CudnnConvolution> line = parse_conv("--input 1x8x100 --filter 16x31", kDefaults);
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_EQ(line->conv.spatial, 1);
  EXPECT_EQ(line->conv.stride, kOnes);
  EXPECT_EQ(line->conv.padding, Axes{});
}

TEST(conv_lines, mistakes_are_named) {
  const auto message = [](std::string_view line) {
    const Result<CudnnConvolution> p = parse_conv(line, kDefaults);
    return p ? std::string("taken") : p.error().message;
  };
  const auto says = [&](std::string_view line, std::string_view part) {
    EXPECT_NE(message(line).find(part), std::string::npos) << line << ": " << message(line);
  };
  says("--input 1x8x9x9", "--filter");
  says("--input 1x8x9x9 --filter 8x3", "must have 3 numbers");
  says("--input 1x8x9x9 --filter 8x3x3 --stride 1x2x3", "each of 2 axes");
  says("--input 1x8x9x9 --filter 8x3x3 --padding 1:2:3", "BEFORE:AFTER");
  says("--input 1x8x9x9 --filter 8x3xq", "\"q\"");
  says("--input 1x8x9x9 --filter 8x3x3 --pad 1", "\"--pad\"");
  says("--input 1x8x9x9 --filter 8x3x3 --stride", "needs a value");
  says("--input 1x8x9x9 --filter 8x3x3 --stride 1 --stride 1", "twice");
  says("--input 1x8x9x9 --filter 8x3x3 --dtype e4m3", "e4m3");
  says("--input 1x8x2x9 --filter 8x3x3", "along axis 1");
}

/// Every list of the bench: each line parses, is read back from its own flags, and has whole TMA rows.
TEST(conv_lines, the_benches_lists_are_right) {
  const std::pair<const char*, size_t> lists[] = {
      {"resnet50_32", 22}, {"resnet50_64", 22}, {"resnet50_256", 22}, {"vgg_32", 8},
      {"sdxl_2", 8},       {"sdxl_8", 8},       {"vae_1", 5},         {"odd", 15}};
  for (const auto& [name, count] : lists) {
    const std::string path = fmt::format("{}/bench/shapes/conv_{}.txt", SLUICE_SOURCE_DIR, name);
    const auto all = read_conv_file(path, {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad}, kDefaults);
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_EQ(all->size(), 3 * count) << name;
    for (const CudnnConvolution& p : *all) {
      const Result<CudnnConvolution> again = parse_conv(flags_of(p), {});
      ASSERT_TRUE(again) << flags_of(p);
      EXPECT_EQ(*again, p) << flags_of(p);
      EXPECT_EQ(p.conv.channels % 8, 0) << flags_of(p);
      EXPECT_EQ(p.conv.filters % 8, 0) << flags_of(p);
    }
  }
}

/// Three tensors of small whole numbers, exact in bf16.
struct Numbers {
  std::vector<u16> x, w, y;
  explicit Numbers(const CudnnConvolution& p) {
    u64 seed = 1;
    for (const auto& [memory, tensor] :
         {std::pair{&x, bench::CudnnTensor::x}, std::pair{&w, bench::CudnnTensor::w},
          std::pair{&y, bench::CudnnTensor::y}}) {
      memory->resize(static_cast<size_t>(bench::span_of(p, tensor)));
      for (u16& code : *memory) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        code = static_cast<u16>(encode_code(DType::bf16, static_cast<double>(seed >> 33 & 7) - 3));
      }
    }
  }
  HostTensors tensors() const {
    return {{DType::bf16, x.data()}, {DType::bf16, w.data()}, {DType::bf16, y.data()}};
  }
};

double value_of(u16 code) {
  return decode_code(DType::bf16, code);
}

/// All three results by one walk over the products x * w that make y.
struct Walked {
  std::vector<double> x, w, y;
  Walked(const Conv& v, const Numbers& numbers)
      : x(numbers.x.size()), w(numbers.w.size()), y(numbers.y.size()) {
    const i64 out[3] = {output_size(v, 0), output_size(v, 1), output_size(v, 2)};
    for (i64 pixel = 0; pixel < y_pixels(v); ++pixel) {
      const i64 q[3] = {pixel % out[0], pixel / out[0] % out[1], pixel / out[0] / out[1] % out[2]};
      const i64 n = pixel / out[0] / out[1] / out[2];
      for (i64 tap = 0; tap < taps_of(v); ++tap) {
        const i64 t[3] = {tap % v.filter.w, tap / v.filter.w % v.filter.h, tap / v.filter.w / v.filter.h};
        i64 from = n;
        bool inside = true;
        for (int axis = 2; axis >= 0; --axis) {
          const i64 place = q[axis] * v.stride[axis] + t[axis] * v.dilation[axis] - v.padding[axis];
          inside = inside && place >= 0 && place < v.size[axis];
          from = from * v.size[axis] + place;
        }
        if (inside) add(v, numbers, from, pixel, tap);
      }
    }
  }
  void add(const Conv& v, const Numbers& numbers, i64 from, i64 pixel, i64 tap) {
    for (i64 f = 0; f < v.filters; ++f)
      for (i64 c = 0; c < v.channels; ++c) {
        const auto at_x = static_cast<size_t>(from * v.channels + c);
        const auto at_w = static_cast<size_t>((f * taps_of(v) + tap) * v.channels + c);
        const auto at_y = static_cast<size_t>(pixel * v.filters + f);
        y[at_y] += value_of(numbers.x[at_x]) * value_of(numbers.w[at_w]);
        x[at_x] += value_of(numbers.y[at_y]) * value_of(numbers.w[at_w]);
        w[at_w] += value_of(numbers.y[at_y]) * value_of(numbers.x[at_x]);
      }
  }
  const std::vector<double>& of(ConvOp op) const {
    return op == ConvOp::fprop ? y : op == ConvOp::dgrad ? x : w;
  }
};

constexpr const char* kSmall[] = {
    "--input 2x3x5x7 --filter 4x2x3 --stride 1x2 --padding 0:1x1:4 --dilation 1x2",
    "--input 2x3x9x6 --filter 2x3x3 --stride 3x2 --padding 1",
    "--input 1x2x4x3x5 --filter 3x3x1x2 --padding 2:0x0x1 --stride 1x2x1",
    "--input 3x2x11 --filter 3x4 --stride 2 --padding 1:2 --dilation 2",
};

TEST(conv_sample, every_element_is_that_of_a_walk_over_all_products) {
  for (const char* line : kSmall)
    for (const ConvOp op : {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad}) {
      CudnnConvolution given = kDefaults;
      given.conv.op = op;
      const Result<CudnnConvolution> p = parse_conv(line, given);
      ASSERT_TRUE(p) << p.error().message;
      const Numbers numbers(*p);
      const Walked walked(p->conv, numbers);
      const std::vector<double>& expected = walked.of(op);
      ASSERT_EQ(static_cast<i64>(expected.size()), bench::span_of(*p, bench::result_of(op)));
      for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_EQ(sample_element(p->conv, numbers.tensors(), static_cast<i64>(i)), expected[i])
            << short_name(*p) << " at " << i;
    }
}

TEST(conv_sample, a_wrong_result_is_seen) {
  const Result<CudnnConvolution> p = parse_conv(kSmall[1], kDefaults);
  ASSERT_TRUE(p);
  Numbers numbers(*p);
  const Walked walked(p->conv, numbers);
  for (size_t i = 0; i < walked.w.size(); ++i)
    numbers.w[i] = static_cast<u16>(encode_code(DType::bf16, walked.w[i]));
  EXPECT_LT(sample_error(*p, numbers.tensors(), 1 << 20).worst, 0.01);
  numbers.w.back() = static_cast<u16>(encode_code(DType::bf16, walked.w.back() + 1000));
  EXPECT_GT(sample_error(*p, numbers.tensors(), 1 << 20).worst, 0.1);
  numbers.w.back() = 0xffff;  // unwritten
  EXPECT_TRUE(std::isinf(sample_error(*p, numbers.tensors(), 1 << 20).worst));
}

TEST(conv_sample, samples_are_few_where_each_is_long) {
  const Result<CudnnConvolution> p = parse_conv("--input 64x64x56x56 --filter 64x3x3 --padding 1", kDefaults);
  ASSERT_TRUE(p);
  EXPECT_EQ(sample_indices(p->conv, 1000, 1 << 24).size(), 64u);
  EXPECT_EQ(sample_indices(p->conv, 1000, 1 << 20).size(), 8u);
  EXPECT_EQ(sample_indices(p->conv, 1000, 1 << 20)[1], 999);
  for (const i64 index : sample_indices(p->conv, 36864, 1 << 24)) EXPECT_LT(index, 36864);
}

TEST(conv_device, its_kernels_compile) {
  const auto compiler = Compiler::load("");
  if (!compiler) GTEST_SKIP() << compiler.error().message;
  for (const char* text : {ConvKernels::fill_text(), ConvKernels::compare_text()}) {
    const Result<Cubin> cubin = (*compiler)->compile(text);
    EXPECT_TRUE(cubin) << cubin.error().message;
  }
}

TEST(conv_race, other_sets_push_one_out_of_l2) {
  constexpr i64 kL2 = i64{50} << 20;
  EXPECT_EQ(copies_of(i64{5} << 20, kL2, true), 31);  // 30 others of 5 MB
  EXPECT_EQ(copies_of(i64{2} << 30, kL2, true), 2);
  EXPECT_EQ(copies_of(i64{9} << 30, kL2, true), 1);  // no room for two
  EXPECT_EQ(copies_of(1000, kL2, true), bench::kMostCopies);
  EXPECT_EQ(copies_of(1000, kL2, false), 1);
}

PlanRecord plan(const char* tag, Timed timed, double us, std::vector<int> notes = {}) {
  PlanRecord record{.timed = timed, .us = {us, us, us}};
  record.plan.tag = tag;
  record.plan.numerical_notes = std::move(notes);
  return record;
}

TEST(conv_race, the_best_is_of_the_last_stage_and_right) {
  ConvRecord record{.problem = kDefaults};
  record.plans = {plan("a", Timed::final, 12), plan("b", Timed::screen, 8),
                  plan("c", Timed::final, 10, {0, bench::cudnn::kNoteNondeterministic}),
                  plan("d", Timed::final, 9), plan("e", Timed::final, 7)};
  record.plans[3].wrong = true;
  record.plans[4].error = "fell over";
  ASSERT_NE(record.best(), nullptr);
  EXPECT_EQ(record.best()->plan.tag, "c");
  EXPECT_EQ(record.best_deterministic()->plan.tag, "a");
  EXPECT_EQ(record.first()->plan.tag, "a");
  const bench::Json json = conv_json(record);
  EXPECT_EQ(json["best"]["us"], 10.0);
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["wrong"], 1);
  EXPECT_EQ(json["all"].size(), 5u);
  EXPECT_EQ(json["all"][4]["error"], "fell over");
  EXPECT_NE(conv_line(record).find("1 DISAGREE"), std::string::npos);
  EXPECT_EQ(conv_json(ConvRecord{.problem = kDefaults})["best"], nullptr);
}

}  // namespace
}  // namespace sluice::probes
