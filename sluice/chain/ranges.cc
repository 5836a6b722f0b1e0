// SPDX-License-Identifier: Apache-2.0
// What each kind of step reads and writes, as plain ranges of bytes.
#include <sluice/chain/chain.h>
#include <sluice/host/ops/gemm.h>
#include <sluice/host/ops/norm.h>
#include <sluice/host/ops/packed.h>
#include <sluice/host/ops/quantize.h>
#include <sluice/host/planner/packed/packed_problem_checks.h>
#include <sluice/spec/packing.h>

namespace sluice {
namespace {

/// A step's operand table and what it gives; foreign steps say their ranges themselves.
struct Bound {
  Operands operands{};
  Pointers pointers{};
};

struct Bind {
  Bound operator()(const ProductStep& s) const {
    return {table(gemm::operands_of(s.problem)), gemm::pointers_of(s.args)};
  }
  Bound operator()(const PackedStep& s) const {
    return {table(packed::operands_of(s.problem)), packed::pointers_of(s.args)};
  }
  Bound operator()(const NormStep& s) const {
    const Result<NormShape> shape = checked_shape(s.options, s.shape);
    return shape ? Bound{table(operands_of(s.options, *shape)), pointers_of(s.args)} : Bound{};
  }
  Bound operator()(const QuantizerStep& s) const {
    const QuantizerOptions options{s.input, s.granularity, s.gate, {}};
    const Result<QuantizeShape> shape = checked_shape(options, s.shape);
    return shape ? Bound{table(operands_of(options, *shape, s.args.scale_given)), pointers_of(s.args)}
                 : Bound{};
  }
  Bound operator()(const ForeignStep&) const { return {}; }

 private:
  /// Problems and shapes were checked before: the table of one that is refused is never asked for.
  static Operands table(const Result<Operands>& operands) { return operands ? *operands : Operands{}; }
};

template <class Wanted>
std::vector<StepRange> ranges_of(const ChainStep& step, const Wanted& wanted) {
  const auto [operands, pointers] = std::visit(Bind{}, step.work);
  std::vector<StepRange> found;
  for (int i = 0; i < operands.size(); ++i)
    if (follows(operands, pointers, i) && wanted(operands[i].role))
      found.push_back({operands[i].name, pointers.at[static_cast<size_t>(i)], span_bytes(operands[i].memory)});
  return found;
}

std::vector<StepRange> ranges_of(const std::vector<ForeignStep::Range>& given, const char* name) {
  std::vector<StepRange> found;
  for (const ForeignStep::Range& range : given) found.push_back({name, range.data, range.bytes});
  return found;
}

}  // namespace

std::vector<StepRange> weights_of(const ChainStep& step) {
  return ranges_of(step, is_weight);
}

std::vector<StepRange> written_by(const ChainStep& step) {
  if (const auto* foreign = std::get_if<ForeignStep>(&step.work))
    return ranges_of(foreign->writes, "what it writes");
  return ranges_of(step, [](Role role) { return role == Role::write; });
}

RowsOfB rows_of_b(const ProductStep& step) {
  const Problem p = with_strides(step.problem);
  const i64 outer = outer_extent(p.b, p.n, p.k), inner = inner_extent(p.b, p.n, p.k);
  const i64 size = bytes_of(p.b.type), stride = p.b.ld * size;
  const bool gaps = p.batch > 1 && p.b.batch_stride != outer * p.b.ld;
  return {step.args.b, gaps ? outer : p.batch * outer, inner * size, stride};
}

StepRange main_weights(const ChainStep& step) {
  const std::vector<StepRange> streamed =
      ranges_of(step, [](Role role) { return role == Role::streamed; });
  return streamed.empty() ? StepRange{} : streamed.front();
}

bool writes_anything(const ChainStep& step) {
  const auto* foreign = std::get_if<ForeignStep>(&step.work);
  return foreign != nullptr && foreign->writes.empty();
}

bool is_launched(const ChainStep& step) {
  if (const auto* s = std::get_if<ProductStep>(&step.work))
    return !gemm::is_empty(s->problem) && !leaves_d(s->problem, s->args.alpha);
  if (const auto* s = std::get_if<PackedStep>(&step.work)) return !packed::is_empty(s->problem);
  if (const auto* s = std::get_if<NormStep>(&step.work)) return s->shape.rows > 0 && s->shape.columns > 0;
  if (const auto* s = std::get_if<ForeignStep>(&step.work)) return s->nodes > 0;
  const QuantizeShape& shape = std::get<QuantizerStep>(step.work).shape;
  return shape.rows > 0 && shape.columns > 0;
}

i64 step_bytes(const ChainStep& step) {
  i64 bytes = 0;
  const auto [operands, pointers] = std::visit(Bind{}, step.work);
  for (int i = 0; i < operands.size(); ++i)
    if (follows(operands, pointers, i)) bytes += data_bytes(operands[i].memory);
  if (const auto* foreign = std::get_if<ForeignStep>(&step.work))
    for (const auto* ranges : {&foreign->reads, &foreign->writes})
      for (const ForeignStep::Range& range : *ranges) bytes += range.bytes;
  return bytes;
}

}  // namespace sluice
