// SPDX-License-Identifier: Apache-2.0
// Gated products and scales of D on the host: the order of B's rows, the reference computed by hand, checks
// and parameters of a launch, matching records. tests/gpu/gated_test.cc runs the kernels. To see it fail: let
// D have n columns in d_map_shape, or swap the strides of halves and groups in tensor_map.cc.
#include <sluice/reference/gemm.h>

#include <cmath>
#include <set>

#include <sluice/plan/records/record_book.h>
#include <sluice/reference/element.h>
#include <sluice/spec/loaded_rows.h>

#include "launch_fixture.h"

namespace sluice {
namespace {

Problem swiglu(i64 m, i64 n, i64 k) {
  Problem p{.m = m, .n = n, .k = k, .a = {.type = DType::e4m3}, .b = {.type = DType::e4m3}};
  p.d.type = DType::e4m3;
  p.epilogue = {.activation = Activation::silu, .gated = true, .scale_d = ScaleMode::tensor};
  return p;
}

TEST(gated, every_row_of_b_has_one_place_in_the_tiles) {
  for (const i64 n : {16, 48, 4096}) {
    std::set<i64> rows;
    for (i64 row = 0; row < n; ++row) rows.insert(gated_row(row, n));
    EXPECT_EQ(static_cast<i64>(rows.size()), n);
    EXPECT_EQ(*rows.begin(), 0);
    EXPECT_EQ(*rows.rbegin(), n - 1);
  }
  EXPECT_EQ(gated_row(7, 48), 7);
  EXPECT_EQ(gated_row(8, 48), 24);
  EXPECT_EQ(gated_row(17, 48), 9);
  EXPECT_EQ(gated_row(31, 48), 39);
}

TEST(gated, slices_are_whole_groups) {
  const KernelConfig c{.tile = {128, 96, 64}, .cluster = {2, 1}, .epilogue = {.gated = true}};
  ASSERT_EQ(validate(c), nullptr);
  for (int n = 16; n < 700; n += 16)
    for (int first = 0; first < n; first += c.tile.n) {
      int bytes = 0;
      for (int slice = 0; slice < 2; ++slice) {
        const int rows = slice_rows(n, first + slice * 48, 48, row_group(c));
        EXPECT_EQ(rows % kGatedGroup, 0) << n << " " << first;
        bytes += rows * kSwizzleRowBytes;
      }
      EXPECT_EQ(bytes, loaded_bytes_b(c, n, {.n_offset = first})) << n << " " << first;
    }
}

TEST(gated, d_is_half_as_wide) {
  const Problem p = with_strides(swiglu(3, 96, 64));
  EXPECT_EQ(d_columns(p), 48);
  EXPECT_EQ(p.d.ld, 48);
  EXPECT_EQ(p.d.batch_stride, 3 * 48);
  EXPECT_EQ(scale_b_count({.n = 96, .epilogue = {.scale_b = ScaleMode::vector, .gated = true}}), 96);
}

/// A product of 1 x 16 x 1, so each column of A B is a single multiplication.
TEST(gated, reference_multiplies_the_activated_half_by_the_other) {
  Problem p{.m = 1, .n = 16, .k = 1, .d = {.type = DType::fp32}};
  p.epilogue = {.scale_b = ScaleMode::vector,
                .bias = Bias::column,
                .bias_type = DType::fp32,
                .activation = Activation::relu,
                .gated = true};
  std::vector<u8> a(2), b(32);
  store_element(DType::bf16, a.data(), 0, 2.0);
  std::vector<float> scale(16), bias(16), d(9, -1.0f);
  for (int i = 0; i < 16; ++i) {
    store_element(DType::bf16, b.data(), i, i - 4.0);
    scale[static_cast<size_t>(i)] = i % 2 == 0 ? 1.0f : 0.5f;
    bias[static_cast<size_t>(i)] = static_cast<float>(i);
  }
  const HostBuffers buffers{
      .a = a.data(), .b = b.data(), .d = d.data(), .scale_b = scale.data(), .bias = bias.data()};
  reference_gemm(p, buffers, 3.0f, 0.0f);
  // Column 5: the gate is 3 * 2 * 1 * 0.5 + 5 = 8. The other half's column 13 is 3 * 2 * 9 * 0.5 + 13 = 40.
  EXPECT_EQ(d[5], 320.0f);
  EXPECT_EQ(d[0], 0.0f);  // relu(-24) * 32; it would not be 0 if relu were applied to the other half
  EXPECT_EQ(d[8], -1.0f);

  p.epilogue.activation = Activation::silu;
  p.epilogue.scale_d = ScaleMode::tensor;
  p.d.type = DType::e4m3;
  const float half = 0.5f;
  HostBuffers scaled = buffers;
  std::vector<u8> codes(8);
  scaled.d = codes.data();
  scaled.scale_d = &half;
  const Problem filled = with_strides(p);
  EXPECT_NEAR(reference_element(filled, scaled, {.alpha = 3.0f}, {.column = 5}),
              2 * 320.0 / (1 + std::exp(-8.0)), 1e-9);
  reference_gemm(p, scaled, 3.0f, 0.0f);
  EXPECT_EQ(load_element(DType::e4m3, codes.data(), 5), 448.0) << "saturates";
}

using GatedLaunch = LaunchTest;

TEST_F(GatedLaunch, maps_take_both_halves_of_b_and_half_of_d) {
  Problem p = swiglu(64, 512, 256);
  p.b.ld = 320;
  const gemm::Kernel kernel = prepared(p, {.schedule = Schedule::ping_pong, .tile_m = 64, .tile_n = 64});
  const gemm::Args args = args_for(p);
  launched(gemm::launch(kernel, args, nullptr), 1);
  const GemmParams& params = driver.launch(0).params;
  const DecodedMap b = decode(params.map_b), d = decode(params.map_d);
  EXPECT_EQ(b.rank, 5);
  EXPECT_EQ(b.inner, 256u);
  EXPECT_EQ(b.outer, 8u);
  EXPECT_EQ(b.batch, 2u);
  EXPECT_EQ(b.fourth, 32u);
  EXPECT_EQ(b.fifth, 1u);
  EXPECT_EQ(b.row_stride, 320u);
  EXPECT_EQ(b.batch_stride, 256u * 320);
  EXPECT_EQ(b.third_stride, 8u * 320);
  EXPECT_EQ(b.box_inner, 128);
  EXPECT_EQ(b.box_outer * b.box_batch * b.box_fourth * b.box_fifth, 64);
  EXPECT_EQ(d.inner, 256u);
  EXPECT_EQ(d.box_inner, 32);
  EXPECT_EQ(params.scale_d, args.scale_d);
  EXPECT_EQ(params.n, 512);
}

TEST_F(GatedLaunch, a_scale_of_d_is_asked_for) {
  const Problem p = swiglu(64, 512, 256);
  const gemm::Kernel kernel = prepared(p);
  gemm::Args args = args_for(p);
  args.scale_d = nullptr;
  refused(gemm::launch(kernel, args, nullptr), ErrorCode::invalid_pointer, "scale_d is null");
  args.scale_d = shifted(args_for(p).scale_d, 2);
  refused(gemm::launch(kernel, args, nullptr), ErrorCode::misaligned, "scale_d");
  args.scale_d = static_cast<const float*>(args.d);
  refused(gemm::launch(kernel, args, nullptr), ErrorCode::aliasing, "scale_d");
  // D has half as many columns as the product, so the memory after it may be another array.
  args.scale_d = reinterpret_cast<const float*>(static_cast<const u8*>(args.d) + 64 * 256);
  launched(gemm::launch(kernel, args, nullptr), 1);
}

TEST_F(GatedLaunch, plain_needs_no_maps) {
  const Problem p = swiglu(4, 4096, 512);
  const gemm::Kernel kernel = prepared(p, {.schedule = Schedule::plain});
  launched(gemm::launch(kernel, args_for(p), nullptr), 1);
  EXPECT_EQ(driver.launch(0).params.n, 4096);
  EXPECT_EQ(driver.launch(0).params.d_ld, 2048);
}

TEST_F(GatedLaunch, halves_too_far_apart_for_tma_are_named) {
  Problem p = swiglu(64, 512, 256);
  p.b.ld = i64{1} << 33;
  const Result<Plan> plan = gemm::plan(p, device().info(), {.schedule = Schedule::ping_pong});
  ASSERT_TRUE(plan.ok());
  const Result<gemm::Kernel> kernel = gemm::prepare(device(), *plan);
  ASSERT_FALSE(kernel.ok());
  EXPECT_NE(kernel.error().message.find("its halves are 256 rows"), std::string::npos)
      << kernel.error().message;
}

TuningRecord record_of(const Problem& p, int tile_n) {
  return {.key = key_of(with_strides(p), DeviceInfo{}),
          .choice = TunedChoice{.schedule = Schedule::ping_pong,
                                .tile_m = 64,
                                .tile_n = tile_n,
                                .raster = Raster::along_n,
                                .raster_group = 1,
                                .clusters = 40,
                                .measured_us = 30},
          .sluice = "0.1.0",
          .driver = "580.159.04",
          .date = "2026-11-21T10:00:00Z",
          .method = "cold"};
}

Plan planned(const Problem& p, const std::vector<TuningRecord>& records) {
  const Result<Plan> plan = gemm::plan(p, DeviceInfo{}, {}, book_of(records));
  EXPECT_TRUE(plan.ok());
  return plan.ok() ? *plan : Plan{};
}

TEST(gated_records, those_of_the_same_loads_stand_in) {
  const Problem p = swiglu(16, 4096, 4096);
  Problem product = p;
  product.epilogue = {};
  product.d.type = DType::bf16;
  EXPECT_EQ(planned(p, {}).source, PlanSource::model);
  const Plan borrowed = planned(p, {record_of(product, 96)});
  EXPECT_EQ(borrowed.source, PlanSource::record);
  EXPECT_EQ(borrowed.config.tile.n, 96);
  EXPECT_TRUE(borrowed.config.epilogue.gated);
  EXPECT_EQ(planned(p, {record_of(product, 96), record_of(p, 64)}).config.tile.n, 64)
      << "its own comes first";
  EXPECT_EQ(planned(product, {record_of(p, 64)}).source, PlanSource::model) << "and is nobody else's";
  EXPECT_EQ(planned(p, {record_of(product, 24)}).source, PlanSource::model) << "no tile of whole groups";
}

TEST(gated_records, a_tile_that_must_store_direct_stands_in_for_few_rows_only) {
  Problem p = swiglu(16, 7168, 4096), product = p;
  product.epilogue = {};
  product.d.type = DType::bf16;
  EXPECT_EQ(planned(p, {record_of(product, 112)}).config.store, StorePath::direct);
  p.m = product.m = 1024;
  EXPECT_EQ(planned(p, {record_of(product, 112)}).source, PlanSource::model);
}

TEST(gated_records, keep_their_gate_in_a_file) {
  const TuningRecord record = record_of(swiglu(16, 4096, 4096), 64);
  EXPECT_NE(to_json(record).find("\"gated\":true"), std::string::npos);
  const ParsedRecords read = parse_records(to_json(record), "text");
  ASSERT_EQ(read.records.size(), 1u);
  EXPECT_EQ(read.records[0], record);
  Problem product = swiglu(16, 4096, 4096);
  product.epilogue.gated = false;
  EXPECT_EQ(to_json(record_of(product, 64)).find("gated"), std::string::npos);
}

}  // namespace
}  // namespace sluice
