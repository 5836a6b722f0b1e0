// SPDX-License-Identifier: Apache-2.0
// Convolutions: forward, data gradient and weight gradient. Each is computed as a matrix product, one operand
// of which is gathered from a tensor (implicit GEMM). Plans, kernels, records and workspaces are those of
// sluice/gemm.h.
//   auto problem = sluice::conv::problem(conv, DType::bf16, DType::bf16);
//   auto plan    = sluice::gemm::plan(*problem, device->info(), {}, device->records());
//   auto kernel  = sluice::gemm::prepare(*device, *plan);
//   auto done    = sluice::gemm::launch(*kernel, sluice::conv::args(conv, {.x = x, .w = w, .result = y}),
//   stream);
#pragma once

#include <sluice/gemm.h>
#include <sluice/spec/conv_problem.h>

namespace sluice {

/// Returns "wgrad 32x64x56x56 * 64x3x3 stride 2 padding 1": input, filter, and whatever differs from stride 1
/// and padding 0. Axes are printed outermost first, as in torch.
std::string conv_name(const Conv& conv);

}  // namespace sluice

namespace sluice::conv {

/// Device pointers. fprop reads x and w and writes y; dgrad reads y (dy) and w and writes dx; wgrad reads y
/// (dy) and x and writes dw. x, w, y and the result need 16-byte alignment, the others that of an element.
struct Tensors {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* y = nullptr;
  void* result = nullptr;      // the tensor that is written
  const void* bias = nullptr;  // fprop: one value per filter
  const void* c = nullptr;     // a residual with the result's shape and strides; not read if beta == 0
  const float* scale_x = nullptr;
  const float* scale_w = nullptr;
  float alpha = 1.0f;
  float beta = 1.0f;  // used only with a residual
  WorkspaceView workspace{};
};
/// The arguments of a launch of conv::problem's kernel.
gemm::Args args(const Conv& conv, const Tensors& tensors);

/// conv::problem and gemm::run. Errors: those of both.
Result<void> run(const Device& device, const Conv& conv, DType inputs, DType output, const Epilogue& epilogue,
                 const Tensors& tensors, Stream stream);

}  // namespace sluice::conv
