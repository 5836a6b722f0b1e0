// SPDX-License-Identifier: Apache-2.0
// Loads and launches the quantising kernels. The arithmetic is in kernels/quantize.cuh.
#include <sluice/run/ops/quantize.h>

#include <algorithm>
#include <limits>

#include <sluice/plan/hash.h>
#include <sluice/plan/text/quantize_units.h>
#include <sluice/run/driver/workspace_turn.h>
#include <sluice/spec/row_team.h>
#include <sluice/spec/warm_split.h>

namespace sluice {
namespace {

constexpr int kBlocksPerSm = 8;
constexpr i64 kScratchBytes = 2 * sizeof(u32);

enum Index { kInput, kOutput, kScales, kWorkspace, kRowIndex };

std::string number(i64 value) {
  return std::to_string(value);
}

/// Returns whether two launches are needed, first amax and then the cast: the whole matrix has one scale, and
/// the caller does not give it.
bool takes_two_steps(const QuantizerOptions& options, bool scale_given) {
  return options.granularity == Granularity::tensor && !scale_given;
}

DType output_type(const QuantizerOptions& options) {
  return options.granularity ? DType::e4m3 : options.input;
}

i64 input_rows(const QuantizerOptions& options, const QuantizeShape& shape) {
  return options.gathered ? shape.input_rows : shape.rows;
}

/// Returns whether input and output allow vector accesses of eight elements.
bool allows_vectors(const QuantizerOptions& options, const QuantizeShape& shape, const QuantizeArgs& args) {
  const auto multiple = [](i64 value, i64 unit) { return value % unit == 0; };
  const bool one_row = shape.rows <= 1, one_input = input_rows(options, shape) <= 1;
  // Bytes of one vector store.
  const u64 stored = kQuantizeChunk * static_cast<u64>(bytes_of(output_type(options)));
  return multiple(shape.columns, kQuantizeChunk) && reinterpret_cast<u64>(args.input) % 16 == 0 &&
         (one_input || multiple(shape.input_ld * bytes_of(options.input), 16)) &&
         reinterpret_cast<u64>(args.output) % stored == 0 &&
         (one_row || multiple(shape.output_ld, kQuantizeChunk));
}

/// Returns how many CTAs the step has work for. There may be more than fit on the GPU at once.
i64 useful_blocks(QuantizeStep step, const QuantizeShape& shape, i64 sms) {
  const auto spread_over = [&](i64 units, i64 of_block, i64 most_of_thread) {
    const i64 spread = ceil_div(units, of_block);
    return std::max(std::min(spread, sms), ceil_div(spread, most_of_thread));
  };
  switch (step) {
    case QuantizeStep::amax:
    case QuantizeStep::cast:
    case QuantizeStep::plain:  // one chunk per thread, or two if all SMs have work
      return spread_over(shape.rows * ceil_div(shape.columns, i64{kQuantizeChunk}), kQuantizeThreads, 2);
    case QuantizeStep::row: return shape.rows;
    case QuantizeStep::row_block:
      return spread_over(shape.rows * scale_blocks(shape.columns), kQuantizeThreads / 16, 4);
    case QuantizeStep::square_block: return scale_blocks(shape.rows) * scale_blocks(shape.columns);
  }
  return 1;
}

/// Returns the launch shape of a step.
LaunchShape grid_of(QuantizeStep step, const QuantizeParams& params, i64 sms) {
  const QuantizeShape shape{.rows = params.rows, .columns = params.columns};
  const u32 team =
      step == QuantizeStep::row
          ? row_team(shape.rows, ceil_div(shape.columns, i64{kQuantizeChunk}), kQuantizeThreads, sms)
          : 1;
  const i64 warmers = std::min(ceil_div(total_bytes(params.hand_off), kWarmCtaBytes), sms);
  const i64 wanted = std::max(ceil_div(warmers, i64{team}), useful_blocks(step, shape, sms));
  const u32 teams = static_cast<u32>(std::clamp<i64>(wanted, 1, sms * kBlocksPerSm / team));
  return {.grid_x = teams * team, .block_x = kQuantizeThreads, .cluster_x = team};
}

}  // namespace

Result<Operands> operands_of(const QuantizerOptions& options, const QuantizeShape& s, bool scale_given) {
  const bool empty = s.rows == 0 || s.columns == 0, quantised = options.granularity.has_value();
  const i64 scales = quantised ? scale_count(*options.granularity, s.rows, s.columns) : 0;
  const bool two_steps = takes_two_steps(options, scale_given);
  Operands o;
  const i64 sources = input_rows(options, s);
  o.add({.name = "input", .type = options.input, .used = !empty && sources > 0},
        {input_columns(options.gate, s.columns), sources, s.input_ld});
  o.add({.name = "output", .role = Role::write, .type = output_type(options), .used = !empty},
        {s.columns, s.rows, s.output_ld});
  o.add({.name = "scales",
         .role = scale_given ? Role::read : Role::write,
         .type = DType::fp32,
         .used = scales > 0},
        {scales});
  o.add({.name = "the workspace",
         .role = Role::scratch,
         .used = two_steps,
         .alignment = sizeof(u32),
         .because = "its counters are of that size"},
        {kScratchBytes});
  o.add({.name = "row_index", .type = DType::fp32, .used = options.gathered && !empty}, {s.rows});
  SLUICE_TRY(o.check_extents());
  return o;
}

Pointers pointers_of(const QuantizeArgs& x) {
  return {.at = {x.input, x.output, x.scales, x.workspace.data, x.row_index},
          .workspace_bytes = x.workspace.bytes};
}

Result<void> check_quantizer_input(DType input) {
  if (is_16bit(input) || input == DType::fp32) return {};
  return Error{ErrorCode::invalid_type,
               std::string("input is ") + name_of(input) + ": it must be bf16, fp16 or fp32"};
}

Result<void> check_options(const QuantizerOptions& options) {
  const auto& [input, granularity, gate, overlap, gathered] = options;
  SLUICE_TRY(check_quantizer_input(input));
  if (!granularity && !is_16bit(input))
    return Error{ErrorCode::invalid_type, std::string("input is ") + name_of(input) +
                                              " and there is no granularity: what is not quantised must be "
                                              "bf16 or fp16"};
  if (!granularity && gate == Gate::none && !gathered)
    return Error{
        ErrorCode::invalid_argument,
        "there is neither a granularity nor a gate, so the output would be a copy: give one of them"};
  return {};
}

Result<QuantizeShape> checked_shape(const QuantizerOptions& options, const QuantizeShape& given) {
  QuantizeShape shape = given;
  SLUICE_TRY(check_counts(shape.rows, shape.columns));
  if (shape.columns > std::numeric_limits<i64>::max() / 2)
    return Error{ErrorCode::invalid_size, "columns = " + number(shape.columns) + ": no matrix is so wide"};
  if (shape.input_rows < 0 || shape.input_rows > std::numeric_limits<int>::max())
    return Error{ErrorCode::invalid_size, "input_rows = " + number(shape.input_rows) +
                                              ": must be in 0..2^31 - 1, since row numbers are int32"};
  SLUICE_TRY(take_pitch("input_ld", shape.input_ld, input_columns(options.gate, shape.columns),
                        input_rows(options, shape)));
  SLUICE_TRY(take_pitch("output_ld", shape.output_ld, shape.columns, shape.rows));
  i64 units = 0;
  if (__builtin_mul_overflow(shape.rows, ceil_div(shape.columns, i64{kQuantizeChunk}), &units) ||
      units >= kMaxQuantizeUnits)
    return Error{ErrorCode::invalid_size,
                 number(shape.rows) + " rows of " + number(shape.columns) +
                     " columns: must be fewer than 2^31 groups of 8; split the matrix"};
  SLUICE_TRY(operands_of(options, shape, true));  // returns the error of a shape whose byte count overflows
  return shape;
}

std::size_t key_hash(const QuantizerOptions& o) {
  return hash_of({static_cast<i64>(o.input), o.granularity ? static_cast<i64>(*o.granularity) : -1,
                  static_cast<i64>(o.gate), o.gathered});
}

namespace ops {

Result<QuantizerOptions> QuantizeOp::sealed(const Plan& plan, const DeviceInfo&) {
  SLUICE_TRY(check_options(plan));
  return plan;
}

std::vector<std::string> QuantizeOp::units(const Plan& plan) {
  return quantize_units(plan.input, plan.granularity, plan.gate, plan.overlap, plan.gathered);
}

Result<void> QuantizeOp::load(const Units& units, Prepared<QuantizeOp>& kernel) {
  SLUICE_TRY(load_all(units, kernel));
  kernel.image = {units.device.info(), quantize_steps(kernel.plan.granularity)};
  return {};
}

Result<QuantizeOp::Call> QuantizeOp::bind(const QuantizerOptions& options, const Args& given) {
  const QuantizeArgs& args = given.args;
  SLUICE_TAKE(auto&& shape, checked_shape(options, given.shape));
  const bool two_steps = takes_two_steps(options, args.scale_given);
  Call call{.shape = shape, .nothing = (shape.rows == 0 || shape.columns == 0) && !two_steps};
  if (call.nothing) return call;
  if (args.scale_given && options.granularity != Granularity::tensor)
    return Error{ErrorCode::invalid_argument,
                 std::string("scale_given is for one scale of a whole matrix, not for ") +
                     (options.granularity ? name_of(*options.granularity) : "what is not quantised")};
  if (two_steps && overlaps(options.overlap))
    return Error{ErrorCode::invalid_argument,
                 "a scale of the whole matrix that is not given takes two kernels, which do not overlap "
                 "others: give the scale, or create the quantiser without an overlap"};
  SLUICE_TRY(check_hand_off(args.hand_off.bytes));
  if (two_steps && (args.workspace.data == nullptr || args.workspace.bytes < kScratchBytes))
    return Error{ErrorCode::workspace,
                 "a scale of the whole matrix needs the counters of a workspace: pass " +
                     number(kScratchBytes) + " bytes or more, not " +
                     number(args.workspace.data == nullptr ? 0 : args.workspace.bytes)};
  SLUICE_TAKE(auto&& operands, operands_of(options, shape, args.scale_given));
  call.operands = operands;
  call.pointers = pointers_of(args);
  return call;
}

Result<void> QuantizeOp::enqueue(const Prepared<QuantizeOp>& kernel, const Call& call, const Args& given,
                                 Stream stream) {
  const QuantizeShape& shape = call.shape;
  const QuantizeArgs& args = given.args;
  const bool two_steps = takes_two_steps(kernel.plan, args.scale_given);
  const bool vectors = allows_vectors(kernel.plan, shape, args);
  const bool empty = shape.rows == 0 || shape.columns == 0;
  // Kernels that gather nothing read the first part alone.
  const GatherParams params{{.input = args.input,
                             .output = static_cast<u8*>(args.output),
                             .scales = args.scales,
                             .scratch = static_cast<u32*>(args.workspace.data),
                             .rows = empty ? 0 : shape.rows,
                             // Must not be 0: the kernel divides by it.
                             .columns = empty ? kQuantizeChunk : shape.columns,
                             .input_ld = shape.input_ld,
                             .output_ld = shape.output_ld,
                             .scale_given = args.scale_given,
                             .hand_off = args.hand_off},
                            args.row_index,
                            shape.input_rows};
  // The second launch reads what the first wrote.
  const WorkspaceTurn turn(two_steps ? args.workspace.data : nullptr);
  const i64 sms = kernel.image.device.sm_count;
  for (size_t i = 0; i < kernel.image.steps.size(); ++i) {
    const QuantizeStep step = kernel.image.steps[i];
    if (step == QuantizeStep::amax && args.scale_given) continue;
    Result<void> launched =
        launch_spread(kernel, {2 * i + (vectors ? 0 : 1), grid_of(step, params, sms)}, params, stream);
    if (launched) continue;
    // Clear the first launch's amax, which the next user of the workspace must not see.
    if (two_steps && step == QuantizeStep::cast)
      kernel.api().cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(args.workspace.data), 0, kScratchBytes,
                                   stream);
    return launched;
  }
  return {};
}

std::string QuantizeOp::text(const Problem& options, const Args& args) {
  const std::string shape = number(args.shape.rows) + "x" + number(args.shape.columns) +
                            (options.gathered ? " of gathered rows" : "");
  if (!options.granularity && options.gate == Gate::none) return "gather " + shape;
  if (!options.granularity) return "silu * up " + shape;
  return std::string(options.gate == Gate::silu ? "silu * up, " : "") + "quantise " + shape + " by " +
         name_of(*options.granularity);
}

std::string QuantizeOp::missing(const Problem& problem) {
  return std::string("no quantiser of ") + name_of(problem.input) +
         (problem.granularity ? std::string(" by ") + name_of(*problem.granularity) : "") +
         (problem.gate == Gate::none ? "" : " with a gate") + (problem.gathered ? " of gathered rows" : "") +
         " is ready";
}

i64 QuantizeOp::workspace_for(const Prepared<QuantizeOp>& kernel, const Args& args) {
  const bool needed = takes_two_steps(kernel.plan, args.args.scale_given);
  return needed && args.args.workspace.data == nullptr ? kWorkspaceCounterBytes : 0;
}

}  // namespace ops

Result<Quantizer> Quantizer::create(const Device& device, DType input, std::optional<Granularity> granularity,
                                    Gate gate, Overlap overlap) {
  return create(device, QuantizerOptions{input, granularity, gate, overlap});
}

Result<Quantizer> Quantizer::create(const Device& device, const QuantizerOptions& options) {
  return ops::prepare<ops::QuantizeOp>(device, options);
}

Result<void> Quantizer::launch(const QuantizeShape& shape, const QuantizeArgs& args, Stream stream) const {
  return ops::launch<ops::QuantizeOp>(*impl_, {shape, args}, stream);
}

}  // namespace sluice
