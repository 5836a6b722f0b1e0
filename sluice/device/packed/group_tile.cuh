// SPDX-License-Identifier: Apache-2.0
// The group of a CTA's tile of tokens, where tokens belong to groups (spec/groups.h). A launch has as many
// rows of CTAs as any table may need; those behind the last tile leave.
#pragma once

#include <sluice/spec/packed.h>
#include <sluice/device/groups.cuh>

namespace sluice::packed {

/// Makes `params` those of a group's rows alone: `rows` of D, and those of X from `first_x` on.
template <NarrowConfig kConfig>
SLUICE_DEVICE void take_rows(NarrowParams& params, int group, int first_x, const GroupRows& rows) {
  const int weight_rows = kConfig.gated ? 2 * params.n : params.n;
  params.m = rows.end - rows.begin;
  params.weights = static_cast<const u8*>(params.weights) + group * params.blob_bytes;
  params.x = static_cast<const u8*>(params.x) + first_x * params.ld_x * bytes_of(kConfig.x);
  params.d = static_cast<u8*>(params.d) + rows.begin * params.ld_d * bytes_of(kConfig.d);
  if constexpr (kConfig.bias != Bias::none)
    params.bias =
        static_cast<const u8*>(params.bias) + i64{group} * weight_rows * bytes_of(kConfig.bias_type);
}

/// Makes `params` those of the group that tile blockIdx.y belongs to, with its tokens, weights, bias and D
/// alone. Returns the tile's number within the group; -1: there are fewer tiles. Call from all threads of the
/// CTA, behind the PDL wait, before anything else uses the shared memory at `smem`.
template <NarrowConfig kConfig>
SLUICE_DEVICE int take_group(NarrowParams& params, u32 smem) {
  if constexpr (kConfig.groups.kind == GroupKind::slots) {
    const int slot = static_cast<int>(blockIdx.y);
    const int group = group_of_slot(params.group_numbers[slot], params.group_count);
    if (group < 0) return group;
    take_rows<kConfig>(params, group, quotient(slot, params.group_pitch), {slot, slot + 1});
    return 0;
  }
  const GroupTable<SharedInts> table{{smem}, kConfig.groups.most};
  if (threadIdx.x < 32) {
    const auto numbers = [&](int g) { return params.group_numbers[g]; };
    run_scan(GroupScan<decltype(numbers), SharedInts>{kConfig.groups.kind, params.group_pitch, params.m,
                                                      params.group_count, tile_tokens(kConfig), numbers,
                                                      table});
  }
  __syncthreads();
  const int wanted = static_cast<int>(blockIdx.y);
  int group = -1, tile = -1;
  GroupRows rows;
  if (wanted < table.tiles_before(params.group_count)) {
    group = table.group_of(wanted, params.group_count);
    rows = table.rows(group);
    tile = wanted - table.tiles_before(group);
  }
  __syncthreads();  // the rings overwrite the table
  if (tile < 0) return tile;
  take_rows<kConfig>(params, group, rows.begin, rows);
  return tile;
}

}  // namespace sluice::packed
