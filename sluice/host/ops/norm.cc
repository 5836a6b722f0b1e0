// SPDX-License-Identifier: Apache-2.0
// Loads and launches the norm kernels. The arithmetic is theirs (kernels/norm.cuh).
#include <sluice/norm.h>

#include <algorithm>
#include <array>
#include <string>

#include <sluice/host/device/device_impl.h>
#include <sluice/host/device/spread.h>
#include <sluice/host/driver/error.h>
#include <sluice/host/driver/launch.h>
#include <sluice/host/ops/companion_checks.h>
#include <sluice/host/ops/operand_checks.h>
#include <sluice/host/text/norm_units.h>
#include <sluice/spec/warm_split.h>

namespace sluice {
namespace {

constexpr i64 kThreadsPerSm = 1024;  // of 64 registers
constexpr i64 kMaxRows = i64{1} << 31;

std::string number(i64 value) {
  return std::to_string(value);
}

enum Operand { kInput, kResidual, kSum, kGamma, kOutput, kScales, kOperandCount };

/// One argument: where it is and what it reaches over.
struct Placement {
  const char* name = "";
  const void* pointer = nullptr;
  bool required = true;
  int element_bytes = 1;
  i64 ld = 0;
  Footprint memory;
};
using Placements = std::array<Placement, kOperandCount>;

Result<NormShape> checked(const NormShape& given) {
  NormShape shape = given;
  if (shape.rows < 0 || shape.columns < 0)
    return Error{ErrorCode::invalid_size, "rows = " + number(shape.rows) + ", columns = " +
                                              number(shape.columns) + ": must not be negative"};
  if (shape.columns > kMaxNormColumns)
    return Error{ErrorCode::invalid_size, "columns = " + number(shape.columns) + ": must be at most " +
                                              number(kMaxNormColumns) + ", what a row's sums have room for"};
  if (shape.rows >= kMaxRows)
    return Error{ErrorCode::invalid_size,
                 "rows = " + number(shape.rows) + ": must be fewer than 2^31; split the matrix"};
  const struct {
    const char* name;
    i64& ld;
  } pitches[] = {{"input", shape.input_ld},
                 {"residual", shape.residual_ld},
                 {"sum", shape.sum_ld},
                 {"output", shape.output_ld}};
  for (const auto& [name, ld] : pitches) {
    if (ld == 0) ld = shape.columns;
    if (ld < shape.columns && shape.rows > 1)
      return Error{ErrorCode::invalid_stride, std::string(name) + "_ld = " + number(ld) +
                                                  " must be at least " + number(shape.columns) +
                                                  ", the columns; 0 is packed"};
  }
  return shape;
}

Result<Placements> placements(const NormShape& s, const NormArgs& args, NormStore store, DType input) {
  const int in = bytes_of(input);
  const int out = store == NormStore::plain ? in : bytes_of(DType::e4m3);
  const i64 scales = store == NormStore::tensor      ? 1
                     : store == NormStore::row_block ? s.rows * scale_blocks(s.columns)
                                                     : s.rows;
  Placements result{{{"input", args.input, true, in, s.input_ld, {}},
                     {"residual", args.residual, false, in, s.residual_ld, {}},
                     {"sum", args.sum, false, in, s.sum_ld, {}},
                     {"gamma", args.gamma, true, in, 0, {.row_bytes = s.columns * in}},
                     {"output", args.output, true, out, s.output_ld, {}},
                     {"scales", args.scales, store != NormStore::plain, 4, 0, {.row_bytes = scales * 4}}}};
  for (const Operand matrix : {kInput, kResidual, kSum, kOutput}) {
    Placement& x = result[matrix];
    const DType type = x.element_bytes == in ? input : DType::e4m3;
    const Result<Footprint> memory =
        footprint_of(x.name, type, {.inner = s.columns, .outer = s.rows, .ld = x.ld});
    if (!memory) return memory.error();
    x.memory = *memory;
  }
  return result;
}

Result<void> check_pointers(const Placements& operands, NormStore store) {
  for (const Placement& x : operands) {
    if (x.pointer == nullptr && x.required)
      return Error{ErrorCode::invalid_pointer, std::string(x.name) + " is null: pass device memory"};
    if (reinterpret_cast<u64>(x.pointer) % static_cast<u64>(x.element_bytes) != 0)
      return Error{ErrorCode::misaligned, std::string(x.name) + " = " + hex(x.pointer) +
                                              ": must be a multiple of " + number(x.element_bytes) +
                                              " bytes, the size of its elements"};
  }
  const auto shares = [&](Operand x, Operand y) {
    const Placement &a = operands[x], &b = operands[y];
    return a.pointer != nullptr && b.pointer != nullptr &&
           overlap({reinterpret_cast<u64>(a.pointer), a.memory},
                   {reinterpret_cast<u64>(b.pointer), b.memory});
  };
  // Each element of the sum is written by the thread that has read it, so it may stand in its place.
  const auto in_place = [&](Operand x) {
    return operands[kSum].pointer == operands[x].pointer &&
           (operands[x].memory.rows == 1 || operands[kSum].ld == operands[x].ld);
  };
  const auto error = [&](Operand x, Operand y) {
    return Error{ErrorCode::aliasing, std::string(operands[x].name) + " (" + hex(operands[x].pointer) +
                                          ") overlaps " + operands[y].name + " (" + hex(operands[y].pointer) +
                                          "): give it its own memory"};
  };
  for (const Operand read : {kInput, kResidual})
    if (shares(kSum, read) && !in_place(read)) return error(kSum, read);
  if (shares(kSum, kGamma)) return error(kSum, kGamma);
  for (const Operand other : {kInput, kResidual, kSum, kGamma})
    if (shares(kOutput, other)) return error(kOutput, other);
  if (store == NormStore::plain) return {};
  for (const Operand other : {kInput, kResidual, kSum, kGamma, kOutput})
    if (shares(kScales, other)) return error(kScales, other);
  return {};
}

/// A launch that has passed all checks by value; `empty`: there is nothing to launch.
struct CheckedLaunch {
  NormShape shape;
  Placements operands;
  bool empty = false;
};
Result<CheckedLaunch> checked_launch(DType input, NormStore store, const NormShape& given,
                                     const NormArgs& args) {
  const Result<NormShape> shape = checked(given);
  if (!shape) return shape.error();
  CheckedLaunch launch{.shape = *shape, .operands = {}, .empty = shape->rows == 0 || shape->columns == 0};
  if (launch.empty) return launch;
  if (Result<void> epsilon = check_epsilon(args.epsilon); !epsilon) return epsilon.error();
  if (args.hand_off.bytes < 0)
    return Error{ErrorCode::invalid_argument,
                 "hand_off.bytes = " + number(args.hand_off.bytes) + ": must not be negative; 0 is nothing"};
  const Result<Placements> operands = placements(*shape, args, store, input);
  if (!operands) return operands.error();
  if (const Result<void> pointers = check_pointers(*operands, store); !pointers) return pointers.error();
  launch.operands = *operands;
  return launch;
}

/// May eight elements move at a time, wherever they begin?
bool allows_vectors(const NormShape& shape, const Placements& operands) {
  if (shape.columns % kNormChunk != 0) return false;
  for (const Operand x : {kInput, kResidual, kSum, kGamma, kOutput}) {
    const u64 vector = static_cast<u64>(operands[x].element_bytes) * kNormChunk;
    if (reinterpret_cast<u64>(operands[x].pointer) % vector != 0) return false;
    if (operands[x].pointer != nullptr && shape.rows > 1 && operands[x].ld % kNormChunk != 0) return false;
  }
  return true;
}

}  // namespace

struct Norm::Impl {
  Device device;
  DType input;
  NormStore store;
  Overlap overlap;
  std::array<std::shared_ptr<const Module>, 2> modules;  // with vectors, without
};

Result<void> check_options(const NormOptions& options) {
  if (!is_16bit(options.input))
    return Error{ErrorCode::invalid_type,
                 std::string("input is ") + name_of(options.input) + ": it must be bf16 or fp16"};
  if (options.quantize == Granularity::square_block)
    return Error{ErrorCode::invalid_argument,
                 "quantize is square_block: a norm has one row at a time; take tensor, row or row_block"};
  return {};
}

Result<void> check_shape(const NormOptions& options, const NormShape& given) {
  const Result<NormShape> shape = checked(given);
  if (!shape) return shape.error();
  if (shape->rows == 0 || shape->columns == 0) return {};
  const Result<Placements> operands = placements(*shape, {}, norm_store_of(options), options.input);
  return operands ? Result<void>() : operands.error();
}

Result<void> check_values(const NormOptions& options, const NormShape& shape, const NormArgs& args) {
  const Result<CheckedLaunch> launch = checked_launch(options.input, norm_store_of(options), shape, args);
  return launch ? Result<void>() : launch.error();
}

Result<Norm> Norm::create(const Device& device, const NormOptions& options) {
  if (const Result<void> allowed = check_options(options); !allowed) return allowed.error();
  const NormStore store = norm_store_of(options);
  auto impl = std::make_shared<Impl>(Impl{device, options.input, store, options.overlap, {}});
  const std::vector<std::string> units = norm_units(options);
  const auto cubins = device.impl().cache.get_all(units, device.options().jobs, {});
  for (size_t i = 0; i < units.size(); ++i) {
    if (!cubins[i]) return cubins[i].error();
    const int smem = most_smem_bytes(options.overlap, 0);
    auto module = device.impl().load_cubin(units[i], **cubins[i], smem);
    if (!module) return module.error();
    impl->modules[i] = *std::move(module);
    if (options.overlap.wait == Wait::none) continue;
    if (const Result<void> waits = impl->modules[i]->check_waits(); !waits) return waits.error();
  }
  return Norm(std::move(impl));
}

Result<void> Norm::launch(const NormShape& given, const NormArgs& args, Stream stream) const {
  const Result<CheckedLaunch> launch = checked_launch(impl_->input, impl_->store, given, args);
  if (!launch) return launch.error();
  if (launch->empty) return {};
  const NormShape& shape = launch->shape;
  const PrimaryContext& primary = *impl_->device.impl().primary;
  if (const Result<void> ours = check_context(primary); !ours) return ours;
  const ContextScope scope(primary);
  if (const Result<void> entered = scope.entered(); !entered) return entered;
  for (const Placement& x : launch->operands)
    if (x.pointer != nullptr)
      if (const Result<void> ours = check_owner(primary, x.name, x.pointer); !ours) return ours;
  const bool vectors = allows_vectors(shape, launch->operands);
  const i64 sms = impl_->device.info().sm_count;
  const int most = vectors ? kMaxNormThreads : kMaxElementNormThreads;
  const NormLayout layout = norm_layout(shape.rows, shape.columns, most, sms);
  const NormParams params{.input = args.input,
                          .residual = args.residual,
                          .sum = args.sum,
                          .gamma = args.gamma,
                          .output = args.output,
                          .scales = args.scales,
                          .rows = shape.rows,
                          .columns = shape.columns,
                          .input_ld = shape.input_ld,
                          .residual_ld = shape.residual_ld,
                          .sum_ld = shape.sum_ld,
                          .output_ld = shape.output_ld,
                          .epsilon = args.epsilon,
                          .inverse_columns = 1.0f / static_cast<float>(shape.columns),
                          .working_threads = layout.threads,
                          .hand_off = args.hand_off};
  const i64 warmers = std::min(ceil_div(total_bytes(args.hand_off), kWarmCtaBytes), sms);
  const i64 at_once = std::max<i64>(sms * (kThreadsPerSm / layout.threads) / layout.team, 1);
  const i64 teams = std::clamp<i64>(std::max(ceil_div(warmers, i64{layout.team}), shape.rows), 1, at_once);
  LaunchShape grid{.grid_x = static_cast<u32>(teams) * layout.team,
                   .block_x = layout.threads,
                   .cluster_x = layout.team,
                   .dependent = impl_->overlap.wait != Wait::none};
  const Module& module = *impl_->modules[vectors ? 0 : 1];
  spread_ctas(impl_->overlap, module.registers(), impl_->device.info(), grid);
  return launch_kernel(*impl_->device.impl().api, module.function(), grid, &params, stream);
}

}  // namespace sluice
