// SPDX-License-Identifier: Apache-2.0
// The argument of the kernel that compares two results of one product (kernels/compare.cuh), its totals, and
// the arithmetic of one element. Plain values: NVRTC compiles them for the kernel, g++ for the fake driver.
#pragma once

#include <sluice/kernels/verify_arith.h>

namespace sluice {

/// Totals over all elements; zero before the launch.
struct CompareTotals {
  double squares = 0;      // squares of the first result, where both are finite
  double differences = 0;  // squares of the differences
  // Bits of the largest difference beyond its share of the element. Doubles of at least 0 have the order of
  // their bits.
  u64 worst = 0;
  u64 unlike = 0;  // elements of which one result alone is finite, or both are not and differ
};

/// Two results of one shape. Pitches are in elements.
struct CompareParams {
  const void* first;
  const void* second;
  CompareTotals* totals;
  i64 columns, rows, row_pitch, batches, batch_pitch;
  double share;  // an element may differ by this share of its magnitude
  DType type;
};

inline constexpr int kCompareThreads = 256;

SLUICE_HD constexpr i64 elements_of(const CompareParams& p) {
  return p.batches * p.rows * p.columns;
}

SLUICE_HD inline u32 bits_at(DType type, const void* base, i64 element) {
  switch (bits_of(type)) {
    case 8: return static_cast<const u8*>(base)[element];
    case 16: return static_cast<const u16*>(base)[element];
    default: return static_cast<const u32*>(base)[element];
  }
}

/// Adds element `i`, counted along rows, to the totals.
SLUICE_HD inline void add_element(const CompareParams& p, i64 i, CompareTotals& totals) {
  const i64 column = i % p.columns, row = i / p.columns % p.rows, batch = i / p.columns / p.rows;
  const i64 at = batch * p.batch_pitch + row * p.row_pitch + column;
  const u32 first = bits_at(p.type, p.first, at), second = bits_at(p.type, p.second, at);
  const double x = verify::decode(p.type, first), y = verify::decode(p.type, second);
  if (!verify::is_finite(x) || !verify::is_finite(y)) {
    totals.unlike += first == second || (verify::is_nan(x) && verify::is_nan(y)) ? 0 : 1;
    return;
  }
  const double difference = verify::magnitude_of(x - y);
  const double beyond = difference - p.share * verify::magnitude_of(x);
  totals.squares += x * x;
  totals.differences += difference * difference;
  if (beyond > verify::bits_as<double>(totals.worst)) totals.worst = verify::bits_as<u64>(beyond);
}

}  // namespace sluice
