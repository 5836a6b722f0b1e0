// SPDX-License-Identifier: Apache-2.0
// A kernel that occupies its SMs for a while and ends by itself. Blocks have at most 256 threads.
#pragma once

#include <sluice/spec/base.h>

namespace sluice::testing {

struct SpinParams {
  i64 nanoseconds;
};
inline constexpr const char* kSpinUnit = R"(
struct SpinParams { long long nanoseconds; };
extern "C" __global__ void __launch_bounds__(256) sluice_entry(const __grid_constant__ SpinParams p) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - start < p.nanoseconds);
}
)";

}  // namespace sluice::testing
