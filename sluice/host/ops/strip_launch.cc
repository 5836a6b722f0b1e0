// SPDX-License-Identifier: Apache-2.0
// The launch of the strip kernel: a tensor map of X, whose address a launch fills in, and a CTA for
// each part of each tile; the tiles of one row of strips lie beside one another, so that L2 has their
// weights.
#include <algorithm>
#include <cstddef>

#include <sluice/host/driver/error.h>
#include <sluice/host/driver/tensor_map.h>
#include <sluice/host/ops/packed.h>

namespace sluice::packed {
namespace {

static_assert(offsetof(StripParams, map_x) % alignof(CUtensorMap) == 0);

/// Tokens that are copied at a time: rows that only fill a tile cost more than ones that are there. A box
/// begins where the swizzle does, so it may have any number of rows.
int box_tokens(const PackedProblem& p, const StripConfig& c) {
  return static_cast<int>(std::min(p.m, i64{c.tokens}));
}

}  // namespace

Result<void> fill(const Device& device, const StripConfig& c, Kernel::Impl& impl) {
  const PackedProblem& p = impl.plan.problem;
  StripParams& params = impl.strip;
  set_sizes(params, p, c.tokens);
  params.x_bytes = static_cast<u32>(box_tokens(p, c) * kPackedTileK * bytes_of(p.x));
  const i64 tiles = params.token_tiles * ceil_div(d_columns(p), i64{tile_columns(c)});
  impl.shape = {.grid_x = static_cast<u32>(tiles * c.parts),
                .block_x = static_cast<u32>(threads_of(c)),
                .cluster_x = static_cast<u32>(c.parts),
                .dependent = c.overlap.wait != Wait::none};
  if (p.k == 0) return {};
  const TensorMapShape x{.type = p.x,
                         .inner = p.k,
                         .outer = p.m,
                         .ld = p.ld_x,
                         .box_inner = kPackedTileK / bytes_of(p.x),
                         .box_outer = box_tokens(p, c)};
  return encode_tensor_map(*device.impl().api, "X", x, params.map_x);
}

Result<void> enqueue(const Kernel::Impl& impl, const StripConfig&, const Args& args, Stream stream) {
  alignas(CUtensorMap) StripParams params = impl.strip;
  params.weights = args.weights;
  params.d = args.d;
  params.bias = args.bias;
  params.prefetch = args.prefetch;
  params.hand_off = args.hand_off;
  params.scale_x = args.scale_x;
  params.scale_d = args.scale_d;
  params.vectors = allows_vectors(impl.plan.problem, args.d);
  const DriverApi& api = impl.primary->api();
  if (params.k_tiles > 0)
    if (const CUresult code = replace_address(api, params.map_x, args.x); code != CUDA_SUCCESS)
      return driver_error(api, code, "cuTensorMapReplaceAddress", "X " + hex(args.x));
  return launch_kernel(api, impl.module->function(), impl.shape, &params, stream);
}

}  // namespace sluice::packed
