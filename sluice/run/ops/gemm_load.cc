// SPDX-License-Identifier: Apache-2.0
// A product before its first launch: the checks of a plan, the operand table, and the kernel
// parameters that all launches share. gemm.cc has the launch.
#include <sluice/run/ops/gemm.h>

#include <limits>

#include <sluice/kernels/registry.h>
#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/plan/dense/numbering.h>
#include <sluice/plan/dense/slices.h>
#include <sluice/plan/text/units.h>
#include <sluice/run/device/locate.h>
#include <sluice/run/device/spread.h>
#include <sluice/run/driver/gemm_maps.h>
#include <sluice/spec/part_sums.h>

namespace sluice {
namespace gemm {
namespace {

constexpr i64 kMaxSize = std::numeric_limits<int>::max();

/// Returns `c` with the promotion (fp32 accumulation every 128 of k, or not) that the planner chooses for
/// `p`. A plan with any other value would break the promise of Problem::accumulate.
KernelConfig as_promised(const KernelConfig& c, const Problem& p) {
  KernelConfig promised = config_for(p, {c.schedule, c.tile.m, c.tile.n}, c.cluster, c.store);
  promised.stages = c.stages;
  promised.warps = c.warps;
  promised.combine = c.combine;
  promised.overlap = c.overlap;
  promised.epilogue = c.epilogue;
  return promised;
}

/// Checks that the configuration and the split fit the problem, which is already checked and not empty.
Result<void> check_choice(const Problem& checked, const Plan& plan) {
  const KernelConfig& c = plan.config;
  const auto invalid = [&](const std::string& rule) {
    return Error{ErrorCode::invalid_config, rule + ", in the plan " + to_string(c) + "; plan again"};
  };
  if (const char* rule = validate(c)) return invalid(rule);
  const Problem p = product_of(checked, c);
  if (p.a.type != c.a || p.b.type != c.b || p.d.type != c.d)
    return invalid("the types must be those of the problem");
  if (p.a.major != c.a_major || p.b.major != c.b_major)
    return invalid("the layouts must be those of the problem");
  if (!(canonical(p.epilogue) == canonical(c.epilogue)))
    return invalid("the epilogue must be that of the problem");
  if (c.combine == Combine::add && p.deterministic)
    return invalid("combine = add adds the parts of a tile in any order: ask for deterministic = false");
  if (c.scale_a_columns != scales_by_columns(p))
    return invalid("scale_a_columns must be whether the problem has a scale_a_ld");
  if (c.load_a != load_of(p.a, p.m, p) || c.load_b != load_of(p.b, p.n, p))
    return invalid("load_a and load_b must be those of the problem's strides and addresses");
  if (const KernelConfig promised = as_promised(c, p); !(c == promised))
    return invalid(std::string("accumulate = ") + name_of(p.accumulate) + " needs " + to_string(promised));
  if (const char* reason = why_not_tma_store(checked); c.store == StorePath::tma && reason != nullptr)
    return Error{ErrorCode::invalid_config, std::string("store = tma: ") + reason + "; store direct"};
  if (plan.split.clusters < 1 || plan.split.clusters > kMaxSize / cluster_size(c))
    return invalid("split.clusters = " + std::to_string(plan.split.clusters) + " must be in 1..2^31 CTAs");
  if (plan.split.group < 1)
    return invalid("split.group = " + std::to_string(plan.split.group) + " must be at least 1");
  // The kernel counts tiles in int. check_problem() keeps the end of the last cluster tile in that range;
  // this checks the number of tiles.
  const Problem counted = is_plain(c.schedule) ? expected(p) : p;  // with slots, a product for each
  const i64 rows = grid_rows(counted, c), columns = grid_columns(counted, c);
  const i64 plain_rows = rows * counted.batch;
  const bool fits = can_count_tiles(counted, c, plan.split.clusters) &&
                    plan.split.group <= kMaxSize / std::max(rows, columns);
  if (!fits)
    return Error{ErrorCode::invalid_size,
                 "m = " + std::to_string(checked.m) + ", n = " + std::to_string(checked.n) +
                     ", batch = " + std::to_string(p.batch) +
                     ": the number of tiles must stay below 2^31; split the problem"};
  if (is_plain(c.schedule) && plain_rows > kMaxGridY)
    return invalid("plain launches one row of CTAs per tile of A: " + std::to_string(plain_rows) +
                   " must be at most " + std::to_string(kMaxGridY));
  if (is_plain(c.schedule) && plan.split.numbering != Numbering::launch)
    return invalid("plain has no order of tiles to choose: split.numbering must be launch");
  if (is_plain(c.schedule) && (plan.split.slices != 1 || plan.split.clusters != plain_rows * columns))
    return invalid("plain launches one cluster per tile: split.clusters must be " +
                   std::to_string(plain_rows * columns) + " and split.slices 1");
  if (const std::string wrong = slices_problem(p, c, plan.split); !wrong.empty()) return invalid(wrong);
  if (const std::string wrong = numbering_problem(plan.split); !wrong.empty()) return invalid(wrong);
  return {};
}

}  // namespace

Result<Plan> sealed(const Plan& plan, const DeviceInfo& device) {
  if (is_packed(plan.problem)) return packed::sealed(plan, device);
  SLUICE_TRY(check_device(device));
  SLUICE_TAKE(auto&& checked, check_problem(plan.problem));
  if (!is_empty(checked)) SLUICE_TRY(check_choice(checked, plan));
  Plan sealed = plan;
  sealed.problem = checked;
  sealed.smem_bytes = smem_bytes(plan.config);
  sealed.workspace_bytes = is_empty(checked) ? 0 : workspace_bytes(plan.config, plan.split);
  return sealed;
}

namespace {

Extents x_extents(const Conv& v) {
  return {v.channels, x_pixels(v), x_pitch_of(v)};
}
Extents y_extents(const Conv& v) {
  return {v.filters, y_pixels(v), y_pitch_of(v)};
}
Extents w_extents(const Conv& v) {
  return {taps_of(v) * v.channels, v.filters, taps_of(v) * v.channels};
}
Extents extents_of_a(const Problem& p) {
  if (is_conv(p.conv)) return p.conv.op == ConvOp::fprop ? x_extents(p.conv) : y_extents(p.conv);
  return {inner_extent(p.a, a_rows(p), p.k), outer_extent(p.a, a_rows(p), p.k), p.a.ld, a_matrices(p),
          p.a.batch_stride};
}
Extents extents_of_b(const Problem& p) {
  if (is_conv(p.conv)) return p.conv.op == ConvOp::wgrad ? x_extents(p.conv) : w_extents(p.conv);
  return {inner_extent(p.b, p.n, p.k), outer_extent(p.b, p.n, p.k), p.b.ld, b_matrices(p), p.b.batch_stride};
}
Role role_of_b(const Problem& p) {
  if (p.conv.op == ConvOp::wgrad || sums_groups(p)) return Role::read;
  return has_groups(p) ? Role::chosen : Role::streamed;
}
Extents extents_of_d(const Problem& p) {
  switch (p.conv.op) {
    case ConvOp::none: break;
    case ConvOp::fprop: return y_extents(p.conv);
    case ConvOp::dgrad: return x_extents(p.conv);
    case ConvOp::wgrad: return w_extents(p.conv);
  }
  return {d_columns(p), p.m, p.d.ld, d_matrices(p), p.d.batch_stride};
}

}  // namespace

Result<Operands> operands_of(const Problem& given, StorePath store, i64 workspace) {
  if (is_packed(given)) return packed::operands_of(given);
  const char* for_tma = "TMA addresses 16-byte units";
  const char* for_epilogue = ", or plan without it";
  const Problem p = with_strides(given);
  const Epilogue& e = p.epilogue;
  const bool has_k = p.k > 0, by_tma = store == StorePath::tma;
  const bool like_d = e.c_type == p.d.type && (p.m == 1 || p.c.ld == p.d.ld) &&
                      (d_matrices(p) == 1 || p.c.batch_stride == p.d.batch_stride);
  const auto alignment_of = [&](const Matrix& x, i64 rows) {
    return load_of(x, rows, p) == Load::tma ? static_cast<int>(kTmaUnit) : bytes_of(x.type);
  };
  const bool any_address = is_16bit(p.a.type) && !is_conv(p.conv);
  Operands o;
  const ConvNames names = names_of(p.conv);
  o.add({.name = names.a,
         .type = p.a.type,
         .used = has_k,
         .alignment = alignment_of(p.a, p.m),
         .because = for_tma,
         .without = ", or alpha = 0 not to read it"},
        extents_of_a(p));
  if (any_address) o[kA].remedy = "move it, or plan with a.unaligned = true";
  o.add({.name = names.b,
         .role = role_of_b(p),
         .type = p.b.type,
         .used = has_k,
         .alignment = alignment_of(p.b, p.n),
         .because = for_tma,
         .without = ", or alpha = 0 not to read it"},
        extents_of_b(p));
  if (any_address) o[kB].remedy = "move it, or plan with b.unaligned = true";
  o.add({.name = "C",
         .type = e.c_type,
         .used = e.residual,
         .without = ", or beta = 0 not to read it",
         .may_be = kD,
         .lies_like = like_d},
        is_conv(p.conv) ? extents_of_d(p) : Extents{p.n, p.m, p.c.ld, d_matrices(p), p.c.batch_stride});
  o.add({.name = names.d, .role = Role::write, .type = p.d.type}, extents_of_d(p));
  if (by_tma) {
    o[kD].alignment = static_cast<int>(kTmaUnit);
    o[kD].because = for_tma;
    o[kD].remedy = "move it, or plan with d.unaligned = true (StorePath::direct)";
  }
  o.add({.name = "bias",
         .role = Role::weight,
         .type = e.bias_type,
         .used = e.bias != Bias::none,
         .without = for_epilogue},
        {column_vectors(p) * p.n});
  o.add({.name = "scale_a", .type = DType::fp32, .used = scale_a_count(p) > 0, .without = for_epilogue},
        scales_by_columns(p) ? Extents{scale_a_rows(p), scale_a_matrices(p) * scale_blocks(p.k), p.scale_a_ld}
                             : Extents{scale_a_count(p)});
  o.add({.name = "scale_b",
         .role = Role::weight,
         .type = DType::fp32,
         .used = scale_b_count(p) > 0,
         .without = for_epilogue},
        {scale_b_count(p)});
  o.add({.name = "scale_d",
         .type = DType::fp32,
         .used = e.scale_d == ScaleMode::tensor,
         .without = for_epilogue},
        {1});
  o.add({.name = "gamma", .used = false}, {});
  // Four bytes per group or slot. Read even if alpha = 0: it says which rows of D exist.
  o.add({.name = "groups", .type = DType::fp32, .used = reads_table(p)}, {table_size(p)});
  o.add({.name = "scale_out",
         .role = Role::write,
         .type = DType::fp32,
         .used = scale_out_count(p) > 0,
         .without = ", or plan with scale_d none or tensor"},
        {scale_out_count(p)});
  o.add({.name = "row_factors",
         .type = DType::fp32,
         .used = row_factor_count(p) > 0,
         .without = ", or plan without row_factors"},
        {row_factor_count(p)});
  o.add({.name = "the workspace",
         .role = Role::scratch,
         .used = workspace > 0,
         .alignment = kWorkspaceAlign,
         .because = "its slots are whole lines of L2",
         .without = ", or plan with a workspace_limit (splits = 1 needs none)"},
        {workspace});
  SLUICE_TRY(o.check_extents());
  return o;
}

int launches_of(const Plan& plan) {
  return is_packed(plan.problem) ? packed::launches_of(plan) : 1;
}

std::vector<std::string> units_of(const Plan& plan) {
  if (is_empty(plan.problem)) return {};
  std::vector<std::string> units = unit_texts(plan.config);
  if (plan.split.numbering == Numbering::gpc) units.push_back(locate_unit_text());
  return units;
}

}  // namespace gemm

namespace ops {
namespace {

/// Fills in everything except pointers, alpha and beta.
Result<void> fill_params(const DriverApi& api, const Plan& plan, GemmParams& params) {
  const Problem p = product_of(plan.problem, plan.config);
  const KernelConfig& c = plan.config;
  params.c_ld = p.c.ld;
  params.c_batch_stride = p.c.batch_stride;
  params.d_ld = p.d.ld;
  params.d_batch_stride = p.d.batch_stride;
  params.m = static_cast<int>(p.m);
  params.n = static_cast<int>(p.n);
  params.grid = tile_grid(c, static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k),
                          static_cast<int>(p.batch));
  params.raster = plan.split.raster;
  params.raster_group = plan.split.group;
  params.numbering = plan.split.numbering;
  params.slices = slices_of(params.grid, plan.split);
  // If there is only one row, its ld may be anything. With 0, loads past the last row read that row again.
  params.a_ld = outer_extent(p.a, a_rows(p), p.k) > 1 ? p.a.ld : 0;
  params.a_batch_stride = p.a.batch_stride;
  params.b_ld = outer_extent(p.b, p.n, p.k) > 1 ? p.b.ld : 0;
  params.b_batch_stride = p.b.batch_stride;
  params.k = static_cast<int>(p.k);
  if (is_plain(c.schedule) || is_conv(p.conv)) return {};
  struct Map {
    const char* name;
    TensorMap& target;
    bool used;
    TensorMapShape shape;
  };
  const char* const name_a = is_swapped(c) ? "B" : "A";  // the names that the caller knows them by
  const char* const name_b = is_swapped(c) ? "A" : "B";
  const Map maps[] = {{name_a, params.map_a, p.k > 0 && c.load_a == Load::tma, a_map_shape(c, p)},
                      {name_b, params.map_b, p.k > 0 && c.load_b == Load::tma, b_map_shape(c, p)},
                      {name_a, params.map_a_tail, has_tail_a(c, p), a_tail_shape(c, p)},
                      {name_b, params.map_b_tail, has_tail_b(c, p), b_tail_shape(c, p)},
                      {"D", params.map_d, c.store == StorePath::tma, d_map_shape(c, p)}};
  for (const Map& map : maps) {
    if (!map.used) continue;
    if (Result<void> encoded = encode_tensor_map(api, map.name, map.shape, map.target); !encoded)
      return encoded;
  }
  return {};
}

Result<void> number_clusters(const Device& device, const Plan& plan, GemmParams& params) {
  if (plan.split.numbering == Numbering::launch) return {};
  const Result<std::shared_ptr<const GpcOrder>> order = gpc_order(device);
  if (!order) return order.error();
  const auto numbers = numbers_by_gpc((*order)->of(cluster_size(plan.config)), plan.split);
  std::copy(numbers.begin(), numbers.end(), params.numbers);
  return {};
}

}  // namespace

std::vector<std::string> Gemm::units(const Plan& plan) {
  return gemm::units_of(plan);
}

Result<void> Gemm::load(const Units& units, Prepared<Gemm>& kernel) {
  const Plan& plan = kernel.plan;
  const DeviceInfo& info = units.device.info();
  Image& image = kernel.image;
  SLUICE_TAKE(auto&& operands, gemm::operands_of(plan.problem, plan.config.store, plan.workspace_bytes));
  image.operands = operands;
  if (is_packed(plan.problem)) {
    SLUICE_TRY(packed::load(units, plan, image.packed, image.shape));
    SLUICE_TAKE(auto&& module,
                units.load(0, most_smem_bytes(plan.config.overlap, plan.smem_bytes), image.shape.dependent));
    spread_ctas(plan.config.overlap, module->registers(), info, image.shape);
    kernel.modules = {module};
    return {};
  }
  SLUICE_TRY(fill_params(kernel.api(), plan, image.params));
  if (is_conv(plan.problem.conv)) {
    SLUICE_TAKE(image.conv, fill_conv_params(kernel.api(), plan, image.params));
  }
  SLUICE_TRY(number_clusters(units.device, plan, image.params));
  const u32 cluster = static_cast<u32>(cluster_size(plan.config));
  const bool plain = is_plain(plan.config.schedule);
  const TileGrid& grid = image.params.grid;
  image.shape = {.grid_x = static_cast<u32>(plain ? grid.columns : plan.split.clusters) * cluster,
                 .grid_y = static_cast<u32>(!plain                  ? 1
                                            : by_slots(plan.config) ? image.params.m
                                                                    : grid.rows * grid.batch),
                 .block_x = static_cast<u32>(threads_of(plan.config)),
                 .cluster_x = cluster,
                 .smem_bytes = static_cast<u32>(plan.smem_bytes),
                 .dependent = plan.config.overlap.wait != Wait::none};
  SLUICE_TAKE(auto&& module,
              units.load(0, most_smem_bytes(plan.config.overlap, plan.smem_bytes), image.shape.dependent));
  spread_ctas(plan.config.overlap, module->registers(), info, image.shape);
  kernel.modules = {module};
  const Problem product = product_of(plan.problem, plan.config);
  image.has_tail_a = has_tail_a(plan.config, product);
  image.has_tail_b = has_tail_b(plan.config, product);
  if (plan.config.combine == Combine::separate && image.params.slices.count > 1) {
    SLUICE_TAKE(auto&& sums, units.load(1, 0, true));
    kernel.modules.push_back(sums);
    const SumGrid grid_of_sums = sum_grid(plan.config, tiles_in_slices(plan.split));
    image.sum_shape = {.grid_x = static_cast<u32>(grid_of_sums.blocks),
                       .block_x = static_cast<u32>(grid_of_sums.summers * kWarpgroupThreads),
                       .dependent = true};
  }
  return {};
}

Result<gemm::RowTable> Gemm::plan_rows(const Device& device, const Problem& problem, RowRange rows) {
  if (is_conv(problem.conv))
    return Error{ErrorCode::invalid_argument,
                 "the problem is a convolution: a range of rows must be that of a product; its kernels serve "
                 "every size already, prepare each problem"};
  if (reads_table(problem))
    return Error{
        ErrorCode::invalid_argument,
        "the problem's rows are groups, and its kernel serves every table: a range of rows must be that "
        "of a plain product; prepare the problem"};
  return gemm::plan_rows(problem, rows, device.info(), device.records());
}

Result<Plan> Gemm::plan_of_row(const RowTable& table, i64 m, const DeviceInfo& device) {
  return gemm::plan(table, m, device);
}

}  // namespace ops
}  // namespace sluice
