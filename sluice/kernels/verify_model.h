// SPDX-License-Identifier: Apache-2.0
// The error of a sum over k in a tensor core, derived in docs/numerics.md from the bits that the tensor core
// keeps and from the size of the running sums. The checker computes those sums as it proceeds along k.
// Compiled by NVRTC (verify_check.cuh) and by g++ (check/verify.cc, tests/unit/judge_test.cc).
#pragma once

#include <sluice/kernels/verify_arith.h>

namespace sluice::verify {

inline constexpr int kStep = 32;  // k of one fp8 instruction, or of two instructions with 16-bit inputs

SLUICE_HD constexpr double larger(double a, double b) {
  return a > b ? a : b;
}
SLUICE_HD constexpr double smaller(double a, double b) {
  return a < b ? a : b;
}

/// Precision of a tensor core in a step of 32 k, relative to the largest number in the step.
struct Core {
  double term;    // smaller parts of a product are dropped
  double result;  // smaller parts of the sum are dropped; 0 if that drops no more than `term`
};
SLUICE_HD constexpr Core core_of(DType input) {
  return is_fp8(input) ? Core{power_of_two(-13), 0.0} : Core{power_of_two(-25), power_of_two(-23)};
}

/// Sums in one accumulator, since k = 0 or the last promotion. Another order or a split may start a new sum
/// at any k. So the model allows a running sum as large as its distance to any earlier one, or as large as
/// random steps give.
struct Run {
  double value = 0, magnitude = 0;           // sum a b, sum |a b|
  double low = 0, high = 0, squares = 0;     // extremes of the running sum; sum of the squares of the steps
  double shrink = 0, cut = 0, variance = 0;  // predicted error: see Sum

  /// Adds one step of 32 k. `sum`, `terms`: its sums of a b and of |a b|.
  SLUICE_HD constexpr void add(const Core& core, double sum, double terms) {
    if (terms == 0.0) return;
    const double before = larger(high - value, value - low);
    value += sum;
    magnitude += terms;
    squares += sum * sum;
    low = smaller(low, value);
    high = larger(high, value);
    const double after = larger(high - value, value - low);
    // The square of the largest magnitude: of the running sum before and after, of its steps, and of a
    // quarter of the terms, about the largest of 32 random products.
    const double squared =
        larger(larger(before * before, after * after), larger(squares, terms * terms / 16));
    const double unit_squared = core.term * core.term * squared;
    // Each product loses half a unit on average, but at most its whole value.
    const double lost_squared = 256 * unit_squared;
    shrink += terms * terms > lost_squared ? sum * (root(lost_squared) / terms) : sum;
    variance += smaller(32.0 / 3 * unit_squared, root(unit_squared) * terms) + 2.0 / 3 * unit_squared;
    if (core.result == 0.0) return;
    cut += core.result * root(squared);  // two roundings towards zero of half a unit each
    variance += 2.0 / 3 * core.result * core.result * squared;
  }

  SLUICE_HD static constexpr double root(double x) {
#ifdef __CUDACC_RTC__
    return sqrt(x);
#else
    return __builtin_sqrt(x);
#endif
  }
};

/// The true sum of one output, and the error that a correct kernel is expected to have.
struct Sum {
  double value = 0, magnitude = 0;  // sum a b, sum |a b|, with block scales
  double largest_block = 0;  // largest magnitude of 128 k without its scale; decides exactness with promotion
  double shrink = 0;         // mean loss of the products; it has the sign of the sum and is subtracted from
                             // it
  double cut = 0;            // mean loss of the sum itself, of either sign
  double variance = 0;       // variance of errors of either sign

  /// Adds an accumulator to the sum. `roundings`: fp32 roundings of its product with the scale and of the
  /// addition.
  SLUICE_HD constexpr void end(const Run& run, double scale, int roundings) {
    const double magnitude_of_scale = magnitude_of(scale), before = magnitude_of(value);
    value += scale * run.value;
    magnitude += magnitude_of_scale * run.magnitude;
    largest_block = larger(largest_block, run.magnitude);
    shrink += scale * run.shrink;
    cut += magnitude_of_scale * run.cut;
    const double unit = power_of_two(-24) * larger(before, magnitude_of(value));
    variance += scale * scale * run.variance + roundings * unit * unit / 3;
  }
  SLUICE_HD constexpr double bias() const { return magnitude_of(shrink) + cut; }
};
/// fp32 roundings per promotion: block scales add the product of the scales and its product with the partial
/// sum.
SLUICE_HD constexpr int promotion_roundings(const Problem& p) {
  return is_block_scaled(p.epilogue) ? 3 : 1;
}
/// True if the accumulator is added to the sum at k_end.
SLUICE_HD constexpr bool ends_run(const Problem& p, i64 k_end) {
  return k_end >= p.k || (is_promoted(p) && k_end % kScaleBlock == 0);
}

/// Bound for one element: twice the predicted mean error plus ten standard deviations. It never exceeds the
/// most that all steps together can lose (sum_bound).
inline constexpr double kMostDeviations = 10;
SLUICE_HD constexpr double element_bound(const Problem& p, const Sum& sum) {
  const double predicted = 2 * sum.bias() + kMostDeviations * Run::root(sum.variance);
  const double most = sum_bound(p, sum.magnitude);
  return predicted < most ? predicted : most;  // NaN gives `most`
}

/// Half the distance between numbers of the type at `value`.
SLUICE_HD constexpr double half_unit(DType type, double value) {
  const CodeLayout f = code_layout(type);
  const int least = 1 - bias_of(f), own = static_cast<int>(bits_as<u64>(magnitude_of(value)) >> 52) - 1023;
  return power_of_two((own < least ? least : own) - f.fraction_bits - 1);
}

/// Totals over all checked elements. Predicted squares include mean, deviation and D's own rounding.
struct Totals {
  double count = 0, squares = 0;            // squares of errors
  double predicted = 0, fourths = 0;        // sums of the predicted squares, and of the squares of these
  double shifts = 0, predicted_shifts = 0;  // errors towards zero in units of their prediction, and the mean
                                            // that is predicted

  SLUICE_HD constexpr void add(const Totals& t) {
    count += t.count;
    squares += t.squares;
    predicted += t.predicted;
    fourths += t.fourths;
    shifts += t.shifts;
    predicted_shifts += t.predicted_shifts;
  }
};

SLUICE_HD constexpr Totals totals_of(const CheckLog& log) {
  return {log.count, log.squares, log.predicted, log.fourths, log.shifts, log.predicted_shifts};
}

/// Measured root-mean-square error divided by its limit: twice the prediction, and more for few elements,
/// where chance matters.
SLUICE_HD constexpr double norm_ratio_of(const Totals& t) {
  if (!(t.predicted > 0.0)) return 0.0;
  const double alike = t.predicted * t.predicted / t.fourths;  // equivalent number of elements of equal
                                                               // weight
  return Run::root(t.squares / t.predicted) / (2 * (1 + 2 / Run::root(alike)));
}
/// Measured mean error divided by its limit: twice the prediction plus eight standard deviations.
SLUICE_HD constexpr double mean_ratio_of(const Totals& t) {
  if (!(t.count > 0.0)) return 0.0;
  return magnitude_of(t.shifts) / (2 * t.predicted_shifts + 8 * Run::root(t.count));
}

}  // namespace sluice::verify
