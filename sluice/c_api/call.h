// SPDX-License-Identifier: Apache-2.0
// Makes a Problem and its arguments from a sluice_call. Sizes, layouts and scale modes come from the arrays,
// in DLPack's terms; what arrays cannot say comes from the call's problem. Nothing is copied. An array that
// no kernel takes is an Error that states the caller's name, the value, the rule and the remedy. Memory is
// allocated only for error messages. call.cc has products, call_scales.cc their scales, call_conv.cc
// convolutions.
#pragma once

#include <sluice/c_api/array_shape.h>
#include <sluice/c_api/values.h>

struct sluice_device;

namespace sluice::c_api {

struct Call {
  Problem problem{};
  gemm::Args args{};
  int memory = kOnHost;  // the memory of all arrays: a CUDA ordinal, or kOnHost
};

/// Checks that the struct is this library's. Errors: invalid_argument (NULL, another size).
Result<void> check_call(const sluice_call* call);

/// Returns call->problem. Errors: those of check_call() and of problem_of(sluice_problem).
Result<Problem> problem_of(const sluice_call* call);

/// Returns an array of the call with the caller's name for it.
Named named(const sluice_call& call, sluice_operand which);

/// Makes the call from its arrays. Errors: invalid_argument (a missing array, an unknown enumerator),
/// invalid_type, invalid_size, invalid_stride, wrong_device (arrays in different memories); those of
/// conv::problem.
Result<Call> call_of(const sluice_call& call);

/// call_of(), with the problem as the arrays' addresses make it, checked. Errors: those of call_of() and of
/// check_problem(), in the caller's names.
Result<Call> checked_call(const sluice_call& call);

/// Runs a call of arrays on a device. Errors: those of call_of() and gemm::run(); wrong_device.
Result<void> run(sluice_device& device, const sluice_call& call, Stream stream);

/// Returns call.problem as the call's arrays make it. Errors: those of checked_call().
Result<sluice_problem> described(const sluice_call& call);

// ---- call_conv.cc
/// Fills in a convolution's problem and arguments from its arrays.
Result<void> add_convolution(const sluice_call& from, Call& call);
/// Returns the convolution's sizes as its arrays give them.
Result<sluice_conv> conv_of_arrays(const sluice_call& call);

/// Checks that kernels support the array's element type. Error: invalid_type.
Result<void> check_element(const Named& x);

// ---- call_scales.cc: call.problem must have its sizes
/// Adds the bias, n values per vector of columns, and the scale of D, where the call has them.
Result<void> add_bias_and_scale_d(const sluice_call& from, i64 n, Call& call);
/// Adds where the kernel writes the scales of D, and the factors of rows, where the call has them.
Result<void> add_scale_out(const sluice_call& from, Call& call);
Result<void> add_row_factors(const sluice_call& from, Call& call);
/// Adds the scales of A and of B, where the call has them, in the modes of their shapes. Block scales of one
/// side need those of the other.
Result<void> add_scales(const sluice_call& from, Call& call);

}  // namespace sluice::c_api
