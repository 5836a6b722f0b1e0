// SPDX-License-Identifier: Apache-2.0
// Loads and launches the kernel that sorts slots by expert. The sort is in kernels/route.cuh.
#include <sluice/run/ops/experts/route.h>

#include <limits>

#include <sluice/plan/hash.h>
#include <sluice/plan/text/expert_units.h>

namespace sluice {
namespace {

struct Bound {
  const char* name;
  i64 value, low, high;
  const char* remedy;
};

/// Error invalid_size: the first value that is out of its range.
Result<void> check_bounds(std::initializer_list<Bound> bounds) {
  for (const Bound& b : bounds)
    if (b.value < b.low || b.value > b.high)
      return Error{ErrorCode::invalid_size, std::string(b.name) + " = " + std::to_string(b.value) +
                                                ": must be in " + std::to_string(b.low) + ".." +
                                                std::to_string(b.high) + "; " + b.remedy};
  return {};
}

Result<RouteShape> checked_shape(const RouteShape& given) {
  RouteShape shape = given;
  SLUICE_TRY(check_bounds({{"tokens", shape.tokens, 0, kMostSlots, "split them"},
                           {"chosen", shape.chosen, 1, kMostChosen, "give each token so many experts"},
                           {"experts", shape.experts, 1, kMostGroups, "products have so many groups"},
                           {"rows", shape.rows, 0, std::numeric_limits<int>::max(), "rows are int32"},
                           {"pitch", shape.pitch, 1, kMostRoutePitch, "1 leaves no gaps"}}));
  if (shape.tokens * shape.chosen > kMostSlots)
    return Error{ErrorCode::invalid_size, std::to_string(shape.tokens) + " tokens of " +
                                              std::to_string(shape.chosen) +
                                              " experts: must have at most 2^30 slots; split the tokens"};
  SLUICE_TRY(take_pitch("ids_ld", shape.ids_ld, shape.chosen, shape.tokens));
  if (shape.ids_ld > kMostSlots)
    return Error{ErrorCode::invalid_stride,
                 "ids_ld = " + std::to_string(shape.ids_ld) + " must be at most 2^30; pass ids without gaps"};
  return shape;
}

}  // namespace

std::size_t key_hash(const RouteOptions& options) {
  return hash_of({options.wide_ids});
}

namespace ops {

std::vector<std::string> RouteOp::units(const Plan& plan) {
  return {route_unit_text({plan.wide_ids, plan.overlap})};
}

Result<void> RouteOp::load(const Units& units, Prepared<RouteOp>& kernel) {
  const Overlap& overlap = kernel.plan.overlap;
  constexpr i64 kMost = 4 * route_words(kMaxRouteThreads, kMostGroups);
  SLUICE_TAKE(const auto module, units.load(0, most_smem_bytes(overlap, kMost), overlap.wait != Wait::none));
  kernel.modules.push_back(module);
  kernel.image.device = units.device.info();
  return {};
}

Result<RouteOp::Call> RouteOp::bind(const RouteOptions& options, const Args& given) {
  SLUICE_TAKE(auto&& shape, checked_shape(given.shape));
  SLUICE_TRY(check_hand_off(given.args.hand_off.bytes));
  const i64 slots = shape.tokens * shape.chosen;
  const int id = options.wide_ids ? 8 : 4;
  Call call{.shape = shape};
  Operands& o = call.operands;
  o.add({.name = "ids", .used = slots > 0, .alignment = id},
        {shape.chosen * id, shape.tokens, shape.ids_ld * id});
  o.add({.name = "ends", .role = Role::write, .type = DType::fp32}, {shape.experts});
  o.add({.name = "row_of_slot", .role = Role::write, .type = DType::fp32, .used = slots > 0}, {slots});
  o.add({.name = "token_of_row", .role = Role::write, .type = DType::fp32, .used = shape.rows > 0},
        {shape.rows});
  SLUICE_TRY(o.check_extents());
  const RouteArgs& x = given.args;
  call.pointers = {.at = {x.ids, x.ends, x.row_of_slot, x.token_of_row}};
  return call;
}

Result<void> RouteOp::enqueue(const Prepared<RouteOp>& kernel, const Call& call, const Args& given,
                              Stream stream) {
  const RouteShape& shape = call.shape;
  const RouteArgs& args = given.args;
  const i64 slots = shape.tokens * shape.chosen;
  const RouteLayout layout = route_layout(slots, shape.experts);
  const RouteParams params{.ids = args.ids,
                           .ends = args.ends,
                           .row_of_slot = args.row_of_slot,
                           .token_of_row = args.token_of_row,
                           .ids_ld = shape.ids_ld,
                           .slots = static_cast<i32>(slots),
                           .chosen = static_cast<i32>(shape.chosen),
                           .experts = static_cast<i32>(shape.experts),
                           .pitch = static_cast<i32>(shape.pitch),
                           .rows = static_cast<i32>(shape.rows),
                           .rounds = layout.rounds,
                           .working_threads = layout.threads,
                           .hand_off = args.hand_off};
  // The grid is one cluster: no CTA waits for one that may not have begun.
  const LaunchShape grid{.grid_x = layout.ctas,
                         .block_x = layout.threads,
                         .cluster_x = layout.ctas,
                         .smem_bytes = static_cast<u32>(4 * route_words(layout.threads, shape.experts))};
  return launch_spread(kernel, {0, grid}, params, stream);
}

std::string RouteOp::text(const Problem&, const Args& args) {
  return "route " + std::to_string(args.shape.tokens) + "x" + std::to_string(args.shape.chosen) + " to " +
         std::to_string(args.shape.experts) + " experts";
}

std::string RouteOp::missing(const Problem& problem) {
  return std::string("no router of ") + (problem.wide_ids ? "int64" : "int32") + " ids is ready";
}

}  // namespace ops

Result<Router> Router::create(const Device& device, const RouteOptions& options) {
  return ops::prepare<ops::RouteOp>(device, options);
}

Result<void> Router::launch(const RouteShape& shape, const RouteArgs& args, Stream stream) const {
  return ops::launch<ops::RouteOp>(*impl_, {shape, args}, stream);
}

}  // namespace sluice
