// SPDX-License-Identifier: Apache-2.0
// The quantiser of both orders as an operation (engine.h). Its plan is just its options; the shape is an
// argument of each call.
#pragma once

#include <sluice/quantize_both.h>
#include <sluice/run/ops/kept.h>

namespace sluice {

std::size_t key_hash(const QuantizeBothOptions& options);

namespace ops {

struct QuantizeBothOp : ShapedOp<QuantizeBothOp, QuantizeBothOptions> {
  using ShapedOp::bind;
  using Handle = BothQuantizer;
  struct Args {
    QuantizeBothShape shape;
    QuantizeBothArgs args;
  };
  struct Image {
    DeviceInfo device;
  };
  using Call = ShapedCall<QuantizeBothShape>;

  static Result<Plan> sealed(const Plan& plan, const DeviceInfo& device);
  /// The amax step first, if there are two.
  static std::vector<std::string> units(const Plan& plan);
  static Result<void> load(const Units& units, Prepared<QuantizeBothOp>& kernel);
  static Result<Call> bind(const QuantizeBothOptions& options, const Args& args);
  static Result<void> enqueue(const Prepared<QuantizeBothOp>& kernel, const Call& call, const Args& args,
                              Stream stream);

  static std::string missing(const Problem& problem);
  static i64 workspace_for(const Prepared<QuantizeBothOp>& kernel, const Args& args);
  static Args with_workspace(Args args, const WorkspaceView& workspace) {
    args.args.workspace = workspace;
    return args;
  }
};

}  // namespace ops

struct BothQuantizer::Impl : ops::Prepared<ops::QuantizeBothOp> {};

}  // namespace sluice
