// SPDX-License-Identifier: Apache-2.0
// Products of groups with packed weights on the GPU: each row has the bits of a launch of its group alone,
// with the same tile, warps and parts. Rows of no group keep their poison. To see it fail: leave the group's
// bias or blob out of take_group, or one of its barriers.
#include <sluice/pack.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <sluice/kernels/verify_arith.h>
#include <sluice/reference/gemm.h>
#include <sluice/run/driver/memory.h>

#include "gpu.h"
#include "tests/packed_problems.h"

namespace sluice::testing {
namespace {

class packed_groups : public GpuTest {
 protected:
  std::mt19937 random_{17};

  int number(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  std::vector<u8> bytes(i64 count, int most = 255) {
    std::vector<u8> made(static_cast<size_t>(count));
    for (u8& each : made) each = static_cast<u8>(number(0, most));
    return made;
  }
  /// Numbers of 16 bits between 1/2 and 4, of either sign.
  std::vector<u8> numbers(DType type, i64 count) {
    std::vector<u8> made(static_cast<size_t>(2 * count));
    for (i64 i = 0; i < count; ++i) {
      const u32 bits = verify::encode(type, std::ldexp(number(0, 1) ? 1.25 : -1.0, number(-1, 1)));
      std::memcpy(&made[static_cast<size_t>(2 * i)], &bits, 2);
    }
    return made;
  }
  DeviceBuffer on_gpu(const std::vector<u8>& data) {
    Result<DeviceBuffer> buffer = DeviceBuffer::allocate(device(), static_cast<i64>(data.size()) + 256);
    EXPECT_TRUE(ok(buffer) && ok(buffer->upload(data.data(), static_cast<i64>(data.size()))));
    return std::move(*buffer);
  }

  /// Rows of D that are one product.
  struct Part {
    i64 group = 0, begin = 0, end = 0;
  };
  static std::vector<Part> parts_of(const Problem& p, const std::vector<int>& table) {
    std::vector<Part> parts;
    if (by_slots(p)) {
      for_each_row(p, table.data(), [&](i64 group, i64 row) { parts.push_back({group, row, row + 1}); });
      return parts;
    }
    for (const GroupRows& rows : rows_of_groups(p, table.data()))
      parts.push_back({static_cast<i64>(parts.size()), rows.begin, rows.end});
    return parts;
  }

  /// Compares the product of `table`'s groups with one product for each of them. `count`: groups; 0: one per
  /// number.
  void check(const PackedProblem& each, const Groups& groups, const std::vector<int>& table, i64 rows,
             const PackedOverrides& overrides, i64 count = 0) {
    Problem p = each;
    p.m = rows, p.batch = count != 0 ? count : static_cast<i64>(table.size()), p.groups = groups;
    const auto plan = gemm::plan(p, device().info(), overrides);
    ASSERT_TRUE(ok(plan)) << to_string(p);
    SCOPED_TRACE(to_string(plan->config));
    const i64 blob = blob_bytes(p), columns = d_columns(p), row_bytes = columns * bytes_of(p.d.type);
    const auto packer = Packer::create(device(), p.b.packed);
    const auto blobs = DeviceBuffer::allocate(device(), blob * p.batch);
    ASSERT_TRUE(ok(packer) && ok(blobs));
    for (i64 g = 0; g < p.batch; ++g) {
      const DeviceBuffer codes = on_gpu(bytes(p.n * p.k, 15)),
                         scales = on_gpu(numbers(p.b.packed.scale, p.n * group_count(p.b.packed, p.k)));
      ASSERT_TRUE(ok(packer->pack(
          {p.n, p.k, p.epilogue.gated},
          {codes.data(), scales.data(), nullptr, static_cast<u8*>(blobs->data()) + g * blob}, nullptr)));
    }
    const std::vector<u8> poison(static_cast<size_t>(rows * row_bytes), u8{0xff});
    const DeviceBuffer x = on_gpu(numbers(p.a.type, rows * p.k)),
                       bias = on_gpu(numbers(DType::bf16, p.batch * p.n)), d = on_gpu(poison),
                       alone = on_gpu(poison);
    std::vector<u8> numbers_of_table(4 * table.size());
    std::memcpy(numbers_of_table.data(), table.data(), numbers_of_table.size());
    const DeviceBuffer held_table = on_gpu(numbers_of_table);
    const auto kernel = gemm::prepare(device(), *plan);
    ASSERT_TRUE(ok(kernel));
    ASSERT_TRUE(ok(gemm::launch(*kernel,
                                {.a = x.data(),
                                 .b = blobs->data(),
                                 .d = d.data(),
                                 .bias = bias.data(),
                                 .groups = static_cast<const int*>(held_table.data())},
                                nullptr)));
    const KernelConfig& c = plan->config;
    PlanOverrides same{.schedule = Schedule::narrow};
    same.tile_m = c.tile.m, same.tile_n = c.tile.n, same.cluster = c.cluster;
    same.stages = c.stages, same.warps = c.warps, same.ctas = c.ctas;
    for (const auto& [g, begin, end] : parts_of(p, table)) {
      Problem one = each;
      one.m = end - begin;
      if (one.m == 0) continue;
      const auto single = gemm::plan(one, device().info(), same);
      ASSERT_TRUE(ok(single));
      const auto ready = gemm::prepare(device(), *single);
      ASSERT_TRUE(ok(ready));
      ASSERT_TRUE(
          ok(gemm::launch(*ready,
                          {.a = static_cast<u8*>(x.data()) + a_row(p, begin) * p.k * bytes_of(p.a.type),
                           .b = static_cast<u8*>(blobs->data()) + g * blob,
                           .d = static_cast<u8*>(alone.data()) + begin * row_bytes,
                           .bias = static_cast<u8*>(bias.data()) + g * p.n * 2},
                          nullptr)));
    }
    std::vector<u8> got = poison, wanted = poison;
    ASSERT_TRUE(ok(d.download(got.data(), rows * row_bytes)));
    ASSERT_TRUE(ok(alone.download(wanted.data(), rows * row_bytes)));
    EXPECT_EQ(got, wanted);
    record("cases", 1);
  }
};

TEST_F(packed_groups, have_the_bits_of_products_alone) {
  for (const DType type : {DType::bf16, DType::fp16})
    for (const bool gated : {false, true})
      for (const int tokens : {1, 2, 4})
        for (const int parts : {1, 2}) {
          const PackedProblem each{.n = 256,
                                   .k = 512,
                                   .x = type,
                                   .d = type,
                                   .weights = {.group = gated ? 64 : 128, .scale = DType::bf16},
                                   .bias = Bias::column,
                                   .activation = gated ? Activation::silu : Activation::none,
                                   .gated = gated};
          const PackedOverrides overrides{
              .token_blocks = tokens, .row_blocks = 4, .warps = 4, .stages = 2, .parts = parts};
          check(each, {GroupKind::ends, 1}, {3, 3, 40, 41, 41, 90}, 100, overrides);
          check(each, {GroupKind::ends, 16}, {16, 30, 33, 70}, 80, overrides);
          check(each, {GroupKind::counts, 20}, {0, 20, 7, 33}, 70, overrides);
          check(each, {GroupKind::slots, 1}, {3, -1, 0, 0, 7, 2}, 6, overrides, 5);
          check(each, {GroupKind::slots, 4}, {3, 1, 0, 4, 1 << 30, 2, 2, 1}, 8, overrides, 5);
          if (HasFatalFailure()) return;
        }
}

TEST_F(packed_groups, of_any_numbers_stay_inside) {
  const PackedProblem each{
      .n = 128, .k = 256, .weights = {.group = 128, .scale = DType::bf16}, .bias = Bias::column};
  for (int i = 0; i < 12; ++i) {
    std::vector<int> table(static_cast<size_t>(number(1, 200)));
    for (int& x : table) x = number(0, 2) == 0 ? static_cast<int>(random_()) : number(-5, 120);
    check(each, {number(0, 1) ? GroupKind::ends : GroupKind::counts, number(1, 40)}, table, number(1, 100),
          {});
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace sluice::testing
