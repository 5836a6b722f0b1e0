// SPDX-License-Identifier: Apache-2.0
// The product with packed weights: one operand table for its three kernels. make_image() fills in the
// parameters that all launches share, and enqueue_with() those of one launch. With more than 65,535 tiles of
// tokens the narrow kernel is launched several times. Wide and strip kernels have tensor maps, whose
// addresses a launch fills in.
#include <sluice/run/ops/packed.h>

#include <algorithm>
#include <cstddef>

#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/plan/text/lines.h>
#include <sluice/run/driver/error.h>
#include <sluice/run/driver/tensor_map.h>
#include <sluice/run/ops/gemm.h>

namespace sluice::packed {

Result<Operands> operands_of(const Problem& given) {
  constexpr int kTokenAlignment = 16, kBlobAlignment = 128;
  const Problem p = with_strides(given);
  const Epilogue& e = p.epilogue;
  const bool has_k = p.k > 0;
  Operands o;
  o.add({.name = "A",
         .type = p.a.type,
         .used = has_k,
         .alignment = kTokenAlignment,
         .because = "rows are copied 16 bytes at a time"},
        {.inner = p.k, .outer = a_rows(p), .ld = p.a.ld});
  o.add({.name = "B",
         .role = has_groups(p) ? Role::chosen : Role::streamed,
         .used = has_k,
         .alignment = kBlobAlignment,
         .because = "the parts of a blob are whole lines"},
        {.inner = blob_bytes(p), .ld = blob_bytes(p), .batch = p.batch, .batch_stride = blob_bytes(p)});
  o.add({.name = "C",
         .type = p.d.type,
         .used = e.residual,
         .without = ", or plan without a residual",
         .may_be = gemm::kD,
         .lies_like = p.m == 1 || p.c.ld == p.d.ld},
        {.inner = p.n, .outer = p.m, .ld = p.c.ld});
  o.add({.name = "D", .role = Role::write, .type = p.d.type},
        {.inner = d_columns(p), .outer = p.m, .ld = p.d.ld});
  o.add({.name = "bias",
         .role = Role::weight,
         .type = e.bias_type,
         .used = e.bias != Bias::none,
         .without = ", or plan without a bias"},
        {column_vectors(p) * p.n});
  o.add({.name = "scale_a",
         .type = DType::fp32,
         .used = has_k && scale_a_count(p) > 0,
         .without = ", or plan with scale_a none"},
        {scale_a_count(p)});
  o.add({.name = "scale_b", .used = false}, {});
  o.add({.name = "scale_d",
         .type = DType::fp32,
         .used = e.scale_d != ScaleMode::none,
         .without = ", or plan with scale_d none"},
        {1});
  o.add({.name = "gamma",
         .role = Role::weight,
         .type = p.a.type,
         .used = has_k && p.norm_a,
         .alignment = kTokenAlignment,
         .because = "it is copied 16 bytes at a time",
         .without = ", or plan without norm_a"},
        {p.k});
  o.add({.name = "groups", .type = DType::fp32, .used = reads_table(p)}, {table_size(p)});
  for (const char* name : {"scale_out", "row_factors"}) o.add({.name = name, .used = false}, {});
  o.add({.name = "the workspace", .role = Role::scratch, .used = false}, {});
  SLUICE_TRY(o.check_extents());
  return o;
}

Result<void> check_scalars(const Problem& p, const gemm::Args& args) {
  const auto refuse = [](const char* name, float value, const char* why) {
    return Error{ErrorCode::invalid_argument,
                 std::string(name) + " = " + formatted("%g", value) + " must be 1: " + why};
  };
  if (args.alpha != 1.0f)
    return refuse("alpha", args.alpha,
                  "the weights are packed; multiply it into scale_a or the next product");
  if (p.epilogue.residual && args.beta != 1.0f)
    return refuse("beta", args.beta, "the weights are packed; plan without a residual not to read C");
  return p.k > 0 && p.norm_a ? check_epsilon(args.epsilon) : Result<void>{};
}

namespace {

static_assert(offsetof(WideParams, map_x) % alignof(CUtensorMap) == 0);
static_assert(offsetof(WideParams, map_d) % alignof(CUtensorMap) == 0);
static_assert(offsetof(StripParams, map_x) % alignof(CUtensorMap) == 0);

constexpr int kBand = 8;         // token tiles in a raster band, so that the X of 2048 tokens stays in L2
constexpr int kStoreUnit = 16;   // bytes: the smallest write of a TMA store (docs/findings/tma-store-tail.md)
constexpr int kSwizzleRows = 8;  // the shared-memory swizzle pattern repeats after this many rows

/// Returns whether rows of D (or C) allow vector accesses of four elements.
bool allows_vectors(const Problem& p, const void* d, i64 ld) {
  constexpr int kVector = 4;
  return d_columns(p) % kVector == 0 && (p.m == 1 || ld % kVector == 0) &&
         reinterpret_cast<u64>(d) % static_cast<u64>(kVector * bytes_of(p.d.type)) == 0;
}

/// Fills in a problem's sizes for wide and strip kernels, with `tokens` tokens per tile.
template <class Params>
Params sized(const Problem& p, int tokens) {
  Params params{};
  params.strip_bytes = strip_bytes(p.b.packed, p.k);
  params.ld_d = p.d.ld;
  params.m = static_cast<int>(p.m);
  params.n = static_cast<int>(d_columns(p));
  params.k_tiles = static_cast<int>(packed_k_tiles(p.k));
  params.strips = static_cast<int>(strip_count(p));
  params.token_tiles = static_cast<int>(ceil_div(p.m, i64{tokens}));
  return params;
}

/// Returns how many tokens one TMA box of X holds. Loading rows that only pad a tile costs more than loading
/// real rows. If the wide kernel has only one tile of tokens, its box is as small as the tokens allow,
/// rounded up to the swizzle's period. The strip kernel's box starts at a swizzle period, so any size works.
int box_tokens(const Problem& p, const WideConfig& c) {
  if (c.cluster_n == 1 && p.m < c.tokens) return round_up(static_cast<int>(p.m), kSwizzleRows);
  return c.tokens / c.cluster_n;
}
int box_tokens(const Problem& p, const StripConfig& c) {
  return static_cast<int>(std::min(p.m, i64{c.tokens}));
}

TensorMapShape map_of_x(const Problem& p, int box_k, int box_tokens) {
  return {.type = p.a.type,
          .inner = p.k,
          .outer = p.m,
          .ld = p.a.ld,
          .box_inner = box_k,
          .box_outer = box_tokens};
}

/// The parts of a launch that load() fills in.
struct Image {
  LaunchShape& shape;
  Params& params;
};

/// Fills in the launch shape and the parameters of one kind of kernel. Errors: those of encode_tensor_map.
Result<void> make_image(const ops::Units&, const Problem& p, const NarrowConfig& c, Image image) {
  const i64 token_tiles =
      has_groups(p) ? most_group_tiles(p, tile_tokens(c)) : ceil_div(p.m, i64{tile_tokens(c)});
  image.shape = {.grid_x = static_cast<u32>(ceil_div(p.n, i64{tile_rows(c)}) * c.parts),
                 .grid_y = static_cast<u32>(std::min(kMaxGridY, token_tiles)),
                 .block_x = static_cast<u32>(threads_of(c)),
                 .cluster_x = static_cast<u32>(c.parts)};
  image.params = NarrowParams{.strip_bytes = strip_bytes(p.b.packed, p.k),
                              .ld_x = a_rows(p) == 1 ? 0 : p.a.ld,  // a single token may have any pitch
                              .ld_d = p.d.ld,
                              .n = static_cast<int>(d_columns(p)),
                              .k = static_cast<int>(p.k),
                              .k_tiles = static_cast<int>(packed_k_tiles(p.k)),
                              .ld_c = p.c.ld,
                              .blob_bytes = blob_bytes(p),
                              .group_count = static_cast<int>(p.batch),
                              .group_pitch = p.groups.pitch};
  return {};
}

/// The grid has as many clusters as fit on the GPU, but not more than there are tiles.
Result<void> make_image(const ops::Units& units, const Problem& p, const WideConfig& c, Image image) {
  const int cluster = cluster_size(c);
  auto& params = image.params.emplace<WideParams>(sized<WideParams>(p, c.tokens));
  params.row_tiles = static_cast<int>(ceil_div(p.n, i64{kWideRows * c.cluster_n}));
  params.band = std::min(kBand, params.token_tiles);
  params.x_bytes = static_cast<u32>(box_tokens(p, c) * c.cluster_n * kWideStageK * bytes_of(p.a.type));
  const int tiles = params.token_tiles * params.row_tiles;
  const int resident = clusters_at_once(cluster, units.device.info());
  image.shape = {.grid_x = static_cast<u32>(std::min(tiles, resident) * cluster),
                 .block_x = kWideThreads,
                 .cluster_x = static_cast<u32>(cluster)};
  const DriverApi& api = *units.device.impl().api;
  SLUICE_TRY(encode_tensor_map(api, "A", map_of_x(p, kWideStageK, box_tokens(p, c)), params.map_x));
  if (!rows_allow_boxes(p)) return {};
  const TensorMapShape d{.type = p.d.type,
                         .inner = p.n,
                         .outer = p.m,
                         .ld = p.d.ld,
                         .box_inner = kStripRows,
                         .box_outer = store_tokens(c)};
  return encode_tensor_map(api, "D", d, params.map_d);
}

Result<void> make_image(const ops::Units& units, const Problem& p, const StripConfig& c, Image image) {
  auto& params = image.params.emplace<StripParams>(sized<StripParams>(p, c.tokens));
  params.x_bytes = static_cast<u32>(box_tokens(p, c) * kPackedTileK * bytes_of(p.a.type));
  const i64 tiles = params.token_tiles * ceil_div(d_columns(p), i64{tile_columns(c)});
  image.shape = {.grid_x = static_cast<u32>(tiles * c.parts),
                 .block_x = static_cast<u32>(threads_of(c)),
                 .cluster_x = static_cast<u32>(c.parts)};
  if (p.k == 0) return {};
  return encode_tensor_map(*units.device.impl().api, "A",
                           map_of_x(p, kPackedTileK / bytes_of(p.a.type), box_tokens(p, c)), params.map_x);
}

template <class Params>
void patch_shared(Params& params, const gemm::Args& args) {
  params.weights = args.b;
  params.d = args.d;
  params.bias = args.bias;
  params.prefetch = args.prefetch;
  params.hand_off = args.hand_off;
}

Result<void> map_error(const DriverApi& api, CUresult code, const gemm::Args& args) {
  if (code == CUDA_SUCCESS) return {};
  return driver_error(api, code, "cuTensorMapReplaceAddress", "A " + hex(args.a) + ", D " + hex(args.d));
}

/// Enqueues the launches of one kind of kernel with a copy of its parameters. The arguments are already
/// checked.
Result<void> enqueue_with(const NarrowParams& image, const LoadedKernel& kernel, const gemm::Args& args,
                          Stream stream) {
  NarrowParams params = image;
  const Problem& p = kernel.plan.problem;
  patch_shared(params, args);
  params.vectors =
      allows_vectors(p, args.d, p.d.ld) && (!p.epilogue.residual || allows_vectors(p, args.c, p.c.ld));
  params.gamma = args.gamma;
  params.epsilon = args.epsilon;
  if (has_groups(p)) {
    params.m = static_cast<int>(p.m);
    params.x = args.a;
    params.group_numbers = args.groups;
    return launch_kernel(kernel.api, kernel.function, kernel.shape, &params, stream);
  }
  const i64 tile = kernel.plan.config.tile.m, step = kMaxGridY * tile;
  for (i64 first = 0; first < p.m; first += step) {
    const i64 tokens = std::min(step, p.m - first);
    params.m = static_cast<int>(tokens);
    // Computed as integers: X may be null if k = 0, and arithmetic on a null pointer is undefined.
    params.x = reinterpret_cast<const void*>(reinterpret_cast<u64>(args.a) +
                                             static_cast<u64>(first * params.ld_x * bytes_of(p.a.type)));
    params.d = static_cast<u8*>(args.d) + first * params.ld_d * bytes_of(p.d.type);
    if (p.epilogue.residual)
      params.c = static_cast<const u8*>(args.c) + first * params.ld_c * bytes_of(p.d.type);
    LaunchShape shape = kernel.shape;
    shape.grid_y = static_cast<u32>(ceil_div(tokens, tile));
    SLUICE_TRY(launch_kernel(kernel.api, kernel.function, shape, &params, stream));
  }
  return {};
}

Result<void> enqueue_with(const WideParams& image, const LoadedKernel& kernel, const gemm::Args& args,
                          Stream stream) {
  alignas(CUtensorMap) WideParams params = image;
  patch_shared(params, args);
  params.stores_boxes =
      rows_allow_boxes(kernel.plan.problem) && reinterpret_cast<u64>(args.d) % kStoreUnit == 0;
  CUresult code = replace_address(kernel.api, params.map_x, args.a);
  if (code == CUDA_SUCCESS && params.stores_boxes) code = replace_address(kernel.api, params.map_d, args.d);
  SLUICE_TRY(map_error(kernel.api, code, args));
  return launch_kernel(kernel.api, kernel.function, kernel.shape, &params, stream);
}

Result<void> enqueue_with(const StripParams& image, const LoadedKernel& kernel, const gemm::Args& args,
                          Stream stream) {
  alignas(CUtensorMap) StripParams params = image;
  patch_shared(params, args);
  params.scale_x = args.scale_a;
  params.scale_d = args.scale_d;
  params.vectors = allows_vectors(kernel.plan.problem, args.d, kernel.plan.problem.d.ld);
  if (params.k_tiles > 0)
    SLUICE_TRY(map_error(kernel.api, replace_address(kernel.api, params.map_x, args.a), args));
  return launch_kernel(kernel.api, kernel.function, kernel.shape, &params, stream);
}

}  // namespace

Result<void> load(const ops::Units& units, const Plan& plan, Params& params, LaunchShape& shape) {
  SLUICE_TRY(visit_decoder(plan.config, [&](const auto& c) {
    return make_image(units, plan.problem, c, {shape, params});
  }));
  shape.smem_bytes = static_cast<u32>(plan.smem_bytes);
  shape.dependent = plan.config.overlap.wait != Wait::none;
  return {};
}

Result<void> enqueue(const LoadedKernel& kernel, const Params& params, const gemm::Args& args,
                     Stream stream) {
  return std::visit([&](const auto& kind) { return enqueue_with(kind, kernel, args, stream); }, params);
}

int launches_of(const Plan& plan) {
  if (plan.config.schedule != Schedule::narrow || has_groups(plan.problem)) return 1;
  return static_cast<int>(ceil_div(plan.problem.m, kMaxGridY * plan.config.tile.m));
}

}  // namespace sluice::packed
