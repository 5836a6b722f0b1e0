// SPDX-License-Identifier: Apache-2.0
#include "kernel_changes.h"

#include <vector>

namespace sluice::testing {
namespace {

constexpr const char* kMachine = "sluice/device/machine.cuh";
constexpr const char* kGemm = "sluice/kernels/gemm.cuh";
constexpr const char* kLayout = "sluice/spec/smem_layout.h";
constexpr const char* kWarpSums = "sluice/device/epilogue/warp_sums.cuh";
/// The place where the warps of a CTA wait for each other's partial sums, in plain and in narrow kernels.
constexpr const char *kSumsMeet = "    write(sums, factors);\n    __syncthreads();\n",
                     *kSumsAlone = "    write(sums, factors);\n";

/// Makes each lane that read block scales arrive at the mbarrier itself.
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

/// Makes each lane that wrote block scales or strided operands arrive at the mbarrier itself.
std::vector<Edit> every_writer_arrives() {
  return {{kLayout, "return is_block_scaled(c.epilogue) ? 1 + kScaleWarps : 1;",
           "return is_block_scaled(c.epilogue) ? 1 + 32 * kScaleWarps : 1;"},
          {kLayout, "if (loads_strided(c)) return 1 + kStridedWarps;",
           "if (loads_strided(c)) return 1 + 32 * kStridedWarps;"},
          {kMachine, "    __syncwarp();\n    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(full(stage));\n",
           "    ptx::mbarrier_arrive(full(stage));\n"}};
}

/// Makes each lane that used shared memory guarded by an mbarrier arrive there itself. In the real kernels
/// one lane arrives for its warp, after a __syncwarp. racecheck only orders threads that arrive themselves,
/// so it would report false races (docs/findings/races.md).
std::vector<Edit> every_lane_arrives() {
  std::vector<Edit> edits = every_reader_arrives();
  for (const Edit& edit : every_writer_arrives()) edits.push_back(edit);
  const std::string packed = "sluice/device/packed/";
  for (const auto& [file, barrier] : {std::pair{"half_products.cuh", "ring_.empty(turn)"},
                                      {"byte_products.cuh", "at_.empty(stage)"},
                                      {"wide_products.cuh", "at_.w_empty(stage)"}}) {
    const std::string arrive = std::string("ptx::mbarrier_arrive(") + barrier + ");\n";
    edits.push_back(
        {packed + file, "    __syncwarp();\n    if (at_.lane() == 0) " + arrive, "    " + arrive});
  }
  edits.push_back(
      {packed + "strip_loads.cuh", "at.empty(i), 4 * S::kStrips)", "at.empty(i), 128 * S::kStrips)"});
  edits.push_back(
      {packed + "wide_loads.cuh", "at.w_empty(i), 4 * kWideGroups)", "at.w_empty(i), 128 * kWideGroups)"});
  return edits;
}

/// Adds named barriers of the CTA next to the mbarriers.
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

/// An offset beyond every allocation. Memory just after an operand may belong to another one.
constexpr const char* kFar = " + (i64{1} << 33)";

std::vector<Change> sound_variants() {
  return {{"nothing", "", "", {}},  // only adds line information, for the tools' messages
          {"every_reader_arrives", "", "block", every_reader_arrives()},
          {"every_writer_arrives", "", "block", every_writer_arrives()},
          {"every_lane_arrives", "", "block strided strip wide", every_lane_arrives()},
          {"named_barriers_too", "", "block", named_barriers_too()},
          // If racecheck still reports a race, it is the tool's own: docs/findings/races.md.
          {"sums_meet_twice",
           "",
           "plain_wgmma",
           {{kWarpSums, kSumsMeet, std::string(kSumsMeet) + "    __syncthreads();\n"}}}};
}

/// Bugs: each removes one barrier between ordinary accesses to shared memory. The kernels also have
/// every_lane_arrives(), so that racecheck reports only the bug.
std::vector<Change> races() {
  std::vector<Change> all = {
      {"scales_written_too_early",
       "racecheck",
       "block",
       {{kGemm,
         "      machine.wait_empty(ring.stage, ring.phase ^ kFreshBarrier);\n"
         "      machine.write_scales(ring.stage, k_tile);\n",
         "      machine.write_scales(ring.stage, k_tile);\n"}}},
      {"vectors_used_before_all_came",
       "racecheck",
       "dense",
       {{kMachine, "    if constexpr (kStagesVectors) group_sync();  // all threads have arrived\n", ""}}},
      {"vectors_staged_before_all_were_read",
       "racecheck",
       "dense",
       {{kMachine,
         "    if constexpr (kStagesVectors) group_sync();  // all threads have read their vectors\n", ""}}},
      {"vectors_of_filters_used_before_all_came",
       "racecheck",
       "conv_vectors",
       {{kMachine, "bulk_wait_group_read<kStoreBuffers - 1>();\n    group_sync();\n",
         "bulk_wait_group_read<kStoreBuffers - 1>();\n"}}},
      {"sums_added_before_all_are_there", "racecheck", "narrow", {{kWarpSums, kSumsMeet, kSumsAlone}}},
      {"plain_sums_added_before_all_are_there", "racecheck", "plain", {{kWarpSums, kSumsMeet, kSumsAlone}}},
      {"team_sums_added_before_all_are_there",
       "racecheck",
       "plain_wgmma",
       {{kWarpSums, kSumsMeet, kSumsAlone}}},
      {"strips_added_before_all_are_there",
       "racecheck",
       "strip",
       {{"sluice/kernels/strip.cuh", "    ptx::named_barrier_sync(kLeft, S::kMathThreads);\n", ""}}},
      {"row_read_before_all_put",
       "racecheck",
       "norm",
       {{"sluice/device/row_team.cuh", "      __syncthreads();\n    } else {\n", "    } else {\n"}}},
      {"codes_read_before_all_came",
       "racecheck",
       "pack",
       {{"sluice/kernels/pack.cuh", "    __syncthreads();\n    pack_codes(at);\n",
         "    pack_codes(at);\n"}}}};
  for (Change& change : all)
    for (const Edit& edit : every_lane_arrives()) change.edits.push_back(edit);
  // The writers of the scales do not arrive, and the readers do not wait for them.
  Change unannounced{"scales_read_before_they_came", "racecheck", "block", every_reader_arrives()};
  unannounced.edits.push_back(
      {kLayout, "return is_block_scaled(c.epilogue) ? 1 + kScaleWarps : 1;", "return 1;"});
  unannounced.edits.push_back(
      {kMachine, "    __syncwarp();\n    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(full(stage));\n",
       ""});
  all.push_back(std::move(unannounced));
  return all;
}

std::vector<Change> writes_past_the_end() {
  const Edit far{"sluice/device/epilogue/direct_store.cuh", "at.row * params.d_ld + at.column;",
                 std::string("at.row * params.d_ld + at.column") + kFar + ";"};
  return {{"d_stored_far_away", "memcheck", "dense", {far}},
          {"pixels_stored_far_away", "memcheck", "conv_sum_parts", {far}},
          {"outputs_stored_far_away",
           "memcheck",
           "narrow",
           {{"sluice/device/packed/outputs.cuh", "  const i64 index = token * params.ld_d + row;\n",
             std::string("  const i64 index = token * params.ld_d + row") + kFar + ";\n"}}},
          {"wide_outputs_stored_far_away",
           "memcheck",
           "wide_fp32",
           {{"sluice/device/packed/wide_finish.cuh",
             "float* d = static_cast<float*>(params_.d) + first_token * params_.ld_d + row;",
             std::string("float* d = static_cast<float*>(params_.d) + first_token * params_.ld_d + row") +
                 kFar + ";"}}},
          {"codes_stored_far_away",
           "memcheck",
           "quantise",
           {{"sluice/kernels/quantize.cuh", "    u8* target = p.output + row * p.output_ld + column;\n",
             std::string("    u8* target = p.output + row * p.output_ld + column") + kFar + ";\n"}}},
          {"normed_stored_far_away",
           "memcheck",
           "norm",
           {{"sluice/kernels/norm.cuh", "index = row * p.output_ld + at;",
             std::string("index = row * p.output_ld + at") + kFar + ";"}}}};
}

/// Bugs of strided loads, which may read up to 16 bytes past both ends of an operand, but not more.
std::vector<Change> reads_past_the_end() {
  return {{"strided_read_far_away",
           "memcheck",
           "strided",
           {{"sluice/device/load/strided.cuh", "      const u64 first = address & ~u64{15};\n",
             "      const u64 first = (address & ~u64{15}) + (u64{1} << 34);\n"}}}};
}

std::vector<Change> reads_of_what_nobody_wrote() {
  const Edit unwritten{"sluice/device/epilogue/partial_slot.cuh",
                       "        ptx::store_global(slot + (wave * kVectors + v) * kVectorFloats, {from[0], "
                       "from[1], from[2], from[3]});\n",
                       ""};
  return {{"parts_not_written", "initcheck", "split", {unwritten}},
          {"parts_not_written_for_the_sum", "initcheck", "sum_parts", {unwritten}},
          {"parts_of_filters_not_written", "initcheck", "conv_split", {unwritten}},
          {"scales_not_packed",
           "initcheck",
           "narrow",
           {{"sluice/kernels/pack.cuh", "Memory::store(to, *reinterpret_cast<const uint4*>(shared));", ""}}}};
}

std::vector<Change> wrong_masks() {
  constexpr const char* kHalf = "__syncwarp(0x0000ffffu);";
  const Edit start{kMachine, "      ptx::fence_mbarrier_init();\n    }\n    __syncwarp();\n",
                   std::string("      ptx::fence_mbarrier_init();\n    }\n    ") + kHalf + "\n"};
  return {{"start_syncs_half_a_warp", "synccheck", "dense", {start}},
          {"gather_starts_with_half_a_warp", "synccheck", "conv", {start}},
          {"ring_syncs_half_a_warp",
           "synccheck",
           "narrow",
           {{"sluice/device/warp_ring.cuh", "[] { __syncwarp(); }", std::string("[] { ") + kHalf + " }"}}},
          {"row_syncs_half_a_warp",
           "synccheck",
           "norm",
           {{"sluice/device/row_team.cuh", "      __syncthreads();\n    } else {\n",
             std::string("      ") + kHalf + "\n      __syncthreads();\n    } else {\n"}}}};
}

const std::vector<Change>& changes() {
  static const std::vector<Change> kAll = [] {
    std::vector<Change> all;
    for (const auto& some : {sound_variants(), races(), writes_past_the_end(), reads_past_the_end(),
                             reads_of_what_nobody_wrote(), wrong_masks()})
      all.insert(all.end(), some.begin(), some.end());
    return all;
  }();
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
