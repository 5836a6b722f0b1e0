// SPDX-License-Identifier: Apache-2.0
// Packing and unpacking weights as an operation (engine.h). Its plan is a format and how codes are stored;
// shapes come with each call. The C interface checks host memory with this operand table too.
#pragma once

#include <sluice/host/ops/kept.h>
#include <sluice/pack.h>

namespace sluice {

/// Returns the operand table of one direction: blob, codes, scales, zeros. An operand of 0 bytes may be null.
Result<Operands> operands_of(const PackConfig& config, const PackShape& shape);

namespace ops {

/// A packer's plan: the format, and how codes are stored.
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
    PackParams params;  // only its pointers are set
  };
  struct Image {};
  using Call = ShapedCall<PackShape>;

  static Result<Plan> sealed(const Plan& plan, const DeviceInfo& device);
  static std::vector<std::string> units(const Plan& plan, Stamping stamping);
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
