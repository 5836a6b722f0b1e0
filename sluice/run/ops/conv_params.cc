// SPDX-License-Identifier: Apache-2.0
// Implements conv_params.h.
#include <sluice/run/ops/conv_params.h>

#include <sluice/run/driver/conv_maps.h>
#include <sluice/spec/conv_params.h>
#include <sluice/try.h>

namespace sluice {
namespace {

/// Encodes the im2col tensor maps of A, whose rows are gathered pixels: one per phase of a strided dgrad,
/// else one map. If A's last tile is shorter, also encodes a map with a smaller box for it.
Result<void> encode_rows(const DriverApi& api, const Plan& plan, const Phases& phases, PhasedParams& params) {
  const Problem& p = plan.problem;
  const KernelConfig& c = plan.config;
  const char* name = names_of(p.conv).a;
  const int rows = c.tile.m / c.cluster.n;
  if (c.conv.phased) {
    for (int i = 0; i < phases.count; ++i)
      if (phases.items[i].taps() > 0)
        SLUICE_TRY(encode_im2col_map(api, name, gathered_shape(p.conv, c.a, phases.items[i], c.tile.k, rows),
                                     params.phases[i].map_a));
    return {};
  }
  SLUICE_TRY(encode_im2col_map(api, name, gathered_shape(p.conv, c.a, phases.items[0], c.tile.k, rows),
                               params.map_a));
  if (!has_tail_a(c, p)) return {};
  const int tail = tail_rows(static_cast<int>(p.m), rows);
  return encode_im2col_map(api, name, gathered_shape(p.conv, c.a, phases.items[0], c.tile.k, tail),
                           params.map_a_tail);
}

Result<void> encode_filter(const DriverApi& api, const Plan& plan, PhasedParams& params) {
  const Problem& p = plan.problem;
  const char* name = names_of(p.conv).b;
  TensorMapShape shape = b_map_shape(plan.config, p);
  shape = taps_shape(p.conv, shape.type, shape.box_inner, shape.box_outer);
  SLUICE_TRY(encode_tensor_map(api, name, shape, params.map_b));
  if (!has_tail_b(plan.config, p)) return {};
  shape.box_outer = b_tail_shape(plan.config, p).box_outer;
  return encode_tensor_map(api, name, shape, params.map_b_tail);
}

Result<void> encode_wgrad(const DriverApi& api, const Plan& plan, const Phases& phases,
                          PhasedParams& params) {
  const Problem& p = plan.problem;
  const KernelConfig& c = plan.config;
  const ConvNames names = names_of(p.conv);
  SLUICE_TRY(encode_tensor_map(api, names.a, a_map_shape(c, p), params.map_a));
  SLUICE_TRY(encode_im2col_map(api, names.b,
                               gathered_shape(p.conv, c.b, phases.items[0], kMnBlock, c.tile.k / c.cluster.m),
                               params.map_b));
  if (c.store != StorePath::tma) return {};
  const TensorMapShape of_matrix = d_map_shape(c, p);
  TensorMapShape shape = taps_shape(p.conv, c.d, of_matrix.box_inner, of_matrix.box_outer);
  shape.swizzle_bytes = of_matrix.swizzle_bytes;
  return encode_tensor_map(api, names.d, shape, params.map_d);
}

}  // namespace

Result<ConvImage> fill_conv_params(const DriverApi& api, const Plan& plan, PhasedParams& params) {
  const Problem& p = plan.problem;
  const KernelConfig& c = plan.config;
  const Conv& v = p.conv;
  const Phases phases = phases_of(v);
  ConvImage image;
  params.gather = gather_for(v, c.tile.k);
  if (v.op == ConvOp::wgrad) {
    SLUICE_TRY(encode_wgrad(api, plan, phases, params));
    return image;
  }
  SLUICE_TRY(encode_rows(api, plan, phases, params));
  SLUICE_TRY(encode_filter(api, plan, params));
  if (!c.conv.phased) {
    if (c.store == StorePath::tma)
      SLUICE_TRY(encode_tensor_map(api, names_of(v).d, d_map_shape(c, p), params.map_d));
    return image;
  }
  image.phases = phases.count;
  fill_phases(v, c.tile.k, params.phases);
  for (int i = 0; i < phases.count; ++i) {
    const Phase& phase = phases.items[i];
    image.phase_bytes[i] = phase_offset(v, phase) * bytes_of(c.d);
    Im2colShape store = phase_store_shape(v, c.d, phase, store_columns(c));
    store.swizzle_bytes = store_row_bytes(c);
    SLUICE_TRY(encode_im2col_map(api, names_of(v).d, store, params.phases[i].map_d));
  }
  return image;
}

CUresult set_phase_addresses(const DriverApi& api, const ConvImage& image, const void* dy, void* dx,
                             PhasedParams& params) {
  for (int i = 0; i < image.phases; ++i) {
    PhaseParams& phase = params.phases[i];
    if (phase.k_tiles != 0)
      if (const CUresult code = replace_address(api, phase.map_a, dy); code != CUDA_SUCCESS) return code;
    const CUresult code = replace_address(api, phase.map_d, static_cast<u8*>(dx) + image.phase_bytes[i]);
    if (code != CUDA_SUCCESS) return code;
  }
  return CUDA_SUCCESS;
}

}  // namespace sluice
