// SPDX-License-Identifier: Apache-2.0
// The norm as an operation (engine.h). Its plan is just its options; the shape is an argument of each call.
#pragma once

#include <sluice/norm.h>
#include <sluice/quantize.h>
#include <sluice/run/ops/kept.h>
#include <sluice/spec/norm.h>

namespace sluice {

/// Returns the operand table of a shape whose strides are filled in. A call may omit residual and sum. Error
/// invalid_size: an operand of more than 2^63 bytes.
Result<Operands> operands_of(const NormOptions& options, const NormShape& shape);
Pointers pointers_of(const NormArgs& args);

/// Checks the options. Returns those errors of Norm::create that need no compiler.
Result<void> check_options(const NormOptions& options);
/// Returns the shape with its strides filled in. Errors: invalid_size, invalid_stride.
Result<NormShape> checked_shape(const NormOptions& options, const NormShape& shape);

/// Returns how the norm stores its output. Plain for Granularity::square_block, which Norm::create rejects.
NormStore norm_store_of(const NormOptions& options);

std::size_t key_hash(const NormOptions& options);

namespace ops {

struct NormOp : ShapedOp<NormOp, NormOptions> {
  using ShapedOp::bind;
  using Handle = sluice::Norm;
  struct Args {
    NormShape shape;
    NormArgs args;
  };
  struct Image {
    DeviceInfo device;
  };
  using Call = ShapedCall<NormShape>;

  static Result<Plan> sealed(const Plan& plan, const DeviceInfo& device);
  static std::vector<std::string> units(const Plan& plan);
  static Result<void> load(const Units& units, Prepared<NormOp>& kernel);
  static Result<Call> bind(const NormOptions& options, const Args& args);
  static Result<void> enqueue(const Prepared<NormOp>& kernel, const Call& call, const Args& args,
                              Stream stream);

  static std::string missing(const Problem& problem);
  /// Describes a chain step in readable text.
  static std::string text(const Problem& options, const Args& args);
};

}  // namespace ops

struct Norm::Impl : ops::Prepared<ops::NormOp> {};

}  // namespace sluice
