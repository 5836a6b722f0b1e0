// SPDX-License-Identifier: Apache-2.0
// The graph of one convolution, the configs that cuDNN proposes for it, and their plans.
#include <algorithm>
#include <set>

#include <sluice/messages/errors.h>
#include <sluice/try.h>

#include "bench/contender/cudnn_graph.h"
#include "bench/contender/cudnn_problem.h"

namespace sluice::bench {

Result<std::vector<int>> read_notes(const Cudnn& cudnn, const CudnnDescriptor& from,
                                    cudnn::Attribute attribute, cudnn::Type type) {
  std::vector<int> notes(64);  // room for more notes than any version has
  std::int64_t count = 0;
  SLUICE_TRY(cudnn.checked(
      cudnn.api().get(from.get(), attribute, type, static_cast<i64>(notes.size()), &count, notes.data()),
      "an engine's notes"));
  notes.resize(static_cast<size_t>(std::clamp<i64>(count, 0, static_cast<i64>(notes.size()))));
  return notes;
}

Result<std::vector<CudnnDescriptor>> read_parts(const Cudnn& cudnn, const CudnnDescriptor& from,
                                                cudnn::Attribute attribute, cudnn::Kind kind) {
  std::int64_t count = 0;
  SLUICE_TRY(
      cudnn.checked(cudnn.api().get(from.get(), attribute, cudnn::Type::descriptor, 0, &count, nullptr),
                    "a list's length"));
  std::vector<CudnnDescriptor> parts;
  std::vector<cudnn::Descriptor> raw;
  for (i64 i = 0; i < count; ++i) {
    SLUICE_TAKE(CudnnDescriptor part, cudnn.descriptor(kind));
    raw.push_back(part.get());
    parts.push_back(std::move(part));
  }
  if (count == 0) return parts;
  SLUICE_TRY(cudnn.checked(
      cudnn.api().get(from.get(), attribute, cudnn::Type::descriptor, count, &count, raw.data()), "a list"));
  parts.resize(std::min(parts.size(), static_cast<size_t>(count)));  // the queried length was an upper bound
  return parts;
}

namespace {

using cudnn::Attribute;
using cudnn::Kind;
using cudnn::Type;

constexpr i64 kAlignment = 16;  // alignment of tensors in bytes, as torch states it

cudnn::DataType data_type(DType type) {
  switch (type) {
    case DType::bf16: return cudnn::DataType::bf16;
    case DType::fp16: return cudnn::DataType::fp16;
    case DType::e4m3: return cudnn::DataType::e4m3;
    case DType::e5m2: return cudnn::DataType::e5m2;
    default: return cudnn::DataType::fp32;
  }
}

/// Names of the attributes of one kind of operation.
struct OperationNames {
  Kind kind;
  Attribute convolution, x, w, y, alpha, beta;
};
OperationNames names_of(ConvOp op) {
  switch (op) {
    case ConvOp::fprop:
      return {Kind::fprop,        Attribute::fprop_convolution, Attribute::fprop_x,   Attribute::fprop_w,
              Attribute::fprop_y, Attribute::fprop_alpha,       Attribute::fprop_beta};
    case ConvOp::dgrad:
      return {Kind::dgrad,         Attribute::dgrad_convolution, Attribute::dgrad_dx,  Attribute::dgrad_w,
              Attribute::dgrad_dy, Attribute::dgrad_alpha,       Attribute::dgrad_beta};
    default: break;
  }
  return {Kind::wgrad,         Attribute::wgrad_convolution, Attribute::wgrad_x,   Attribute::wgrad_dw,
          Attribute::wgrad_dy, Attribute::wgrad_alpha,       Attribute::wgrad_beta};
}

Result<CudnnDescriptor> make_tensor(const Cudnn& cudnn, const CudnnConvolution& p, CudnnTensor tensor) {
  const CudnnShape shape = shape_of(p, tensor);
  SLUICE_TAKE(DescriptorWriter writer, DescriptorWriter::make(cudnn, Kind::tensor));
  writer.set(Attribute::tensor_type, Type::data_type, data_type(type_of(p, tensor)));
  writer.set(Attribute::tensor_dimensions, shape.dimensions);
  writer.set(Attribute::tensor_strides, shape.strides);
  writer.set(Attribute::tensor_id, Type::int64, kTensorIds[static_cast<int>(tensor)]);
  writer.set(Attribute::tensor_alignment, Type::int64, kAlignment);
  return writer.finish("a tensor");
}

Result<CudnnDescriptor> make_convolution(const Cudnn& cudnn, const Conv& v) {
  SLUICE_TAKE(DescriptorWriter writer, DescriptorWriter::make(cudnn, Kind::convolution));
  writer.set(Attribute::convolution_compute, Type::data_type, cudnn::DataType::fp32);
  writer.set(Attribute::convolution_mode, Type::convolution_mode, cudnn::ConvolutionMode::cross_correlation);
  writer.set(Attribute::convolution_axes, Type::int64, i64{std::max(v.spatial, 2)});
  writer.set(Attribute::convolution_dilations, outermost_first(v, v.dilation));
  writer.set(Attribute::convolution_strides, outermost_first(v, v.stride));
  writer.set(Attribute::convolution_padding_before, outermost_first(v, v.padding));
  writer.set(Attribute::convolution_padding_after, outermost_first(v, v.padding_after));
  return writer.finish("a convolution");
}

Result<CudnnDescriptor> make_graph(const Cudnn& cudnn, const CudnnConvolution& p) {
  const OperationNames names = names_of(p.conv.op);
  SLUICE_TAKE(const CudnnDescriptor convolution, make_convolution(cudnn, p.conv));
  SLUICE_TAKE(const CudnnDescriptor x, make_tensor(cudnn, p, CudnnTensor::x));
  SLUICE_TAKE(const CudnnDescriptor w, make_tensor(cudnn, p, CudnnTensor::w));
  SLUICE_TAKE(const CudnnDescriptor y, make_tensor(cudnn, p, CudnnTensor::y));
  SLUICE_TAKE(DescriptorWriter operation, DescriptorWriter::make(cudnn, names.kind));
  operation.set(names.convolution, convolution);
  operation.set(names.x, x);
  operation.set(names.w, w);
  operation.set(names.y, y);
  operation.set(names.alpha, Type::float32, 1.0f);
  operation.set(names.beta, Type::float32, 0.0f);
  SLUICE_TAKE(const CudnnDescriptor finished, operation.finish(name_of(p.conv.op)));
  SLUICE_TAKE(DescriptorWriter graph, DescriptorWriter::make(cudnn, Kind::graph));
  graph.set(Attribute::graph_operations, finished);
  if (cudnn.handle() != nullptr) graph.set(Attribute::graph_handle, Type::handle, cudnn.handle());
  return graph.finish("the graph of a convolution");
}

/// Returns the engine configs that a heuristic proposes, best guess first.
Result<std::vector<CudnnDescriptor>> proposals(const Cudnn& cudnn, const CudnnDescriptor& graph,
                                               cudnn::HeuristicMode mode) {
  SLUICE_TAKE(DescriptorWriter writer, DescriptorWriter::make(cudnn, Kind::heuristic));
  writer.set(Attribute::heuristic_graph, graph);
  writer.set(Attribute::heuristic_mode, Type::heuristic_mode, mode);
  writer.set_device(Attribute::heuristic_device);
  SLUICE_TAKE(const CudnnDescriptor heuristic, writer.finish("a heuristic"));
  return read_parts(cudnn, heuristic, Attribute::heuristic_results, Kind::engine_config);
}

/// Returns the config of an engine with its default knobs.
Result<CudnnDescriptor> engine_config(const Cudnn& cudnn, const CudnnDescriptor& graph, i64 index) {
  SLUICE_TAKE(DescriptorWriter engine, DescriptorWriter::make(cudnn, Kind::engine));
  engine.set(Attribute::engine_graph, graph);
  engine.set(Attribute::engine_index, Type::int64, index);
  engine.set_device(Attribute::engine_device);
  SLUICE_TAKE(const CudnnDescriptor finished, engine.finish("an engine"));
  SLUICE_TAKE(DescriptorWriter config, DescriptorWriter::make(cudnn, Kind::engine_config));
  config.set(Attribute::config_engine, finished);
  return config.finish("an engine's config");
}

/// Returns the plan's description: engine, knobs and notes.
Result<CudnnPlan> described(const Cudnn& cudnn, const CudnnDescriptor& config, const std::string& origin) {
  CudnnPlan plan{.origin = origin, .cudnn = cudnn.shared_from_this()};
  SLUICE_TAKE(const CudnnDescriptor engine, cudnn.descriptor(Kind::engine));
  cudnn::Descriptor raw = engine.get();
  std::int64_t count = 0;
  SLUICE_TRY(cudnn.checked(
      cudnn.api().get(config.get(), Attribute::config_engine, Type::descriptor, 1, &count, &raw),
      "a config's engine"));
  SLUICE_TAKE(plan.engine, read<i64>(cudnn, engine, Attribute::engine_index, Type::int64));
  SLUICE_TAKE(plan.numerical_notes,
              read_notes(cudnn, engine, Attribute::engine_numerical_notes, Type::numerical_note));
  SLUICE_TAKE(plan.behavior_notes,
              read_notes(cudnn, engine, Attribute::engine_behavior_notes, Type::behavior_note));
  SLUICE_TAKE(const std::vector<CudnnDescriptor> knobs,
              read_parts(cudnn, config, Attribute::config_knobs, Kind::knob_choice));
  for (const CudnnDescriptor& knob : knobs) {
    SLUICE_TAKE(const int type, read<int>(cudnn, knob, Attribute::knob_type, Type::knob));
    SLUICE_TAKE(const i64 value, read<i64>(cudnn, knob, Attribute::knob_value, Type::int64));
    plan.knobs.emplace_back(type, value);
  }
  std::sort(plan.knobs.begin(), plan.knobs.end());
  plan.tag = fmt::format("engine {}", plan.engine);
  for (const auto& [type, value] : plan.knobs) plan.tag += fmt::format(" k{}={}", type, value);
  return plan;
}

Result<void> build(const Cudnn& cudnn, const CudnnDescriptor& config, CudnnPlan& plan) {
  SLUICE_TAKE(DescriptorWriter writer, DescriptorWriter::make(cudnn, Kind::plan));
  writer.set(Attribute::plan_config, config);
  writer.set_device(Attribute::plan_handle, Attribute::plan_device);
  SLUICE_TAKE(plan.plan, writer.finish("a plan"));
  SLUICE_TAKE(plan.workspace_bytes, read<i64>(cudnn, plan.plan, Attribute::plan_workspace, Type::int64));
  return {};
}

/// Builds each config that was not seen before. Adds it to the plans or, if cuDNN refuses it, to the
/// refusals.
class Collector {
 public:
  Collector(const Cudnn& cudnn, CudnnDescriptor graph, i64 most_workspace)
      : cudnn_(cudnn), graph_(std::move(graph)), most_workspace_(most_workspace) {}

  void add(const CudnnDescriptor& config, const std::string& origin) {
    Result<CudnnPlan> plan = described(cudnn_, config, origin);
    if (!plan) return refuse("?", origin, plan.error().message);
    if (!seen_.insert(plan->tag).second) return;
    if (const Result<void> built = build(cudnn_, config, *plan); !built)
      return refuse(plan->tag, origin, built.error().message);
    if (plan->workspace_bytes > most_workspace_)
      return refuse(plan->tag, origin,
                    fmt::format("wants {} bytes of workspace, at most {} are given", plan->workspace_bytes,
                                most_workspace_));
    // The plan refers to its graph, so it shares ownership of it.
    plan->plan = CudnnDescriptor(plan->plan.get(), [own = plan->plan, graph = graph_](void*) {});
    found_.plans.push_back(*std::move(plan));
  }
  void refuse(const std::string& tag, const std::string& origin, const std::string& why) {
    found_.refused.push_back({tag, origin, why});
  }
  CudnnPlans& found() { return found_; }

 private:
  const Cudnn& cudnn_;
  CudnnDescriptor graph_;
  i64 most_workspace_;
  CudnnPlans found_;
  std::set<std::string> seen_;
};

}  // namespace

Result<CudnnPlans> plans_of(const Cudnn& cudnn, const CudnnConvolution& problem, i64 most_workspace) {
  SLUICE_TRY(check(problem));
  SLUICE_TAKE(const CudnnDescriptor graph, make_graph(cudnn, problem));
  Collector collector(cudnn, graph, most_workspace);
  const struct {
    cudnn::HeuristicMode mode;
    const char* origin;
  } heuristics[] = {{cudnn::HeuristicMode::a, "heuristic A"},
                    {cudnn::HeuristicMode::instant, "heuristic instant"},
                    {cudnn::HeuristicMode::b, "heuristic B"},
                    {cudnn::HeuristicMode::fallback, "fallback"}};
  for (const auto& [mode, origin] : heuristics) {
    const Result<std::vector<CudnnDescriptor>> configs = proposals(cudnn, graph, mode);
    if (!configs) collector.refuse("-", origin, configs.error().message);
    if (configs)
      for (const CudnnDescriptor& config : *configs) collector.add(config, origin);
  }
  SLUICE_TAKE(const i64 engines, read<i64>(cudnn, graph, Attribute::graph_engine_count, Type::int64));
  CudnnPlans& found = collector.found();
  found.engines = static_cast<int>(engines);
  for (i64 index = 0; index < engines; ++index) {
    const Result<CudnnDescriptor> config = engine_config(cudnn, graph, index);
    if (config)
      collector.add(*config, "engine");
    else
      ++found.engines_refused;
  }
  return std::move(found);
}

}  // namespace sluice::bench
