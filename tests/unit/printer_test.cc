// SPDX-License-Identifier: Apache-2.0
// The printed text of a value is C++ that makes an equal value. EXPECT_PRINTS gives the same tokens to the
// compiler and to the printer, so a wrong name, a missing field or another order shows. To see it fail: leave
// out `stages`, so that this file does not compile, or print `cluster.m` twice.
#include <algorithm>
#include <cctype>
#include <string>

#include <gtest/gtest.h>

#include <sluice/plan.h>

namespace {

std::string without_spaces(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c); }),
             text.end());
  return text;
}

#define EXPECT_PRINTS(...) \
  EXPECT_EQ(without_spaces(sluice::to_string(__VA_ARGS__)), without_spaces(#__VA_ARGS__))

/// Converts to any type, so an aggregate can be initialised from as many of these as it has fields.
struct Anything {
  template <class T>
  constexpr operator T() const;
};
template <class T, class... Fields>
constexpr int field_count() {
  if constexpr (requires { T{Fields{}..., Anything{}}; })
    return field_count<T, Fields..., Anything>();
  else
    return sizeof...(Fields);
}

/// Counts the fields at the outermost level of a printed initialiser.
int printed_fields(const std::string& text) {
  int depth = 0, count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}') --depth;
    if (text[i] == '.' && depth == 1) ++count;
  }
  return count;
}

TEST(printer, kernel_config_prints_every_field) {
  EXPECT_PRINTS(sluice::KernelConfig{.schedule = sluice::Schedule::ping_pong,
                                     .tile = {.m = 64, .n = 192, .k = 128},
                                     .stages = 7,
                                     .cluster = {.m = 2, .n = 4, .k = 1},
                                     .a = sluice::DType::e4m3,
                                     .b = sluice::DType::e5m2,
                                     .d = sluice::DType::fp16,
                                     .a_major = sluice::Major::mn,
                                     .b_major = sluice::Major::k,
                                     .promotes = true,
                                     .store = sluice::StorePath::direct,
                                     .combine = sluice::Combine::last_arriver,
                                     .epilogue = {.scale_a = sluice::ScaleMode::tensor,
                                                  .scale_b = sluice::ScaleMode::vector,
                                                  .bias = sluice::Bias::column,
                                                  .bias_type = sluice::DType::fp32,
                                                  .activation = sluice::Activation::gelu,
                                                  .residual = true,
                                                  .c_type = sluice::DType::fp16,
                                                  .update = sluice::Update::set}});
  EXPECT_PRINTS(sluice::KernelConfig{.schedule = sluice::Schedule::cooperative,
                                     .tile = {.m = 256, .n = 8, .k = 64},
                                     .stages = 2,
                                     .cluster = {.m = 1, .n = 1, .k = 1},
                                     .a = sluice::DType::bf16,
                                     .b = sluice::DType::bf16,
                                     .d = sluice::DType::fp32,
                                     .a_major = sluice::Major::k,
                                     .b_major = sluice::Major::mn,
                                     .promotes = false,
                                     .store = sluice::StorePath::tma,
                                     .combine = sluice::Combine::add,
                                     .epilogue = {.scale_a = sluice::ScaleMode::none,
                                                  .scale_b = sluice::ScaleMode::none,
                                                  .bias = sluice::Bias::none,
                                                  .bias_type = sluice::DType::bf16,
                                                  .activation = sluice::Activation::relu,
                                                  .residual = false,
                                                  .c_type = sluice::DType::bf16,
                                                  .update = sluice::Update::add}});
}

TEST(printer, problem_prints_every_field) {
  EXPECT_PRINTS(sluice::Problem{
      .m = 1,
      .n = 22,
      .k = 333,
      .batch = 4,
      .a = {.type = sluice::DType::fp16, .major = sluice::Major::mn, .ld = 5, .batch_stride = 66},
      .b = {.type = sluice::DType::e5m2, .major = sluice::Major::k, .ld = 7, .batch_stride = 8589934592},
      .c = {.type = sluice::DType::fp32, .major = sluice::Major::k, .ld = 9, .batch_stride = 10},
      .d = {.type = sluice::DType::e4m3, .major = sluice::Major::k, .ld = 11, .batch_stride = 12},
      .epilogue = {.scale_a = sluice::ScaleMode::vector,
                   .scale_b = sluice::ScaleMode::tensor,
                   .bias = sluice::Bias::none,
                   .bias_type = sluice::DType::fp16,
                   .activation = sluice::Activation::silu,
                   .residual = true,
                   .c_type = sluice::DType::fp32,
                   .update = sluice::Update::add},
      .accumulate = sluice::Accumulate::promoted,
      .deterministic = false});
}

TEST(printer, work_split_prints_every_field) {
  EXPECT_PRINTS(sluice::WorkSplit{.clusters = 66,
                                  .raster = sluice::Raster::along_n,
                                  .group = 16,
                                  .slices = 3,
                                  .numbering = sluice::Numbering::gpc});
}

TEST(printer, prints_as_many_fields_as_the_type_has) {
  using sluice::to_string;
  const sluice::Overlap waits{.wait = sluice::Wait::first, .trigger = sluice::Trigger::at_start};
  EXPECT_EQ(printed_fields(to_string(sluice::KernelConfig{.d_major = sluice::Major::mn,
                                                          .warps = 8,
                                                          .overlap = waits,
                                                          .conv = {.op = sluice::ConvOp::wgrad},
                                                          .load_a = sluice::Load::strided,
                                                          .load_b = sluice::Load::strided,
                                                          .groups = {sluice::GroupKind::ends, 128},
                                                          .scale_a_columns = true,
                                                          .packed = {},
                                                          .norm_a = true,
                                                          .ctas = 1,
                                                          .held_rows = 1,
                                                          .k_groups = 1,
                                                          .w_stages = 1})),
            field_count<sluice::KernelConfig>());
  EXPECT_EQ(printed_fields(to_string(sluice::KernelConfig{})), field_count<sluice::KernelConfig>() - 14)
      << "no swapped operands, warps, overlap, convolution, strided loads, groups, scales by columns or "
         "packed weights";
  EXPECT_EQ(printed_fields(to_string(sluice::Problem{.conv = {.op = sluice::ConvOp::fprop},
                                                     .norm_a = true,
                                                     .groups = {sluice::GroupKind::ends},
                                                     .scale_a_ld = 4})),
            field_count<sluice::Problem>());
  EXPECT_EQ(printed_fields(to_string(sluice::Problem{})), field_count<sluice::Problem>() - 4)
      << "no convolution, norm, groups or scales by columns";
  EXPECT_EQ(printed_fields(to_string(sluice::WorkSplit{})), field_count<sluice::WorkSplit>());
  EXPECT_EQ(field_count<sluice::WorkSplit>(), 5);  // tests field_count() itself
}

TEST(printer, short_name_is_one_line_with_what_differs_from_the_default) {
  sluice::KernelConfig config{.schedule = sluice::Schedule::ping_pong, .stages = 5, .cluster = {2, 1}};
  EXPECT_EQ(short_name(config), "ping_pong 128x128x64 s5 c2x1 bf16");
  config.d = sluice::DType::fp32;
  config.b_major = sluice::Major::mn;
  EXPECT_EQ(short_name(config), "ping_pong 128x128x64 s5 c2x1 bf16>fp32 b:mn");
  const sluice::KernelConfig fp8{.tile = {128, 256, 128},
                                 .stages = 3,
                                 .a = sluice::DType::e4m3,
                                 .b = sluice::DType::e5m2,
                                 .d = sluice::DType::e4m3,
                                 .promotes = true,
                                 .store = sluice::StorePath::direct,
                                 .epilogue = {.scale_a = sluice::ScaleMode::vector,
                                              .bias = sluice::Bias::column,
                                              .activation = sluice::Activation::gelu,
                                              .residual = true,
                                              .c_type = sluice::DType::fp16}};
  EXPECT_EQ(short_name(fp8),
            "cooperative 128x256x128 s3 c1x1 e4m3*e5m2>e4m3 promoted direct scale_a:vector bias:bf16 "
            "residual:fp16 gelu");
}

TEST(printer, describe_has_the_choices_and_the_estimate) {
  sluice::Plan plan;
  plan.problem = sluice::with_strides({.m = 100, .n = 200, .k = 300});
  plan.split = {.clusters = 13};
  plan.estimate = {.total_us = 12.345, .waves = 1};
  const std::string text = describe(plan);
  EXPECT_NE(text.find("m 100 n 200 k 300"), std::string::npos) << text;
  EXPECT_NE(text.find(short_name(plan.config)), std::string::npos) << text;
  EXPECT_NE(text.find("13 clusters of 1, along_m in bands of 8, 1 wave\n"), std::string::npos) << text;
  EXPECT_NE(text.find("12.3"), std::string::npos) << text;
  EXPECT_NE(text.find("chosen by  the cost model\n"), std::string::npos) << text;
}

TEST(printer, describe_says_of_a_product_added_to_d_whether_its_bits_are_the_same_on_every_run) {
  sluice::Plan plan{.problem = {.m = 1, .n = 1, .k = 1}};
  EXPECT_EQ(describe(plan).find("bits"), std::string::npos) << "they always are where D is overwritten";
  plan.problem.epilogue.update = plan.config.epilogue.update = sluice::Update::add;
  EXPECT_NE(describe(plan).find("bits       the same on every run\n"), std::string::npos) << describe(plan);
  plan.config.combine = sluice::Combine::add;
  EXPECT_NE(describe(plan).find("bits       depend on the order of additions\n"), std::string::npos);
  EXPECT_NE(describe(plan).find("128x128x64 s4 c1x1 bf16 add update:add\n"), std::string::npos);
}

TEST(printer, describe_says_how_sums_are_kept_only_where_there_is_a_choice) {
  sluice::Plan plan{.problem = {.m = 1, .n = 1, .k = 1}};
  EXPECT_EQ(describe(plan).find("accumulate"), std::string::npos) << describe(plan);
  plan.problem.a.type = plan.problem.b.type = sluice::DType::e4m3;
  EXPECT_NE(describe(plan).find(", accumulate "), std::string::npos) << describe(plan);
}

TEST(printer, describe_says_that_nothing_is_launched_where_d_is_empty) {
  for (const sluice::Problem& p : {sluice::Problem{.m = 0, .n = 8, .k = 8},
                                   {.m = 8, .n = 0, .k = 8},
                                   {.m = 8, .n = 8, .k = 8, .batch = 0}}) {
    const std::string text = describe(sluice::Plan{.problem = p});
    EXPECT_NE(text.find("nothing to launch"), std::string::npos) << text;
    EXPECT_EQ(text.find("estimate"), std::string::npos) << text;
  }
  EXPECT_EQ(describe(sluice::Plan{.problem = {.m = 8, .n = 8, .k = 0}}).find("nothing"), std::string::npos)
      << "D is bias and C";
}

TEST(printer, describe_says_that_a_record_chose) {
  sluice::Plan plan{.problem = {.m = 1, .n = 1, .k = 1}};
  plan.source = sluice::PlanSource::record;
  plan.measured_us = 98.765;
  EXPECT_NE(describe(plan).find("chosen by  a record, measured 98.7"), std::string::npos) << describe(plan);
}

}  // namespace
