// SPDX-License-Identifier: Apache-2.0
// The arithmetic of a convolution's descriptors, and launches. cudnn_plans.cc makes the plans.
#include "bench/contender/cudnn_problem.h"

#include <algorithm>

#include <sluice/tools.h>
#include <sluice/try.h>

#include "bench/contender/cudnn_graph.h"
#include "bench/errors.h"

namespace sluice::bench {
namespace {

using Op = CudnnConvolution::Op;

i64 x_pixels(const CudnnConvolution& p) {
  return p.n * p.size[0] * p.size[1] * p.size[2];
}
i64 y_pixels(const CudnnConvolution& p) {
  return p.n * output_size(p, 0) * output_size(p, 1) * output_size(p, 2);
}
i64 taps_of(const CudnnConvolution& p) {
  return i64{p.filter[0]} * p.filter[1] * p.filter[2];
}

/// A note's words; a number where cuDNN is newer than this table.
template <size_t kCount>
std::string note_name(const char* const (&names)[kCount], int note) {
  return note >= 0 && note < static_cast<int>(kCount) ? names[note] : fmt::format("note {}", note);
}

}  // namespace

const char* name_of(Op op) {
  switch (op) {
    case Op::fprop: return "fprop";
    case Op::dgrad: return "dgrad";
    case Op::wgrad: return "wgrad";
  }
  return "?";
}

i64 output_size(const CudnnConvolution& p, int axis) {
  const i64 reach = i64{p.dilation[axis]} * (p.filter[axis] - 1) + 1;
  const i64 room = i64{p.size[axis]} + p.pad[axis] + p.pad_after[axis] - reach;
  return room < 0 ? 0 : room / p.stride[axis] + 1;
}

double products_of(const CudnnConvolution& p) {
  return static_cast<double>(y_pixels(p)) * static_cast<double>(taps_of(p)) * static_cast<double>(p.c) *
         static_cast<double>(p.k);
}

Result<void> check(const CudnnConvolution& p) {
  if (p.spatial < 1 || p.spatial > kMostAxes)
    return error_of(ErrorCode::invalid_size, "{} spatial axes must be 1 to {}", p.spatial, kMostAxes);
  if (p.n < 1 || p.c < 1 || p.k < 1)
    return error_of(ErrorCode::invalid_size, "N = {}, C = {}, K = {} must be positive", p.n, p.c, p.k);
  if (!is_16bit(p.inputs) || (p.result != p.inputs && p.result != DType::fp32))
    return error_of(ErrorCode::invalid_type,
                    "{} > {}: inputs must be bf16 or fp16, and the result of their type or fp32",
                    name_of(p.inputs), name_of(p.result));
  for (int axis = 0; axis < kMostAxes; ++axis) {
    if (p.size[axis] < 1 || p.filter[axis] < 1 || p.stride[axis] < 1 || p.dilation[axis] < 1)
      return error_of(ErrorCode::invalid_size,
                      "size {}, filter {}, stride {}, dilation {} along axis {} must be positive", p.size[axis],
                      p.filter[axis], p.stride[axis], p.dilation[axis], axis);
    if (p.pad[axis] < 0 || p.pad_after[axis] < 0)
      return error_of(ErrorCode::invalid_size, "padding {}:{} along axis {} must not be negative", p.pad[axis],
                      p.pad_after[axis], axis);
    if (output_size(p, axis) < 1)
      return error_of(ErrorCode::invalid_size,
                      "the filter reaches past the input along axis {}: make the input or its padding larger",
                      axis);
  }
  return {};
}

CudnnTensor result_of(Op op) {
  return op == Op::fprop ? CudnnTensor::y : op == Op::dgrad ? CudnnTensor::x : CudnnTensor::w;
}

DType type_of(const CudnnConvolution& p, CudnnTensor tensor) {
  return tensor == result_of(p.op) ? p.result : p.inputs;
}

i64 elements_of(const CudnnConvolution& p, CudnnTensor tensor) {
  switch (tensor) {
    case CudnnTensor::x: return x_pixels(p) * p.c;
    case CudnnTensor::w: return p.k * taps_of(p) * p.c;
    case CudnnTensor::y: return y_pixels(p) * p.k;
  }
  return 0;
}

std::vector<i64> outermost_first(const CudnnConvolution& p, const int (&values)[kMostAxes]) {
  std::vector<i64> list;
  for (int axis = std::max(p.spatial, 2) - 1; axis >= 0; --axis) list.push_back(values[axis]);
  return list;
}

CudnnShape shape_of(const CudnnConvolution& p, CudnnTensor tensor) {
  CudnnShape shape;
  std::vector<i64> axes = outermost_first(p, tensor == CudnnTensor::w ? p.filter : p.size);
  if (tensor == CudnnTensor::y)
    for (size_t i = 0; i < axes.size(); ++i) axes[i] = output_size(p, static_cast<int>(axes.size() - 1 - i));
  const i64 outer = tensor == CudnnTensor::w ? p.k : p.n;
  const i64 channels = tensor == CudnnTensor::y ? p.k : p.c;
  shape.dimensions = {outer, channels};
  shape.dimensions.insert(shape.dimensions.end(), axes.begin(), axes.end());
  shape.strides.assign(shape.dimensions.size(), 1);
  i64 stride = channels;  // channels lie innermost
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
            const ContextScope scope(tools::context_of(device));
            SLUICE_TRY(scope.entered());
            return launch(plan, copies[static_cast<size_t>(copy)], workspace, stream);
          }};
}

}  // namespace sluice::bench
