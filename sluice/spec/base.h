// SPDX-License-Identifier: Apache-2.0
// Fixed-width names, function markers and integer helpers, used everywhere. Read by g++ and by NVRTC, which
// has no standard headers; so this file includes none.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define SLUICE_HD __host__ __device__
#define SLUICE_DEVICE __device__ __forceinline__
#else
#define SLUICE_HD
#define SLUICE_DEVICE inline __attribute__((always_inline))  // the host twin compiles the role loops too
#endif

namespace sluice {

using u8 = unsigned char;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8);

SLUICE_HD constexpr int ceil_div(int value, int divisor) {
  return (value + divisor - 1) / divisor;
}
SLUICE_HD constexpr i64 ceil_div(i64 value, i64 divisor) {
  return (value + divisor - 1) / divisor;
}
SLUICE_HD constexpr int round_up(int value, int multiple) {
  return ceil_div(value, multiple) * multiple;
}
SLUICE_HD constexpr i64 round_up(i64 value, i64 multiple) {
  return ceil_div(value, multiple) * multiple;
}
/// Divides non-negative values. Unsigned division compiles to a shift, or to half the instructions of a
/// signed one.
SLUICE_HD constexpr int quotient(int value, int divisor) {
  return static_cast<int>(static_cast<u32>(value) / static_cast<u32>(divisor));
}
SLUICE_HD constexpr int min(int a, int b) {
  return a < b ? a : b;
}
SLUICE_HD constexpr int max(int a, int b) {
  return a < b ? b : a;
}

}  // namespace sluice
