// SPDX-License-Identifier: Apache-2.0
// The kernel that sorts slots by expert, on simulated threads, must equal a stable sort. Random cases run in
// random layouts of one to eight CTAs. Shared memory and outputs are poisoned and have guards. Bugs planted
// in the steps of a warp and in the exchange of CTAs must be found. To see the kernel itself fail: leave out
// clear(), `fits`, the exclusive part of sum_before(), or a barrier (sync_warp() cannot be missed here). The
// units compile.
#include <gtest/gtest.h>

#include <sluice/plan/text/expert_units.h>
#include <sluice/run/jit/compiler.h>
#include <sluice/spec/groups.h>

#include "route_cases.h"
#include "simulated_grid.h"
//
#include <sluice/kernels/route.cuh>

namespace sluice {
namespace {

using testing::RouteCase;
using testing::RouteDice;

constexpr int kPoison = 0x5a5a5a5a;

/// A bug to plant.
enum class Bug { none, blind_match, own_lane, lost_warps, cut_ids, deaf_team, late_lane };

/// Memory of one simulated launch.
struct Simulated {
  std::vector<u32> shared;     // belongs to each CTA in turn
  std::vector<u32> exchanged;  // holds by slot what CTAs have put
  u32 ctas = 1;
};
Simulated simulated;

/// A CTA of a cluster. CTAs run one after the other, so a launch runs twice: the second time, each finds what
/// all put the first time.
template <u32 kSlots>
struct HostTeam {
  struct Shared {};
  u32 ctas = simulated.ctas, rank = blockIdx.x;
  explicit HostTeam(Shared&) {}
  void begin() const {}
  void put_own(u32 slot, u32 value) { simulated.exchanged.at(slot) = value; }
  const u32* meet(u32 words) {
    EXPECT_LE(words, kSlots);
    __syncthreads();
    return simulated.exchanged.data();
  }
};

template <Bug kBug>
struct HostArith {
  template <u32 kSlots, u32>
  using Team = HostTeam<kSlots>;

  static u32* memory() { return simulated.shared.data(); }
  template <bool kWide>
  static i64 load_id(const void* base, i64 index, bool inside) {
    if (!inside) return 0;
    if constexpr (!kWide) return static_cast<const int*>(base)[index];
    const i64 id = static_cast<const i64*>(base)[index];
    return kBug == Bug::cut_ids ? static_cast<int>(id) : id;
  }

  /// Gives `use` the values of all lanes.
  template <class Use>
  static u32 of_lanes(u32 value, const Use& use) {
    simulated_grid::Block& block = *simulated_grid::block;
    const unsigned me = threadIdx.x, first = me / 32 * 32;
    block.exchanged[me] = value;
    block.warps[me / 32].wait(32);
    const u32 result = use(block.exchanged + first);
    block.warps[me / 32].wait(32);
    return result;
  }
  static u32 lanes_with(u32 value) {
    return of_lanes(value, [&](const double* all) {
      u32 same = 0;
      for (u32 lane = 0; lane < 32; ++lane) same |= u32{all[lane] == value} << lane;
      return kBug == Bug::blind_match ? 1u << threadIdx.x % 32 : same;
    });
  }
  static u32 from_lane(u32 value, u32 lane) {
    if (kBug == Bug::late_lane) lane = (lane + 1) % 32;
    return of_lanes(value, [&](const double* all) {
      return kBug == Bug::own_lane ? value : static_cast<u32>(all[lane]);
    });
  }
  static u32 sum_of_warp(u32 value) {
    return of_lanes(value, [&](const double* all) {
      double sum = 0;
      for (u32 lane = 0; lane < 32; ++lane) sum += all[lane];
      return kBug == Bug::lost_warps ? 0 : static_cast<u32>(sum);
    });
  }
  static void sync_warp() { simulated_grid::block->warps[threadIdx.x / 32].wait(32); }
  static u32 lowest(u32 bits) { return static_cast<u32>(__builtin_ctz(bits)); }
  static u32 ones(u32 bits) { return static_cast<u32>(__builtin_popcount(bits)); }
  static void warm(const WarmRange& range, u32, u32) { EXPECT_EQ(range.bytes, 0); }
};

/// An array with guards at both ends.
class Guarded {
 public:
  explicit Guarded(i64 count) : all_(static_cast<std::size_t>(count) + 2 * kGuard, kPoison) {}
  int* data() { return all_.data() + kGuard; }
  std::vector<int> values() const { return {all_.begin() + kGuard, all_.end() - kGuard}; }
  bool intact() const {
    return std::count(all_.begin(), all_.begin() + kGuard, kPoison) == kGuard &&
           std::count(all_.end() - kGuard, all_.end(), kPoison) == kGuard;
  }

 private:
  static constexpr int kGuard = 64;
  std::vector<int> all_;
};

/// Runs the case in a layout. Returns false if memory outside of the arrays changed.
template <Bug kBug>
bool route(const RouteCase& c, const RouteLayout& layout, const std::vector<u8>& ids, Routed& routed) {
  const RouteShape& s = c.shape;
  const auto words = static_cast<std::size_t>(route_words(layout.threads, s.experts));
  simulated.ctas = layout.ctas;
  simulated.exchanged.assign(layout.ctas * static_cast<std::size_t>(s.experts), 0);
  bool intact = true;
  for (int turn = layout.ctas > 1 && kBug != Bug::deaf_team ? 0 : 1; turn < 2; ++turn) {
    Guarded ends(s.experts), rows(s.tokens * s.chosen), tokens(s.rows);
    const RouteParams params{.ids = ids.data(),
                             .ends = ends.data(),
                             .row_of_slot = rows.data(),
                             .token_of_row = tokens.data(),
                             .ids_ld = s.ids_ld,
                             .slots = static_cast<i32>(s.tokens * s.chosen),
                             .chosen = static_cast<i32>(s.chosen),
                             .experts = static_cast<i32>(s.experts),
                             .pitch = static_cast<i32>(s.pitch),
                             .rows = static_cast<i32>(s.rows),
                             .rounds = layout.rounds,
                             .working_threads = layout.threads,
                             .hand_off = {}};
    simulated.shared.assign(words + 16, kPoison);
    const auto run = [&] {
      c.wide ? route::run<RouteConfig{.wide = true}, HostArith<kBug>>(params)
             : route::run<RouteConfig{.wide = false}, HostArith<kBug>>(params);
    };
    static std::minstd_rand pace(1);
    simulated_grid::pace = &pace;
    simulated_grid::launch(layout.ctas, run, layout.threads);
    simulated_grid::pace = nullptr;
    intact = intact && ends.intact() && rows.intact() && tokens.intact() &&
             std::count(simulated.shared.end() - 16, simulated.shared.end(), u32{kPoison}) == 16;
    routed = {ends.values(), rows.values(), tokens.values()};
  }
  return intact;
}

/// A layout that the launch might choose for other limits: at most 256 threads, which simulated blocks have.
RouteLayout drawn_layout(RouteDice& dice, const RouteShape& s) {
  const i64 least = (s.experts + 31) / 32;
  const i64 threads = 32 * dice.between(least, std::min<i64>(8, least + 3));
  const i64 ctas = i64{1} << dice.between(0, 3);
  const i64 rounds = std::max<i64>(1, ceil_div(s.tokens * s.chosen, ctas * threads)) + dice.between(0, 1);
  return {static_cast<u32>(ctas), static_cast<u32>(threads), static_cast<i32>(rounds)};
}

template <Bug kBug>
int wrong_of(int cases, unsigned seed) {
  RouteDice dice(seed);
  int wrong = 0;
  for (int i = 0; i < cases; ++i) {
    const RouteCase c = dice.draw(dice.one_in(8) ? 256 : 40, dice.one_in(10) ? 300 : 40);
    const std::vector<u8> ids = c.bytes();
    Routed routed;
    const bool intact = route<kBug>(c, drawn_layout(dice, c.shape), ids, routed);
    const bool same = routed == c.wanted(ids);
    wrong += intact && same ? 0 : 1;
    if (kBug != Bug::none) continue;
    EXPECT_TRUE(intact && same) << "case " << i << ": " << c.shape.tokens << "x" << c.shape.chosen << " to "
                                << c.shape.experts << ", " << c.shape.rows << " rows by " << c.shape.pitch;
    if (wrong > 3) break;
  }
  return wrong;
}

TEST(route_kernel, is_a_stable_sort_in_random_cases) {
  EXPECT_EQ(wrong_of<Bug::none>(1200, 1), 0);
}

TEST(route_kernel, of_planted_bugs_is_found_out) {
  EXPECT_GT(wrong_of<Bug::blind_match>(60, 2), 0);
  EXPECT_GT(wrong_of<Bug::own_lane>(60, 3), 0);
  EXPECT_GT(wrong_of<Bug::late_lane>(60, 4), 0);
  EXPECT_GT(wrong_of<Bug::lost_warps>(60, 5), 0);
  EXPECT_GT(wrong_of<Bug::cut_ids>(200, 6), 0);
  EXPECT_GT(wrong_of<Bug::deaf_team>(60, 7), 0);
}

/// Products read `ends` by spec/groups.h; rows of a group are then the rows with its tokens.
TEST(route_kernel, gives_ends_that_products_of_groups_read_as_it_means_them) {
  RouteDice dice(8);
  for (int i = 0; i < 2000; ++i) {
    const RouteCase c = dice.draw(60, 60);
    const std::vector<u8> ids = c.bytes();
    const Routed routed = c.wanted(ids);
    std::vector<bool> in_group(static_cast<std::size_t>(c.shape.rows));
    int before = 0;
    for (i64 g = 0; g < c.shape.experts; ++g) {
      const int end = routed.ends[static_cast<std::size_t>(g)];
      const GroupRows rows = group_rows_of(GroupKind::ends, static_cast<int>(c.shape.pitch),
                                           static_cast<int>(c.shape.rows), static_cast<int>(g), end, before);
      for (int row = rows.begin; row < rows.end; ++row) in_group[static_cast<std::size_t>(row)] = true;
      before = std::max(before, end);
    }
    for (std::size_t row = 0; row < in_group.size(); ++row)
      ASSERT_EQ(in_group[row], routed.token_of_row[row] >= 0) << "case " << i << ", row " << row;
  }
}

TEST(route_kernel, has_layouts_that_cover_all_slots_in_one_cluster) {
  for (const i64 experts : {1, 8, 33, 256, 1024})
    for (i64 slots = 0; slots < kMostSlots; slots = slots * 5 / 4 + 1) {
      const RouteLayout layout = route_layout(slots, experts);
      ASSERT_GE(i64{layout.ctas} * layout.threads * layout.rounds, slots);
      ASSERT_GE(layout.threads, experts);
      ASSERT_LE(layout.threads, u32{kMaxRouteThreads});
      ASSERT_LE(layout.ctas, kMaxRowTeam);
      ASSERT_LT(i64{layout.ctas} * layout.threads * layout.rounds + 32, i64{1} << 31) << "slots are u32";
    }
  EXPECT_EQ(route_layout(4096, 256).ctas, 1u);
  EXPECT_EQ(route_layout(32768, 256).rounds, kRouteHeld);
  EXPECT_EQ(route_layout(8, 64).threads, 64u);
}

TEST(expert_units, compile_for_hopper_without_spills_or_warnings) {
  const auto compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  std::vector<std::string> units;
  for (const Overlap overlap :
       {Overlap{}, Overlap{Wait::first, Trigger::at_start}, Overlap{Wait::first, Trigger::after_loads},
        Overlap{Wait::first, Trigger::at_start, Spacing::registers}}) {
    for (const bool wide : {false, true}) units.push_back(route_unit_text({wide, overlap}));
    for (const DType type : {DType::bf16, DType::fp16})
      for (const std::string& unit : combine_units(type, overlap)) units.push_back(unit);
  }
  for (const std::string& unit : units) {
    const auto cubin = (*compiler)->compile(unit);
    ASSERT_TRUE(cubin) << cubin.error().message;
    EXPECT_EQ(cubin->report.spill_bytes + cubin->report.stack_bytes, 0)
        << unit << cubin->report.registers << " registers";
    EXPECT_EQ(cubin->report.log, "") << unit;
    const bool routes = unit.find("RouteParams") != std::string::npos;
    EXPECT_LE(cubin->report.registers, routes ? 64 : 128) << unit;
    RecordProperty("registers", cubin->report.registers);
  }
}

}  // namespace
}  // namespace sluice
