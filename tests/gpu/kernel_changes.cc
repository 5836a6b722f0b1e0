// SPDX-License-Identifier: Apache-2.0
#include "kernel_changes.h"

#include <vector>

namespace sluice::testing {
namespace {

constexpr const char* kMachine = "sluice/device/machine.cuh";
constexpr const char* kGemm = "sluice/kernels/gemm.cuh";
constexpr const char* kLayout = "sluice/spec/smem_layout.h";

/// Every lane that has read block scales says so itself.
std::vector<Edit> every_reader_arrives() {
  return {{kLayout, "return (c.cluster.m + c.cluster.n - 1) * stage_readers(c) * kMathWarps;",
           "return (c.cluster.m + c.cluster.n - 1) * stage_readers(c) * kMathWarps * "
           "(is_block_scaled(c.epilogue) ? 32 : 1);"},
          {kMachine, "    if constexpr (kBlockScaled) __syncwarp();  // all lanes have read their scales\n",
           "    if constexpr (kBlockScaled) {\n"
           "      constexpr int kRows = kConfig.cluster.m, kColumns = kConfig.cluster.n;\n"
           "      const int row = cta_rank_ % kRows, column = cta_rank_ / kRows;\n"
           "      for (int i = 0; i < kRows + kColumns - 1; ++i) {\n"
           "        const int other = i - kRows + (i - kRows >= column ? 1 : 0);\n"
           "        const int target = i < kRows ? column * kRows + i : other * kRows + row;\n"
           "        if constexpr (multicasts(kConfig)) ptx::mbarrier_arrive_cluster(empty(stage), target);\n"
           "        else ptx::mbarrier_arrive(empty(stage));\n"
           "      }\n"
           "      return;\n"
           "    }\n"}};
}

/// Every lane that has written some says so itself.
std::vector<Edit> every_writer_arrives() {
  return {
      {kLayout, "return is_block_scaled(c.epilogue) ? 1 + kScaleWarps : 1;",
       "return is_block_scaled(c.epilogue) ? 1 + 32 * kScaleWarps : 1;"},
      {kMachine, "    __syncwarp();\n    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(full(stage));\n",
       "    ptx::mbarrier_arrive(full(stage));\n"}};
}

std::vector<Edit> both_arrive() {
  std::vector<Edit> edits = every_reader_arrives();
  for (const Edit& edit : every_writer_arrives()) edits.push_back(edit);
  return edits;
}

/// Beside the barriers in shared memory, those that a CTA has in hardware.
std::vector<Edit> named_barriers_too() {
  const std::string meet =
      "constexpr int kMeeting = (kConfig.schedule == Schedule::cooperative ? 2 : 1) * kWarpgroupThreads + "
      "32 * kScaleWarps;\n";
  return {{kMachine, "    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(full(stage));\n",
           "    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(full(stage));\n    " + meet +
               "    ptx::named_barrier_sync(4, kMeeting);\n    ptx::named_barrier_sync(5, kMeeting);\n"},
          {kMachine, "    if constexpr (kBlockScaled) scales_.read(scale_slot(stage), fragment_row());\n",
           "    if constexpr (kBlockScaled) {\n      " + meet +
               "      ptx::named_barrier_sync(4, kMeeting);\n"
               "      scales_.read(scale_slot(stage), fragment_row());\n"
               "      ptx::named_barrier_sync(5, kMeeting);\n    }\n"}};
}

const std::vector<Change>& changes() {
  static const std::vector<Change> kAll = {
      {"nothing", {}},
      // Sound variants of the block-scaled kernels (docs/findings/races.md).
      {"every_reader_arrives", every_reader_arrives()},
      {"every_writer_arrives", every_writer_arrives()},
      {"both_arrive", both_arrive()},
      {"named_barriers_too", named_barriers_too()},
      // Bugs, for racecheck.
      {"scales_not_read_by_all",
       {{kMachine, "    if constexpr (kBlockScaled) __syncwarp();  // all lanes have read their scales\n", ""}}},
      {"scales_written_too_early",
       {{kGemm,
         "      machine.wait_empty(ring.stage, ring.phase ^ kFreshBarrier);\n      machine.write_scales(ring.stage, "
         "k_tile);\n",
         "      machine.write_scales(ring.stage, k_tile);\n"}}},
      {"scales_not_written_by_all",
       {{kMachine, "    __syncwarp();\n    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(full(stage));\n",
         "    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(full(stage));\n"}}},
      {"vectors_used_before_all_came",
       {{kMachine, "    if constexpr (kStagesVectors) group_sync();  // all have come\n", ""}}},
      {"vectors_staged_before_all_were_read",
       {{kMachine, "    if constexpr (kStagesVectors) group_sync();  // all have read theirs\n", ""}}},
      {"chunk_stored_before_all_wrote",
       {{kMachine, "    ptx::fence_proxy_async();\n    group_sync();\n", "    ptx::fence_proxy_async();\n"}}},
      {"chunk_written_before_it_was_stored",
       {{kMachine,
         "    if (group_thread() == 0) ptx::bulk_wait_group_read<kStoreBuffers - 1>();\n    group_sync();\n", ""}}},
  };
  return kAll;
}

}  // namespace

std::span<const Change> kernel_changes() {
  return changes();
}

const Change* find_change(std::string_view name) {
  for (const Change& change : changes())
    if (change.name == name) return &change;
  return nullptr;
}

}  // namespace sluice::testing
