// SPDX-License-Identifier: Apache-2.0
// One convolution as cuDNN sees it, and every plan that cuDNN makes for it. Sources: comments of
// cudnn_graph.h (9.19) and the backend chapter of its manual.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sluice/spec/conv_problem.h>

#include "bench/contender/contender.h"
#include "bench/contender/cudnn.h"

namespace sluice::bench {

/// A convolution, and the types of the two tensors that are read and of the one that is written.
struct CudnnConvolution {
  Conv conv{};
  DType inputs = DType::bf16, result = DType::bf16;

  bool operator==(const CudnnConvolution&) const = default;
};

/// Errors: invalid_argument (no operation), invalid_size (sizes below 1, no output along an axis),
/// invalid_stride (pixels that overlap), invalid_type.
Result<void> check(const CudnnConvolution& p);

enum class CudnnTensor { x, w, y };
/// The tensor that `op` writes.
CudnnTensor result_of(ConvOp op);
DType type_of(const CudnnConvolution& p, CudnnTensor tensor);
/// Elements from the first to past the last.
i64 span_of(const CudnnConvolution& p, CudnnTensor tensor);

/// Dimensions in torch's logical order (N, C, spatial axes outermost first; w: K, C, ...) with strides in
/// elements. One axis becomes two, as cuDNN has no 1-D convolution.
struct CudnnShape {
  std::vector<i64> dimensions, strides;
};
CudnnShape shape_of(const CudnnConvolution& p, CudnnTensor tensor);
/// The entries of `values` for the spatial axes, from the outermost (d or h) to w: at least two, as in
/// shape_of.
std::vector<i64> outermost_first(const Conv& conv, const Axes& values);

/// A plan that cuDNN built. Copies share it.
struct CudnnPlan {
  std::string tag;     // "engine 65 k2=5 k13=1": equal for equal kernels
  std::string origin;  // the first to propose it: "heuristic A", "fallback", "engine"
  i64 engine = 0;
  std::vector<std::pair<int, i64>> knobs;            // by type, ascending; empty: the engine's defaults
  std::vector<int> numerical_notes, behavior_notes;  // kNumericalNotes, kBehaviorNotes
  i64 workspace_bytes = 0;
  std::shared_ptr<const Cudnn> cudnn;
  CudnnDescriptor plan;

  bool deterministic() const;
  std::string notes() const;  // "tensor core, nondeterministic"
};

/// A proposal that cannot be run.
struct CudnnRefusal {
  std::string tag, origin, why;
};

struct CudnnPlans {
  std::vector<CudnnPlan> plans;       // the heuristics' in their order, then engines' with default knobs
  std::vector<CudnnRefusal> refused;  // proposals of heuristics
  int engines = 0,
      engines_refused = 0;  // engines that cuDNN lists for the graph; those that refuse the convolution
};

inline constexpr i64 kMostCudnnWorkspace = i64{256} << 20;

/// Proposals of heuristics A, instant, B and fallback, then each engine with its default knobs, all built;
/// each kernel once. Drops those that need more than `most_workspace` bytes. Errors: those of check, driver
/// (the convolution itself is refused). An empty list of plans is not an error.
Result<CudnnPlans> plans_of(const Cudnn& cudnn, const CudnnConvolution& problem,
                            i64 most_workspace = kMostCudnnWorkspace);

/// Device memory of the three tensors, 16-byte aligned.
struct CudnnPointers {
  void *x = nullptr, *w = nullptr, *y = nullptr;
};

/// Enqueues; never waits. The device's context must be current. Error driver.
Result<void> launch(const CudnnPlan& plan, const CudnnPointers& pointers, void* workspace, Stream stream);

/// The contender that runs one plan on the copies, in the context of `device`. `workspace` must have the
/// plan's bytes, and outlive the contender, as must the copies.
Contender cudnn_contender(const Device& device, const CudnnPlan& plan, std::vector<CudnnPointers> copies,
                          void* workspace, const std::string& name);

}  // namespace sluice::bench
