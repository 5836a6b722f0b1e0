// SPDX-License-Identifier: Apache-2.0
// How a launch overlaps its neighbours in the stream (programmatic dependent launch). The value belongs to
// each kernel's config, because wait and trigger are instructions of the kernel. The contract:
// - Every CTA waits before it writes anything or exits.
// - Each thread that reads what an earlier launch wrote is ordered behind a wait. Before the wait it reads
//   only what no launch writes: weights, their scales, bias.
// - The launch before the previous one also counts as unfinished until the wait returns.
// - The host asks for a dependent launch only if the kernel's machine code contains the wait.
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

/// none: no wait; the launch begins when all earlier ones have ended. first: the launch may begin early, and
/// waits before its ring loads anything. weights_first: it fills its ring with weights, then waits. In both,
/// data that no launch writes (bias, gamma, scales of weights) may be read before the wait.
enum class Wait : u8 { none, first, weights_first };
/// When CTAs of the next dependent launch may begin, where there is room. never: after this launch has ended.
/// at_start: once all of its CTAs have begun. after_loads: once each of its CTAs has issued its last load.
enum class Trigger : u8 { never, at_start, after_loads };

/// How CTAs of a dependent launch are kept off SMs that have their share, while other SMs stand empty.
/// memory: each CTA of one wave asks for more than half of an SM's shared memory. registers: warps that exit
/// at once use up the register file. even: as memory, and where each SM has to take several CTAs, no more of
/// them fit (up to kMostEvenCtas). Two consecutive launches fit on an SM together only if they differ in
/// spacing (host/device/spread.h).
enum class Spacing : u8 { memory, registers, none, even };

inline constexpr int kMostEvenCtas = 6;  // a share of an SM; more keep apart well enough

inline constexpr int kSchedulersOfSm = 4, kRegistersOfScheduler = 16384;

/// Warps with `registers` a thread that fit on an SM. Each scheduler has a register file of its own, and a
/// warp takes registers in units of 8 a thread.
SLUICE_HD constexpr int warps_of_sm(int registers) {
  return kSchedulersOfSm * (kRegistersOfScheduler / (32 * round_up(max(registers, 1), 8)));
}
/// Registers a thread under __launch_bounds__(threads, ctas). Kernels pass it to __maxnreg__, because their
/// launches may have more threads than those that work.
SLUICE_HD constexpr int most_registers(int threads, int ctas) {
  const int warps_of_scheduler = ctas * ceil_div(threads, 32 * kSchedulersOfSm);
  return min(255, kRegistersOfScheduler / (32 * warps_of_scheduler) / 8 * 8);
}

struct Overlap {
  Wait wait = Wait::none;
  Trigger trigger = Trigger::never;
  Spacing spacing = Spacing::memory;

  constexpr bool operator==(const Overlap&) const = default;
};

/// True if the launch waits or triggers. Spacing by itself is no overlap.
SLUICE_HD constexpr bool overlaps(const Overlap& o) {
  return o.wait != Wait::none || o.trigger != Trigger::never;
}

/// Memory to prefetch into L2 for the launch that reads it next: a hint, shared out among the CTAs. It covers
/// weights only, which no launch writes. `chunks` pieces of `bytes` each are spread over rows `stride` apart;
/// piece i begins (i * step >> 32) strides behind `data`. Any address and length is valid; 0 bytes or chunks
/// is an empty range.
struct WarmRange {
  const void* data = nullptr;
  i64 bytes = 0;
  i64 stride = 0;
  u32 chunks = 1;
  // CTAs that prefetch: the first `ctas` of a launch, since a second wave would come too late
  u32 ctas = ~0u;
  u64 step = u64{1} << 32;  // fixed point, at least 1
};

SLUICE_HD constexpr i64 total_bytes(const WarmRange& range) {
  return range.bytes * range.chunks;
}

/// Spreads `chunks` rows out of `rows`, `stride` bytes apart, evenly: every run of rows holds the same share.
SLUICE_HD constexpr WarmRange spread_rows(const void* data, i64 bytes, i64 stride, i64 rows, i64 chunks) {
  if (chunks <= 0 || rows <= 0 || bytes <= 0) return {};
  if (chunks > rows) chunks = rows;
  if (chunks == rows && stride == bytes) return {data, bytes * rows};
  return {.data = data,
          .bytes = bytes,
          .stride = stride,
          .chunks = static_cast<u32>(chunks),
          .step = (static_cast<u64>(rows) << 32) / static_cast<u64>(chunks)};
}

SLUICE_HD constexpr const char* name_of(Wait wait) {
  switch (wait) {
    case Wait::none: return "none";
    case Wait::first: return "first";
    case Wait::weights_first: return "weights_first";
  }
  return "?";
}
SLUICE_HD constexpr const char* name_of(Trigger trigger) {
  switch (trigger) {
    case Trigger::never: return "never";
    case Trigger::at_start: return "at_start";
    case Trigger::after_loads: return "after_loads";
  }
  return "?";
}
SLUICE_HD constexpr const char* name_of(Spacing spacing) {
  switch (spacing) {
    case Spacing::memory: return "memory";
    case Spacing::registers: return "registers";
    case Spacing::none: return "none";
    case Spacing::even: return "even";
  }
  return "?";
}

}  // namespace sluice
