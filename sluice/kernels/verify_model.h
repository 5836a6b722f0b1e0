// SPDX-License-Identifier: Apache-2.0
// The error of a k-sum in a tensor core, derived in docs/numerics.md from the bits that the core keeps and
// the size of the running sums. The checker sees those sums as it walks along k. Compiled by NVRTC
// (verify_check.cuh) and by g++ (check/verify.cc, tests/unit/judge_test.cc).
#pragma once

#include <sluice/kernels/verify_arith.h>

namespace sluice::verify {

inline constexpr int kStep = 32;  // k of one fp8 instruction, or two of 16-bit inputs

SLUICE_HD constexpr double larger(double a, double b) {
  return a > b ? a : b;
}
SLUICE_HD constexpr double smaller(double a, double b) {
  return a < b ? a : b;
}

/// The bits that a core cuts off in a step of 32 of k, as shares of the largest number that takes part.
struct Core {
  double term;    // smaller parts of a product are not added
  double result;  // smaller parts of the sum are not kept, where that cuts more than `term`; else 0
};
SLUICE_HD constexpr Core core_of(DType input) {
  return is_fp8(input) ? Core{power_of_two(-13), 0.0} : Core{power_of_two(-25), power_of_two(-23)};
}

/// Sums in one accumulator, since k = 0 or the last promotion. Another order, or a split, may begin sums anew
/// anywhere. So a sum may be as large as its distance to any earlier one, or as a random choice of the steps
/// gives.
struct Run {
  double value = 0, magnitude = 0;           // sum a b, sum |a b|
  double low = 0, high = 0, squares = 0;     // extremes of the sums so far; squares of the steps
  double shrink = 0, cut = 0, variance = 0;  // predicted error, as in Sum

  /// `sum` and `terms`: sums of a b and |a b| over the 32 of k of this step.
  SLUICE_HD constexpr void add(const Core& core, double sum, double terms) {
    if (terms == 0.0) return;
    const double before = larger(high - value, value - low);
    value += sum;
    magnitude += terms;
    squares += sum * sum;
    low = smaller(low, value);
    high = larger(high, value);
    const double after = larger(high - value, value - low);
    // A quarter of the terms: as much as the largest of 32 random products.
    const double squared =
        larger(larger(before * before, after * after), larger(squares, terms * terms / 16));
    const double unit_squared = core.term * core.term * squared;
    // Each product loses half a unit on average, or all it has.
    const double lost_squared = 256 * unit_squared;
    shrink += terms * terms > lost_squared ? sum * (root(lost_squared) / terms) : sum;
    variance += smaller(32.0 / 3 * unit_squared, root(unit_squared) * terms) + 2.0 / 3 * unit_squared;
    if (core.result == 0.0) return;
    cut += core.result * root(squared);  // twice, half a unit, towards zero
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

/// The true sum of one output, and the expected error of a correct kernel.
struct Sum {
  double value = 0, magnitude = 0;  // sum a b, sum |a b|, with block scales
  double largest_block = 0;  // magnitude of any 128 of k without its scale, for exactness with promotion
  double shrink = 0;         // mean loss of products: subtracted from the sum, with its sign
  double cut = 0;            // mean loss of the sum itself, of either sign
  double variance = 0;       // variance of errors that go up and down alike

  /// The accumulator goes into the sum; `roundings`: fp32 roundings of their product and of the sum.
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
/// Block scales round the product of scales, and its product with the partial sum.
SLUICE_HD constexpr int promotion_roundings(const Problem& p) {
  return is_block_scaled(p.epilogue) ? 3 : 1;
}
/// True if the accumulator ends here.
SLUICE_HD constexpr bool ends_run(const Problem& p, i64 k_end) {
  return k_end >= p.k || (is_promoted(p) && k_end % kScaleBlock == 0);
}

/// Bound for one element: twice the mean and ten deviations, the most that a single step could lose. It is
/// never more than all steps together could lose (sum_bound).
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

/// Totals of all checked elements. Predicted squares hold mean, deviation and D's own rounding.
struct Totals {
  double count = 0, squares = 0;            // squares of errors
  double predicted = 0, fourths = 0;        // sums of the predicted squares, and of their squares
  double shifts = 0, predicted_shifts = 0;  // errors towards zero, in units of their prediction, and its mean

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

/// The root of all squares may be twice the prediction, and more with few elements, where chance counts.
SLUICE_HD constexpr double norm_ratio_of(const Totals& t) {
  if (!(t.predicted > 0.0)) return 0.0;
  const double alike = t.predicted * t.predicted / t.fourths;  // number of elements of equal weight
  return Run::root(t.squares / t.predicted) / (2 * (1 + 2 / Run::root(alike)));
}
/// The mean may be twice the prediction, plus eight deviations.
SLUICE_HD constexpr double mean_ratio_of(const Totals& t) {
  if (!(t.count > 0.0)) return 0.0;
  return magnitude_of(t.shifts) / (2 * t.predicted_shifts + 8 * Run::root(t.count));
}

}  // namespace sluice::verify
