// SPDX-License-Identifier: Apache-2.0
// Convolutions as matrix products: turns tensors into A, B and D.
#include <sluice/conv.h>
#include <sluice/try.h>

namespace sluice::conv {

gemm::Args args(const Conv& conv, const Tensors& t) {
  const bool reads_w = conv.op != ConvOp::wgrad;
  return {.a = conv.op == ConvOp::fprop ? t.x : t.y,
          .b = reads_w ? t.w : t.x,
          .c = t.c,
          .d = t.result,
          .scale_a = t.scale_x,
          .scale_b = t.scale_w,
          .bias = t.bias,
          .alpha = t.alpha,
          .beta = t.beta,
          .workspace = t.workspace};
}

Result<void> run(const Device& device, const Conv& conv, DType inputs, DType output, const Epilogue& epilogue,
                 const Tensors& tensors, Stream stream) {
  SLUICE_TAKE(const Problem product, problem(conv, inputs, output, epilogue));
  return gemm::run(device, product, args(conv, tensors), stream);
}

}  // namespace sluice::conv
