// SPDX-License-Identifier: Apache-2.0
// The launch of the kernel for many tokens: tensor maps of X and of D, whose addresses a launch fills in, and
// a grid of as many clusters as fit, or as there are units; of those that take one tile, as there are tiles.
#include <algorithm>
#include <cstddef>

#include <sluice/host/driver/error.h>
#include <sluice/host/driver/tensor_map.h>
#include <sluice/host/ops/packed.h>
#include <sluice/host/planner/dense/cluster_grid.h>
#include <sluice/host/planner/packed/packed_problem_checks.h>

namespace sluice::packed {
namespace {

static_assert(offsetof(WideParams, map_x) % alignof(CUtensorMap) == 0);
static_assert(offsetof(WideParams, map_d) % alignof(CUtensorMap) == 0);

constexpr int kBand = 8;         // token tiles that are walked along rows together: 2048 tokens stay in L2
constexpr int kStoreUnit = 16;   // bytes: the copy engine writes no less (docs/findings/tma-store-tail.md)
constexpr int kSwizzleRows = 8;  // after which the swizzle repeats

/// Tokens that a CTA copies at a time. Rows that only fill a tile cost more than ones that are there, so that
/// a lone tile's box has no others; but not where tiles come in parts, whose boxes all have one size.
int box_tokens(const PackedProblem& p, const WideConfig& c) {
  if (c.cluster_n == 1 && c.tail_parts == 1 && p.m < c.tokens)
    return round_up(static_cast<int>(p.m), kSwizzleRows);
  return tail_tokens(c) / c.cluster_n;
}

}  // namespace

Result<void> fill(const Device& device, const WideConfig& c, Kernel::Impl& impl) {
  const PackedProblem& p = impl.plan.problem;
  const DeviceInfo& info = device.info();
  const int cluster = cluster_size(c);
  WideParams& params = impl.wide;
  set_sizes(params, p, c.tokens);
  params.row_tiles = static_cast<int>(ceil_div(p.n, i64{kWideRows * c.cluster_n}));
  params.band = std::min(kBand, params.token_tiles);
  params.x_bytes =
      static_cast<u32>(box_tokens(p, c) * c.tail_parts * c.cluster_n * kWideStageK * bytes_of(p.x));
  const int tiles = params.token_tiles * params.row_tiles;
  const int resident = clusters_at_once(cluster, info);
  params.whole_units = whole_units(c, tiles, resident);
  const int units = unit_count(c, tiles, params.whole_units);
  impl.shape = {.grid_x = static_cast<u32>((takes_one_tile(c) ? tiles : std::min(units, resident)) * cluster),
                .block_x = kWideThreads,
                .cluster_x = static_cast<u32>(cluster),
                .dependent = c.overlap.wait != Wait::none};
  const DriverApi& api = *device.impl().api;
  const TensorMapShape x{.type = p.x,
                         .inner = p.k,
                         .outer = p.m,
                         .ld = p.ld_x,
                         .box_inner = kWideStageK,
                         .box_outer = box_tokens(p, c)};
  if (Result<void> encoded = encode_tensor_map(api, "X", x, params.map_x); !encoded) return encoded;
  if (!rows_allow_boxes(p)) return {};
  const TensorMapShape d{.type = p.d,
                         .inner = p.n,
                         .outer = p.m,
                         .ld = p.ld_d,
                         .box_inner = kStripRows,
                         .box_outer = store_tokens(c)};
  return encode_tensor_map(api, "D", d, params.map_d);
}

Result<void> enqueue(const Kernel::Impl& impl, const WideConfig&, const Args& args, Stream stream) {
  alignas(CUtensorMap) WideParams params = impl.wide;
  params.weights = args.weights;
  params.d = args.d;
  params.bias = args.bias;
  params.prefetch = args.prefetch;
  params.hand_off = args.hand_off;
  params.stores_boxes =
      rows_allow_boxes(impl.plan.problem) && reinterpret_cast<u64>(args.d) % kStoreUnit == 0;
  const DriverApi& api = impl.primary->api();
  CUresult code = replace_address(api, params.map_x, args.x);
  if (code == CUDA_SUCCESS && params.stores_boxes) code = replace_address(api, params.map_d, args.d);
  if (code != CUDA_SUCCESS)
    return driver_error(api, code, "cuTensorMapReplaceAddress", "X " + hex(args.x) + ", D " + hex(args.d));
  return launch_kernel(api, impl.module->function(), impl.shape, &params, stream);
}

}  // namespace sluice::packed
