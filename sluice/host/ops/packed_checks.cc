// SPDX-License-Identifier: Apache-2.0
// The checks of a packed launch's arguments; what they have in common with other products is
// operand_checks.h.
#include <sluice/host/ops/packed.h>

#include <string>

namespace sluice::packed {
namespace {

constexpr int kTokenAlignment = 16;
constexpr int kBlobAlignment = 128;

const void* pointer_of(const Args& args, int operand) {
  switch (operand) {
    case ArgRules::kX: return args.x;
    case ArgRules::kWeights: return args.weights;
    case ArgRules::kBias: return args.bias;
    case ArgRules::kScaleX: return args.scale_x;
    case ArgRules::kScaleD: return args.scale_d;
    case ArgRules::kGamma: return args.gamma;
    case ArgRules::kC: return args.c;
    default: return args.d;
  }
}

/// What else a caller can do who has no such operand.
const char* way_without(int operand) {
  switch (operand) {
    case ArgRules::kBias: return ", or plan without a bias";
    case ArgRules::kScaleX: return ", or plan with scale_x none";
    case ArgRules::kScaleD: return ", or plan with scale_d none";
    case ArgRules::kGamma: return ", or plan without norm_x";
    case ArgRules::kC: return ", or plan without a residual";
    default: return "";
  }
}

Placed placed(const ArgRules& rules, const Args& args, int operand) {
  return {reinterpret_cast<u64>(pointer_of(args, operand)), rules.operands[operand].memory};
}

}  // namespace

Result<ArgRules> argument_rules(const PackedProblem& p) {
  const char* for_elements = "its elements are of that size";
  const bool has_k = p.k > 0, has_bias = p.bias != Bias::none;
  const Result<Footprint> x = footprint_of("X", p.x, {.inner = p.k, .outer = p.m, .ld = p.ld_x});
  if (!x) return x.error();
  const Result<Footprint> d = footprint_of("D", p.d, {.inner = d_columns(p), .outer = p.m, .ld = p.ld_d});
  if (!d) return d.error();
  const Result<Footprint> c = footprint_of("C", p.d, {.inner = p.n, .outer = p.m, .ld = p.ld_c});
  if (!c) return c.error();
  ArgRules rules{.c_may_be_d = p.m == 1 || p.ld_c == p.ld_d};
  auto& o = rules.operands;
  o[ArgRules::kX] = {"X", has_k, kTokenAlignment, "tokens are copied 16 bytes at a time", *x};
  o[ArgRules::kWeights] = {"weights",
                           has_k,
                           kBlobAlignment,
                           "the parts of a blob are whole lines",
                           {.row_bytes = blob_bytes(p.weights, p.n, p.k)}};
  o[ArgRules::kBias] = {
      "bias", has_bias, bytes_of(p.bias_type), for_elements, {.row_bytes = p.n * bytes_of(p.bias_type)}};
  o[ArgRules::kScaleX] = {"scale_x",
                          has_k && scale_x_count(p) > 0,
                          bytes_of(DType::fp32),
                          for_elements,
                          {.row_bytes = scale_x_count(p) * bytes_of(DType::fp32)}};
  o[ArgRules::kScaleD] = {"scale_d",
                          p.scale_d != ScaleMode::none,
                          bytes_of(DType::fp32),
                          for_elements,
                          {.row_bytes = bytes_of(DType::fp32)}};
  o[ArgRules::kGamma] = {"gamma",
                         has_k && p.norm_x,
                         kTokenAlignment,
                         "it is copied 16 bytes at a time",
                         {.row_bytes = p.k * bytes_of(p.x)}};
  o[ArgRules::kC] = {"C", p.residual, bytes_of(p.d), for_elements, *c};
  o[ArgRules::kD] = {"D", true, bytes_of(p.d), for_elements, *d};
  return rules;
}

Result<void> check_values(const ArgRules& rules, const Args& args) {
  for (int i = 0; i < ArgRules::kOperandCount; ++i) {
    const OperandRule& rule = rules.operands[i];
    if (!rule.used) continue;
    const void* pointer = pointer_of(args, i);
    if (pointer == nullptr)
      return Error{ErrorCode::invalid_pointer, std::string(rule.name) + " is null: pass device memory of " +
                                                   std::to_string(span_bytes(rule.memory)) + " bytes" +
                                                   way_without(i)};
    if (Result<void> aligned = check_alignment(rule, pointer, "; move it to an aligned address"); !aligned)
      return aligned;
  }
  const Placed d = placed(rules, args, ArgRules::kD);
  for (int i = 0; i < ArgRules::kD; ++i) {
    if (!rules.operands[i].used || !overlap(d, placed(rules, args, i))) continue;
    if (i == ArgRules::kC && rules.c_may_be_d && args.c == args.d) continue;
    return Error{
        ErrorCode::aliasing,
        describe_range(rules.operands[ArgRules::kD], args.d) + " overlaps " +
            describe_range(rules.operands[i], pointer_of(args, i)) +
            (i == ArgRules::kC ? ": C may be D itself, with the same pitch, or must lie apart from it"
                               : ": it is read while D is written; give D its own memory")};
  }
  if (rules.operands[ArgRules::kGamma].used) return check_epsilon(args.epsilon);
  return {};
}

Result<void> check_memory(const PrimaryContext& primary, const ArgRules& rules, const Args& args) {
  for (int i = 0; i < ArgRules::kOperandCount; ++i)
    if (rules.operands[i].used)
      if (Result<void> owned = check_owner(primary, rules.operands[i].name, pointer_of(args, i)); !owned)
        return owned;
  return {};
}

}  // namespace sluice::packed
