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
/// Returns the groups of a problem's rows. A pitch of 0 is 1, so that a struct of zeros has no groups.
Groups groups_of(const sluice_problem& values);
/// Weight types of the C interface, without SLUICE_NOT_PACKED.
inline constexpr int kWeightTypes = SLUICE_E2M1_WEIGHT;

// ---- conv_values.cc: sizes
/// Converts sizes. Errors: invalid_argument (`spatial`), invalid_size (a value that does not fit an int).
Result<Conv> conv_of(const sluice_conv& sizes);
/// Checks that `spatial` is 1, 2 or 3. Error: invalid_argument.
Result<void> check_spatial(int32_t spatial);
sluice_conv values_of(const Conv& conv);

}  // namespace sluice::c_api
