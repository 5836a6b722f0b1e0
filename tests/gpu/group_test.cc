// SPDX-License-Identifier: Apache-2.0
// Products of groups on the GPU against the reference, bit by bit: whole numbers, so that every sum is exact.
// D, its block scales, and the rows of A, or of k, that belong to no group are NaN. Tables are random, at the
// edges, and any numbers at all; a graph is replayed with table after table. To see it fail: take a TMA store
// for every chunk in Machine::issue_store, leave the barrier out of Machine::read_list, or compare the row
// with params.m in TileStore::quantise.
#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include <sluice/run/driver/events.h>
#include <sluice/run/driver/memory.h>

#include "gpu.h"
#include "tests/protocol/operands.h"

namespace sluice::testing {
namespace {

using twin::Operands;

struct Table {
  GroupKind kind = GroupKind::ends;
  int pitch = 1;
  i64 m = 300;
  std::vector<int> numbers;
  i64 groups = 0;  // with slots; else one per number
};

class group_products : public GpuTest {
 protected:
  std::mt19937 random_{11};

  int number(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  Table drawn(int groups) {
    Table t{.kind = number(0, 2) == 0 ? GroupKind::counts : GroupKind::ends,
            .pitch = number(0, 1) ? 1 : number(1, 150)};
    int end = 0;
    for (int g = 0; g < groups; ++g) {
      const int rows = number(0, 2) == 0 ? 0 : number(0, 3) == 0 ? number(1, 400) : number(1, 40);
      end = (end + t.pitch - 1) / t.pitch * t.pitch + rows;
      t.numbers.push_back(t.kind == GroupKind::counts ? rows : end);
    }
    t.m = number(0, 3) == 0 ? std::max(1, end - 20) : end + number(1, 30);
    if (number(0, 5) == 0)
      for (int& each : t.numbers) each = static_cast<int>(random_());
    return t;
  }
  /// Runs the product of each table in one kernel, and compares D with the reference.
  void check(Problem p, const std::vector<Table>& tables, const PlanOverrides& overrides) {
    p.groups = {tables.front().kind, tables.front().pitch};
    i64& total = sums_groups(p) ? p.k : p.m;
    total = 0;
    for (const Table& t : tables) total = std::max(total, t.m);
    p.batch = by_slots(p) ? tables.front().groups : static_cast<i64>(tables.front().numbers.size());
    const Result<Plan> plan = gemm::plan(p, device().info(), overrides);
    ASSERT_TRUE(ok(plan)) << to_string(p);
    const auto kernel = gemm::prepare(device(), *plan);
    ASSERT_TRUE(ok(kernel)) << describe(*plan);
    Operands o = twin::make_operands(p);
    std::vector<DeviceBuffer> held;
    const auto on_gpu = [&](const void* data, size_t bytes) -> void* {
      Result<DeviceBuffer> buffer = DeviceBuffer::allocate(device(), static_cast<i64>(bytes) + 256);
      EXPECT_TRUE(ok(buffer) && (bytes == 0 || ok(buffer->upload(data, static_cast<i64>(bytes)))));
      held.push_back(std::move(*buffer));
      return held.back().data();
    };
    const auto floats = [&](const std::vector<float>& values) {
      return static_cast<const float*>(on_gpu(values.data(), 4 * values.size()));
    };
    gemm::Args args{.a = on_gpu(o.a.data(), o.a.size()),
                    .b = on_gpu(o.b.data(), o.b.size()),
                    .c = on_gpu(o.c.data(), o.c.size()),
                    .d = on_gpu(o.d.data(), o.d.size()),
                    .scale_a = floats(o.scale_a),
                    .scale_b = floats(o.scale_b),
                    .scale_d = floats(o.scale_d),
                    .bias = on_gpu(o.bias.data(), o.bias.size())};
    const size_t a_place = 0, b_place = 1, d_place = 3;
    args.groups =
        static_cast<const int*>(on_gpu(tables.front().numbers.data(), 4 * tables.front().numbers.size()));
    const size_t table_place = held.size() - 1;
    args.row_factors = floats(o.row_factors);
    args.scale_out = const_cast<float*>(floats(o.scale_out));
    const size_t scales_place = held.size() - 1;
    const i64 scale_bytes = static_cast<i64>(4 * o.scale_out.size());
    const auto stream = StreamHandle::create(device());
    ASSERT_TRUE(ok(stream));
    const auto graph =
        Graph::capture(device(), stream->get(), [&] { return gemm::launch(*kernel, args, stream->get()); });
    ASSERT_TRUE(ok(graph));
    const std::vector<u8> a = o.a, b = o.b;
    for (const Table& t : tables) {
      o.groups = t.numbers;
      o.a = a, o.b = b;
      poison_rows_of_no_group(o);
      std::fill(o.d.begin(), o.d.end(), u8{0xff});
      std::vector<u8> expected = o.d, found = o.d;
      ASSERT_TRUE(ok(held[a_place].upload(o.a.data(), static_cast<i64>(o.a.size()))));
      ASSERT_TRUE(ok(held[b_place].upload(o.b.data(), static_cast<i64>(o.b.size()))));
      ASSERT_TRUE(ok(held[d_place].upload(o.d.data(), static_cast<i64>(o.d.size()))));
      ASSERT_TRUE(ok(held[table_place].upload(t.numbers.data(), static_cast<i64>(4 * t.numbers.size()))));
      std::fill(o.scale_out.begin(), o.scale_out.end(), std::numeric_limits<float>::quiet_NaN());
      std::vector<float> found_scales = o.scale_out;
      if (scale_bytes > 0) {
        ASSERT_TRUE(ok(held[scales_place].upload(o.scale_out.data(), scale_bytes)));
      }
      ASSERT_TRUE(ok(graph->launch(stream->get())));
      ASSERT_TRUE(ok(stream->synchronize()));
      ASSERT_TRUE(ok(held[d_place].download(found.data(), static_cast<i64>(found.size()), 0)));
      reference_gemm(o.problem, o.buffers(expected), 1.0f, 1.0f);
      ASSERT_EQ(std::memcmp(found.data(), expected.data(), found.size()), 0) << describe(*plan);
      if (scale_bytes == 0) continue;
      ASSERT_TRUE(ok(held[scales_place].download(found_scales.data(), scale_bytes, 0)));
      ASSERT_EQ(std::memcmp(found_scales.data(), o.scale_out.data(), static_cast<size_t>(scale_bytes)), 0)
          << describe(*plan);
    }
    record("cases", static_cast<i64>(tables.size()));
  }
  std::vector<Table> several(int groups, int count) {
    std::vector<Table> tables{drawn(groups)};
    while (static_cast<int>(tables.size()) < count) {
      Table t = drawn(groups);
      t.kind = tables.front().kind, t.pitch = tables.front().pitch;
      tables.push_back(t);
    }
    return tables;
  }
};

Problem product(i64 n, i64 k, DType in, DType out, const Epilogue& epilogue = {}) {
  return {.n = n, .k = k, .a = {.type = in}, .b = {.type = in}, .d = {.type = out}, .epilogue = epilogue};
}

TEST_F(group_products, are_exact_with_every_schedule_store_and_cluster) {
  for (const Schedule schedule : {Schedule::ping_pong, Schedule::cooperative})
    for (const StorePath store : {StorePath::tma, StorePath::direct})
      for (const ClusterShape cluster : {ClusterShape{1, 1, 1}, {1, 2, 1}, {1, 1, 2}})
        check(product(320, 200, DType::bf16, DType::bf16), several(number(1, 40), 6),
              {.schedule = schedule, .cluster = cluster, .store = store});
}

TEST_F(group_products, are_exact_with_scales_biases_and_gates_of_their_own) {
  const Epilogue vectors{.scale_a = ScaleMode::vector,
                         .scale_b = ScaleMode::vector,
                         .bias = Bias::column,
                         .bias_type = DType::bf16};
  const Epilogue blocks{.scale_a = ScaleMode::block, .scale_b = ScaleMode::block};
  const Epilogue gated{.activation = Activation::relu, .gated = true};
  const Epilogue residual{.residual = true, .c_type = DType::fp32};
  for (int i = 0; i < 4; ++i) {
    check(product(288, 384, DType::e4m3, DType::fp32, vectors), several(number(1, 30), 4), {});
    check(product(384, 512, DType::e4m3, DType::fp32, blocks), several(number(1, 30), 4), {});
    check(product(320, 192, DType::bf16, DType::bf16, gated), several(number(1, 30), 4), {});
    check(product(160, 128, DType::fp16, DType::fp32, residual), several(number(1, 30), 4), {});
  }
}

/// Tables of groups along k.
std::vector<Table> along_k(std::vector<Table> tables) {
  for (Table& t : tables) t.kind = GroupKind::along_k;
  return tables;
}

TEST_F(group_products, sum_over_groups_with_every_schedule_store_and_cluster) {
  for (const Schedule schedule : {Schedule::ping_pong, Schedule::cooperative})
    for (const StorePath store : {StorePath::tma, StorePath::direct})
      for (const ClusterShape cluster : {ClusterShape{1, 1, 1}, {2, 1, 1}, {1, 2, 1}})
        for (const DType out : {DType::bf16, DType::fp32}) {
          Problem p = product(320, 0, DType::bf16, out);
          p.m = 264;
          p.a.major = p.b.major = Major::mn;
          check(p, along_k(several(number(1, 40), 6)),
                {.schedule = schedule, .cluster = cluster, .store = store});
        }
  Problem gradients = product(128, 0, DType::fp16, DType::fp32, {.residual = true, .c_type = DType::fp32});
  gradients.m = 136;
  gradients.a.major = gradients.b.major = Major::mn;
  check(gradients, along_k(several(200, 4)), {});
}

/// Both products of experts: gate and up with block scales, quantised by 1 x 128; and times the router's
/// weights.
TEST_F(group_products, of_experts_are_exact) {
  const Epilogue blocks{.scale_a = ScaleMode::block, .scale_b = ScaleMode::block};
  Epilogue swiglu = blocks, quantised = blocks, routed = blocks;
  swiglu.gated = true;
  swiglu.activation = Activation::relu;
  routed.row_factors = true;
  for (const Schedule schedule : {Schedule::ping_pong, Schedule::cooperative})
    for (const StorePath store : {StorePath::tma, StorePath::direct}) {
      const PlanOverrides overrides{.schedule = schedule, .store = store};
      check(product(512, 384, DType::e4m3, DType::bf16, swiglu), several(number(1, 30), 4), overrides);
      check(product(400, 512, DType::e4m3, DType::fp32, routed), several(number(1, 30), 4), overrides);
      Problem by_columns = product(272, 640, DType::e4m3, DType::fp32, routed);
      by_columns.scale_a_ld = 1 << 15;  // more than any table has rows
      check(by_columns, several(number(1, 30), 4), overrides);
      swiglu.scale_d = quantised.scale_d = ScaleMode::block;
      check(product(512, 384, DType::e4m3, DType::e4m3, swiglu), several(number(1, 30), 4), overrides);
      check(product(272, 384, DType::e4m3, DType::e4m3, quantised), several(number(1, 30), 4), overrides);
      swiglu.scale_d = ScaleMode::none;
    }
}

/// Slots in any order. To see it fail: take the vectors of group 0 in kernels/plain.cuh, or A's row for D's.
TEST_F(group_products, by_slots_are_exact) {
  const Epilogue vectors{.scale_a = ScaleMode::vector, .scale_b = ScaleMode::vector, .bias = Bias::column};
  const Epilogue blocks{.scale_a = ScaleMode::block, .scale_b = ScaleMode::block};
  Epilogue swiglu = blocks;
  swiglu.gated = true;
  swiglu.activation = Activation::relu;
  const Epilogue gated{.bias = Bias::column, .activation = Activation::relu, .gated = true};
  const Epilogue residual{.residual = true, .c_type = DType::fp32};
  const auto slots = [&](int pitch, int rows, int groups) {
    Table t{.kind = GroupKind::slots, .pitch = pitch, .m = i64{pitch} * rows, .groups = groups};
    const bool any = number(0, 3) == 0;
    for (i64 s = 0; s < t.m; ++s)
      t.numbers.push_back(any && number(0, 1) ? static_cast<int>(random_()) : number(-1, groups - 1));
    return t;
  };
  const std::pair<int, int> others[] = {{1, 1}, {8, 1}, {3, 40}, {1, 64}};
  for (const int parts : {1, 2, 4, 8})
    for (const auto& [pitch, rows] : {std::pair{8, 7}, others[number(0, 3)]}) {  // all take minutes
      const int groups = number(1, 24);                                          // more take minutes to fill
      const std::vector<Table> tables{slots(pitch, rows, groups), slots(pitch, rows, groups),
                                      slots(pitch, rows, groups)};
      PlanOverrides overrides{.schedule = Schedule::plain, .cluster = ClusterShape{1, 1, parts}};
      check(product(320, 200, DType::bf16, DType::bf16), tables, overrides);
      check(product(288, 384, DType::e4m3, DType::fp32, vectors), tables, overrides);
      check(product(384, 1152, DType::e4m3, DType::fp32, blocks), tables, overrides);
      check(product(512, 640, DType::e4m3, DType::bf16, swiglu), tables, overrides);
      Problem by_columns = product(272, 640, DType::e4m3, DType::fp32, blocks);
      by_columns.scale_a_ld = 1 << 9;
      check(by_columns, tables, overrides);
      check(product(160, 128, DType::fp16, DType::fp32, residual), tables, overrides);
      check(product(320, 192, DType::bf16, DType::bf16, gated), tables, overrides);
      check(product(288, 384, DType::fp16, DType::fp32, {}), tables, {});
    }
}

TEST_F(group_products, take_up_to_a_thousand_groups) {
  for (const int groups : {127, 128, 129, 512, 513, kMostGroups})
    check(product(64, 64, DType::bf16, DType::fp32), several(groups, 2), {});
}

}  // namespace
}  // namespace sluice::testing
