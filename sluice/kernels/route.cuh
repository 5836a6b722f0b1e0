// SPDX-License-Identifier: Apache-2.0
// Sorts slots by expert, stably: rows of one expert are in the order of their slots. It counts, scans, and
// places, in one launch of one CTA or one cluster. Results do not depend on how slots are spread.
//
// | step   | who                                 | does                                                 |
// | clear  | all threads                         | counts of the CTA's warps = 0                        |
// | count  | each warp, its 32 * rounds slots    | counts[warp][expert]                                 |
// | scan   | thread e, for expert e              | counts[warp][e] = slots of e in warps before;        |
// |        |                                     | starts[e], stops[e]: first row of this CTA, end      |
// | place  | each warp, the same slots           | row = starts[e] + counts[warp][e]++                  |
// | fill   | all threads                         | rows that hold no token = -1                         |
//
// Between the steps is a barrier of the CTA; in the scan the CTAs of a cluster exchange their counts. Lanes
// with equal experts find each other by a match, and the lowest of them alone touches the count, so nothing
// is atomic. Any id and any capacity is safe: an id outside [0, experts) has no row, and no row at or beyond
// `rows` is written.
//
// In a chain of dependent launches (spec/overlap.h) the order is: trigger, L2 prefetch, clear, PDL wait, then
// everything else. `Arith` implements the steps on the GPU (route_entry.cuh) or in a test
// (tests/unit/route_kernel_test.cc).
#pragma once

#include <sluice/spec/route.h>

namespace sluice::route {

inline constexpr u32 kNoExpert = ~0u;

template <RouteConfig kConfig, class Arith>
struct Route {
  using Team = typename Arith::template Team<kRouteWords, 1>;

  const RouteParams& p;
  Team& team;
  const u32 experts;
  const u32 warps, warp, lane;  // warps of a CTA
  u32 *counts, *starts, *stops, *sums;

  SLUICE_DEVICE Route(const RouteParams& params, Team& shared_by, u32* memory)
      : p(params),
        team(shared_by),
        experts(static_cast<u32>(params.experts)),
        warps(params.working_threads / 32),
        warp(threadIdx.x / 32),
        lane(threadIdx.x % 32),
        counts(memory),
        starts(memory + warps * experts),
        stops(starts + experts),
        sums(stops + experts) {}

  SLUICE_DEVICE u32 slots_of_warp() const { return 32 * static_cast<u32>(p.rounds); }
  SLUICE_DEVICE u32 slot(int round) const {
    return (team.rank * warps + warp) * slots_of_warp() + 32 * static_cast<u32>(round) + lane;
  }
  /// Warps of this CTA that have slots: the first ones.
  SLUICE_DEVICE u32 busy_warps() const {
    const u32 slots = static_cast<u32>(p.slots), first = team.rank * warps * slots_of_warp();
    if (slots <= first) return 0;
    const u32 busy = (slots - first + slots_of_warp() - 1) / slots_of_warp();
    return busy < warps ? busy : warps;
  }

  /// Loads the expert of the warp's slot in a round. Returns kNoExpert behind the warp's rounds, behind the
  /// last slot, and for an id outside [0, experts). It has no branch, so several loads are in flight
  /// together.
  SLUICE_DEVICE u32 expert_of(int round) const {
    const u32 at = slot(round), chosen = static_cast<u32>(p.chosen), token = at / chosen;
    const bool inside = round < p.rounds && at < static_cast<u32>(p.slots);
    const u64 id = static_cast<u64>(
        Arith::template load_id<kConfig.wide>(p.ids, token * p.ids_ld + (at - token * chosen), inside));
    return inside && id < experts ? static_cast<u32>(id) : kNoExpert;
  }

  /// The count of `expert` in this warp in front of this lane, which it then includes. Call from a whole
  /// warp.
  SLUICE_DEVICE u32 take(u32 expert) const {
    const u32 same = Arith::lanes_with(expert);
    const u32 first = Arith::lowest(same);
    u32 before = 0;
    if (lane == first && expert != kNoExpert) {
      u32& count = counts[warp * experts + expert];
      before = count;
      count = before + Arith::ones(same);
    }
    Arith::sync_warp();  // another lane may touch the count in the next round
    return Arith::from_lane(before, first) + Arith::ones(same & ((1u << lane) - 1));
  }

  SLUICE_DEVICE void clear() const {
    const u32 words = busy_warps() * experts;
    for (u32 i = threadIdx.x; i < words; i += p.working_threads) counts[i] = 0;
  }

  /// Call from each thread after it has issued the last load of its first pass; the second hits a cache.
  SLUICE_DEVICE static void loaded() {
    if constexpr (kConfig.overlap.trigger == Trigger::after_loads) Arith::launch_dependents();
  }

  SLUICE_DEVICE void fetch(u32 (&held)[kRouteHeld]) const {
#pragma unroll
    for (int i = 0; i < kRouteHeld; ++i) held[i] = expert_of(i);
  }
  SLUICE_DEVICE void count(const u32 (&held)[kRouteHeld]) const {
    if (warp < busy_warps()) {
#pragma unroll
      for (int i = 0; i < kRouteHeld; ++i)
        if (i < p.rounds) take(held[i]);
      for (int round = kRouteHeld; round < p.rounds; ++round) take(expert_of(round));
    }
    loaded();
  }

  /// The sum of `value` over all threads in front of this one. It has a barrier.
  SLUICE_DEVICE u32 sum_before(u32 value) const {
    u32 sum = value;
#pragma unroll
    for (u32 step = 1; step < 32; step *= 2) {
      const u32 other = Arith::from_lane(sum, lane >= step ? lane - step : lane);
      if (lane >= step) sum += other;
    }
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    return Arith::sum_of_warp(lane < warp ? sums[lane] : 0) + sum - value;
  }

  SLUICE_DEVICE void scan() const {
    constexpr u32 kTogether = 8;  // loads of counts that are in flight together
    const u32 expert = threadIdx.x, busy = busy_warps();
    u32 own = 0;
    for (u32 first = 0; first < busy && expert < experts; first += kTogether) {
      u32 more[kTogether];
#pragma unroll
      for (u32 i = 0; i < kTogether; ++i)
        more[i] = first + i < busy ? counts[(first + i) * experts + expert] : 0;
#pragma unroll
      for (u32 i = 0; i < kTogether; ++i) {
        if (first + i < busy) counts[(first + i) * experts + expert] = own;
        own += more[i];
      }
    }
    u32 total = own, before = 0;
    if (team.ctas > 1) {
      if (expert < experts) team.put_own(team.rank * experts + expert, own);
      const u32* all = team.meet(team.ctas * experts);
      total = 0;
      for (u32 cta = 0; cta < team.ctas && expert < experts; ++cta) {
        if (cta == team.rank) before = total;
        total += all[cta * experts + expert];
      }
    }
    const u32 pitch = static_cast<u32>(p.pitch);
    const u32 begin = sum_before((total + pitch - 1) / pitch * pitch);
    if (expert < experts) {
      starts[expert] = begin + before;
      stops[expert] = begin + total;
      if (team.rank == 0) p.ends[expert] = clipped(begin + total);
    }
  }
  SLUICE_DEVICE i32 clipped(u32 row) const {
    return min(static_cast<i32>(row), p.rows);
  }

  SLUICE_DEVICE void place_one(u32 at, u32 expert) const {
    const u32 before = take(expert);
    if (at >= static_cast<u32>(p.slots)) return;
    const u32 row = expert == kNoExpert ? kNoExpert : starts[expert] + before;
    const bool fits = row < static_cast<u32>(p.rows);
    p.row_of_slot[at] = fits ? static_cast<i32>(row) : -1;
    if (fits) p.token_of_row[row] = static_cast<i32>(at / static_cast<u32>(p.chosen));
  }
  SLUICE_DEVICE void place(const u32 (&held)[kRouteHeld]) const {
    if (warp >= busy_warps()) return;
#pragma unroll
    for (int i = 0; i < kRouteHeld; ++i)
      if (i < p.rounds) place_one(slot(i), held[i]);
    for (int round = kRouteHeld; round < p.rounds; ++round) place_one(slot(round), expert_of(round));
  }

  /// Marks the rows between an expert's end and the next one's first row, and those behind the last expert.
  SLUICE_DEVICE void fill() const {
    const u32 pitch = static_cast<u32>(p.pitch), last = experts - 1;
    if (pitch > 1)
      for (u32 expert = team.rank * warps + warp; expert < last; expert += team.ctas * warps) {
        const u32 stop = stops[expert], next = (stop + pitch - 1) / pitch * pitch;
        for (i32 row = static_cast<i32>(stop + lane); row < clipped(next); row += 32)
          p.token_of_row[row] = -1;
      }
    const u32 threads = p.working_threads;
    for (u32 row = stops[last] + team.rank * threads + threadIdx.x; row < static_cast<u32>(p.rows);
         row += team.ctas * threads)
      p.token_of_row[row] = -1;
  }
};

template <RouteConfig kConfig, class Arith>
SLUICE_DEVICE void run(const RouteParams& params) {
  if constexpr (kConfig.overlap.trigger == Trigger::at_start) Arith::launch_dependents();
  using Kernel = Route<kConfig, Arith>;
  __shared__ typename Kernel::Team::Shared exchange;
  typename Kernel::Team team(exchange);
  if (threadIdx.x == 0) Arith::warm(params.hand_off, blockIdx.x, gridDim.x);
  const Kernel route(params, team, Arith::memory());
  route.clear();
  team.begin();
  if constexpr (kConfig.overlap.wait != Wait::none) Arith::wait_for_prerequisites();
  u32 held[kRouteHeld];
  route.fetch(held);
  __syncthreads();
  route.count(held);
  __syncthreads();
  route.scan();
  __syncthreads();
  route.place(held);
  route.fill();
}

}  // namespace sluice::route
