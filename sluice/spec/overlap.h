// SPDX-License-Identifier: Apache-2.0
// How a launch overlaps its neighbours in the stream (programmatic dependent launch). The value is part of
// each kernel's config, because wait and trigger are instructions of the kernel. The contract:
// - Every CTA waits before it writes anything or exits.
// - Each thread that reads data of an earlier launch is ordered after a wait. Before the wait it reads only
//   data that no launch writes: weights, their scales, bias.
// - The launch before the previous one also counts as unfinished until the wait returns.
// - The host requests a dependent launch only if the kernel's machine code contains the wait.
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

/// Where a launch waits for earlier ones.
/// - none: no wait; the launch begins when all earlier ones have ended.
/// - first: the launch may begin early, and waits before the first load of its ring.
/// - weights_first: it fills its ring with weights, then waits.
/// In both last modes, data that no launch writes (bias, gamma, scales of weights) may be read before the
/// wait.
enum class Wait : u8 { none, first, weights_first };
/// When CTAs of the next dependent launch may begin, if there is room for them. never: after this launch has
/// ended. at_start: once all CTAs of this launch have begun. after_loads: once each of its CTAs has issued
/// its last load.
enum class Trigger : u8 { never, at_start, after_loads };

/// How a launch keeps too many of its CTAs from sharing an SM while other SMs are empty.
/// - memory: if the launch has at most one CTA per SM, each asks for more than half of an SM's shared memory.
/// - registers: additional warps, which exit at once, fill the register file.
/// - even: like memory; if each SM must take several CTAs (up to kMostEvenCtas), no more than these fit.
/// Two consecutive launches fit on an SM at the same time only if they differ in spacing
/// (run/device/spread.h).
enum class Spacing : u8 { memory, registers, none, even };

inline constexpr int kMostEvenCtas = 6;  // most CTAs per SM that `even` spaces; more are distributed well
                                         // enough without it

inline constexpr int kSchedulersOfSm = 4, kRegistersOfScheduler = 16384;

/// Warps with `registers` per thread that fit on an SM. Each scheduler has a register file of its own, and a
/// warp allocates registers in units of 8 per thread.
SLUICE_HD constexpr int warps_of_sm(int registers) {
  return kSchedulersOfSm * (kRegistersOfScheduler / (32 * round_up(max(registers, 1), 8)));
}
/// Registers per thread under __launch_bounds__(threads, ctas). Kernels pass it to __maxnreg__ instead,
/// because their launches may have additional threads that do not work.
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

/// True if the launch waits or triggers. Spacing alone does not count.
SLUICE_HD constexpr bool overlaps(const Overlap& o) {
  return o.wait != Wait::none || o.trigger != Trigger::never;
}

/// Memory to prefetch into L2 for a later launch; a hint, divided among the CTAs. It covers only weights,
/// which no launch writes. `chunks` pieces of `bytes` each are spread over rows that are `stride` bytes
/// apart: piece i begins at data + (i * step >> 32) * stride. Any address and length is valid; with 0 bytes
/// or chunks the range is empty.
struct WarmRange {
  const void* data = nullptr;
  i64 bytes = 0;
  i64 stride = 0;
  u32 chunks = 1;
  // CTAs that prefetch: the first `ctas` of a launch; CTAs of a second wave would prefetch too late
  u32 ctas = ~0u;
  u64 step = u64{1} << 32;  // fixed point, at least 1
};

SLUICE_HD constexpr i64 total_bytes(const WarmRange& range) {
  return range.bytes * range.chunks;
}

/// Selects `chunks` of the `rows` rows, evenly spaced, and of each its first `bytes` bytes. Rows are `stride`
/// bytes apart. With more chunks than rows, all rows.
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
