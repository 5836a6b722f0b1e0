// SPDX-License-Identifier: Apache-2.0
// The product with packed weights: one operand table for its three kernels. make_image() fills in the
// parameters that all launches share, and enqueue_with() those of one launch. With more than 65,535 tiles of
// tokens the narrow kernel is launched several times. Wide and strip kernels have tensor maps, whose
// addresses a launch fills in.
#include <sluice/host/ops/kernel_handle.h>
#include <sluice/host/ops/packed.h>

#include <algorithm>
#include <cstddef>

#include <sluice/host/device/spread.h>
#include <sluice/host/driver/error.h>
#include <sluice/host/driver/tensor_map.h>
#include <sluice/host/planner/dense/cluster_grid.h>
#include <sluice/host/text/packed_units.h>

namespace sluice {
namespace packed {

Result<Operands> operands_of(const PackedProblem& p) {
  constexpr int kTokenAlignment = 16, kBlobAlignment = 128;
  const bool has_k = p.k > 0;
  const i64 ld_x = p.ld_x == 0 ? p.k : p.ld_x, ld_d = p.ld_d == 0 ? d_columns(p) : p.ld_d;
  const i64 ld_c = p.ld_c == 0 ? p.n : p.ld_c;
  Operands o;
  o.add({.name = "X",
         .type = p.x,
         .used = has_k,
         .alignment = kTokenAlignment,
         .because = "tokens are copied 16 bytes at a time"},
        {.inner = p.k, .outer = p.m, .ld = ld_x});
  o.add({.name = "weights",
         .role = Role::streamed,
         .used = has_k,
         .alignment = kBlobAlignment,
         .because = "the parts of a blob are whole lines"},
        {blob_bytes(p)});
  o.add({.name = "bias",
         .role = Role::weight,
         .type = p.bias_type,
         .used = p.bias != Bias::none,
         .without = ", or plan without a bias"},
        {p.n});
  o.add({.name = "scale_x",
         .type = DType::fp32,
         .used = has_k && scale_x_count(p) > 0,
         .without = ", or plan with scale_x none"},
        {scale_x_count(p)});
  o.add({.name = "scale_d",
         .type = DType::fp32,
         .used = p.scale_d != ScaleMode::none,
         .without = ", or plan with scale_d none"},
        {1});
  o.add({.name = "gamma",
         .role = Role::weight,
         .type = p.x,
         .used = has_k && p.norm_x,
         .alignment = kTokenAlignment,
         .because = "it is copied 16 bytes at a time",
         .without = ", or plan without norm_x"},
        {p.k});
  o.add({.name = "C",
         .type = p.d,
         .used = p.residual,
         .without = ", or plan without a residual",
         .may_be = kD,
         .lies_like = p.m == 1 || ld_c == ld_d},
        {.inner = p.n, .outer = p.m, .ld = ld_c});
  o.add({.name = "D", .role = Role::write, .type = p.d}, {.inner = d_columns(p), .outer = p.m, .ld = ld_d});
  SLUICE_TRY(o.check_extents());
  return o;
}

Pointers pointers_of(const Args& x) {
  return {.at = {x.x, x.weights, x.bias, x.scale_x, x.scale_d, x.gamma, x.c, x.d}};
}

Args args_at(const Pointers& p) {
  return {.x = p.at[kX],
          .weights = p.at[kWeights],
          .d = const_cast<void*>(p.at[kD]),
          .bias = p.at[kBias],
          .scale_x = static_cast<const float*>(p.at[kScaleX]),
          .scale_d = static_cast<const float*>(p.at[kScaleD]),
          .gamma = p.at[kGamma],
          .c = p.at[kC]};
}

}  // namespace packed

namespace ops {
namespace {

using Image = Packed::Image;

static_assert(offsetof(WideParams, map_x) % alignof(CUtensorMap) == 0);
static_assert(offsetof(WideParams, map_d) % alignof(CUtensorMap) == 0);
static_assert(offsetof(StripParams, map_x) % alignof(CUtensorMap) == 0);

constexpr int kBand = 8;         // token tiles in a raster band, so that the X of 2048 tokens stays in L2
constexpr int kStoreUnit = 16;   // bytes: the smallest write of a TMA store (docs/findings/tma-store-tail.md)
constexpr int kSwizzleRows = 8;  // the shared-memory swizzle pattern repeats after this many rows

/// Returns whether rows of D (or C) allow vector accesses of four elements.
bool allows_vectors(const PackedProblem& p, const void* d, i64 ld) {
  constexpr int kVector = 4;
  return d_columns(p) % kVector == 0 && (p.m == 1 || ld % kVector == 0) &&
         reinterpret_cast<u64>(d) % static_cast<u64>(kVector * bytes_of(p.d)) == 0;
}

/// Fills in a problem's sizes for wide and strip kernels, with `tokens` tokens per tile.
template <class Params>
Params sized(const PackedProblem& p, int tokens) {
  Params params{};
  params.strip_bytes = strip_bytes(p.weights, p.k);
  params.ld_d = p.ld_d;
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
int box_tokens(const PackedProblem& p, const WideConfig& c) {
  if (c.cluster_n == 1 && p.m < c.tokens) return round_up(static_cast<int>(p.m), kSwizzleRows);
  return c.tokens / c.cluster_n;
}
int box_tokens(const PackedProblem& p, const StripConfig& c) {
  return static_cast<int>(std::min(p.m, i64{c.tokens}));
}

TensorMapShape map_of_x(const PackedProblem& p, int box_k, int box_tokens) {
  return {.type = p.x, .inner = p.k, .outer = p.m, .ld = p.ld_x, .box_inner = box_k, .box_outer = box_tokens};
}

/// Fills in the launch shape and the parameters of one kind of kernel. Errors: those of encode_tensor_map.
Result<void> make_image(const Units&, const PackedProblem& p, const NarrowConfig& c, Image& image) {
  image.shape = {.grid_x = static_cast<u32>(ceil_div(p.n, i64{tile_rows(c)}) * c.parts),
                 .grid_y = static_cast<u32>(std::min(kMaxGridY, ceil_div(p.m, i64{tile_tokens(c)}))),
                 .block_x = static_cast<u32>(threads_of(c)),
                 .cluster_x = static_cast<u32>(c.parts)};
  image.params = NarrowParams{.strip_bytes = strip_bytes(p.weights, p.k),
                              .ld_x = p.m == 1 ? 0 : p.ld_x,  // a single token may have any pitch
                              .ld_d = p.ld_d,
                              .n = static_cast<int>(d_columns(p)),
                              .k = static_cast<int>(p.k),
                              .k_tiles = static_cast<int>(packed_k_tiles(p.k)),
                              .ld_c = p.ld_c};
  return {};
}

/// The grid has as many clusters as fit on the GPU, but not more than there are tiles.
Result<void> make_image(const Units& units, const PackedProblem& p, const WideConfig& c, Image& image) {
  const int cluster = cluster_size(c);
  auto& params = image.params.emplace<WideParams>(sized<WideParams>(p, c.tokens));
  params.row_tiles = static_cast<int>(ceil_div(p.n, i64{kWideRows * c.cluster_n}));
  params.band = std::min(kBand, params.token_tiles);
  params.x_bytes = static_cast<u32>(box_tokens(p, c) * c.cluster_n * kWideStageK * bytes_of(p.x));
  const int tiles = params.token_tiles * params.row_tiles;
  const int resident = clusters_at_once(cluster, units.device.info());
  image.shape = {.grid_x = static_cast<u32>(std::min(tiles, resident) * cluster),
                 .block_x = kWideThreads,
                 .cluster_x = static_cast<u32>(cluster)};
  const DriverApi& api = *units.device.impl().api;
  SLUICE_TRY(encode_tensor_map(api, "X", map_of_x(p, kWideStageK, box_tokens(p, c)), params.map_x));
  if (!packed::rows_allow_boxes(p)) return {};
  const TensorMapShape d{.type = p.d,
                         .inner = p.n,
                         .outer = p.m,
                         .ld = p.ld_d,
                         .box_inner = kStripRows,
                         .box_outer = store_tokens(c)};
  return encode_tensor_map(api, "D", d, params.map_d);
}

Result<void> make_image(const Units& units, const PackedProblem& p, const StripConfig& c, Image& image) {
  auto& params = image.params.emplace<StripParams>(sized<StripParams>(p, c.tokens));
  params.x_bytes = static_cast<u32>(box_tokens(p, c) * kPackedTileK * bytes_of(p.x));
  const i64 tiles = params.token_tiles * ceil_div(d_columns(p), i64{tile_columns(c)});
  image.shape = {.grid_x = static_cast<u32>(tiles * c.parts),
                 .block_x = static_cast<u32>(threads_of(c)),
                 .cluster_x = static_cast<u32>(c.parts)};
  if (p.k == 0) return {};
  return encode_tensor_map(*units.device.impl().api, "X",
                           map_of_x(p, kPackedTileK / bytes_of(p.x), box_tokens(p, c)), params.map_x);
}

template <class Params>
void patch_shared(Params& params, const packed::Args& args) {
  params.weights = args.weights;
  params.d = args.d;
  params.bias = args.bias;
  params.prefetch = args.prefetch;
  params.hand_off = args.hand_off;
}

Result<void> map_error(const DriverApi& api, CUresult code, const packed::Args& args) {
  if (code == CUDA_SUCCESS) return {};
  return driver_error(api, code, "cuTensorMapReplaceAddress", "X " + hex(args.x) + ", D " + hex(args.d));
}

/// Enqueues the launches of one kind of kernel with a copy of its parameters. The arguments are already
/// checked.
Result<void> enqueue_with(const NarrowParams& image, const Prepared<Packed>& kernel, const packed::Args& args,
                          Stream stream) {
  NarrowParams params = image;
  const PackedProblem& p = kernel.plan.problem;
  patch_shared(params, args);
  params.vectors = allows_vectors(p, args.d, p.ld_d) && (!p.residual || allows_vectors(p, args.c, p.ld_c));
  params.gamma = args.gamma;
  params.epsilon = args.epsilon;
  const i64 tile = tile_tokens(std::get<NarrowConfig>(kernel.plan.config)), step = kMaxGridY * tile;
  for (i64 first = 0; first < p.m; first += step) {
    const i64 tokens = std::min(step, p.m - first);
    params.m = static_cast<int>(tokens);
    // Computed as integers: X may be null if k = 0, and arithmetic on a null pointer is undefined.
    params.x = reinterpret_cast<const void*>(reinterpret_cast<u64>(args.x) +
                                             static_cast<u64>(first * params.ld_x * bytes_of(p.x)));
    params.d = static_cast<u8*>(args.d) + first * params.ld_d * bytes_of(p.d);
    if (p.residual) params.c = static_cast<const u8*>(args.c) + first * params.ld_c * bytes_of(p.d);
    LaunchShape shape = kernel.image.shape;
    shape.grid_y = static_cast<u32>(ceil_div(tokens, tile));
    SLUICE_TRY(launch_kernel(kernel.api(), kernel.modules[0]->function(), shape, &params, stream));
  }
  return {};
}

Result<void> enqueue_with(const WideParams& image, const Prepared<Packed>& kernel, const packed::Args& args,
                          Stream stream) {
  alignas(CUtensorMap) WideParams params = image;
  patch_shared(params, args);
  params.stores_boxes =
      packed::rows_allow_boxes(kernel.plan.problem) && reinterpret_cast<u64>(args.d) % kStoreUnit == 0;
  CUresult code = replace_address(kernel.api(), params.map_x, args.x);
  if (code == CUDA_SUCCESS && params.stores_boxes) code = replace_address(kernel.api(), params.map_d, args.d);
  SLUICE_TRY(map_error(kernel.api(), code, args));
  return launch_kernel(kernel.api(), kernel.modules[0]->function(), kernel.image.shape, &params, stream);
}

Result<void> enqueue_with(const StripParams& image, const Prepared<Packed>& kernel, const packed::Args& args,
                          Stream stream) {
  alignas(CUtensorMap) StripParams params = image;
  patch_shared(params, args);
  params.scale_x = args.scale_x;
  params.scale_d = args.scale_d;
  params.vectors = allows_vectors(kernel.plan.problem, args.d, kernel.plan.problem.ld_d);
  if (params.k_tiles > 0)
    SLUICE_TRY(map_error(kernel.api(), replace_address(kernel.api(), params.map_x, args.x), args));
  return launch_kernel(kernel.api(), kernel.modules[0]->function(), kernel.image.shape, &params, stream);
}

}  // namespace

std::vector<std::string> Packed::units(const Plan& plan) {
  return packed::units_of(plan);
}

Result<void> Packed::load(const Units& units, Prepared<Packed>& kernel) {
  const Plan& plan = kernel.plan;
  Image& image = kernel.image;
  SLUICE_TAKE(auto&& operands, packed::operands_of(plan.problem));
  image.operands = operands;
  SLUICE_TRY(
      std::visit([&](const auto& c) { return make_image(units, plan.problem, c, image); }, plan.config));
  const Overlap overlap = overlap_of(plan.config);
  image.shape.smem_bytes = static_cast<u32>(plan.smem_bytes);
  image.shape.dependent = overlap.wait != Wait::none;
  SLUICE_TAKE(auto&& module, units.load(0, most_smem_bytes(overlap, plan.smem_bytes), image.shape.dependent));
  spread_ctas(overlap, module->registers(), units.device.info(), image.shape);
  kernel.modules = {module};
  return {};
}

Result<BoundCall> Packed::bind(const Prepared<Packed>& kernel, const Args& args) {
  if (kernel.image.operands[packed::kGamma].used) SLUICE_TRY(check_epsilon(args.epsilon));
  return BoundCall{kernel.image.operands, packed::pointers_of(args)};
}

Result<void> Packed::enqueue(const Prepared<Packed>& kernel, const BoundCall&, const Args& args,
                             Stream stream) {
  return std::visit([&](const auto& params) { return enqueue_with(params, kernel, args, stream); },
                    kernel.image.params);
}

int Packed::launches_of(const Plan& plan) {
  const auto* narrow = std::get_if<NarrowConfig>(&plan.config);
  return narrow == nullptr ? 1 : static_cast<int>(ceil_div(plan.problem.m, kMaxGridY * tile_tokens(*narrow)));
}

Result<packed::RowTable> Packed::plan_rows(const Device& device, const Problem& problem, RowRange rows) {
  return packed::plan_rows(problem, rows, device.info(), device.records());
}

Result<packed::Plan> Packed::plan_of_row(const RowTable& table, i64 m, const DeviceInfo& device) {
  return packed::plan(table, m, device);
}

}  // namespace ops

namespace packed {

Result<Kernel> prepare(const Device& device, const Plan& plan) {
  return ops::prepare<ops::Packed>(device, plan);
}

std::vector<Result<Kernel>> prepare(const Device& device, std::span<const Plan> plans,
                                    const gemm::Progress& progress) {
  return ops::prepare<ops::Packed>(device, plans, progress);
}

Result<RowSummary> prepare(const Device& device, const PackedProblem& problem, RowRange rows,
                           const gemm::Progress& progress) {
  return ops::prepare_rows<ops::Packed>(device, problem, rows, progress);
}

Result<void> launch(const Kernel& kernel, const Args& args, Stream stream) {
  return ops::launch<ops::Packed>(kernel.impl(), args, stream);
}

Result<Plan> race(const Device& device, const PackedProblem& problem, int candidates) {
  return ops::race_checked<ops::Packed>(device, problem, candidates);
}

Result<void> run(const Device& device, const PackedProblem& problem, const Args& args, Stream stream) {
  return ops::run<ops::Packed>(device, problem, args, stream);
}

}  // namespace packed

template class BasicKernel<packed::Plan>;

}  // namespace sluice
