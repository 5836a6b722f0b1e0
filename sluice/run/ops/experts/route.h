// SPDX-License-Identifier: Apache-2.0
// The sort of slots by expert as an operation (engine.h). Its plan is just its options; the shape is an
// argument of each call.
#pragma once

#include <sluice/experts.h>
#include <sluice/run/ops/kept.h>

namespace sluice {

std::size_t key_hash(const RouteOptions& options);

namespace ops {

struct RouteOp : ShapedOp<RouteOp, RouteOptions> {
  using ShapedOp::bind;
  using Handle = Router;
  struct Args {
    RouteShape shape;
    RouteArgs args;
  };
  struct Image {
    DeviceInfo device;
  };
  using Call = ShapedCall<RouteShape>;

  static Result<Plan> sealed(const Plan& plan, const DeviceInfo&) { return plan; }
  static std::vector<std::string> units(const Plan& plan);
  static Result<void> load(const Units& units, Prepared<RouteOp>& kernel);
  /// There is always something to launch: ends, and rows without a token.
  static Result<Call> bind(const RouteOptions& options, const Args& args);
  static Result<void> enqueue(const Prepared<RouteOp>& kernel, const Call& call, const Args& args,
                              Stream stream);

  static std::string missing(const Problem& problem);
  /// Describes a chain step in readable text.
  static std::string text(const Problem& options, const Args& args);
};

}  // namespace ops

struct Router::Impl : ops::Prepared<ops::RouteOp> {};

}  // namespace sluice
