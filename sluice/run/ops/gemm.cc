// SPDX-License-Identifier: Apache-2.0
// A call of a product: the key of its kernel, its pointers, its parameters and its launch. A launch is a few
// checks, a copy of the parameters and at most six short driver calls. It takes one more call per tail map,
// one for the second kernel of Combine::separate, and one per pointer not seen before
// (tests/unit/launch_cost_test.cc). gemm_load.cc does everything that takes time.
#include <sluice/run/ops/gemm.h>
#include <sluice/run/ops/kernel_handle.h>

#include <cstring>
#include <new>

#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/plan/hash.h>
#include <sluice/plan/limits.h>
#include <sluice/plan/packed/packed_problem_checks.h>
#include <sluice/run/driver/error.h>
#include <sluice/run/driver/gemm_maps.h>
#include <sluice/run/driver/workspace_turn.h>
#include <sluice/run/ops/problem_key.h>
#include <sluice/run/ops/race.h>
#include <sluice/spec/part_sums.h>
#include <sluice/text.h>

namespace sluice {
namespace {

/// Returns the stride, or 0 if it leaves no gap. A single row or matrix may have any stride.
i64 without_default(i64 stride, i64 gapless, bool is_lone) {
  return stride == gapless || is_lone ? 0 : stride;
}

/// Returns `x` with 0 in place of each stride that leaves no gap. On entry its strides are filled in.
Matrix without_defaults(const Matrix& x, const Problem& p, i64 rows, i64 columns) {
  const bool one_row = x.major == Major::k && rows == 1;
  const i64 inner = x.major == Major::k ? columns : rows, outer = x.major == Major::k ? rows : columns;
  Matrix form = x;
  form.ld = without_default(x.ld, inner, one_row);
  form.batch_stride = without_default(x.batch_stride, x.ld * outer, p.batch == 1);
  return form;
}

/// Returns the key of a product with packed weights. What the planner refuses stays in the key, so that it is
/// refused at the call too. The scale of a single row is a vector, whose kernel has no code for one value.
Problem packed_key(Problem p) {
  if (a_rows(p) <= 1) p.a.ld = 0;
  if (p.m <= 1) p.c.ld = p.d.ld = 0;
  if (p.m == 1 && p.epilogue.scale_a == ScaleMode::tensor) p.epilogue.scale_a = ScaleMode::vector;
  return packed::one_spelling(p);
}

}  // namespace

Problem key_of(const Problem& problem) {
  if (is_packed(problem)) return packed_key(problem);
  Problem key = with_strides(problem);
  if (!is_fp8(key.a.type) || is_block_scaled(key.epilogue)) key.accumulate = Problem{}.accumulate;
  if (!key.epilogue.residual) key.c = {};
  if (!adds(key.epilogue)) key.deterministic = true;
  // With a single row or column, a vector of scales is one value, so both spellings get the same key.
  Epilogue& e = key.epilogue;
  if (key.m == 1 && e.scale_a == ScaleMode::vector) e.scale_a = ScaleMode::tensor;
  if (scale_b_count(key) == 1 && e.scale_b == ScaleMode::vector) e.scale_b = ScaleMode::tensor;
  return key;
}

Problem at_addresses(Problem problem, const gemm::Args& args) {
  if (is_conv(problem.conv) || is_packed(problem)) return problem;
  const auto see = [](Matrix& x, const void* address, bool by_tma) {
    if (by_tma && reinterpret_cast<u64>(address) % u64{kTmaUnit} != 0) x.unaligned = true;
  };
  // `unaligned` is set only if TMA could access the operand at some other address. Otherwise the address
  // changes nothing.
  const Problem p = with_strides(problem);
  const auto taken = [&](const Matrix& x, i64 rows) {
    return is_16bit(x.type) && tma_addresses(x, outer_extent(x, rows, p.k), p.batch);
  };
  see(problem.a, args.a, taken(p.a, p.m));
  see(problem.b, args.b, taken(p.b, p.n));
  see(problem.d, args.d, why_not_tma_store(p) == nullptr);
  return problem;
}

std::vector<Problem> row_forms(const Problem& problem) {
  const Problem key = key_of(problem);
  Problem form = key;
  form.a = without_defaults(key.a, key, key.m, key.k);
  form.b = without_defaults(key.b, key, key.n, key.k);
  form.c = key.epilogue.residual ? without_defaults(key.c, key, key.m, key.n) : Matrix{};
  form.d = without_defaults(key.d, key, key.m, d_columns(key));
  form.m = 0;
  std::vector<Problem> forms{form};
  const ScaleMode scale = form.epilogue.scale_a;
  if (key.m == 1 && (scale == ScaleMode::tensor || scale == ScaleMode::vector)) {
    form.epilogue.scale_a = scale == ScaleMode::tensor ? ScaleMode::vector : ScaleMode::tensor;
    forms.push_back(form);
  }
  return forms;
}

std::size_t key_hash(const Problem& p) {
  return hash_of({p.m,
                  p.n,
                  p.k,
                  p.batch,
                  p.a.ld,
                  p.b.ld,
                  p.d.ld,
                  static_cast<i64>(p.a.type),
                  static_cast<i64>(p.d.type),
                  static_cast<i64>(p.epilogue.activation),
                  static_cast<i64>(p.epilogue.update),
                  static_cast<i64>(p.epilogue.gated),
                  i64{p.a.unaligned},
                  i64{p.b.unaligned},
                  i64{p.d.unaligned},
                  static_cast<i64>(p.conv.op),
                  p.conv.channels,
                  p.conv.size.w,
                  p.conv.size.h,
                  static_cast<i64>(p.b.packed.type),
                  p.b.packed.group,
                  static_cast<i64>(p.b.packed.scale),
                  static_cast<i64>(p.epilogue.scale_a),
                  i64{p.norm_a},
                  static_cast<i64>(p.groups.kind),
                  p.groups.pitch,
                  p.scale_a_ld,
                  static_cast<i64>(p.epilogue.bias)});
}

namespace gemm {

Pointers pointers_of(const Args& x) {
  Pointers p{.at = {x.a, x.b, x.c, x.d, x.bias, x.scale_a, x.scale_b, x.scale_d, x.gamma, x.groups,
                    x.scale_out, x.row_factors, x.workspace.data},
             .workspace_bytes = x.workspace.bytes,
             .names = x.names,
             .named = x.names != nullptr ? kNamed : 0};
  for (const Index i : {kA, kB, kWorkspace}) p.skip_if(x.alpha == 0.0f, i);
  p.skip_if(x.beta == 0.0f, kC);
  return p;
}

Error with_names(Error error, const ConvNames& own, const char* const* names) {
  if (names == nullptr || names[kA] == nullptr || names[kB] == nullptr || names[kD] == nullptr) return error;
  error.message += std::string(" [") + own.a + " is " + escaped(names[kA]) + ", " + own.b + " is " +
                   escaped(names[kB]) + ", " + own.d + " is " + escaped(names[kD]) + "]";
  return error;
}

Args args_at(const Problem& problem, const Pointers& p) {
  const auto floats = [&](Index i) { return static_cast<const float*>(p.at[i]); };
  return {.a = p.at[kA],
          .b = p.at[kB],
          .c = p.at[kC],
          .d = const_cast<void*>(p.at[kD]),
          .scale_a = floats(kScaleA),
          .scale_b = floats(kScaleB),
          .scale_d = floats(kScaleD),
          .scale_out = const_cast<float*>(floats(kScaleOut)),
          .bias = p.at[kBias],
          .row_factors = floats(kRowFactors),
          .groups = static_cast<const int*>(p.at[kGroups]),
          .gamma = p.at[kGamma],
          .beta = problem.epilogue.residual ? 1.0f : 0.0f};
}

}  // namespace gemm

namespace ops {
namespace {

/// Returns the arguments in the kernel's order: a swapped kernel has A and B exchanged.
gemm::Args in_place(gemm::Args args, const KernelConfig& c) {
  if (!is_swapped(c)) return args;
  std::swap(args.a, args.b);
  std::swap(args.scale_a, args.scale_b);
  return args;
}

/// Sets the addresses of A, B and D in `params` and its tensor maps. `args` is a result of in_place().
Result<void> set_addresses(const DriverApi& api, PhasedParams& params, const Prepared<Gemm>& kernel,
                           const gemm::Args& args) {
  params.a = args.a;
  params.b = args.b;
  const KernelConfig& config = kernel.plan.config;
  if (is_plain(config.schedule)) return {};
  const ConvImage& conv = kernel.image.conv;
  CUresult code = CUDA_SUCCESS;
  if (conv.phases > 0) code = set_phase_addresses(api, conv, args.a, args.d, params);
  if (params.grid.k_tiles != 0) {
    if (conv.phases == 0 && config.load_a == Load::tma) code = replace_address(api, params.map_a, args.a);
    if (code == CUDA_SUCCESS && config.load_b == Load::tma) code = replace_address(api, params.map_b, args.b);
    if (code == CUDA_SUCCESS && kernel.image.has_tail_a)
      code = replace_address(api, params.map_a_tail, args.a);
    if (code == CUDA_SUCCESS && kernel.image.has_tail_b)
      code = replace_address(api, params.map_b_tail, args.b);
  }
  if (code == CUDA_SUCCESS && config.store == StorePath::tma && conv.phases == 0)
    code = replace_address(api, params.map_d, args.d);
  if (code == CUDA_SUCCESS) return {};
  return driver_error(api, code, "cuTensorMapReplaceAddress",
                      "A " + hex(args.a) + ", B " + hex(args.b) + ", D " + hex(args.d));
}

}  // namespace

Result<void> Gemm::write_table(const Problem& p, const RaceMemory& memory, const StreamHandle& stream) {
  if (!reads_table(p)) return {};
  return memory.write(gemm::kGroups, even_table(p), stream);
}

Result<BoundCall> Gemm::bind(const Prepared<Gemm>& kernel, const Args& args) {
  if (is_packed(kernel.plan.problem)) SLUICE_TRY(packed::check_scalars(kernel.plan.problem, args));
  return BoundCall{kernel.image.operands, gemm::pointers_of(args)};
}

Result<void> Gemm::enqueue(const Prepared<Gemm>& kernel, const BoundCall& call, const Args& given,
                           Stream stream) {
  const Image& image = kernel.image;
  if (is_packed(kernel.plan.problem))
    return packed::enqueue({kernel.api(), kernel.modules[0]->function(), kernel.plan, image.shape},
                           image.packed, given, stream);
  if (leaves_d(kernel.plan.problem, given.alpha)) return {};
  const Args args = in_place(given, kernel.plan.config);
  static_assert(sizeof(GroupedParams) <= sizeof(PhasedParams));
  alignas(CUtensorMap) std::byte copied[sizeof(PhasedParams)];
  std::memcpy(copied, &image.params, params_bytes(kernel.plan.config));
  auto& params = *std::launder(reinterpret_cast<PhasedParams*>(copied));
  if (args.alpha == 0.0f) {
    params.grid.k_tiles = 0;
    params.slices = {};
    for (int i = 0; i < image.conv.phases; ++i) params.phases[i].k_tiles = 0;
  }
  params.counters = static_cast<u32*>(args.workspace.data);
  params.partials = reinterpret_cast<float*>(static_cast<u8*>(args.workspace.data) + kWorkspaceCounterBytes);
  params.c = follows(call.operands, call.pointers, gemm::kC) ? args.c : nullptr;
  params.d = args.d;
  params.scale_a = args.scale_a;
  params.scale_b = args.scale_b;
  params.scale_d = writes_scales(kernel.plan.config.epilogue) ? args.scale_out : args.scale_d;
  params.bias = args.bias;
  params.alpha = args.alpha;
  params.beta = args.beta;
  params.prefetch = args.prefetch;
  params.hand_off = args.hand_off;
  if (reads_table(kernel.plan.config)) {
    auto& grouped = *std::launder(reinterpret_cast<GroupedParams*>(copied));
    grouped.group_numbers = args.groups;
    grouped.group_pitch = kernel.plan.problem.groups.pitch;
    grouped.group_total = static_cast<int>(group_total(kernel.plan.problem));
    grouped.row_factors = args.row_factors;
    grouped.scale_a_ld = kernel.plan.problem.scale_a_ld;
  } else if (takes_factors(kernel.plan.config)) {
    auto& factored = *std::launder(reinterpret_cast<FactoredParams*>(copied));
    factored.row_factors = args.row_factors;
    factored.scale_a_ld = kernel.plan.problem.scale_a_ld;
  }
  const DriverApi& api = kernel.api();
  SLUICE_TRY(set_addresses(api, params, kernel, args));
  const WorkspaceTurn turn(kernel.plan.workspace_bytes > 0 ? args.workspace.data : nullptr);
  SLUICE_TRY(launch_kernel(api, kernel.modules[0]->function(), image.shape, &params, stream));
  if (kernel.modules.size() == 1 || params.slices.count == 1) return {};
  return launch_kernel(api, kernel.modules[1]->function(), image.sum_shape, &params, stream);
}

}  // namespace ops

namespace gemm {

Result<Kernel> prepare(const Device& device, const Plan& plan) {
  return ops::prepare<ops::Gemm>(device, plan);
}

std::vector<Result<Kernel>> prepare(const Device& device, std::span<const Plan> plans,
                                    const Progress& progress) {
  return ops::prepare<ops::Gemm>(device, plans, progress);
}

Result<RowSummary> prepare(const Device& device, const Problem& problem, RowRange rows,
                           const Progress& progress) {
  return ops::prepare_rows<ops::Gemm>(device, problem, rows, progress);
}

Result<void> prepare(const Device& device, std::span<const Problem> problems, int race) {
  return ops::make_ready<ops::Gemm>(device, problems, race);
}

Result<void> launch(const Kernel& kernel, const Args& args, Stream stream) {
  return ops::launch<ops::Gemm>(kernel.impl(), args, stream);
}

Result<Plan> race(const Device& device, const Problem& problem, int candidates) {
  return ops::race_checked<ops::Gemm>(device, problem, candidates);
}

Result<void> run(const Device& device, const Problem& problem, const Args& args, Stream stream) {
  return ops::run<ops::Gemm>(device, problem, args, stream);
}

}  // namespace gemm

template class BasicKernel<Plan>;

}  // namespace sluice
