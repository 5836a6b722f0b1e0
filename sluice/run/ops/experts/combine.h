// SPDX-License-Identifier: Apache-2.0
// The sum of a token's experts as an operation (engine.h). Its plan is just its options; the shape is an
// argument of each call.
#pragma once

#include <sluice/experts.h>
#include <sluice/run/ops/kept.h>

namespace sluice {

std::size_t key_hash(const CombineOptions& options);

namespace ops {

struct CombineOp : ShapedOp<CombineOp, CombineOptions> {
  using ShapedOp::bind;
  using Handle = Combiner;
  struct Args {
    CombineShape shape;
    CombineArgs args;
  };
  struct Image {
    DeviceInfo device;
  };
  using Call = ShapedCall<CombineShape>;

  static Result<Plan> sealed(const Plan& plan, const DeviceInfo&);
  static std::vector<std::string> units(const Plan& plan);
  static Result<void> load(const Units& units, Prepared<CombineOp>& kernel);
  static Result<Call> bind(const CombineOptions& options, const Args& args);
  static Result<void> enqueue(const Prepared<CombineOp>& kernel, const Call& call, const Args& args,
                              Stream stream);

  static std::string missing(const Problem& problem);
  /// Describes a chain step in readable text.
  static std::string text(const Problem& options, const Args& args);
};

}  // namespace ops

struct Combiner::Impl : ops::Prepared<ops::CombineOp> {};

}  // namespace sluice
