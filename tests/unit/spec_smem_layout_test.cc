// SPDX-License-Identifier: Apache-2.0
// Shared memory: blocks do not overlap, are aligned as the swizzle requires, and end at smem_bytes. Barrier
// counts follow from the numbers of loaders and readers. To see it fail: count one store buffer per group in
// store_offset, or let empty_arrivals be cluster.m * cluster.n.
#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <sluice/plan.h>

#include "tests/registered_configs.h"

namespace sluice {
namespace {

struct Block {
  int begin, bytes, alignment;
};

std::vector<Block> blocks_of(const KernelConfig& c) {
  std::vector<Block> blocks;
  for (int stage = 0; stage < c.stages; ++stage) {
    blocks.push_back({stage_offset(c, stage), stage_a_bytes(c), kSmemAlign});
    blocks.push_back({stage_offset(c, stage) + stage_a_bytes(c), stage_b_bytes(c), kSmemAlign});
  }
  for (int group = 0; group < kMathGroups; ++group)
    for (int buffer = 0; buffer < kStoreBuffers; ++buffer)
      blocks.push_back({store_offset(c, group, buffer), store_buffer_bytes(c), kSmemAlign});
  for (int group = 0; group < kMathGroups; ++group)
    blocks.push_back({exchange_offset(c, group), exchange_buffer_bytes(c), 16});
  for (int stage = 0; stage < c.stages; ++stage)
    blocks.push_back(
        {scale_offset(c, stage), scale_slot_bytes(c), 8});  // scales of columns are read in pairs
  for (int group = 0; group < kMathGroups; ++group)
    // Aligned to 8, because pairs are read.
    blocks.push_back({epilogue_vector_offset(c, group), epilogue_vector_bytes(c), 8});
  for (int barrier = 0; barrier < barrier_count(c); ++barrier)
    blocks.push_back({barrier_offset(c) + 8 * barrier, 8, 8});
  if (reads_table(c)) blocks.push_back({group_table_offset(c), group_table_bytes(c), 4});
  return blocks;
}

/// Returns random valid configs and the registered ones.
std::vector<KernelConfig> many_configs() {
  std::vector<KernelConfig> configs;
  for (const KernelConfig& c : registered_configs()) configs.push_back(c);
  std::mt19937 random(3);
  const DType types[] = {DType::bf16, DType::fp16, DType::fp32, DType::e4m3, DType::e5m2};
  while (configs.size() < 5000) {
    KernelConfig c;
    c.schedule = random() % 2 == 0 ? Schedule::ping_pong : Schedule::cooperative;
    c.a = c.b = types[random() % 5];
    c.d = types[random() % 5];
    c.tile = {64 << random() % 3, static_cast<int>(8 * (1 + random() % 32)), k_block(c.a)};
    c.cluster = {1 << random() % 3, 1 << random() % 3};
    if (random() % 3 == 0) c.cluster = {1, 1, 2 << random() % 3};
    c.stages = 2 + static_cast<int>(random() % 10);
    c.a_major = random() % 2 == 0 ? Major::k : Major::mn;
    c.b_major = random() % 2 == 0 ? Major::k : Major::mn;
    c.promotes = random() % 2 == 0;
    if (random() % 2 == 0) c.epilogue.scale_a = c.epilogue.scale_b = ScaleMode::block;
    c.scale_a_columns = is_block_scaled(c.epilogue) && random() % 2 == 0;
    if (c.scale_a_columns && random() % 2 == 0) c.epilogue.scale_b = ScaleMode::vector128;
    const ScaleMode modes[] = {ScaleMode::none, ScaleMode::tensor, ScaleMode::vector};
    if (!is_block_scaled(c.epilogue))
      c.epilogue.scale_a = modes[random() % 3], c.epilogue.scale_b = modes[random() % 3];
    c.store = random() % 2 == 0 ? StorePath::tma : StorePath::direct;
    if (random() % 4 == 0) c.d_major = Major::mn;
    if (validate(c) == nullptr) configs.push_back(c);
  }
  return configs;
}

TEST(spec_smem_layout, blocks_are_disjoint_aligned_and_fill_what_smem_bytes_says) {
  for (const KernelConfig& c : many_configs()) {
    std::vector<Block> blocks = blocks_of(c);
    std::stable_sort(blocks.begin(), blocks.end(),
                     [](const Block& x, const Block& y) { return x.begin < y.begin; });
    int end = 0;
    for (const Block& block : blocks) {
      ASSERT_EQ(block.begin, end) << short_name(c);  // blocks neither overlap nor leave gaps
      ASSERT_EQ(block.begin % block.alignment, 0) << short_name(c);
      end = block.begin + block.bytes;
    }
    ASSERT_EQ(end, smem_bytes(c)) << short_name(c);
    ASSERT_LE(end, kMaxSmemBytes) << short_name(c);
  }
}

TEST(spec_smem_layout, barriers_have_numbers_of_their_own) {
  for (const KernelConfig& c : many_configs()) {
    std::vector<int> numbers;
    for (int stage = 0; stage < c.stages; ++stage) numbers.push_back(full_barrier(c, stage));
    for (int stage = 0; stage < c.stages; ++stage) numbers.push_back(empty_barrier(c, stage));
    for (int group = 0; group < kMathGroups; ++group) numbers.push_back(turn_barrier(c, group));
    for (int group = 0; c.cluster.k > 1 && group < kMathGroups; ++group) {
      numbers.push_back(sums_full_barrier(c, group));
      numbers.push_back(sums_empty_barrier(c, group));
    }
    std::sort(numbers.begin(), numbers.end());
    ASSERT_EQ(static_cast<int>(numbers.size()), barrier_count(c));
    for (int i = 0; i < barrier_count(c); ++i) ASSERT_EQ(numbers[i], i);
  }
}

TEST(spec_smem_layout, store_chunks_tile_the_row_in_swizzle_widths) {
  for (const KernelConfig& c : many_configs()) {
    if (c.store == StorePath::direct) continue;
    const int bytes = store_row_bytes(c);
    EXPECT_TRUE(bytes == 16 || bytes == 32 || bytes == 64 || bytes == 128) << short_name(c);
    EXPECT_EQ(own_columns(c) % store_columns(c), 0) << short_name(c);
    EXPECT_EQ((is_swapped(c) ? kWaveRows : store_columns(c)) * bytes_of(c.d), bytes) << short_name(c);
  }
}

TEST(spec_smem_layout, empty_arrivals_counts_every_reader_of_what_a_cta_loads) {
  for (const ClusterShape& cluster :
       {ClusterShape{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}, {4, 2}, {2, 4}, {8, 1}})
    for (const Schedule schedule : {Schedule::ping_pong, Schedule::cooperative}) {
      KernelConfig c;
      c.schedule = schedule;
      c.tile = {128, 128, 64};
      c.cluster = cluster;
      const int ctas = cluster_size(c);
      std::vector<int> arrivals(ctas, 0);
      for (int reader = 0; reader < ctas; ++reader) {
        int a_slices = 0, b_slices = 0;
        for (int loader = 0; loader < ctas; ++loader) {
          // The loader multicasts slices of A along its row of the cluster, slices of B along its column.
          const bool gives_a = loader % cluster.m == reader % cluster.m;
          const bool gives_b = loader / cluster.m == reader / cluster.m;
          a_slices += gives_a;
          b_slices += gives_b;
          // Each warp that read a stage arrives at the CTAs that will write to it.
          if (gives_a || gives_b) arrivals[loader] += stage_readers(c) * kMathWarps;
        }
        // The slices from all loaders fill the whole stage, so the full barrier expects stage_bytes.
        EXPECT_EQ(a_slices * (stage_a_bytes(c) / cluster.n), stage_a_bytes(c));
        EXPECT_EQ(b_slices * (stage_b_bytes(c) / cluster.m), stage_b_bytes(c));
      }
      for (const int count : arrivals)
        EXPECT_EQ(count, empty_arrivals(c)) << cluster.m << "x" << cluster.n << " " << name_of(schedule);
      EXPECT_EQ(stage_readers(c), schedule == Schedule::ping_pong ? 1 : 2);
    }
}

TEST(spec_smem_layout, registers_of_all_warpgroups_fit_in_an_sm) {
  for (const KernelConfig& c : many_configs()) {
    EXPECT_LE(load_registers(c) + kMathGroups * math_registers(c), (1 + kMathGroups) * kLaunchRegisters);
    EXPECT_GE(math_registers(c), accumulator_registers(c) + 24) << short_name(c);
    EXPECT_EQ(load_registers(c) % 8 + math_registers(c) % 8, 0);  // setmaxnreg requires multiples of 8
  }
}

}  // namespace
}  // namespace sluice
