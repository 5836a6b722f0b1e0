// SPDX-License-Identifier: Apache-2.0
// The checks of a launch's arguments and of a plan. check_values, check_context and check_memory run in every
// launch: they allocate nothing unless there is a message to write.
#include <sluice/host/ops/gemm_checks.h>

#include <algorithm>
#include <limits>
#include <string>

#include <sluice/host/driver/error.h>
#include <sluice/host/driver/launch.h>
#include <sluice/host/planner/dense/cluster_grid.h>
#include <sluice/host/planner/dense/numbering.h>
#include <sluice/host/planner/dense/problem_checks.h>
#include <sluice/host/planner/dense/streams.h>
#include <sluice/kernels/registry.h>

namespace sluice::gemm {
namespace {

constexpr int kTmaAlignment = 16;
constexpr i64 kMaxSize = std::numeric_limits<int>::max();

Footprint flat(i64 count, DType type) {
  return {.row_bytes = count * bytes_of(type)};
}

const void* pointer_of(const Args& args, int operand) {
  switch (operand) {
    case kA: return args.a;
    case kB: return args.b;
    case kC: return args.c;
    case kD: return args.d;
    case kScaleA: return args.scale_a;
    case kScaleB: return args.scale_b;
    case kScaleD: return args.scale_d;
    case kWorkspace: return args.workspace.data;
    default: return args.bias;
  }
}

/// Does this launch follow the operand's pointer?
bool followed(const ArgRules& rules, const Args& args, int operand) {
  if (operand == kA || operand == kB) return rules.has_k && args.alpha != 0.0f;
  if (operand == kC) return rules.operands[kC].used && args.beta != 0.0f;
  if (operand == kWorkspace) return rules.operands[kWorkspace].used && args.alpha != 0.0f;
  return rules.operands[operand].used;
}

Placed placed(const ArgRules& rules, const Args& args, int operand) {
  return {reinterpret_cast<u64>(pointer_of(args, operand)), rules.operands[operand].memory};
}

Error null_error(const char* name, int operand) {
  const char* remedy = ": pass device memory";
  if (operand == kA || operand == kB) remedy = ": pass device memory, or alpha = 0 not to read it";
  if (operand == kC) remedy = ": pass device memory, or beta = 0 not to read it";
  if (operand == kWorkspace)
    remedy = ": the plan splits k; pass a Workspace of Plan::workspace_bytes, or plan with splits = 1";
  else if (operand > kD)
    remedy = ": the plan's epilogue reads it; pass device memory, or plan without it";
  return {ErrorCode::invalid_pointer, std::string(name) + " is null" + remedy};
}

Error aliasing_error(const ArgRules& rules, const Args& args, int operand, int other) {
  const auto range = [&](int i) { return describe_range(rules.operands[i], pointer_of(args, i)); };
  return {
      ErrorCode::aliasing,
      range(operand) + " overlaps " + range(other) + ": " +
          (operand == kWorkspace ? "partial sums would be written over it; give the workspace its own memory"
           : other == kC ? "C may be D itself, with the same type and strides, or must lie apart from it"
                         : "tiles of it are read after tiles of D are written; give D its own memory")};
}

/// `c` as the planner makes it of the problem: with another promotion the sums would not be kept as
/// `accumulate` says.
KernelConfig as_promised(const KernelConfig& c, const Problem& p) {
  KernelConfig promised = config_for(p, {c.schedule, c.tile.m, c.tile.n}, c.cluster, c.store);
  promised.stages = c.stages;
  promised.warps = c.warps;
  promised.combine = c.combine;
  promised.overlap = c.overlap;
  promised.epilogue = c.epilogue;
  return promised;
}

}  // namespace

Result<ArgRules> argument_rules(const Plan& plan) {
  const Problem& p = plan.problem;
  const Epilogue& epilogue = plan.config.epilogue;
  ArgRules rules;
  rules.has_k = p.k > 0;
  rules.c_may_be_d = epilogue.c_type == p.d.type && (p.m == 1 || p.c.ld == p.d.ld) &&
                     (p.batch == 1 || p.c.batch_stride == p.d.batch_stride);
  const bool tma_store = plan.config.store == StorePath::tma;
  const char* for_tma = "TMA addresses 16-byte units";
  const char* for_elements = "its elements are of that size";
  auto& o = rules.operands;
  o[kA] = {.name = "A", .used = rules.has_k, .alignment = kTmaAlignment, .because = for_tma};
  o[kB] = {.name = "B", .used = rules.has_k, .alignment = kTmaAlignment, .because = for_tma};
  o[kC] = {"C", epilogue.residual, bytes_of(epilogue.c_type), for_elements, {}};
  o[kD] = {"D", true, tma_store ? kTmaAlignment : bytes_of(p.d.type), tma_store ? for_tma : for_elements, {}};
  o[kScaleA] = {"scale_a", scale_a_count(p) > 0, bytes_of(DType::fp32), for_elements,
                flat(scale_a_count(p), DType::fp32)};
  o[kScaleB] = {"scale_b", scale_b_count(p) > 0, bytes_of(DType::fp32), for_elements,
                flat(scale_b_count(p), DType::fp32)};
  o[kScaleD] = {"scale_d", epilogue.scale_d != ScaleMode::none, bytes_of(DType::fp32), for_elements,
                flat(1, DType::fp32)};
  o[kWorkspace] = {"the workspace",
                   workspace_bytes(plan.config, plan.split) > 0,
                   kWorkspaceAlign,
                   "its slots are whole lines of L2",
                   {.row_bytes = workspace_bytes(plan.config, plan.split)}};
  o[kBias] = {"bias", epilogue.bias != Bias::none, bytes_of(epilogue.bias_type), for_elements,
              flat(p.n, epilogue.bias_type)};

  const Extents a{inner_extent(p.a, p.m, p.k), outer_extent(p.a, p.m, p.k), p.a.ld, p.batch,
                  p.a.batch_stride};
  const Extents b{inner_extent(p.b, p.n, p.k), outer_extent(p.b, p.n, p.k), p.b.ld, p.batch,
                  p.b.batch_stride};
  const struct {
    int operand;
    DType type;
    Extents extents;
  } matrices[] = {{kA, p.a.type, a},
                  {kB, p.b.type, b},
                  {kC, epilogue.c_type, {p.n, p.m, p.c.ld, p.batch, p.c.batch_stride}},
                  {kD, p.d.type, {d_columns(p), p.m, p.d.ld, p.batch, p.d.batch_stride}}};
  for (const auto& matrix : matrices) {
    if (!o[matrix.operand].used) continue;
    const Result<Footprint> memory = footprint_of(o[matrix.operand].name, matrix.type, matrix.extents);
    if (!memory) return memory.error();
    o[matrix.operand].memory = *memory;
  }
  return rules;
}

Result<void> check_values(const ArgRules& rules, const Args& args) {
  for (int i = 0; i < kOperandCount; ++i) {
    if (!followed(rules, args, i)) continue;
    const OperandRule& rule = rules.operands[i];
    const void* pointer = pointer_of(args, i);
    if (pointer == nullptr) return null_error(rule.name, i);
    const char* remedy = i == kD && rule.alignment == kTmaAlignment
                             ? "; move it, or plan with StorePath::direct"
                             : "; move it to an aligned address";
    if (Result<void> aligned = check_alignment(rule, pointer, remedy); !aligned) return aligned;
  }
  if (followed(rules, args, kWorkspace)) {
    const i64 needed = rules.operands[kWorkspace].memory.row_bytes;
    if (args.workspace.bytes < needed)
      return Error{ErrorCode::workspace, "the workspace has " + std::to_string(args.workspace.bytes) +
                                             " bytes and the plan needs " + std::to_string(needed) +
                                             ": make it larger, or plan with a workspace_limit"};
    const Placed workspace = placed(rules, args, kWorkspace);
    for (int i = 0; i < kWorkspace; ++i)
      if (followed(rules, args, i) && overlap(workspace, placed(rules, args, i)))
        return aliasing_error(rules, args, kWorkspace, i);
  }
  const Placed d = placed(rules, args, kD);
  for (int i = 0; i < kOperandCount; ++i) {
    if (i == kD || i == kWorkspace || !followed(rules, args, i)) continue;
    if (i == kC && rules.c_may_be_d && args.c == args.d) continue;
    if (overlap(d, placed(rules, args, i))) return aliasing_error(rules, args, kD, i);
  }
  return {};
}

Result<void> check_memory(const PrimaryContext& primary, const ArgRules& rules, const Args& args) {
  for (int i = 0; i < kOperandCount; ++i)
    if (followed(rules, args, i))
      if (Result<void> owned = check_owner(primary, rules.operands[i].name, pointer_of(args, i)); !owned)
        return owned;
  return {};
}

Result<void> check_plan(const Plan& plan, const DeviceInfo& device) {
  if (Result<void> usable = check_device(device); !usable) return usable;
  const Result<Problem> checked = check_problem(plan.problem);
  if (!checked) return checked.error();
  const KernelConfig& c = plan.config;
  if (is_empty(*checked)) return {};
  const auto invalid = [&](const std::string& rule) {
    return Error{ErrorCode::invalid_config, rule + ", in the plan " + to_string(c) + "; plan again"};
  };
  if (const char* rule = validate(c)) return invalid(rule);
  const Problem p = product_of(*checked, c);
  if (p.a.type != c.a || p.b.type != c.b || p.d.type != c.d)
    return invalid("the types must be those of the problem");
  if (p.a.major != c.a_major || p.b.major != c.b_major)
    return invalid("the layouts must be those of the problem");
  if (!(canonical(p.epilogue) == canonical(c.epilogue)))
    return invalid("the epilogue must be that of the problem");
  if (c.combine == Combine::add && p.deterministic)
    return invalid("combine = add adds the parts of a tile in any order: ask for deterministic = false");
  if (const KernelConfig promised = as_promised(c, p); !(c == promised))
    return invalid(std::string("accumulate = ") + name_of(p.accumulate) + " needs " + to_string(promised));
  if (const char* reason = why_not_tma_store(*checked); c.store == StorePath::tma && reason != nullptr)
    return Error{ErrorCode::invalid_config, std::string("store = tma: ") + reason + "; store direct"};
  if (plan.split.clusters < 1 || plan.split.clusters > kMaxSize / cluster_size(c))
    return invalid("split.clusters = " + std::to_string(plan.split.clusters) + " must be in 1..2^31 CTAs");
  if (plan.split.group < 1)
    return invalid("split.group = " + std::to_string(plan.split.group) + " must be at least 1");
  // The kernel counts in int. check_problem keeps the end of the last cluster tile in it; the walk counts
  // tiles.
  const i64 rows = grid_rows(p, c), columns = grid_columns(p, c);
  const bool fits =
      can_count_tiles(p, c, plan.split.clusters) && plan.split.group <= kMaxSize / std::max(rows, columns);
  if (!fits)
    return Error{ErrorCode::invalid_size,
                 "m = " + std::to_string(checked->m) + ", n = " + std::to_string(checked->n) +
                     ", batch = " + std::to_string(p.batch) +
                     ": the number of tiles must stay below 2^31; split the problem"};
  if (is_plain(c.schedule) && rows * p.batch > kMaxGridY)
    return invalid("plain launches a row of CTAs for each tile of A: " + std::to_string(rows * p.batch) +
                   " must be at most " + std::to_string(kMaxGridY));
  if (is_plain(c.schedule) && plan.split.numbering != Numbering::launch)
    return invalid("plain has no order of tiles to choose: split.numbering must be launch");
  if (is_plain(c.schedule) && (plan.split.streamed != 0 || plan.split.clusters != rows * columns * p.batch))
    return invalid("plain launches a cluster for each tile: split.clusters must be " +
                   std::to_string(rows * columns * p.batch) + " and split.streamed 0");
  if (const std::string wrong = stream_problem(p, c, plan.split); !wrong.empty()) return invalid(wrong);
  if (const std::string wrong = numbering_problem(plan.split); !wrong.empty()) return invalid(wrong);
  return {};
}

}  // namespace sluice::gemm
