// SPDX-License-Identifier: Apache-2.0
// How a launch overlaps the ones before and behind it in its stream (programmatic dependent launch). A value
// in each kernel's configuration, because wait and trigger are instructions of the kernel. The contract:
// - every CTA waits before it writes anything or leaves, and each thread that reads what an earlier launch
//   wrote is ordered behind a wait; before it only what no launch writes is read: weights, their scales,
//   bias;
// - the launch before that one counts as unfinished too until the wait returns;
// - the host asks for a dependent launch only of a kernel whose code has the wait.
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

/// none: no wait; the launch begins when all before it have ended. first: it may begin earlier, and waits
/// before its ring loads anything. weights_first: it fills its ring with weights before it waits. With both,
/// what no launch writes (bias, gamma, scales of weights) may be read before the wait.
enum class Wait : u8 { none, first, weights_first };
/// When CTAs of a dependent launch may begin, where there is room: never before this launch has ended; as
/// soon as all of its own have begun; or once each has issued its last load.
enum class Trigger : u8 { never, at_start, after_loads };

/// What keeps two CTAs of a dependent launch of one wave from one SM while others stand empty: shared memory,
/// of which each takes more than half of an SM's; registers, by warps that leave at once; nothing. Two
/// launches behind each other both fit on an SM only if they differ in it (host/device/spread.h).
enum class Spacing : u8 { memory, registers, none };

inline constexpr int kSchedulersOfSm = 4, kRegistersOfScheduler = 16384;

/// Warps of so many registers a thread that an SM has room for: each scheduler has registers of its own, and
/// a warp takes them in units of 8 a thread.
SLUICE_HD constexpr int warps_of_sm(int registers) {
  return kSchedulersOfSm * (kRegistersOfScheduler / (32 * round_up(max(registers, 1), 8)));
}
/// What __launch_bounds__(threads, ctas) would allow a thread. For __maxnreg__: the launch has more threads
/// than those that work.
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

/// Does a launch take part in any of it? Spacing alone is nothing.
SLUICE_HD constexpr bool overlaps(const Overlap& o) {
  return o.wait != Wait::none || o.trigger != Trigger::never;
}

/// Memory to bring into L2 for whoever reads it next: a hint, shared out among the CTAs; weights, which no
/// launch writes. `chunks` pieces of memory of `bytes` each, spread over what lies `stride` apart: the i-th
/// begins (i * step >> 32) strides behind `data`. Any address, any length; 0 bytes or chunks is nothing.
struct WarmRange {
  const void* data = nullptr;
  i64 bytes = 0;
  i64 stride = 0;
  u32 chunks = 1;
  u32 ctas = ~0u;           // who brings it: the first of a launch; those of a second wave would come late
  u64 step = u64{1} << 32;  // fixed point, at least 1
};

SLUICE_HD constexpr i64 total_bytes(const WarmRange& range) {
  return range.bytes * range.chunks;
}

/// `chunks` of `rows` rows, `stride` bytes apart, as evenly as can be: of any run of rows the same share.
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
  }
  return "?";
}

}  // namespace sluice
