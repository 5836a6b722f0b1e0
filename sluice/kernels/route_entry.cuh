// SPDX-License-Identifier: Apache-2.0
// The kernel that sorts slots by expert, on the GPU: matches and shuffles of a warp, and a team of CTAs.
// Launched by run/ops/experts/route.cc.
#pragma once

#include <sluice/device/launch_steps.cuh>
#include <sluice/device/row_team.cuh>
#include <sluice/kernels/route.cuh>

namespace sluice::route {

struct DeviceArith : LaunchSteps {
  template <u32 kSlots, u32 kSets>
  using Team = RowTeam<kSlots, kSets>;

  SLUICE_DEVICE static u32* memory() {
    extern __shared__ u32 dynamic_memory[];
    return dynamic_memory;
  }

  /// Loads an id, or 0 if not `inside`. It has no branch, which would delay later loads. It does not use
  /// ld.global.nc: ids of an earlier launch must be read after the PDL wait.
  template <bool kWide>
  SLUICE_DEVICE static i64 load_id(const void* base, i64 index, bool inside) {
    if constexpr (kWide) {
      i64 id = 0;
      asm volatile("{\n.reg .pred inside;\nsetp.ne.u32 inside, %2, 0;\n@inside ld.global.s64 %0, [%1];\n}"
                   : "+l"(id)
                   : "l"(static_cast<const i64*>(base) + index), "r"(static_cast<u32>(inside)));
      return id;
    } else {
      i32 id = 0;
      asm volatile("{\n.reg .pred inside;\nsetp.ne.u32 inside, %2, 0;\n@inside ld.global.s32 %0, [%1];\n}"
                   : "+r"(id)
                   : "l"(static_cast<const i32*>(base) + index), "r"(static_cast<u32>(inside)));
      return id;
    }
  }

  SLUICE_DEVICE static u32 lanes_with(u32 value) { return __match_any_sync(~0u, value); }
  SLUICE_DEVICE static u32 from_lane(u32 value, u32 lane) {
    return __shfl_sync(~0u, value, static_cast<int>(lane));
  }
  SLUICE_DEVICE static u32 sum_of_warp(u32 value) { return __reduce_add_sync(~0u, value); }
  SLUICE_DEVICE static void sync_warp() { __syncwarp(); }
  SLUICE_DEVICE static u32 lowest(u32 bits) { return static_cast<u32>(__ffs(static_cast<int>(bits))) - 1; }
  SLUICE_DEVICE static u32 ones(u32 bits) { return static_cast<u32>(__popc(bits)); }
};

}  // namespace sluice::route
