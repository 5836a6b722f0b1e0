// SPDX-License-Identifier: Apache-2.0
// Packing and unpacking weights as an operation (engine.h). Its plan is the weight format and the storage of
// unpacked codes; the shape is an argument of each call. The C interface also checks host memory with this
// operand table.
#pragma once

#include <sluice/pack.h>
#include <sluice/run/ops/kept.h>

namespace sluice {

/// Returns the operand table of packing or unpacking: blob, codes, scales, zeros. A pointer to an operand of
/// 0 bytes may be null.
Result<Operands> operands_of(const PackConfig& config, const PackShape& shape);

namespace ops {

/// The plan of a packer: the weight format, and how unpacked codes are stored.
struct PackerPlan {
  WeightFormat format{};
  CodeStorage storage = CodeStorage::byte;

  bool operator==(const PackerPlan&) const = default;
};

std::size_t key_hash(const PackerPlan& plan);

struct PackOp : ShapedOp<PackOp, PackerPlan> {
  using ShapedOp::bind;
  using Handle = Packer;
  struct Args {
    PackStep step = PackStep::pack;
    PackShape shape;
    PackParams params;  // callers set only its pointers
  };
  struct Image {};
  using Call = ShapedCall<PackShape>;

  static Result<Plan> sealed(const Plan& plan, const DeviceInfo& device);
  static std::vector<std::string> units(const Plan& plan);
  static Result<void> load(const Units& units, Prepared<PackOp>& kernel);
  static Result<Call> bind(const PackerPlan& plan, const Args& args);
  static Result<void> enqueue(const Prepared<PackOp>& kernel, const Call& call, const Args& args,
                              Stream stream);

  static std::string missing(const Problem& problem);
};

}  // namespace ops

Pointers pointers_of(const PackParams& params);

struct Packer::Impl : ops::Prepared<ops::PackOp> {};

}  // namespace sluice
