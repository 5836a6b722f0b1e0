// SPDX-License-Identifier: Apache-2.0
// One convolution in cuDNN's terms, and all plans that cuDNN makes for it. Sources: comments in cudnn_graph.h
// (9.19) and the backend chapter of its manual.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sluice/spec/conv_problem.h>

#include "bench/contender/contender.h"
#include "bench/contender/cudnn.h"

namespace sluice::bench {

/// A convolution with the types of its two inputs and of its output.
struct CudnnConvolution {
  Conv conv{};
  DType inputs = DType::bf16, result = DType::bf16;

  bool operator==(const CudnnConvolution&) const = default;
};

/// Errors: invalid_argument (no operation), invalid_size (sizes below 1, or an axis without output),
/// invalid_stride (pixels that overlap), invalid_type.
Result<void> check(const CudnnConvolution& p);

enum class CudnnTensor { x, w, y };
/// The tensor that `op` writes.
CudnnTensor result_of(ConvOp op);
DType type_of(const CudnnConvolution& p, CudnnTensor tensor);
/// Number of elements from the tensor's first to its last, gaps included.
i64 span_of(const CudnnConvolution& p, CudnnTensor tensor);

/// Dimensions in torch's logical order (N, C, then spatial axes, outermost first; w: K, C, ...). Strides are
/// in elements. A convolution with one axis gets a second of size 1, because cuDNN has no 1-D convolution.
struct CudnnShape {
  std::vector<i64> dimensions, strides;
};
CudnnShape shape_of(const CudnnConvolution& p, CudnnTensor tensor);
/// Returns the entries of `values` for the spatial axes, from the outermost (d or h) to w. There are at least
/// two, as in shape_of.
std::vector<i64> outermost_first(const Conv& conv, const Axes& values);

/// A plan that cuDNN built. Copies share the same cuDNN descriptor.
struct CudnnPlan {
  std::string tag;     // such as "engine 65 k2=5 k13=1"; equal for equal kernels
  std::string origin;  // first source to propose it: "heuristic A", "fallback", "engine"
  i64 engine = 0;
  std::vector<std::pair<int, i64>> knobs;  // (type, value), by ascending type; empty: the engine's defaults
  std::vector<int> numerical_notes, behavior_notes;  // as named in kNumericalNotes and kBehaviorNotes
  i64 workspace_bytes = 0;
  std::shared_ptr<const Cudnn> cudnn;
  CudnnDescriptor plan;

  bool deterministic() const;
  std::string notes() const;  // such as "tensor core, nondeterministic"
};

/// A proposed config that cuDNN refused to build.
struct CudnnRefusal {
  std::string tag, origin, why;
};

struct CudnnPlans {
  std::vector<CudnnPlan> plans;       // the heuristics' plans in their order, then engines with default knobs
  std::vector<CudnnRefusal> refused;  // configs that a heuristic proposed
  int engines = 0,
      // Engines that cuDNN lists for the graph; those of them that refuse the convolution.
      engines_refused = 0;
};

inline constexpr i64 kMostCudnnWorkspace = i64{256} << 20;

/// Builds the proposals of heuristics A, instant, B and fallback, then each engine with its default knobs.
/// Each kernel is listed once. Drops plans that need more than `most_workspace` bytes. Errors: those of
/// check; driver (cuDNN refuses the convolution itself). An empty list is not an error.
Result<CudnnPlans> plans_of(const Cudnn& cudnn, const CudnnConvolution& problem,
                            i64 most_workspace = kMostCudnnWorkspace);

/// Device pointers of the three tensors, 16-byte aligned.
struct CudnnPointers {
  void *x = nullptr, *w = nullptr, *y = nullptr;
};

/// Enqueues the plan; does not wait. The device's context must be current. Error: driver.
Result<void> launch(const CudnnPlan& plan, const CudnnPointers& pointers, void* workspace, Stream stream);

/// Makes the contender that runs one plan in the context of `device`, on the given operand sets. `workspace`
/// must have the plan's bytes. It and the sets must outlive the contender.
Contender cudnn_contender(const Device& device, const CudnnPlan& plan, std::vector<CudnnPointers> copies,
                          void* workspace, const std::string& name);

}  // namespace sluice::bench
