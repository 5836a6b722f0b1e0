// SPDX-License-Identifier: Apache-2.0
// The checks of a launch's arguments and of a plan. check_values, check_context and check_memory run in every
// launch: they allocate nothing unless there is a message to write.
#include <sluice/host/gemm_checks.h>

#include <algorithm>
#include <limits>
#include <string>

#include <sluice/host/driver/error.h>
#include <sluice/host/planner/cluster_grid.h>
#include <sluice/host/planner/problem_checks.h>
#include <sluice/host/planner/streams.h>
#include <sluice/kernels/registry.h>

namespace sluice::gemm {
namespace {

constexpr int kTmaAlignment = 16;
constexpr i64 kMaxSize = std::numeric_limits<int>::max();

/// A batch of matrices, in elements.
struct Extents {
  i64 inner, outer, ld, batch, batch_stride;
};

Result<Footprint> footprint(const char* name, DType type, const Extents& e) {
  const i64 bytes = bytes_of(type);
  Footprint f{.rows = e.outer, .batches = e.batch};
  i64 rows_span = 0, batches_span = 0, span = 0;
  const bool fits = !__builtin_mul_overflow(e.inner, bytes, &f.row_bytes) &&
                    !__builtin_mul_overflow(e.ld, bytes, &f.row_pitch) &&
                    !__builtin_mul_overflow(e.batch_stride, bytes, &f.batch_pitch) &&
                    !__builtin_mul_overflow(e.outer - 1, f.row_pitch, &rows_span) &&
                    !__builtin_mul_overflow(e.batch - 1, f.batch_pitch, &batches_span) &&
                    !__builtin_add_overflow(rows_span, batches_span, &span) &&
                    !__builtin_add_overflow(span, f.row_bytes, &span);
  if (!fits)
    return Error{ErrorCode::invalid_size,
                 std::string(name) + ": " + std::to_string(e.batch) + " matrices of " +
                     std::to_string(e.outer) + " rows, ld " + std::to_string(e.ld) + ", batch_stride " +
                     std::to_string(e.batch_stride) + " reach past 2^63 bytes; make the strides smaller"};
  return f;
}

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
  const auto range = [&](int i) {
    const Placed at = placed(rules, args, i);
    return std::string(rules.operands[i].name) + " (" + hex(pointer_of(args, i)) + " + " +
           std::to_string(span_bytes(at.memory)) + " bytes)";
  };
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
  promised.combine = c.combine;
  promised.epilogue = c.epilogue;
  return promised;
}

}  // namespace

bool overlap(const Placed& x, const Placed& y) {
  const u64 x_end = x.address + static_cast<u64>(span_bytes(x.memory));
  const u64 y_end = y.address + static_cast<u64>(span_bytes(y.memory));
  if (x_end <= y.address || y_end <= x.address) return false;
  const auto in_columns = [](const Footprint& f, i64 pitch) {
    return f.row_bytes <= pitch && (f.rows == 1 || f.row_pitch == pitch) &&
           (f.batches == 1 || f.batch_pitch % pitch == 0);
  };
  const i64 pitch = x.memory.rows > 1 ? x.memory.row_pitch : y.memory.row_pitch;
  if (pitch <= 0 || !in_columns(x.memory, pitch) || !in_columns(y.memory, pitch)) return true;
  // Both fill whole columns of one grid of `pitch` bytes: where does x start, counted from y's first column?
  const u64 width = static_cast<u64>(pitch);
  const u64 ahead = (x.address % width + width - y.address % width) % width;
  return ahead < static_cast<u64>(y.memory.row_bytes) || ahead + x.memory.row_bytes > width;
}

Result<ArgRules> argument_rules(const Plan& plan) {
  const Problem& p = plan.problem;
  const Epilogue& epilogue = plan.config.epilogue;
  ArgRules rules;
  rules.has_k = p.k > 0;
  rules.c_may_be_d = epilogue.c_type == p.d.type && p.c.ld == p.d.ld &&
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
                  {kD, p.d.type, {p.n, p.m, p.d.ld, p.batch, p.d.batch_stride}}};
  for (const auto& matrix : matrices) {
    if (!o[matrix.operand].used) continue;
    const Result<Footprint> memory = footprint(o[matrix.operand].name, matrix.type, matrix.extents);
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
    if (reinterpret_cast<u64>(pointer) % static_cast<u64>(rule.alignment) != 0)
      return Error{
          ErrorCode::misaligned,
          std::string(rule.name) + " = " + hex(pointer) + ": must be a multiple of " +
              std::to_string(rule.alignment) + " bytes because " + rule.because +
              (i == kD && rule.alignment == kTmaAlignment ? "; move it, or plan with StorePath::direct"
                                                          : "; move it to an aligned address")};
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
  for (int i = 0; i < kOperandCount; ++i) {
    if (!followed(rules, args, i)) continue;
    const void* pointer = pointer_of(args, i);
    if (primary.is_known_memory(pointer)) continue;
    unsigned kind = 0, managed = 0;  // stay 0 for memory the driver does not know
    int owner = primary.ordinal();
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void* values[] = {&kind, &managed, &owner};
    const CUresult code =
        primary.api().cuPointerGetAttributes(3, attributes, values, reinterpret_cast<CUdeviceptr>(pointer));
    const char* name = rules.operands[i].name;
    if (code != CUDA_SUCCESS)
      return driver_error(primary.api(), code, "cuPointerGetAttributes",
                          std::string(name) + " = " + hex(pointer));
    if (managed == 0 && kind != CU_MEMORYTYPE_DEVICE)
      return Error{ErrorCode::invalid_pointer, std::string(name) + " = " + hex(pointer) +
                                                   ": must be device memory, and is host memory or none; "
                                                   "copy the data to the device first"};
    if (managed == 0 && owner != primary.ordinal())  // any device may follow managed memory
      return Error{ErrorCode::wrong_device,
                   std::string(name) + " = " + hex(pointer) + ": is memory of device " +
                       std::to_string(owner) + ", the kernel was prepared for device " +
                       std::to_string(primary.ordinal()) + "; prepare it there or copy the data"};
    primary.remember_memory(pointer);
  }
  return {};
}

Result<void> check_context(const PrimaryContext& primary) {
  const DriverApi& api = primary.api();
  CUcontext current = nullptr;
  if (const CUresult code = api.cuCtxGetCurrent(&current); code != CUDA_SUCCESS)
    return driver_error(api, code, "cuCtxGetCurrent");
  if (current == nullptr || current == primary.handle()) return {};
  CUdevice device = 0;  // another context may still be one of our device, e.g. a green one
  if (const CUresult code = api.cuCtxGetDevice(&device); code != CUDA_SUCCESS)
    return driver_error(api, code, "cuCtxGetDevice");
  if (device == primary.device()) return {};
  return Error{ErrorCode::wrong_device, "the current context is of device " + std::to_string(device) +
                                            ", the kernel was prepared for device " +
                                            std::to_string(primary.ordinal()) + ": call cudaSetDevice(" +
                                            std::to_string(primary.ordinal()) + ") or prepare it there"};
}

Result<void> check_plan(const Plan& plan, const DeviceInfo& device) {
  if (Result<void> usable = check_device(device); !usable) return usable;
  const Result<Problem> checked = check_problem(plan.problem);
  if (!checked) return checked.error();
  const Problem& p = *checked;
  const KernelConfig& c = plan.config;
  if (is_empty(p)) return {};
  const auto invalid = [&](const std::string& rule) {
    return Error{ErrorCode::invalid_config, rule + ", in the plan " + to_string(c) + "; plan again"};
  };
  if (const char* rule = validate(c)) return invalid(rule);
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
  if (const char* reason = why_not_tma_store(p); c.store == StorePath::tma && reason != nullptr)
    return Error{ErrorCode::invalid_config, std::string("store = tma: ") + reason + "; store direct"};
  if (plan.split.clusters < 1 || plan.split.clusters > kMaxSize / cluster_size(c))
    return invalid("split.clusters = " + std::to_string(plan.split.clusters) + " must be in 1..2^31 CTAs");
  if (plan.split.group < 1)
    return invalid("split.group = " + std::to_string(plan.split.group) + " must be at least 1");
  // The kernel counts in int. check_problem keeps the end of the last cluster tile in it; the walk counts
  // tiles.
  const i64 rows = grid_rows(p, c), columns = grid_columns(p, c);
  const bool fits = rows <= kMaxSize / columns &&
                    rows * columns <= (kMaxSize - plan.split.clusters) / p.batch &&
                    plan.split.group <= kMaxSize / std::max(rows, columns);
  if (!fits)
    return Error{ErrorCode::invalid_size,
                 "m = " + std::to_string(p.m) + ", n = " + std::to_string(p.n) +
                     ", batch = " + std::to_string(p.batch) +
                     ": the number of tiles must stay below 2^31; split the problem"};
  if (const std::string wrong = stream_problem(p, c, plan.split); !wrong.empty()) return invalid(wrong);
  return {};
}

}  // namespace sluice::gemm
