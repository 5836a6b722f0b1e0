// SPDX-License-Identifier: Apache-2.0
// How a WarmRange is shared out: each CTA asks L2 for one run of whole lines, in pieces. Together they are
// the aligned units of 16 bytes in which the range has a byte, each of them once, and none besides: a unit
// with one mapped byte is mapped. device/warm.cuh issues it, tests/unit/spec_warm_split_test.cc counts it.
#pragma once

#include <sluice/spec/overlap.h>

namespace sluice {

inline constexpr i64 kWarmUnit = 16;           // what cp.async.bulk.prefetch counts in
inline constexpr i64 kWarmLine = 128;          // of L2; two CTAs never ask for one line
inline constexpr i64 kWarmPieceBytes = 8192;   // of one instruction
inline constexpr i64 kWarmCtaBytes = 1 << 16;  // of one CTA, where the host can choose how many there are

/// Addresses, multiples of kWarmUnit; nothing where they are equal.
struct WarmRun {
  i64 begin = 0, end = 0;
};

/// What CTA `cta` of `ctas` brings of `bytes` from `address` on; in the order of addresses.
SLUICE_HD constexpr WarmRun warm_run(i64 address, i64 bytes, u32 cta, u32 ctas) {
  if (bytes <= 0) return {};
  const i64 begin = address / kWarmUnit * kWarmUnit;
  const i64 end = (address + bytes + kWarmUnit - 1) / kWarmUnit * kWarmUnit;
  const i64 first = begin / kWarmLine;
  const u32 lines = static_cast<u32>(ceil_div(end, kWarmLine) - first);  // of less than 512 GB
  const u32 share = lines / ctas, more = lines % ctas;
  const i64 from = first + i64{share} * cta + (cta < more ? cta : more);
  const i64 to = from + share + (cta < more ? 1 : 0);
  const i64 low = from * kWarmLine, high = to * kWarmLine;
  if (from == to) return {};
  return {low < begin ? begin : low, high > end ? end : high};
}

}  // namespace sluice
