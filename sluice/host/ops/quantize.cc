// SPDX-License-Identifier: Apache-2.0
// Loads and launches the quantising kernels. The arithmetic is theirs (kernels/quantize.cuh).
#include <sluice/quantize.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string>

#include <sluice/host/device/device_impl.h>
#include <sluice/host/device/spread.h>
#include <sluice/host/driver/error.h>
#include <sluice/host/driver/launch.h>
#include <sluice/host/driver/workspace_turn.h>
#include <sluice/host/ops/companion_checks.h>
#include <sluice/host/ops/operand_checks.h>
#include <sluice/host/text/quantize_units.h>
#include <sluice/spec/row_team.h>
#include <sluice/spec/warm_split.h>

namespace sluice {
namespace {

constexpr int kBlocksPerSm = 8;
constexpr i64 kScratchBytes = 2 * sizeof(u32);

struct Step {
  QuantizeStep kind;
  std::array<std::shared_ptr<const Module>, 2> modules;  // with vectors, without
};

std::string number(i64 value) {
  return std::to_string(value);
}

Result<QuantizeShape> checked(const QuantizeShape& given, Gate gate) {
  QuantizeShape shape = given;
  if (shape.rows < 0 || shape.columns < 0)
    return Error{ErrorCode::invalid_size, "rows = " + number(shape.rows) + ", columns = " +
                                              number(shape.columns) + ": must not be negative"};
  if (shape.columns > std::numeric_limits<i64>::max() / 2)
    return Error{ErrorCode::invalid_size, "columns = " + number(shape.columns) + ": no matrix is so wide"};
  const i64 in_columns = input_columns(gate, shape.columns);
  if (shape.input_ld == 0) shape.input_ld = in_columns;
  if (shape.output_ld == 0) shape.output_ld = shape.columns;
  const struct {
    const char* name;
    i64 ld, columns;
  } pitches[] = {{"input", shape.input_ld, in_columns}, {"output", shape.output_ld, shape.columns}};
  for (const auto& [name, ld, columns] : pitches)
    if (ld < columns && shape.rows > 1)
      return Error{ErrorCode::invalid_stride, std::string(name) + "_ld = " + number(ld) +
                                                  " must be at least " + number(columns) +
                                                  ", the columns; 0 is packed"};
  for (const auto& [name, ld, columns] : pitches) {
    i64 bytes = 0;  // of the widest elements; check_pointers counts on it
    if (__builtin_mul_overflow(shape.rows, ld, &bytes) ||
        __builtin_mul_overflow(bytes, i64{bytes_of(DType::fp32)}, &bytes) ||
        __builtin_add_overflow(bytes, columns, &bytes))
      return Error{ErrorCode::invalid_stride, std::string(name) + "_ld = " + number(ld) + " times " +
                                                  number(shape.rows) +
                                                  " rows reaches past 2^63 bytes; make it smaller"};
  }
  i64 units = 0;
  if (__builtin_mul_overflow(shape.rows, ceil_div(shape.columns, i64{kQuantizeChunk}), &units) ||
      units >= kMaxQuantizeUnits)
    return Error{ErrorCode::invalid_size,
                 number(shape.rows) + " rows of " + number(shape.columns) +
                     " columns: must be fewer than 2^31 groups of 8; split the matrix"};
  return shape;
}

/// What goes in and comes out.
struct Types {
  DType input, output;
  bool has_scales, has_workspace;
};

/// A pointer that is followed, and the memory behind it.
struct Placement {
  const char* name;
  const void* pointer;
  int alignment;
  i64 bytes;  // from the first to one past the last
  bool written;
};

/// From the first byte to one past the last; 0 of an empty matrix.
i64 span(i64 rows, i64 columns, i64 ld, DType type) {
  return rows == 0 || columns == 0 ? 0 : ((rows - 1) * ld + columns) * bytes_of(type);
}

i64 scale_count(const QuantizeShape& shape, Granularity granularity) {
  switch (granularity) {
    case Granularity::tensor: return 1;
    case Granularity::row: return shape.rows;
    case Granularity::row_block: return shape.rows * scale_blocks(shape.columns);
    case Granularity::square_block: return scale_blocks(shape.rows) * scale_blocks(shape.columns);
  }
  return 0;
}

/// A list that allocates nothing.
struct Placements {
  std::array<Placement, 4> all{};
  size_t count = 0;

  operator std::span<const Placement>() const { return std::span(all).first(count); }
};

/// Without elements input and output have no memory, and may be null.
Placements placements(const QuantizeShape& shape, const QuantizeArgs& args, Types types,
                      std::optional<Granularity> granularity, Gate gate) {
  Placements followed;
  const auto add = [&](const Placement& x) {
    if (x.bytes > 0) followed.all[followed.count++] = x;
  };
  const i64 in_columns = input_columns(gate, shape.columns);
  add({"input", args.input, bytes_of(types.input), span(shape.rows, in_columns, shape.input_ld, types.input),
       false});
  add({"output", args.output, bytes_of(types.output),
       span(shape.rows, shape.columns, shape.output_ld, types.output), true});
  if (types.has_scales) add({"scales", args.scales, 4, 4 * scale_count(shape, *granularity), true});
  if (types.has_workspace) add({"the workspace", args.workspace.data, 4, kScratchBytes, true});
  return followed;
}

Result<void> check_pointers(std::span<const Placement> followed) {
  for (const Placement& x : followed) {
    if (x.pointer == nullptr)
      return Error{ErrorCode::invalid_pointer, std::string(x.name) + " is null: pass device memory"};
    if (reinterpret_cast<u64>(x.pointer) % static_cast<u64>(x.alignment) != 0)
      return Error{ErrorCode::misaligned, std::string(x.name) + " = " + hex(x.pointer) +
                                              ": must be a multiple of " + number(x.alignment) + " bytes"};
  }
  for (const Placement& x : followed)
    for (const Placement& y : followed) {
      if (&x == &y || !x.written) continue;
      const u64 from_x = reinterpret_cast<u64>(x.pointer), from_y = reinterpret_cast<u64>(y.pointer);
      if (from_x < from_y + static_cast<u64>(y.bytes) && from_y < from_x + static_cast<u64>(x.bytes))
        return Error{ErrorCode::aliasing, std::string(x.name) + " (" + hex(x.pointer) + " + " +
                                              number(x.bytes) + " bytes) overlaps " + y.name + " (" +
                                              hex(y.pointer) + " + " + number(y.bytes) +
                                              "): give it its own memory"};
    }
  return {};
}

/// A launch that has passed all checks by value.
struct CheckedLaunch {
  QuantizeShape shape;
  Types types;
  Placements followed;
  bool nothing = false;  // to launch
};
Result<CheckedLaunch> checked_launch(const QuantizerOptions& options, const QuantizeShape& given,
                                     const QuantizeArgs& args) {
  const Result<QuantizeShape> shape = checked(given, options.gate);
  if (!shape) return shape.error();
  const bool tensor = options.granularity == Granularity::tensor;
  const bool quantised = options.granularity.has_value();
  const bool two_steps = tensor && !args.scale_given;
  CheckedLaunch launch{
      .shape = *shape,
      .types = {options.input, quantised ? DType::e4m3 : options.input, quantised, two_steps},
      .followed = {},
      .nothing = (shape->rows == 0 || shape->columns == 0) && !two_steps};
  if (launch.nothing) return launch;
  if (args.scale_given && !tensor)
    return Error{ErrorCode::invalid_argument,
                 std::string("scale_given is for one scale of a whole matrix, not for ") +
                     (quantised ? name_of(*options.granularity) : "what is not quantised")};
  if (two_steps && overlaps(options.overlap))
    return Error{ErrorCode::invalid_argument,
                 "a scale of the whole matrix that is not given takes two kernels, which do not overlap "
                 "others: give the scale, or create the quantiser without an overlap"};
  if (args.hand_off.bytes < 0)
    return Error{ErrorCode::invalid_argument,
                 "hand_off.bytes = " + number(args.hand_off.bytes) + ": must not be negative; 0 is nothing"};
  if (two_steps && (args.workspace.data == nullptr || args.workspace.bytes < kScratchBytes))
    return Error{ErrorCode::workspace,
                 "a scale of the whole matrix needs the counters of a workspace: pass " +
                     number(kScratchBytes) + " bytes or more, not " +
                     number(args.workspace.data == nullptr ? 0 : args.workspace.bytes)};
  launch.followed = placements(*shape, args, launch.types, options.granularity, options.gate);
  if (const Result<void> pointers = check_pointers(launch.followed); !pointers) return pointers.error();
  return launch;
}

/// May eight elements move at a time, wherever they begin?
bool allows_vectors(const QuantizeShape& shape, const QuantizeArgs& args, Types types) {
  const auto multiple = [](i64 value, i64 unit) { return value % unit == 0; };
  const bool one_row = shape.rows <= 1;
  const u64 stored = kQuantizeChunk * static_cast<u64>(bytes_of(types.output));  // at once
  return multiple(shape.columns, kQuantizeChunk) && reinterpret_cast<u64>(args.input) % 16 == 0 &&
         (one_row || multiple(shape.input_ld * bytes_of(types.input), 16)) &&
         reinterpret_cast<u64>(args.output) % stored == 0 &&
         (one_row || multiple(shape.output_ld, kQuantizeChunk));
}

/// Blocks that the step can use; more than fit at once wait their turn.
i64 useful_blocks(QuantizeStep step, const QuantizeShape& shape, i64 sms) {
  const i64 chunks = shape.rows * ceil_div(shape.columns, i64{kQuantizeChunk});
  switch (step) {
    case QuantizeStep::amax:
    case QuantizeStep::cast: {
      const i64 spread = ceil_div(chunks, i64{kQuantizeThreads});
      return std::max(std::min(spread, sms), ceil_div(spread, i64{2}));
    }
    case QuantizeStep::row: return shape.rows;
    case QuantizeStep::row_block: {
      const i64 spread = ceil_div(shape.rows * scale_blocks(shape.columns), i64{kQuantizeThreads / 16});
      return std::max(std::min(spread, sms), ceil_div(spread, i64{4}));
    }
    case QuantizeStep::square_block: return scale_blocks(shape.rows) * scale_blocks(shape.columns);
    case QuantizeStep::plain: {  // a chunk for each thread, two where all SMs have some
      const i64 spread = ceil_div(chunks, i64{kQuantizeThreads});
      return std::max(std::min(spread, sms), ceil_div(spread, i64{2}));
    }
  }
  return 1;
}

}  // namespace

struct Quantizer::Impl {
  Device device;
  QuantizerOptions options;
  std::vector<Step> steps;

  Result<void> launch_step(const Step& step, bool vectors, const QuantizeShape& shape,
                           const QuantizeParams& params, Stream stream) const {
    const i64 sms = device.info().sm_count;
    const u32 team =
        step.kind == QuantizeStep::row
            ? row_team(shape.rows, ceil_div(shape.columns, i64{kQuantizeChunk}), kQuantizeThreads, sms)
            : 1;
    const i64 warmers = std::min(ceil_div(total_bytes(params.hand_off), kWarmCtaBytes), sms);
    const i64 wanted = std::max(ceil_div(warmers, i64{team}), useful_blocks(step.kind, shape, sms));
    const u32 teams = static_cast<u32>(std::clamp<i64>(wanted, 1, sms * kBlocksPerSm / team));
    LaunchShape grid{.grid_x = teams * team,
                     .block_x = kQuantizeThreads,
                     .cluster_x = team,
                     .dependent = options.overlap.wait != Wait::none};
    const Module& module = *step.modules[vectors ? 0 : 1];
    spread_ctas(options.overlap, module.registers(), device.info(), grid);
    return launch_kernel(*device.impl().api, module.function(), grid, &params, stream);
  }
};

Result<void> check_options(const QuantizerOptions& options) {
  const auto& [input, granularity, gate, overlap] = options;
  if (!is_16bit(input) && input != DType::fp32)
    return Error{ErrorCode::invalid_type,
                 std::string("input is ") + name_of(input) + ": it must be bf16, fp16 or fp32"};
  if (!granularity && !is_16bit(input))
    return Error{ErrorCode::invalid_type, std::string("input is ") + name_of(input) +
                                              " and there is no granularity: what is not quantised must be "
                                              "bf16 or fp16"};
  if (!granularity && gate == Gate::none)
    return Error{
        ErrorCode::invalid_argument,
        "there is neither a granularity nor a gate, so the output would be a copy: give one of them"};
  return {};
}

Result<void> check_shape(const QuantizerOptions& options, const QuantizeShape& shape) {
  const Result<QuantizeShape> allowed = checked(shape, options.gate);
  return allowed ? Result<void>() : allowed.error();
}

Result<void> check_values(const QuantizerOptions& options, const QuantizeShape& shape,
                          const QuantizeArgs& args) {
  const Result<CheckedLaunch> launch = checked_launch(options, shape, args);
  return launch ? Result<void>() : launch.error();
}

Result<Quantizer> Quantizer::create(const Device& device, DType input, std::optional<Granularity> granularity,
                                    Gate gate, Overlap overlap) {
  const QuantizerOptions options{input, granularity, gate, overlap};
  if (const Result<void> allowed = check_options(options); !allowed) return allowed.error();
  auto impl = std::make_shared<Impl>(Impl{device, options, {}});
  const std::vector<std::string> units = quantize_units(input, granularity, gate, overlap);
  const auto cubins = device.impl().cache.get_all(units, device.options().jobs, {});
  size_t next = 0;
  for (const QuantizeStep kind : quantize_steps(granularity)) {
    Step step{kind, {}};
    for (std::shared_ptr<const Module>& loaded : step.modules) {
      const size_t unit = next++;
      if (!cubins[unit]) return cubins[unit].error();
      const int smem = most_smem_bytes(overlap, 0);
      auto module = device.impl().load_cubin(units[unit], **cubins[unit], smem);
      if (!module) return module.error();
      loaded = *std::move(module);
      if (overlap.wait == Wait::none) continue;
      if (const Result<void> waits = loaded->check_waits(); !waits) return waits.error();
    }
    impl->steps.push_back(std::move(step));
  }
  return Quantizer(std::move(impl));
}

Result<void> Quantizer::launch(const QuantizeShape& given, const QuantizeArgs& args, Stream stream) const {
  const Result<CheckedLaunch> launch = checked_launch(impl_->options, given, args);
  if (!launch) return launch.error();
  if (launch->nothing) return {};
  const auto& [shape, types, placed, nothing] = *launch;
  const std::span<const Placement> followed = placed;
  const bool two_steps = types.has_workspace;
  const PrimaryContext& primary = *impl_->device.impl().primary;
  if (const Result<void> ours = check_context(primary); !ours) return ours;
  const ContextScope scope(primary);
  if (const Result<void> entered = scope.entered(); !entered) return entered;
  for (const Placement& x : followed)
    if (const Result<void> ours = check_owner(primary, x.name, x.pointer); !ours) return ours;
  const bool vectors = allows_vectors(shape, args, types);
  const bool empty = shape.rows == 0 || shape.columns == 0;
  const QuantizeParams params{.input = args.input,
                              .output = static_cast<u8*>(args.output),
                              .scales = args.scales,
                              .scratch = static_cast<u32*>(args.workspace.data),
                              .rows = empty ? 0 : shape.rows,
                              .columns = empty ? kQuantizeChunk : shape.columns,  // the kernel divides by it
                              .input_ld = shape.input_ld,
                              .output_ld = shape.output_ld,
                              .scale_given = args.scale_given,
                              .hand_off = args.hand_off};
  const WorkspaceTurn turn(two_steps ? args.workspace.data : nullptr);  // the second step reads the first's
  for (const Step& step : impl_->steps) {
    if (step.kind == QuantizeStep::amax && args.scale_given) continue;
    Result<void> launched = impl_->launch_step(step, vectors, shape, params, stream);
    if (launched) continue;
    // What the first step leaves must not meet the next user of the workspace.
    if (two_steps && step.kind == QuantizeStep::cast)
      primary.api().cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(args.workspace.data), 0, kScratchBytes,
                                    stream);
    return launched;
  }
  return {};
}

const char* name_of(Gate gate) {
  return gate == Gate::none ? "none" : "silu";
}

const char* name_of(Granularity granularity) {
  switch (granularity) {
    case Granularity::tensor: return "tensor";
    case Granularity::row: return "row";
    case Granularity::row_block: return "row_block";
    case Granularity::square_block: return "square_block";
  }
  return "?";
}

}  // namespace sluice
