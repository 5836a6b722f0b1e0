// SPDX-License-Identifier: Apache-2.0
// Makes a product and its arguments from arrays in DLPack's terms. It derives layouts from strides and scale
// modes from shapes, and checks that the sizes agree. It copies nothing. An array that no kernel takes is an
// Error that states the argument, its value, the rule and the remedy. It allocates memory only for error
// messages.
#pragma once

#include <sluice/c_api/array_shape.h>
#include <sluice/c_api/packing.h>
#include <sluice/c_api/values.h>

namespace sluice::c_api {

struct ProductCall {
  Problem problem{};
  gemm::Args args{};
  int memory = kOnHost;  // the memory of all arrays: a CUDA ordinal, or kOnHost
};

/// The indices of sluice_product::names.
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

/// Returns an array of the product with the caller's name for it.
Named named(const sluice_product& product, ProductName which);

/// Makes the call. Errors: invalid_argument (a missing array), invalid_type, invalid_size, invalid_stride,
/// wrong_device (arrays in different memories).
Result<ProductCall> call_of(const sluice_product& product);

/// Adds the caller's names of A, B and D to an error of planning or launching.
Error with_names(const sluice_product& product, Error error);

// ---- product_checks.cc: checks of one array of a product
/// Checks that kernels support the array's element type. Error: invalid_type.
Result<void> check_element(const Named& x);
Result<void> check_bias(const Named& bias, i64 n);
/// Checks that the array is one fp32 value.
Result<void> check_scale_d(const Named& scale);
/// Adds the scales of A and B to a dense product, and chooses their scale modes.
Result<void> add_scales(const sluice_product& product, ProductCall& call);

}  // namespace sluice::c_api
