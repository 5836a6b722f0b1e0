// SPDX-License-Identifier: Apache-2.0
// Loads and launches the kernels that add up the rows of a token's experts. The arithmetic is in
// kernels/combine.cuh.
#include <sluice/run/ops/experts/combine.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include <sluice/plan/hash.h>
#include <sluice/plan/text/expert_units.h>
#include <sluice/spec/warm_split.h>

namespace sluice {
namespace {

constexpr i64 kCtasOfSm = 8;

enum Index { kY, kSlots, kWeights, kShared, kOut };

std::string shape_text(const CombineShape& shape) {
  return std::to_string(shape.tokens) + "x" + std::to_string(shape.columns) + " of " +
         std::to_string(shape.chosen) + " experts";
}

Result<CombineShape> checked_shape(const CombineShape& given) {
  CombineShape shape = given;
  SLUICE_TRY(check_counts(shape.tokens, shape.columns));
  if (shape.rows < 0 || shape.rows > std::numeric_limits<int>::max())
    return Error{ErrorCode::invalid_size,
                 "rows = " + std::to_string(shape.rows) + ": must be in 0..2^31 - 1, since rows are int32"};
  if (shape.chosen < 1 || shape.chosen > kMostChosen)
    return Error{ErrorCode::invalid_size, "chosen = " + std::to_string(shape.chosen) + ": must be in 1.." +
                                              std::to_string(kMostChosen) +
                                              "; give each token so many experts"};
  if (shape.experts < 0 || shape.experts > std::numeric_limits<int>::max())
    return Error{ErrorCode::invalid_size, "experts = " + std::to_string(shape.experts) +
                                              ": must be in 0..2^31 - 1; 0 if row_of_slot has rows"};
  i64 units = 0;
  if (shape.columns > std::numeric_limits<i64>::max() / 2 || shape.tokens > kMostSlots ||
      __builtin_mul_overflow(shape.tokens, ceil_div(shape.columns, i64{kCombineChunk}), &units) ||
      units >= kMaxCombineUnits)
    return Error{ErrorCode::invalid_size,
                 shape_text(shape) + ": must be fewer than 2^31 groups of 8 columns; split the tokens"};
  SLUICE_TRY(take_pitch("y_ld", shape.y_ld, shape.columns, shape.rows));
  SLUICE_TRY(take_pitch("shared_ld", shape.shared_ld, shape.columns, shape.tokens));
  SLUICE_TRY(take_pitch("out_ld", shape.out_ld, shape.columns, shape.tokens));
  return shape;
}

/// Returns whether y, shared and out allow accesses of 16 bytes.
bool in_vectors(const ops::CombineOp::Call& call) {
  const auto fits = [&](int i) {
    const auto& [operands, pointers] = std::tie(call.operands, call.pointers);
    if (!follows(operands, pointers, i)) return true;
    const Footprint& x = operands[i].memory;
    return reinterpret_cast<u64>(pointers.at[i]) % 16 == 0 && (x.rows <= 1 || x.row_pitch % 16 == 0);
  };
  return call.shape.columns % kCombineChunk == 0 && fits(kY) && fits(kShared) && fits(kOut);
}

}  // namespace

std::size_t key_hash(const CombineOptions& options) {
  return hash_of({static_cast<i64>(options.type)});
}

namespace ops {

Result<CombineOptions> CombineOp::sealed(const Plan& plan, const DeviceInfo&) {
  if (is_16bit(plan.type)) return plan;
  return Error{ErrorCode::invalid_type,
               std::string("y is ") + name_of(plan.type) + ": it must be bf16 or fp16"};
}

std::vector<std::string> CombineOp::units(const Plan& plan) {
  return combine_units(plan.type, plan.overlap);
}

Result<void> CombineOp::load(const Units& units, Prepared<CombineOp>& kernel) {
  SLUICE_TRY(load_all(units, kernel));  // [0] with vector accesses, [1] without
  kernel.image.device = units.device.info();
  return {};
}

Result<CombineOp::Call> CombineOp::bind(const CombineOptions& options, const Args& given) {
  const CombineArgs& x = given.args;
  SLUICE_TAKE(auto&& shape, checked_shape(given.shape));
  Call call{.shape = shape, .nothing = shape.tokens == 0 || shape.columns == 0};
  if (call.nothing) return call;
  SLUICE_TRY(check_hand_off(x.hand_off.bytes));
  const i64 slots = shape.tokens * shape.chosen;
  // The thread that writes an element of out has read the same element of shared before.
  const bool alike = shape.tokens == 1 || shape.shared_ld == shape.out_ld;
  Operands& o = call.operands;
  o.add({.name = "y", .type = options.type, .used = shape.rows > 0}, {shape.columns, shape.rows, shape.y_ld});
  o.add({.name = "row_of_slot", .type = DType::fp32}, {slots});
  o.add({.name = "weights", .type = DType::fp32, .used = x.weights != nullptr}, {slots});
  o.add({.name = "shared",
         .type = options.type,
         .used = x.shared != nullptr,
         .may_be = kOut,
         .lies_like = alike},
        {shape.columns, shape.tokens, shape.shared_ld});
  o.add({.name = "out", .role = Role::write, .type = options.type},
        {shape.columns, shape.tokens, shape.out_ld});
  SLUICE_TRY(o.check_extents());
  call.pointers = {.at = {x.y, x.row_of_slot, x.weights, x.shared, x.out}};
  return call;
}

Result<void> CombineOp::enqueue(const Prepared<CombineOp>& kernel, const Call& call, const Args& given,
                                Stream stream) {
  const CombineShape& shape = call.shape;
  const CombineArgs& args = given.args;
  const i64 sms = kernel.image.device.sm_count;
  const CombineParams params{.y = args.y,
                             .row_of_slot = args.row_of_slot,
                             .weights = args.weights,
                             .shared = args.shared,
                             .out = args.out,
                             .tokens = shape.tokens,
                             .columns = shape.columns,
                             .rows = shape.rows,
                             .y_ld = shape.y_ld,
                             .shared_ld = shape.shared_ld,
                             .out_ld = shape.out_ld,
                             .chosen = static_cast<i32>(shape.chosen),
                             .experts = static_cast<i32>(shape.experts),
                             .hand_off = args.hand_off};
  const i64 units = shape.tokens * ceil_div(shape.columns, i64{kCombineChunk});
  const i64 warmers = std::min(ceil_div(total_bytes(args.hand_off), kWarmCtaBytes), sms);
  const i64 wanted = std::max(warmers, ceil_div(units, i64{kCombineThreads}));
  const LaunchShape grid{.grid_x = static_cast<u32>(std::clamp<i64>(wanted, 1, sms * kCtasOfSm)),
                         .block_x = kCombineThreads};
  return launch_spread(kernel, {in_vectors(call) ? size_t{0} : 1, grid}, params, stream);
}

std::string CombineOp::text(const Problem&, const Args& args) {
  return "combine " + shape_text(args.shape);
}

std::string CombineOp::missing(const Problem& problem) {
  return std::string("no combiner of ") + name_of(problem.type) + " is ready";
}

}  // namespace ops

Result<Combiner> Combiner::create(const Device& device, const CombineOptions& options) {
  return ops::prepare<ops::CombineOp>(device, options);
}

Result<void> Combiner::launch(const CombineShape& shape, const CombineArgs& args, Stream stream) const {
  return ops::launch<ops::CombineOp>(*impl_, {shape, args}, stream);
}

}  // namespace sluice
