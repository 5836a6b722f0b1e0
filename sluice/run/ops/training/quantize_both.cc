// SPDX-License-Identifier: Apache-2.0
// Loads and launches the kernels that quantise in both orders. The arithmetic is in
// kernels/quantize_both.cuh.
#include <sluice/run/ops/training/quantize_both.h>

#include <algorithm>
#include <limits>

#include <sluice/plan/hash.h>
#include <sluice/plan/text/units.h>
#include <sluice/run/driver/error.h>
#include <sluice/run/driver/workspace_turn.h>
#include <sluice/run/ops/quantize.h>

namespace sluice {
namespace {

constexpr i64 kCodesPerRow = 16;  // a row of codes begins at a multiple of 16 bytes, for TMA
constexpr i64 kMostTiles = i64{1} << 28;

enum Index { kInput, kRows, kColumns, kRowScales, kColumnScales, kSums, kWorkspace, kGradient };

/// CTAs that an SM holds at once: shared memory limits them.
i64 ctas_per_sm(DType input) {
  return input == DType::fp32 ? 1 : 2;
}

bool takes_two_steps(const QuantizeBothOptions& options) {
  return options.granularity == Granularity::tensor || options.granularity == Granularity::row;
}

i64 amax_bytes(const QuantizeBothOptions& options, const QuantizeBothShape& shape) {
  return 4 * (options.granularity == Granularity::tensor ? 1 : shape.rows + shape.columns);
}

i64 input_columns(const QuantizeBothOptions& options, const QuantizeBothShape& shape) {
  return options.source == BothSource::swiglu ? 2 * shape.columns : shape.columns;
}

Result<QuantizeBothShape> checked_shape(const QuantizeBothOptions& options, const QuantizeBothShape& given) {
  QuantizeBothShape shape = given;
  SLUICE_TRY(check_counts(shape.rows, shape.columns));
  const auto refused = [](ErrorCode code, const char* name, i64 value, const char* rule) {
    return Error{code, std::string(name) + " = " + std::to_string(value) + ": must be " + rule};
  };
  if (shape.columns % kCodesPerRow != 0)
    return refused(ErrorCode::invalid_size, "columns", shape.columns,
                   "a multiple of 16, since rows of fp8 lie 16 bytes apart; pad the matrix, or gate and up "
                   "each, with zeros");
  if (shape.columns > std::numeric_limits<i64>::max() / 2 ||
      scale_blocks(shape.rows) >= kMostTiles / std::max<i64>(scale_blocks(shape.columns), 1))
    return refused(ErrorCode::invalid_size, "rows", shape.rows,
                   "so few that there are fewer than 2^28 tiles of 128 x 128; split the matrix");
  struct Pitch {
    const char* name;
    i64& elements;
    i64 least, lines, unit;
  };
  const Pitch pitches[] = {
      {"input_ld", shape.input_ld, input_columns(options, shape), shape.rows, 16 / bytes_of(options.input)},
      {"rows_ld", shape.rows_ld, shape.columns, shape.rows, kCodesPerRow},
      {"columns_t_ld", shape.columns_t_ld, rows_up(shape), shape.columns, kCodesPerRow},
      {"gradient_ld", shape.gradient_ld, shape.columns / 2, shape.rows, 16 / bytes_of(options.input)}};
  for (const Pitch& pitch : pitches) {
    SLUICE_TRY(take_pitch(pitch.name, pitch.elements, pitch.least, pitch.lines));
    if (pitch.lines > 1 && pitch.elements % pitch.unit != 0)
      return refused(ErrorCode::invalid_stride, pitch.name, pitch.elements,
                     "a multiple of 16 bytes, in elements; copy the matrix");
  }
  return shape;
}

Result<Operands> operands_of(const QuantizeBothOptions& options, const QuantizeBothShape& s,
                             const QuantizeBothArgs& args) {
  const bool by_tensor = options.granularity == Granularity::tensor;
  const bool rows = args.rows != nullptr, columns = args.columns_t != nullptr;
  const auto wide = [](const char* name, Role role, DType type, bool used) {
    return Operand{.name = name,
                   .role = role,
                   .type = type,
                   .used = used,
                   .alignment = 16,
                   .because = "it is read and written 16 bytes at a time"};
  };
  const auto fp32 = [](const char* name, bool used) {
    return Operand{.name = name, .role = Role::write, .type = DType::fp32, .used = used};
  };
  Operands o;
  o.add(wide("input", Role::read, options.input, true), {input_columns(options, s), s.rows, s.input_ld});
  o.add(wide("rows", Role::write, options.output, rows), {s.columns, s.rows, s.rows_ld});
  o.add(wide("columns_t", Role::write, options.output, columns), {rows_up(s), s.columns, s.columns_t_ld});
  o.add(fp32("row_scales", rows || by_tensor), {scale_count(options.granularity, s.rows, s.columns)});
  o.add(fp32("column_scales", columns && !by_tensor), {scale_count(options.granularity, s.columns, s.rows)});
  o.add(fp32("sums", args.sums != nullptr), {s.columns, scale_blocks(s.rows), s.columns});
  o.add({.name = "the workspace",
         .role = Role::scratch,
         .used = takes_two_steps(options),
         .alignment = sizeof(u32),
         .because = "its counters are of that size"},
        {workspace_bytes(options, s)});
  o.add(wide("gradient", Role::read, options.input, options.source == BothSource::swiglu_gradient),
        {s.columns / 2, s.rows, s.gradient_ld});
  SLUICE_TRY(o.check_extents());
  return o;
}

std::string unit_text(const QuantizeBothOptions& o, BothStep step) {
  const char* const granularity = name_of(o.granularity);
  return std::string("#include <sluice/kernels/quantize_both_entry.cuh>\n") +
         "inline constexpr sluice::BothConfig kConfig{.step = sluice::BothStep::" +
         (step == BothStep::amax ? "amax" : "cast") + ", .input = sluice::DType::" + name_of(o.input) +
         ", .output = sluice::DType::" + name_of(o.output) +
         ", .granularity = sluice::Granularity::" + granularity +
         ", .powers_of_two = " + (o.powers_of_two ? "true" : "false") +
         ", .source = sluice::BothSource::" + name_of(o.source) + "};\n" +
         entry_text({.params = "sluice::BothParams",
                     .threads = "sluice::kQuantizeThreads",
                     .ctas = std::to_string(ctas_per_sm(o.input)),
                     .call = "sluice::quantize::run_both<kConfig, sluice::quantize::BothArith>(params)"});
}

}  // namespace

i64 workspace_bytes(const QuantizeBothOptions& options, const QuantizeBothShape& shape) {
  return takes_two_steps(options) ? kWorkspaceCounterBytes + amax_bytes(options, shape) : 0;
}

std::size_t key_hash(const QuantizeBothOptions& o) {
  return hash_of({static_cast<i64>(o.input), static_cast<i64>(o.output), static_cast<i64>(o.granularity),
                  o.powers_of_two, static_cast<i64>(o.source)});
}

namespace ops {

Result<QuantizeBothOptions> QuantizeBothOp::sealed(const Plan& plan, const DeviceInfo&) {
  SLUICE_TRY(check_quantizer_input(plan.input));
  if (!is_fp8(plan.output))
    return Error{ErrorCode::invalid_type,
                 std::string("the output is ") + name_of(plan.output) + ": it must be e4m3 or e5m2"};
  if (plan.source == BothSource::matrix || is_16bit(plan.input)) return plan;
  return Error{ErrorCode::invalid_type, std::string("the input is ") + name_of(plan.input) +
                                            " and the source " + name_of(plan.source) +
                                            ": gate and up must be bf16 or fp16"};
}

std::vector<std::string> QuantizeBothOp::units(const Plan& plan) {
  std::vector<std::string> units;
  if (takes_two_steps(plan)) units.push_back(unit_text(plan, BothStep::amax));
  units.push_back(unit_text(plan, BothStep::cast));
  return units;
}

Result<void> QuantizeBothOp::load(const Units& units, Prepared<QuantizeBothOp>& kernel) {
  for (size_t i = 0; i < units.texts.size(); ++i) {
    SLUICE_TAKE(const auto module,
                units.load(i, both_ring_bytes(kernel.plan.input, kernel.plan.source), false));
    kernel.modules.push_back(module);
  }
  kernel.image.device = units.device.info();
  return {};
}

Result<QuantizeBothOp::Call> QuantizeBothOp::bind(const QuantizeBothOptions& options, const Args& given) {
  const QuantizeBothArgs& args = given.args;
  SLUICE_TAKE(auto&& shape, checked_shape(options, given.shape));
  Call call{.shape = shape, .nothing = shape.rows == 0 || shape.columns == 0};
  if (call.nothing) return call;
  if (args.rows == nullptr && args.columns_t == nullptr)
    return Error{ErrorCode::invalid_pointer,
                 "rows and columns_t are null: pass memory for one of them, or both"};
  if (const i64 needed = workspace_bytes(options, shape);
      needed > 0 && (args.workspace.data == nullptr || args.workspace.bytes < needed))
    return Error{ErrorCode::workspace,
                 std::string("scales by ") + name_of(options.granularity) + " need a workspace of " +
                     std::to_string(needed) + " bytes for the largest values, not " +
                     std::to_string(args.workspace.data == nullptr ? 0 : args.workspace.bytes) +
                     ": pass workspace_bytes()"};
  SLUICE_TAKE(auto&& operands, operands_of(options, shape, args));
  call.operands = operands;
  call.pointers = {.at = {args.input, args.rows, args.columns_t, args.row_scales, args.column_scales,
                          args.sums, args.workspace.data, args.gradient},
                   .workspace_bytes = args.workspace.bytes};
  return call;
}

Result<void> QuantizeBothOp::enqueue(const Prepared<QuantizeBothOp>& kernel, const Call& call,
                                     const Args& given, Stream stream) {
  const QuantizeBothShape& shape = call.shape;
  const QuantizeBothArgs& args = given.args;
  const bool two_steps = takes_two_steps(kernel.plan);
  // Behind the counters, which must stay zero.
  u8* const amaxes = two_steps ? static_cast<u8*>(args.workspace.data) + kWorkspaceCounterBytes : nullptr;
  const BothParams params{.input = args.input,
                          .rows = static_cast<u8*>(args.rows),
                          .columns_t = static_cast<u8*>(args.columns_t),
                          .row_scales = args.row_scales,
                          .column_scales = args.column_scales,
                          .sums = args.sums,
                          .amaxes = reinterpret_cast<u32*>(amaxes),
                          .row_count = shape.rows,
                          .column_count = shape.columns,
                          .input_ld = shape.input_ld,
                          .rows_ld = shape.rows_ld,
                          .columns_t_ld = shape.columns_t_ld,
                          .gradient = args.gradient,
                          .gradient_ld = shape.gradient_ld};
  const i64 tiles = scale_blocks(shape.rows) * scale_blocks(shape.columns);
  const LaunchShape grid{.grid_x = static_cast<u32>(std::min(
                             tiles, i64{kernel.image.device.sm_count} * ctas_per_sm(kernel.plan.input))),
                         .block_x = kQuantizeThreads,
                         .smem_bytes = both_ring_bytes(kernel.plan.input, kernel.plan.source)};
  const WorkspaceTurn turn(two_steps ? args.workspace.data : nullptr);
  if (two_steps) {
    const i64 bytes = amax_bytes(kernel.plan, shape);
    if (const CUresult code = kernel.api().cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(amaxes), 0,
                                                           static_cast<std::size_t>(bytes), stream);
        code != CUDA_SUCCESS)
      return driver_error(kernel.api(), code, "cuMemsetD8Async", "of the largest values");
  }
  for (const auto& module : kernel.modules)
    SLUICE_TRY(launch_kernel(kernel.api(), module->function(), grid, &params, stream));
  return {};
}

std::string QuantizeBothOp::missing(const Problem& problem) {
  return std::string("no quantiser in both orders of ") + name_of(problem.input) + " to " +
         name_of(problem.output) + " by " + name_of(problem.granularity) +
         (problem.source == BothSource::matrix ? "" : std::string(" of ") + name_of(problem.source)) +
         " is ready";
}

i64 QuantizeBothOp::workspace_for(const Prepared<QuantizeBothOp>& kernel, const Args& args) {
  return args.args.workspace.data == nullptr ? workspace_bytes(kernel.plan, args.shape) : 0;
}

}  // namespace ops

Result<BothQuantizer> BothQuantizer::create(const Device& device, const QuantizeBothOptions& options) {
  return ops::prepare<ops::QuantizeBothOp>(device, options);
}

Result<void> BothQuantizer::launch(const QuantizeBothShape& shape, const QuantizeBothArgs& args,
                                   Stream stream) const {
  return ops::launch<ops::QuantizeBothOp>(*impl_, {shape, args}, stream);
}

}  // namespace sluice
