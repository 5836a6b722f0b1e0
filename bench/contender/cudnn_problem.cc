// SPDX-License-Identifier: Apache-2.0
// Computes the values of a convolution's descriptors, and launches plans. cudnn_plans.cc makes the plans.
#include "bench/contender/cudnn_problem.h"

#include <algorithm>

#include <sluice/messages/errors.h>
#include <sluice/try.h>

#include "bench/contender/cudnn_graph.h"
#include "bench/device.h"

namespace sluice::bench {
namespace {

/// Returns the words for each note, or its number if this table lacks it.
template <size_t kCount>
std::string note_name(const char* const (&names)[kCount], int note) {
  return note >= 0 && note < static_cast<int>(kCount) ? names[note] : fmt::format("note {}", note);
}

}  // namespace

Result<void> check(const CudnnConvolution& p) {
  const Conv& v = p.conv;
  if (!is_conv(v)) return bad_argument("the operation must be fprop, dgrad or wgrad");
  if (v.spatial < 1 || v.spatial > kMostSpatial)
    return error_of(ErrorCode::invalid_size, "{} spatial axes must be 1 to {}", v.spatial, kMostSpatial);
  if (v.images < 1 || v.channels < 1 || v.filters < 1)
    return error_of(ErrorCode::invalid_size, "{} images, {} channels and {} filters must be positive",
                    v.images, v.channels, v.filters);
  if (x_pitch_of(v) < v.channels || y_pitch_of(v) < v.filters)
    return error_of(ErrorCode::invalid_stride,
                    "pixels {} and {} elements apart overlap: x has {} channels and y has {}", x_pitch_of(v),
                    y_pitch_of(v), v.channels, v.filters);
  if (!is_16bit(p.inputs) || (p.result != p.inputs && p.result != DType::fp32))
    return error_of(ErrorCode::invalid_type,
                    "{} > {}: inputs must be bf16 or fp16, and the result of their type or fp32",
                    name_of(p.inputs), name_of(p.result));
  for (int axis = 0; axis < kMostSpatial; ++axis) {
    if (v.size[axis] < 1 || v.filter[axis] < 1 || v.stride[axis] < 1 || v.dilation[axis] < 1)
      return error_of(ErrorCode::invalid_size,
                      "size {}, filter {}, stride {} and dilation {} along axis {} must be positive",
                      v.size[axis], v.filter[axis], v.stride[axis], v.dilation[axis], axis);
    if (v.padding[axis] < 0 || v.padding_after[axis] < 0)
      return error_of(ErrorCode::invalid_size, "padding {}:{} along axis {} must not be negative",
                      v.padding[axis], v.padding_after[axis], axis);
    if (long_output_size(v, axis) < 1)
      return error_of(ErrorCode::invalid_size,
                      "the filter reaches past the input along axis {}: make the input or its padding larger",
                      axis);
  }
  return {};
}

CudnnTensor result_of(ConvOp op) {
  return op == ConvOp::dgrad ? CudnnTensor::x : op == ConvOp::wgrad ? CudnnTensor::w : CudnnTensor::y;
}

DType type_of(const CudnnConvolution& p, CudnnTensor tensor) {
  return tensor == result_of(p.conv.op) ? p.result : p.inputs;
}

i64 span_of(const CudnnConvolution& p, CudnnTensor tensor) {
  switch (tensor) {
    case CudnnTensor::x: return x_span(p.conv);
    case CudnnTensor::w: return filter_elements(p.conv);
    case CudnnTensor::y: return y_span(p.conv);
  }
  return 0;
}

std::vector<i64> outermost_first(const Conv& conv, const Axes& values) {
  std::vector<i64> list;
  for (int axis = std::max(conv.spatial, 2) - 1; axis >= 0; --axis) list.push_back(values[axis]);
  return list;
}

CudnnShape shape_of(const CudnnConvolution& p, CudnnTensor tensor) {
  const Conv& v = p.conv;
  const Axes y_size{output_size(v, 0), output_size(v, 1), output_size(v, 2)};
  const bool is_w = tensor == CudnnTensor::w, is_y = tensor == CudnnTensor::y;
  CudnnShape shape{.dimensions = {is_w ? v.filters : v.images, is_y ? v.filters : v.channels}};
  const std::vector<i64> axes = outermost_first(v, is_w ? v.filter : is_y ? y_size : v.size);
  shape.dimensions.insert(shape.dimensions.end(), axes.begin(), axes.end());
  shape.strides.assign(shape.dimensions.size(), 1);
  i64 stride = is_w ? v.channels : is_y ? y_pitch_of(v) : x_pitch_of(v);  // the channels axis is contiguous
  for (size_t i = shape.dimensions.size() - 1; i >= 2; --i) {
    shape.strides[i] = stride;
    stride *= shape.dimensions[i];
  }
  shape.strides[0] = stride;
  return shape;
}

bool CudnnPlan::deterministic() const {
  return std::find(numerical_notes.begin(), numerical_notes.end(), cudnn::kNoteNondeterministic) ==
         numerical_notes.end();
}

std::string CudnnPlan::notes() const {
  std::string text;
  const auto add = [&](const std::string& name) { text += (text.empty() ? "" : ", ") + name; };
  for (const int note : numerical_notes) add(note_name(cudnn::kNumericalNotes, note));
  for (const int note : behavior_notes) add(note_name(cudnn::kBehaviorNotes, note));
  return text;
}

Result<void> launch(const CudnnPlan& plan, const CudnnPointers& pointers, void* workspace, Stream stream) {
  const Cudnn& cudnn = *plan.cudnn;
  if (cudnn.handle() == nullptr)
    return error_of(ErrorCode::driver, "{} was planned for a described GPU and cannot be launched", plan.tag);
  SLUICE_TAKE(DescriptorWriter pack, DescriptorWriter::make(cudnn, cudnn::Kind::variant_pack));
  void* const tensors[] = {pointers.x, pointers.w, pointers.y};
  pack.set(cudnn::Attribute::pack_pointers, cudnn::Type::pointer, std::span<void* const>(tensors));
  pack.set(cudnn::Attribute::pack_ids, cudnn::Type::int64, std::span<const i64>(kTensorIds));
  pack.set(cudnn::Attribute::pack_workspace, cudnn::Type::pointer, workspace);
  SLUICE_TAKE(const CudnnDescriptor variant_pack, pack.finish("a variant pack"));
  SLUICE_TRY(cudnn.checked(cudnn.api().set_stream(cudnn.handle(), stream), "cudnnSetStream"));
  return cudnn.checked(cudnn.api().execute(cudnn.handle(), plan.plan.get(), variant_pack.get()), plan.tag);
}

Contender cudnn_contender(const Device& device, const CudnnPlan& plan, std::vector<CudnnPointers> copies,
                          void* workspace, const std::string& name) {
  return {.name = name,
          .detail = plan.tag,
          .launch = [device, plan, copies = std::move(copies), workspace](int copy,
                                                                          Stream stream) -> Result<void> {
            const ContextScope scope(context_of(device));
            SLUICE_TRY(scope.entered());
            return launch(plan, copies[static_cast<size_t>(copy)], workspace, stream);
          }};
}

}  // namespace sluice::bench
