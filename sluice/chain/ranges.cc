// SPDX-License-Identifier: Apache-2.0
// What each kind of step reads and writes, as plain ranges of bytes.
#include <sluice/chain/chain.h>
#include <sluice/host/ops/gemm_checks.h>
#include <sluice/host/ops/operand_checks.h>
#include <sluice/host/planner/packed/packed_problem_checks.h>
#include <sluice/spec/packing.h>

namespace sluice {
namespace {

/// Rows of `columns` elements, `ld` apart; 0: packed.
i64 row_bytes(i64 rows, i64 columns, i64 ld, DType type) {
  if (rows <= 0 || columns <= 0) return 0;
  return ((rows - 1) * (ld == 0 ? columns : ld) + columns) * bytes_of(type);
}

i64 matrix_bytes(const Matrix& x, i64 outer, i64 inner, i64 batch) {
  return outer <= 0 || inner <= 0 || batch <= 0
             ? 0
             : ((batch - 1) * x.batch_stride + (outer - 1) * x.ld + inner) * bytes_of(x.type);
}
StepRange b_of(const ProductStep& step) {
  const Problem p = with_strides(step.problem);
  return {"B", step.args.b,
          matrix_bytes(p.b, outer_extent(p.b, p.n, p.k), inner_extent(p.b, p.n, p.k), p.batch)};
}
StepRange blob_of(const PackedStep& step) {
  return {"weights", step.args.weights, blob_bytes(step.problem.weights, step.problem.n, step.problem.k)};
}
DType output_type(const NormStep& step) {
  return step.options.quantize ? DType::e4m3 : step.options.input;
}

struct Weights {
  std::vector<StepRange> operator()(const ProductStep& s) const {
    const Epilogue& e = s.problem.epilogue;
    std::vector<StepRange> found{b_of(s)};
    if (e.scale_b != ScaleMode::none)
      found.push_back({"scale_b", s.args.scale_b, scale_b_count(s.problem) * i64{sizeof(float)}});
    if (e.bias != Bias::none) found.push_back({"bias", s.args.bias, s.problem.n * bytes_of(e.bias_type)});
    return found;
  }
  std::vector<StepRange> operator()(const PackedStep& s) const {
    std::vector<StepRange> found{blob_of(s)};
    if (s.problem.bias != Bias::none)
      found.push_back({"bias", s.args.bias, s.problem.n * bytes_of(s.problem.bias_type)});
    if (s.problem.norm_x) found.push_back({"gamma", s.args.gamma, s.problem.k * bytes_of(s.problem.x)});
    return found;
  }
  std::vector<StepRange> operator()(const NormStep& s) const {
    return {{"gamma", s.args.gamma, s.shape.columns * bytes_of(s.options.input)}};
  }
  std::vector<StepRange> operator()(const QuantizerStep&) const { return {}; }
  std::vector<StepRange> operator()(const ForeignStep&) const { return {}; }
};

struct Written {
  std::vector<StepRange> operator()(const ProductStep& s) const {
    const Problem p = with_strides(s.problem);
    return {{"D", s.args.d, matrix_bytes(p.d, p.m, d_columns(p), p.batch)}};
  }
  std::vector<StepRange> operator()(const PackedStep& s) const {
    const PackedProblem& p = s.problem;
    return {{"D", s.args.d, row_bytes(p.m, d_columns(p), p.ld_d, p.d)}};
  }
  std::vector<StepRange> operator()(const NormStep& s) const {
    const NormShape& h = s.shape;
    std::vector<StepRange> found{
        {"output", s.args.output, row_bytes(h.rows, h.columns, h.output_ld, output_type(s))}};
    if (s.args.sum != nullptr)
      found.push_back({"sum", s.args.sum, row_bytes(h.rows, h.columns, h.sum_ld, s.options.input)});
    if (s.options.quantize && *s.options.quantize != Granularity::tensor)
      found.push_back({"scales", s.args.scales,
                       scale_count(*s.options.quantize, h.rows, h.columns) * i64{sizeof(float)}});
    return found;
  }
  std::vector<StepRange> operator()(const QuantizerStep& s) const {
    const QuantizeShape& h = s.shape;
    const DType type = s.granularity ? DType::e4m3 : s.input;
    std::vector<StepRange> found{{"output", s.args.output, row_bytes(h.rows, h.columns, h.output_ld, type)}};
    if (s.granularity && !s.args.scale_given)
      found.push_back(
          {"scales", s.args.scales, scale_count(*s.granularity, h.rows, h.columns) * i64{sizeof(float)}});
    return found;
  }
  std::vector<StepRange> operator()(const ForeignStep& s) const {
    std::vector<StepRange> found;
    for (const ForeignStep::Range& range : s.writes)
      found.push_back({"what it writes", range.data, range.bytes});
    return found;
  }
};

/// Of what is neither weights nor written.
struct ReadBytes {
  i64 operator()(const ProductStep& s) const {
    const Problem& p = s.problem;
    const i64 c = p.epilogue.residual ? p.m * p.n * bytes_of(p.epilogue.c_type) : 0;
    return p.batch * (p.m * p.k * bytes_of(p.a.type) + c);
  }
  i64 operator()(const PackedStep& s) const {
    const PackedProblem& p = s.problem;
    return p.m * (p.k * bytes_of(p.x) + (p.residual ? p.n * bytes_of(p.d) : 0));
  }
  i64 operator()(const NormStep& s) const {
    const i64 matrix = s.shape.rows * s.shape.columns * bytes_of(s.options.input);
    return s.args.residual != nullptr ? 2 * matrix : matrix;
  }
  i64 operator()(const QuantizerStep& s) const {
    return s.shape.rows * input_columns(s.gate, s.shape.columns) * bytes_of(s.input);
  }
  i64 operator()(const ForeignStep& s) const {
    i64 bytes = 0;
    for (const ForeignStep::Range& range : s.reads) bytes += range.bytes;
    return bytes;
  }
};

}  // namespace

std::vector<StepRange> weights_of(const ChainStep& step) {
  return std::visit(Weights{}, step.work);
}

std::vector<StepRange> written_by(const ChainStep& step) {
  return std::visit(Written{}, step.work);
}

RowsOfB rows_of_b(const ProductStep& step) {
  const Problem p = with_strides(step.problem);
  const i64 outer = outer_extent(p.b, p.n, p.k), inner = inner_extent(p.b, p.n, p.k);
  const i64 size = bytes_of(p.b.type), stride = p.b.ld * size;
  const bool gaps = p.batch > 1 && p.b.batch_stride != outer * p.b.ld;
  return {step.args.b, gaps ? outer : p.batch * outer, inner * size, stride};
}

StepRange main_weights(const ChainStep& step) {
  if (const auto* product = std::get_if<ProductStep>(&step.work)) return b_of(*product);
  if (const auto* packed = std::get_if<PackedStep>(&step.work)) return blob_of(*packed);
  return {};
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
  i64 bytes = std::visit(ReadBytes{}, step.work);
  for (const StepRange& range : weights_of(step)) bytes += range.bytes;
  for (const StepRange& range : written_by(step)) bytes += range.bytes;
  return bytes;
}

}  // namespace sluice
