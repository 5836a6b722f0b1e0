// SPDX-License-Identifier: Apache-2.0
// The quantiser as an operation (engine.h). Its plan is just its options; the shape is an argument of each
// call.
#pragma once

#include <sluice/quantize.h>
#include <sluice/run/ops/kept.h>

namespace sluice {

/// Returns the operand table of a shape whose strides are filled in. With `scale_given` the scale is an
/// input. Input and output may be null if they have no elements.
Result<Operands> operands_of(const QuantizerOptions& options, const QuantizeShape& shape, bool scale_given);
Pointers pointers_of(const QuantizeArgs& args);

/// Error invalid_type unless a quantiser reads this type.
Result<void> check_quantizer_input(DType input);
/// Checks the options. Returns those errors of Quantizer::create that need no compiler.
Result<void> check_options(const QuantizerOptions& options);
/// Returns the shape with its strides filled in. Errors: invalid_size, invalid_stride.
Result<QuantizeShape> checked_shape(const QuantizerOptions& options, const QuantizeShape& shape);

std::size_t key_hash(const QuantizerOptions& options);

namespace ops {

struct QuantizeOp : ShapedOp<QuantizeOp, QuantizerOptions> {
  using ShapedOp::bind;
  using Handle = Quantizer;
  struct Args {
    QuantizeShape shape;
    QuantizeArgs args;
  };
  struct Image {
    DeviceInfo device;
    std::vector<QuantizeStep> steps;  // each has two modules: with vector accesses, then without
  };
  using Call = ShapedCall<QuantizeShape>;

  static Result<Plan> sealed(const Plan& plan, const DeviceInfo& device);
  static std::vector<std::string> units(const Plan& plan);
  static Result<void> load(const Units& units, Prepared<QuantizeOp>& kernel);
  static Result<Call> bind(const QuantizerOptions& options, const Args& args);
  static Result<void> enqueue(const Prepared<QuantizeOp>& kernel, const Call& call, const Args& args,
                              Stream stream);

  static std::string missing(const Problem& problem);
  /// Describes a chain step in readable text.
  static std::string text(const Problem& options, const Args& args);
  static i64 workspace_for(const Prepared<QuantizeOp>& kernel, const Args& args);
  static Args with_workspace(Args args, const WorkspaceView& workspace) {
    args.args.workspace = workspace;
    return args;
  }
};

}  // namespace ops

struct Quantizer::Impl : ops::Prepared<ops::QuantizeOp> {};

}  // namespace sluice
