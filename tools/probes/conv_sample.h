// SPDX-License-Identifier: Apache-2.0
// Single elements of a convolution in double, on the CPU, straight from the definition: shows that plans
// compute the convolution that was meant. It shares no arithmetic with descriptors or kernels.
#pragma once

#include <vector>

#include "bench/contender/cudnn_problem.h"

namespace sluice::probes {

/// A packed channels-last tensor in host memory.
struct HostTensor {
  DType type = DType::bf16;
  const void* data = nullptr;
};
/// The two that the operation reads; the third may be null.
struct HostTensors {
  HostTensor x, w, y;
};

/// Element `index` of the result, in memory order; pixels are packed.
double sample_element(const Conv& conv, const HostTensors& tensors, i64 index);
/// Products that sample_element sums, at most.
i64 products_of_element(const Conv& conv);

/// Indices of elements to look at: both ends, and others spread by a hash. Fewer where each sums more
/// products.
std::vector<i64> sample_indices(const Conv& conv, i64 elements, i64 most_products);

/// How far samples of a result are from what they should be.
struct SampleError {
  int count = 0;
  double worst = 0;  // largest difference over the root mean square of the expected; infinite: not a number
};
SampleError sample_error(const bench::CudnnConvolution& p, const HostTensors& tensors, i64 most_products);

}  // namespace sluice::probes
