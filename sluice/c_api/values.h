// SPDX-License-Identifier: Apache-2.0
// Converts between the structs of the C interface and the library's, field by field. Checks enumerators,
// because a C caller can pass any number.
#pragma once

#include <span>

#include <sluice/c_api.h>
#include <sluice/gemm.h>

namespace sluice::c_api {

/// A field whose value must be between 0 and count - 1.
struct Enumerator {
  const char* name;
  i64 value;
  int count;
};
/// Error: invalid_argument, with the name and range of the first field that is out of range.
Result<void> check_enumerators(std::span<const Enumerator> enumerators);

/// Converts a problem. Errors: invalid_argument (an unknown enumerator, or a field that packed products or
/// convolutions lack); those of format_of, conv_of and conv::problem.
Result<Problem> problem_of(const sluice_problem& values);
sluice_problem values_of(const Problem& problem);

/// Converts a format. Errors: invalid_argument (an unknown enumerator), invalid_config (the format breaks a
/// rule).
Result<WeightFormat> format_of(const sluice_weight_format& values);
sluice_weight_format values_of(const WeightFormat& format);
/// Returns the sizes of a blob's parts. Errors: those of format_of; invalid_size.
Result<sluice_packed_numbers> numbers_of(const WeightFormat& format, i64 n, i64 k);

Accumulate accumulate_of(int32_t value);

/// Returns the error that a run of the problem would return, in terms of the C struct's fields. Makes no
/// plan.
Result<void> check(const Problem& problem);

/// Replaces C++ field names in a message by those of the C struct: a.ld becomes a_ld, ld_x becomes x_ld.
Error in_c_names(Error error);

}  // namespace sluice::c_api
