// SPDX-License-Identifier: Apache-2.0
// Config, parameters and thread layout of the kernel that sorts slots by expert: plain values, read by g++
// and by NVRTC. A slot is one chosen expert of one token: slot = token * chosen + j. run/ops/experts/route.cc
// writes them; kernels/route.cuh does the work.
#pragma once

#include <sluice/spec/groups.h>
#include <sluice/spec/overlap.h>
#include <sluice/spec/row_team.h>

namespace sluice {

struct RouteConfig {
  bool wide = false;  // ids are int64, else int32
  Overlap overlap{};  // there are no weights: weights_first is the same as first

  constexpr bool operator==(const RouteConfig&) const = default;
};

inline constexpr int kMostChosen = 32;           // experts of a token
inline constexpr int kMostRoutePitch = 1 << 16;  // with kMostSlots it keeps all rows below 2^31
inline constexpr i64 kMostSlots = i64{1} << 30;
inline constexpr int kMaxRouteThreads = 1024;  // one for each expert in the scan
inline constexpr int kRouteHeld = 4;           // slots of a thread whose experts stay in registers
inline constexpr int kRouteWarps = kMaxRouteThreads / 32;
inline constexpr u32 kRouteWords = kMaxRowTeam * kMostGroups;  // counts that a team of CTAs exchanges
static_assert(kMostGroups <= kMaxRouteThreads, "a thread scans one expert");

/// How slots are spread over threads. A warp takes `rounds` times 32 slots that follow each other; warps and
/// CTAs follow each other too, so that slots keep their order.
struct RouteLayout {
  u32 ctas = 1;      // a cluster, which is the whole grid
  u32 threads = 32;  // per CTA; at least one for each expert
  i32 rounds = 1;
};

/// One CTA while a thread has at most kRouteHeld slots, then a cluster of up to eight.
SLUICE_HD constexpr RouteLayout route_layout(i64 slots, i64 experts) {
  const i64 wanted = slots > experts ? slots : experts;
  const i64 threads = wanted < kMaxRouteThreads ? ceil_div(wanted, i64{32}) * 32 : i64{kMaxRouteThreads};
  u32 ctas = 1;
  while (ctas < kMaxRowTeam && slots > ctas * threads * kRouteHeld) ctas *= 2;
  const i64 rounds = ceil_div(slots, ctas * threads);
  return {ctas, static_cast<u32>(threads), rounds < 1 ? 1 : static_cast<i32>(rounds)};
}

/// Words of shared memory: counts of each warp, first row and end of each expert, and a sum of each warp.
SLUICE_HD constexpr i64 route_words(i64 threads, i64 experts) {
  return (threads / 32 + 2) * experts + kRouteWarps;
}

struct RouteParams {
  const void* ids;    // int32 or int64 [tokens][chosen], rows ids_ld apart
  i32* ends;          // [experts]
  i32* row_of_slot;   // [slots]
  i32* token_of_row;  // [rows]
  i64 ids_ld;
  i32 slots, chosen, experts, pitch, rows, rounds;
  u32 working_threads;  // threads per CTA that work; a launch may add warps that exit at once
  WarmRange hand_off;   // range to prefetch into L2 before the PDL wait
};

}  // namespace sluice
