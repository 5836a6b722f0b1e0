// SPDX-License-Identifier: Apache-2.0
// From arrays, as DLPack describes them, to a product and its arguments: which index is contiguous, how the
// scales apply, whether the sizes agree. Nothing is copied and nothing guessed: what no kernel takes is an
// Error that names the argument, what it got, what is wanted and how to get there. Success allocates nothing.
#pragma once

#include <sluice/c_api/array_shape.h>
#include <sluice/c_api/packing.h>
#include <sluice/c_api/values.h>

namespace sluice::c_api {

struct DenseCall {
  Problem problem{};
  gemm::Args args{};
};
struct PackedCall {
  PackedProblem problem{};
  packed::Args args{};
};
struct ProductCall {
  std::variant<DenseCall, PackedCall> call{};
  int memory = kOnHost;  // of the arrays: a CUDA ordinal, or kOnHost
};

/// The places of a sluice_product's names.
enum ProductName {
  kNameA,
  kNameB,
  kNameC,
  kNameD,
  kNameBias,
  kNameScaleA,
  kNameScaleB,
  kNameScaleD,
  kNameGamma
};

/// An array of the product, as its caller calls it.
Named named(const sluice_product& product, ProductName which);

/// Errors: invalid_argument (missing), invalid_type, invalid_size, invalid_stride, wrong_device (arrays in
/// several memories).
Result<ProductCall> call_of(const sluice_product& product);

/// An error of planning or launching, which speaks of A, B and D, for a caller who calls them otherwise.
Error with_names(const sluice_product& product, Error error);

// ---- product_checks.cc: what one array of a product must be
/// Error invalid_type: no element type of kernels.
Result<void> check_element(const Named& x);
Result<void> check_bias(const Named& bias, i64 n);
/// One fp32 value.
Result<void> check_scale_d(const Named& scale);
/// How scales of A and B apply to a dense product.
Result<void> add_scales(const sluice_product& product, DenseCall& call);

}  // namespace sluice::c_api
