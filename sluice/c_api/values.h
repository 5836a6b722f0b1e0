// SPDX-License-Identifier: Apache-2.0
// Converts between C's values and the library's, field by field. It checks enumerators, because C lets any
// number through.
#pragma once

#include <span>
#include <variant>

#include <sluice/c_api.h>
#include <sluice/packed.h>

namespace sluice::c_api {

/// The two kinds of problem that a sluice_problem may describe.
using AnyProblem = std::variant<Problem, PackedProblem>;

/// A field whose value must be 0, 1, .. count - 1.
struct Enumerator {
  const char* name;
  i64 value;
  int count;
};
/// Error invalid_argument: names the first field that is out of range, and its range.
Result<void> check_enumerators(std::span<const Enumerator> enumerators);

/// Converts a problem. Errors: invalid_argument (no enumerator, or a field that packed products or
/// convolutions lack), format_of's, conv_of's, conv::problem's.
Result<AnyProblem> problem_of(const sluice_problem& values);
sluice_problem values_of(const Problem& problem);
sluice_problem values_of(const PackedProblem& problem);

/// Converts a format. Errors: invalid_argument (no enumerator), invalid_config (a rule of formats).
Result<WeightFormat> format_of(const sluice_weight_format& values);
sluice_weight_format values_of(const WeightFormat& format);
/// Returns the layout of a blob. Errors: format_of's, invalid_size.
Result<sluice_packed_numbers> numbers_of(const WeightFormat& format, i64 n, i64 k);

Accumulate accumulate_of(int32_t value);

/// Refuses a problem that its product would refuse, with the names of C's fields. It plans nothing.
Result<void> check(const AnyProblem& problem);

/// Replaces C++ field names in a message by C's: a.ld becomes a_ld, ld_x becomes x_ld.
Error in_c_names(Error error);

}  // namespace sluice::c_api
