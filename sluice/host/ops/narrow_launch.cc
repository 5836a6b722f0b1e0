// SPDX-License-Identifier: Apache-2.0
// The launch of the kernel for few tokens. A grid holds 65,535 token tiles, so more are several launches.
#include <algorithm>

#include <sluice/host/ops/packed.h>

namespace sluice::packed {

Result<void> fill(const Device&, const NarrowConfig& c, Kernel::Impl& impl) {
  const PackedProblem& p = impl.plan.problem;
  impl.shape = {.grid_x = static_cast<u32>(ceil_div(p.n, i64{tile_rows(c)}) * c.parts),
                .grid_y = static_cast<u32>(std::min(kMaxGridY, ceil_div(p.m, i64{tile_tokens(c)}))),
                .block_x = static_cast<u32>(threads_of(c)),
                .cluster_x = static_cast<u32>(c.parts),
                .dependent = c.overlap.wait != Wait::none};
  impl.narrow = {.strip_bytes = strip_bytes(p.weights, p.k),
                 .ld_x = p.m == 1 ? 0 : p.ld_x,  // one token: its pitch need not be one of 16 bytes
                 .ld_d = p.ld_d,
                 .n = static_cast<int>(d_columns(p)),
                 .k = static_cast<int>(p.k),
                 .k_tiles = static_cast<int>(packed_k_tiles(p.k)),
                 .ld_c = p.ld_c};
  return {};
}

Result<void> enqueue(const Kernel::Impl& impl, const NarrowConfig& c, const Args& args, Stream stream) {
  const PackedProblem& p = impl.plan.problem;
  NarrowParams params = impl.narrow;
  params.weights = args.weights;
  params.bias = args.bias;
  params.prefetch = args.prefetch;
  params.hand_off = args.hand_off;
  params.vectors = allows_vectors(p, args.d) && (!p.residual || allows_vectors(p, args.c, p.ld_c));
  params.gamma = args.gamma;
  params.epsilon = args.epsilon;
  const i64 step = kMaxGridY * tile_tokens(c);
  for (i64 first = 0; first < p.m; first += step) {
    const i64 tokens = std::min(step, p.m - first);
    params.m = static_cast<int>(tokens);
    // As numbers: with k = 0 there is no X, and its pointer may be null.
    params.x = reinterpret_cast<const void*>(reinterpret_cast<u64>(args.x) +
                                             static_cast<u64>(first * params.ld_x * bytes_of(p.x)));
    params.d = static_cast<u8*>(args.d) + first * params.ld_d * bytes_of(p.d);
    if (p.residual) params.c = static_cast<const u8*>(args.c) + first * params.ld_c * bytes_of(p.d);
    LaunchShape shape = impl.shape;
    shape.grid_y = static_cast<u32>(ceil_div(tokens, i64{tile_tokens(c)}));
    if (Result<void> launched =
            launch_kernel(impl.primary->api(), impl.module->function(), shape, &params, stream);
        !launched)
      return launched;
  }
  return {};
}

}  // namespace sluice::packed
