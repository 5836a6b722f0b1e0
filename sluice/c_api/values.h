// SPDX-License-Identifier: Apache-2.0
// C's values and the library's, field by field; enumerators are checked, since C lets any number through.
#pragma once

#include <span>
#include <variant>

#include <sluice/c_api.h>
#include <sluice/packed.h>

namespace sluice::c_api {

/// What sluice_problem may be.
using AnyProblem = std::variant<Problem, PackedProblem>;

/// A field that must be 0, 1, .. count - 1.
struct Enumerator {
  const char* name;
  i64 value;
  int count;
};
/// Error invalid_argument: the first that is out of range, with its range.
Result<void> check_enumerators(std::span<const Enumerator> enumerators);

/// Errors: invalid_argument (no enumerator, a field that packed products do not have), those of format_of.
Result<AnyProblem> problem_of(const sluice_problem& values);
sluice_problem values_of(const Problem& problem);
sluice_problem values_of(const PackedProblem& problem);

/// Errors: invalid_argument (no enumerator), invalid_config (a rule of formats).
Result<WeightFormat> format_of(const sluice_weight_format& values);
sluice_weight_format values_of(const WeightFormat& format);
/// Errors: those of format_of; invalid_size.
Result<sluice_packed_numbers> numbers_of(const WeightFormat& format, i64 n, i64 k);

Accumulate accumulate_of(int32_t value);

/// What a product of the problem would refuse, in the names of C's fields. Plans nothing.
Result<void> check(const AnyProblem& problem);

/// The names of C's fields in a message that has those of C++: a.ld is a_ld, ld_x is x_ld.
Error in_c_names(Error error);

}  // namespace sluice::c_api
