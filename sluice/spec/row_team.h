// SPDX-License-Identifier: Apache-2.0
// The number of CTAs of a cluster that share a row (device/row_team.cuh). It is more than one only if rows
// are few and SMs would be idle.
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

inline constexpr u32 kMaxRowTeam = 8;  // the largest portable cluster

/// CTAs for a row of `chunks` chunks, if each CTA takes `cta_chunks` at once.
SLUICE_HD constexpr u32 row_team(i64 rows, i64 chunks, i64 cta_chunks, i64 sms) {
  u32 team = 1;
  while (team < kMaxRowTeam && chunks > team * cta_chunks && rows <= sms / (2 * team)) team *= 2;
  return team;
}

}  // namespace sluice
