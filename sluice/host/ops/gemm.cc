// SPDX-License-Identifier: Apache-2.0
// Plan -> Kernel -> launch, and run, which does all three. prepare does everything that takes time, so that
// launch is a few checks, a copy of the parameters and six short driver calls; one more for each operand
// whose last slice sticks out, for a second kernel that adds up parts, and for each pointer that was not seen
// before (tests/unit/launch_cost_test.cc).
#include <sluice/host/ops/gemm.h>

#include <atomic>

#include <sluice/host/device/capture.h>
#include <sluice/host/device/locate.h>
#include <sluice/host/device/spread.h>
#include <sluice/host/driver/error.h>
#include <sluice/host/driver/gemm_maps.h>
#include <sluice/host/driver/workspace_turn.h>
#include <sluice/host/planner/dense/cluster_grid.h>
#include <sluice/spec/part_sums.h>

namespace sluice {

std::size_t ProblemHash::operator()(const Problem& p) const {
  return hash_of({p.m, p.n, p.k, p.batch, p.a.ld, p.b.ld, p.d.ld, static_cast<i64>(p.a.type),
                  static_cast<i64>(p.d.type), static_cast<i64>(p.epilogue.activation),
                  static_cast<i64>(p.epilogue.update), static_cast<i64>(p.epilogue.gated)});
}

namespace gemm {
namespace {

/// Numbers of the process, not of a Device: two handles may share a GPU and a workspace. 0 is nobody.
u32 next_launch() {
  static std::atomic<u32> last{0};
  const u32 number = ++last;
  return number != 0 ? number : ++last;
}

/// Everything but pointers, alpha and beta.
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
  params.deal = deal_of(params.grid, plan.split);
  params.a_ld = p.m > 1 ? p.a.ld : 0;  // of one row it may be anything; rows that are not there lie on it
  params.a_batch_stride = p.a.batch_stride;
  params.b_ld = p.n > 1 ? p.b.ld : 0;
  params.b_batch_stride = p.b.batch_stride;
  params.k = static_cast<int>(p.k);
  if (is_plain(c.schedule)) return {};
  struct Map {
    const char* name;
    TensorMap& target;
    bool used;
    TensorMapShape shape;
  };
  const char* const name_a = is_swapped(c) ? "B" : "A";  // as the caller calls them
  const char* const name_b = is_swapped(c) ? "A" : "B";
  const Map maps[] = {{name_a, params.map_a, p.k > 0, a_map_shape(c, p)},
                      {name_b, params.map_b, p.k > 0, b_map_shape(c, p)},
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
  const double tiles = grid_tiles(product_of(plan.problem, plan.config), plan.config);
  const auto numbers = numbers_by_gpc((*order)->of(cluster_size(plan.config)), plan.split, tiles);
  std::copy(numbers.begin(), numbers.end(), params.numbers);
  return {};
}

/// The plan with its strides filled in, if it can be launched.
Result<Plan> checked_plan(const Plan& plan, const DeviceInfo& info) {
  if (const Result<void> consistent = check_plan(plan, info); !consistent) return consistent.error();
  Plan filled = plan;
  filled.problem = with_strides(plan.problem);
  filled.smem_bytes = smem_bytes(plan.config);  // a plan made by hand need not say what follows from it
  filled.workspace_bytes = is_empty(plan.problem) ? 0 : workspace_bytes(plan.config, plan.split);
  return filled;
}

Kernel empty_kernel(const Device& device, const Plan& plan) {
  auto impl = std::make_shared<Kernel::Impl>();
  impl->plan = plan;
  impl->primary = device.impl().primary;
  return Kernel(std::move(impl));
}

/// `units`: none of a plan that has nothing to launch, or is refused.
Result<Kernel> finish_kernel(const Device& device, const Result<Plan>& plan, const Units& units) {
  if (!plan) return plan.error();
  if (units.texts.empty()) return empty_kernel(device, *plan);
  for (const auto& cubin : units.cubins)
    if (!cubin) return cubin.error();
  return make_kernel(device, *plan, units);
}

/// Who gives a stamped workspace back: all math groups, and every CTA that adds up parts.
u32 leavers_of(const Kernel::Impl& kernel) {
  return kernel.shape.grid_x * kMathGroups + (kernel.sum_module != nullptr ? kernel.sum_shape.grid_x : 0);
}

/// As the product that the kernel multiplies has them.
Args in_place(Args args, const KernelConfig& c) {
  if (!is_swapped(c)) return args;
  std::swap(args.a, args.b);
  std::swap(args.scale_a, args.scale_b);
  return args;
}

/// Puts the addresses of A, B and D into `params` and its maps. `args`: in_place().
Result<void> set_addresses(const DriverApi& api, GemmParams& params, const Kernel::Impl& kernel,
                           const Args& args) {
  params.a = args.a;
  params.b = args.b;
  if (is_plain(kernel.plan.config.schedule)) return {};
  CUresult code = CUDA_SUCCESS;
  if (params.grid.k_tiles != 0) {
    code = replace_address(api, params.map_a, args.a);
    if (code == CUDA_SUCCESS) code = replace_address(api, params.map_b, args.b);
    if (code == CUDA_SUCCESS && kernel.has_tail_a) code = replace_address(api, params.map_a_tail, args.a);
    if (code == CUDA_SUCCESS && kernel.has_tail_b) code = replace_address(api, params.map_b_tail, args.b);
  }
  if (code == CUDA_SUCCESS && kernel.plan.config.store == StorePath::tma)
    code = replace_address(api, params.map_d, args.d);
  if (code == CUDA_SUCCESS) return {};
  return driver_error(api, code, "cuTensorMapReplaceAddress",
                      "A " + hex(args.a) + ", B " + hex(args.b) + ", D " + hex(args.d));
}

Result<Kernel> prepare_for_run(const Device& device, const Problem& problem, Stream stream) {
  if (std::optional<Kernel> kernel = kernel_of_rows(device, problem)) return *std::move(kernel);
  const Result<Plan> planned = plan(problem, device.info(), {}, device.records());
  if (!planned) return planned.error();
  if (!is_empty(problem))
    if (Result<void> allowed = refuse_capture(
            device, stream,
            "no kernel is loaded for " + to_string(problem) + ": run this problem once before the capture");
        !allowed)
      return allowed.error();
  return prepare(device, *planned);
}

/// `args` with a workspace if the kernel needs one and the caller brings none.
Result<Args> with_workspace(const Device& device, const Kernel& kernel, const Args& args, Stream stream) {
  const i64 needed = kernel.plan().workspace_bytes;
  if (needed == 0 || args.alpha == 0.0f || args.workspace.data != nullptr) return args;
  const Result<WorkspaceView> lent = device.impl().lender.lend(device, stream, needed);
  if (!lent) return lent.error();
  Args complete = args;
  complete.workspace = *lent;
  return complete;
}

}  // namespace

std::vector<std::string> units_of(const Plan& plan, Stamping stamping) {
  if (is_empty(plan.problem)) return {};
  std::vector<std::string> units = unit_texts(plan.config, stamping);
  if (plan.split.numbering == Numbering::gpc) units.push_back(locate_unit_text());
  return units;
}

Result<Kernel> make_kernel(const Device& device, const Plan& plan, const Units& units) {
  Result<ArgRules> rules = argument_rules(plan);
  if (!rules) return rules.error();
  const ContextScope scope(*device.impl().primary);  // encoding a tensor map needs a current context
  if (const Result<void> entered = scope.entered(); !entered) return entered.error();
  auto impl = std::make_shared<Kernel::Impl>();
  if (const Result<void> filled = fill_params(*device.impl().api, plan, impl->params); !filled)
    return filled.error();
  if (const Result<void> numbered = number_clusters(device, plan, impl->params); !numbered)
    return numbered.error();
  const u32 cluster = static_cast<u32>(cluster_size(plan.config));
  const bool plain = is_plain(plan.config.schedule);
  const TileGrid& grid = impl->params.grid;
  impl->shape = {.grid_x = static_cast<u32>(plain ? grid.columns : plan.split.clusters) * cluster,
                 .grid_y = static_cast<u32>(plain ? grid.rows * grid.batch : 1),
                 .block_x = static_cast<u32>(threads_of(plan.config)),
                 .cluster_x = cluster,
                 .smem_bytes = static_cast<u32>(smem_bytes(plan.config)),
                 .dependent = plan.config.overlap.wait != Wait::none};
  Result<std::shared_ptr<const Module>> module = device.impl().load_cubin(
      units.texts[0], **units.cubins[0], most_smem_bytes(plan.config.overlap, impl->shape.smem_bytes));
  if (!module) return module.error();
  spread_ctas(plan.config.overlap, (*module)->registers(), device.info(), impl->shape);
  impl->plan = plan;
  const Problem product = product_of(plan.problem, plan.config);
  impl->has_tail_a = has_tail_a(plan.config, product);
  impl->has_tail_b = has_tail_b(plan.config, product);
  impl->primary = device.impl().primary;
  impl->module = *std::move(module);
  impl->built_by = (*units.cubins[0])->report.compiler;
  impl->rules = *rules;
  if (impl->shape.dependent)
    if (Result<void> waits = impl->module->check_waits(); !waits) return waits.error();
  if (plan.config.combine == Combine::separate && impl->params.deal.tiles > 0) {
    module = device.impl().load_cubin(units.texts[1], **units.cubins[1], 0);
    if (!module) return module.error();
    impl->sum_module = *std::move(module);
    if (Result<void> waits = impl->sum_module->check_waits(); !waits) return waits.error();
    const i64 blocks = sum_blocks(plan.config, impl->params.deal.tiles);
    impl->sum_shape = {.grid_x = static_cast<u32>(blocks),
                       .block_x = static_cast<u32>(summers_of(blocks) * kWarpgroupThreads),
                       .dependent = true};
  }
  if (device.options().stamp_workspaces && uses_workspace(plan.config))
    impl->params.stamp.leavers = leavers_of(*impl);
  return Kernel(std::move(impl));
}

std::vector<std::shared_ptr<const Module>> modules_of(const Kernel& kernel) {
  std::vector<std::shared_ptr<const Module>> modules;
  for (const auto& module : {kernel.impl().module, kernel.impl().sum_module})
    if (module != nullptr) modules.push_back(module);
  return modules;
}

const Plan& Kernel::plan() const {
  return impl_->plan;
}

int Kernel::registers() const {
  return impl_->module != nullptr ? impl_->module->registers() : 0;
}

std::string Kernel::built_by() const {
  return impl_->built_by;
}

Result<Kernel> prepare(const Device& device, const Plan& plan) {
  return std::move(prepare(device, std::span(&plan, 1)).front());
}

std::vector<Result<Kernel>> prepare(const Device& device, std::span<const Plan> plans,
                                    const Progress& progress) {
  std::vector<Result<Plan>> checked;
  std::vector<std::string> texts;  // of all plans, in order
  std::vector<size_t> ends;        // in `texts`, of each plan's
  for (const Plan& plan : plans) {
    checked.push_back(checked_plan(plan, device.info()));
    if (checked.back())
      for (std::string& unit : units_of(*checked.back(), stamping_of(device.options())))
        texts.push_back(std::move(unit));
    ends.push_back(texts.size());
  }
  const auto cubins = device.impl().cache.get_all(texts, device.options().jobs, progress);
  std::vector<Result<Kernel>> kernels;
  kernels.reserve(plans.size());
  size_t begin = 0;
  for (size_t i = 0; i < checked.size(); begin = ends[i++]) {
    const size_t count = ends[i] - begin;
    const Units units{std::span(texts).subspan(begin, count), std::span(cubins).subspan(begin, count)};
    kernels.push_back(finish_kernel(device, checked[i], units));
  }
  return kernels;
}

Result<void> launch(const Kernel& kernel, const Args& given, Stream stream) {
  const Kernel::Impl& impl = kernel.impl();
  if (impl.module == nullptr) return {};
  if (Result<void> values = check_values(impl.rules, given); !values) return values;
  if (Result<void> context = check_context(*impl.primary); !context) return context;
  const ContextScope scope(*impl.primary);
  if (Result<void> entered = scope.entered(); !entered) return entered;
  if (Result<void> memory = check_memory(*impl.primary, impl.rules, given); !memory) return memory;
  if (leaves_d(impl.plan.problem, given.alpha)) return {};

  const Args args = in_place(given, impl.plan.config);
  alignas(CUtensorMap) GemmParams params = impl.params;
  if (args.alpha == 0.0f) {
    params.grid.k_tiles = 0;
    params.deal = {};
  }
  params.counters = static_cast<u32*>(args.workspace.data);
  params.partials = reinterpret_cast<float*>(static_cast<u8*>(args.workspace.data) + kWorkspaceCounterBytes);
  if (params.stamp.leavers != 0) params.stamp.launch = next_launch();
  params.c = impl.rules.operands[kC].used && args.beta != 0.0f ? args.c : nullptr;
  params.d = args.d;
  params.scale_a = args.scale_a;
  params.scale_b = args.scale_b;
  params.scale_d = args.scale_d;
  params.bias = args.bias;
  params.alpha = args.alpha;
  params.beta = args.beta;
  params.prefetch = args.prefetch;
  params.hand_off = args.hand_off;
  const DriverApi& api = impl.primary->api();
  if (Result<void> addresses = set_addresses(api, params, impl, args); !addresses) return addresses;
  const WorkspaceTurn turn(impl.plan.workspace_bytes > 0 ? args.workspace.data : nullptr);
  const Result<void> launched = launch_kernel(api, impl.module->function(), impl.shape, &params, stream);
  if (!launched || impl.sum_module == nullptr || params.deal.tiles == 0) return launched;
  return launch_kernel(api, impl.sum_module->function(), impl.sum_shape, &params, stream);
}

Result<void> run(const Device& device, const Problem& problem, const Args& args, Stream stream) {
  const Result<Kernel> kernel =
      device.impl().prepared_by_run.get(problem, [&] { return prepare_for_run(device, problem, stream); });
  if (!kernel) return kernel.error();
  const Result<Args> complete = with_workspace(device, *kernel, args, stream);
  if (!complete) return complete.error();
  return launch(*kernel, *complete, stream);
}

}  // namespace gemm
}  // namespace sluice
