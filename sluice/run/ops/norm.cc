// SPDX-License-Identifier: Apache-2.0
// Loads and launches the norm kernels. The arithmetic is in kernels/norm.cuh.
#include <sluice/run/ops/norm.h>

#include <algorithm>

#include <sluice/plan/hash.h>
#include <sluice/plan/text/norm_units.h>
#include <sluice/spec/warm_split.h>

namespace sluice {
namespace {

constexpr i64 kThreadsPerSm = 1024;  // resident threads per SM if each uses 64 registers
constexpr i64 kMaxRows = i64{1} << 31;

enum Index { kInput, kResidual, kGamma, kOutput, kSum, kScales };

std::string number(i64 value) {
  return std::to_string(value);
}

/// Returns whether every operand allows vector accesses of eight elements.
bool allows_vectors(const ops::NormOp::Call& call) {
  if (call.shape.columns % kNormChunk != 0) return false;
  for (const Index i : {kInput, kResidual, kSum, kGamma, kOutput}) {
    if (!follows(call.operands, call.pointers, i)) continue;
    const i64 vector = bytes_of(*call.operands[i].type) * i64{kNormChunk};
    if (reinterpret_cast<u64>(call.pointers.at[i]) % static_cast<u64>(vector) != 0) return false;
    if (call.shape.rows > 1 && call.operands[i].memory.row_pitch % vector != 0) return false;
  }
  return true;
}

}  // namespace

Pointers pointers_of(const NormArgs& x) {
  Pointers p{.at = {x.input, x.residual, x.gamma, x.output, x.sum, x.scales}};
  for (const Index i : {kResidual, kSum}) p.skip_if(p.at[i] == nullptr, i);
  return p;
}

Result<Operands> operands_of(const NormOptions& options, const NormShape& s) {
  const bool quantised = options.quantize.has_value(), one = s.rows == 1;
  const bool given = options.quantize == Granularity::tensor;
  // Each element of the sum is written by the thread that read the same element of input and residual, so the
  // sum may be the same array as either.
  const bool like_input = one || s.sum_ld == s.input_ld, like_residual = one || s.sum_ld == s.residual_ld;
  const i64 scales = quantised ? scale_count(*options.quantize, s.rows, s.columns) : 0;
  Operands o;
  o.add({.name = "input", .type = options.input, .may_be = kSum, .lies_like = like_input},
        {s.columns, s.rows, s.input_ld});
  o.add({.name = "residual", .type = options.input, .may_be = kSum, .lies_like = like_residual},
        {s.columns, s.rows, s.residual_ld});
  o.add({.name = "gamma", .role = Role::weight, .type = options.input}, {s.columns});
  o.add({.name = "output", .role = Role::write, .type = quantised ? DType::e4m3 : options.input},
        {s.columns, s.rows, s.output_ld});
  o.add({.name = "sum", .role = Role::write, .type = options.input}, {s.columns, s.rows, s.sum_ld});
  o.add({.name = "scales",
         .role = given ? Role::read : Role::write,
         .type = DType::fp32,
         .used = quantised,
         .without = ", or make the norm without quantize"},
        {scales});
  SLUICE_TRY(o.check_extents());
  return o;
}

Result<void> check_options(const NormOptions& options) {
  if (!is_16bit(options.input))
    return Error{ErrorCode::invalid_type,
                 std::string("input is ") + name_of(options.input) + ": it must be bf16 or fp16"};
  if (options.quantize == Granularity::square_block)
    return Error{ErrorCode::invalid_argument,
                 "quantize is square_block: a norm has one row at a time; take tensor, row or row_block"};
  return {};
}

Result<NormShape> checked_shape(const NormOptions&, const NormShape& given) {
  NormShape shape = given;
  SLUICE_TRY(check_counts(shape.rows, shape.columns));
  if (shape.columns > kMaxNormColumns)
    return Error{ErrorCode::invalid_size, "columns = " + number(shape.columns) + ": must be at most " +
                                              number(kMaxNormColumns) + ", what a row's sums have room for"};
  if (shape.rows >= kMaxRows)
    return Error{ErrorCode::invalid_size,
                 "rows = " + number(shape.rows) + ": must be fewer than 2^31; split the matrix"};
  SLUICE_TRY(take_pitch("input_ld", shape.input_ld, shape.columns, shape.rows));
  SLUICE_TRY(take_pitch("residual_ld", shape.residual_ld, shape.columns, shape.rows));
  SLUICE_TRY(take_pitch("sum_ld", shape.sum_ld, shape.columns, shape.rows));
  SLUICE_TRY(take_pitch("output_ld", shape.output_ld, shape.columns, shape.rows));
  return shape;
}

NormStore norm_store_of(const NormOptions& options) {
  if (options.quantize == Granularity::tensor) return NormStore::tensor;
  if (options.quantize == Granularity::row) return NormStore::row;
  if (options.quantize == Granularity::row_block) return NormStore::row_block;
  return NormStore::plain;
}

std::size_t key_hash(const NormOptions& o) {
  return hash_of({static_cast<i64>(o.input), o.quantize ? static_cast<i64>(*o.quantize) : -1});
}

namespace ops {

Result<NormOptions> NormOp::sealed(const Plan& plan, const DeviceInfo&) {
  SLUICE_TRY(check_options(plan));
  return plan;
}

std::vector<std::string> NormOp::units(const Plan& plan) {
  return norm_units(plan.input, norm_store_of(plan), plan.overlap);
}

Result<void> NormOp::load(const Units& units, Prepared<NormOp>& kernel) {
  SLUICE_TRY(load_all(units, kernel));  // [0] with vector accesses, [1] without
  kernel.image.device = units.device.info();
  return {};
}

Result<NormOp::Call> NormOp::bind(const NormOptions& options, const Args& given) {
  SLUICE_TAKE(auto&& shape, checked_shape(options, given.shape));
  Call call{.shape = shape, .nothing = shape.rows == 0 || shape.columns == 0};
  if (call.nothing) return call;
  SLUICE_TRY(check_epsilon(given.args.epsilon));
  SLUICE_TRY(check_hand_off(given.args.hand_off.bytes));
  SLUICE_TAKE(auto&& operands, operands_of(options, shape));
  call.operands = operands;
  call.pointers = pointers_of(given.args);
  return call;
}

Result<void> NormOp::enqueue(const Prepared<NormOp>& kernel, const Call& call, const Args& given,
                             Stream stream) {
  const NormShape& shape = call.shape;
  const NormArgs& args = given.args;
  const bool vectors = allows_vectors(call);
  const i64 sms = kernel.image.device.sm_count;
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
  const LaunchShape grid{
      .grid_x = static_cast<u32>(teams) * layout.team, .block_x = layout.threads, .cluster_x = layout.team};
  return launch_spread(kernel, {vectors ? size_t{0} : 1, grid}, params, stream);
}

std::string NormOp::text(const Problem& options, const Args& args) {
  return std::string(args.args.residual != nullptr ? "add + norm " : "norm ") + number(args.shape.rows) +
         "x" + number(args.shape.columns) +
         (options.quantize ? std::string(" > e4m3 by ") + name_of(*options.quantize) : "");
}

std::string NormOp::missing(const Problem& problem) {
  return std::string("no norm of ") + name_of(problem.input) +
         (problem.quantize ? std::string(" to e4m3 by ") + name_of(*problem.quantize) : "") + " is ready";
}

}  // namespace ops

Result<Norm> Norm::create(const Device& device, const NormOptions& options) {
  return ops::prepare<ops::NormOp>(device, options);
}

Result<void> Norm::launch(const NormShape& shape, const NormArgs& args, Stream stream) const {
  return ops::launch<ops::NormOp>(*impl_, {shape, args}, stream);
}

}  // namespace sluice
