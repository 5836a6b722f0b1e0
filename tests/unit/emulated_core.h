// SPDX-License-Identifier: Apache-2.0
// Emulates the tensor core's addition (docs/numerics.md) on the host: numbers are truncated instead of
// rounded. Used by emulations of dense (emulated_dense.h) and packed products (emulated_products.h).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include <sluice/spec/base.h>

namespace sluice::test {

/// Returns 2^exponent, which must be a normal number.
inline double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<u64>(exponent + 1023) << 52);
}
inline constexpr int kNoExponent = -1000;
/// Returns floor(log2 |value|); kNoExponent for zero and values close to it.
inline int exponent_of(double value) {
  const int exponent = static_cast<int>(std::bit_cast<u64>(value) >> 52 & 0x7ff) - 1023;
  return std::max(exponent, kNoExponent);
}
/// Truncates `value` to a multiple of 2^quantum. |value| must be below 2^(quantum + 62).
inline double cut(double value, int quantum) {
  return static_cast<double>(static_cast<i64>(value * power_of_two(-quantum))) * power_of_two(quantum);
}

/// Precision of a tensor core instruction. taken: bits below the largest operand that are added. kept: bits
/// of the sum that are stored. length: products per instruction.
struct CoreBits {
  int taken, kept, length;
};
inline constexpr CoreBits kByteCore{13, 13, 32}, kHalfCore{25, 23, 16};

/// Computes one instruction: adds products to the previous sum.
inline double core_step(double sum, std::span<const double> terms, const CoreBits& core) {
  int most = exponent_of(sum);
  for (const double term : terms) most = std::max(most, exponent_of(term));
  if (most == kNoExponent) return 0.0;
  const int quantum = most - core.taken;
  double total = cut(sum, quantum);
  for (const double term : terms) total += cut(term, quantum);
  return total == 0.0 ? 0.0 : cut(total, exponent_of(total) - core.kept);
}
/// Adds all `terms` to `sum`, by as many instructions as needed.
inline double core_sum(double sum, std::span<const double> terms, const CoreBits& core) {
  const size_t length = static_cast<size_t>(core.length);
  for (size_t i = 0; i < terms.size(); i += length)
    sum = core_step(sum, terms.subspan(i, std::min(length, terms.size() - i)), core);
  return sum;
}

}  // namespace sluice::test
