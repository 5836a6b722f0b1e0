// SPDX-License-Identifier: Apache-2.0
// Checks D against the error bounds of docs/numerics.md, per element and over all elements. The bounds over
// all elements catch systematic errors that stay within each element's bound.
#include <sluice/check/packed_data.h>

#include <algorithm>
#include <cmath>

#include <sluice/reference/gemm.h>

namespace sluice::packed {
namespace {

constexpr u8 kPoison = 0xFF;
constexpr double kActivationSlack = 0x1p-20, kSteepest = 1.13;  // as in verify_check.cuh
// Each bound is twice the error of emulated kernels (tests/unit/packed_judge_test.cc), because a bound that
// is too narrow would fail only on a GPU. kWeightSlack: factor of the bound of one element from rounded
// weights. kUsualSums, kUsualWeights (in units in the last place of the tokens' type) and kUsualCancelled
// (relative to the sum of magnitudes): bounds of the root mean square over all elements. kWeightsMean: factor
// of the bound of the mean of n random roundings.
constexpr double kWeightSlack = 2, kUsualSums = 0x1p-8, kUsualWeights = 5, kUsualCancelled = 0x1p-17;
constexpr double kWeightsMean = 1.5;

/// Returns the largest exact output of a token. For a normed token, its root of 1, 1/2 or 1/4 scales the
/// limit.
double exact_token_limit(const HostData& data, i64 token) {
  return exact_limit(data.problem) * (data.roots.empty() ? 1.0 : data.roots[static_cast<size_t>(token)]);
}

struct Place {
  i64 row, column;
};

/// Largest errors of a correct kernel. worst: of one element. usual: an element's share in the root of the
/// sum of all squared errors. mean: an element's share in the mean error, except rounded weights. weights:
/// the part from rounded weights, separate because its sign is random (docs/numerics.md).
struct Errors {
  double worst = 0, usual = 0, mean = 0, weights = 0;

  Errors operator*(double f) const { return {worst * f, usual * f, mean * f, weights * f}; }
  Errors operator*(const Errors& e) const {
    return {worst * e.worst, usual * e.usual, mean * e.mean, weights * e.weights};
  }
  Errors operator+(double error) const { return {worst + error, usual + error, mean + error, weights}; }
  Errors operator+(const Errors& e) const {
    return {worst + e.worst, usual + e.usual, mean + e.mean, weights + e.weights};
  }
};

/// An output before it is rounded to D's type, its allowed errors, and the magnitude by which the mean error
/// is divided.
struct Expected {
  double value;
  Errors errors;
  double magnitude;
  bool exact;  // the data allow no error
};

/// Returns the error bound of the tensor core's accumulation, relative to the sum of magnitudes. 16-bit
/// tokens: one step per 16 of k. e4m3 tokens: one step per 32 of k, in which 32 products, the old and the new
/// sum are truncated to 13 fraction bits. Sums are added to fp32 registers after each scale group, or 128 of
/// k.
double products_error(const Problem& p) {
  if (p.a.type != DType::e4m3) return 1.3 * static_cast<double>(p.k + 16) * 0x1p-25;
  const int length = p.b.packed.group == 0 ? kPackedTileK : p.b.packed.group;
  return length / 32 * 34 * 0x1p-13;
}

/// Returns the bound of the mean error. Truncation errors have one sign, but their mean stays below the worst
/// case: 6e-4 for all-positive sums.
double mean_products_error(const Problem& p) {
  return p.a.type == DType::e4m3 ? 0x1p-9 : products_error(p);
}

double bias_of(const HostData& data, i64 column) {
  const Problem& p = data.problem;
  return p.epilogue.bias == Bias::none ? 0.0 : number_at(p.epilogue.bias_type, data.bias.data(), column);
}

/// Returns the error bounds of sum_k x w for the kernel's order of additions.
Errors sum_errors(const Problem& p, const PackedSum& sum, WeightRounding rounding) {
  if (rounding == WeightRounding::either) {
    const Errors a = sum_errors(p, sum, WeightRounding::none),
                 b = sum_errors(p, sum, WeightRounding::to_tokens);
    return {std::max(a.worst, b.worst), std::max(a.usual, b.usual), std::max(a.mean, b.mean),
            std::max(a.weights, b.weights)};
  }
  const bool rounds = rounding == WeightRounding::to_tokens;
  // Counts fp32 roundings: a scale and a sum per group, sums of 16 warps and 8 slices, scale_x, final
  // additions.
  const double adds = (static_cast<double>(p.k) / 32 + 40) * 0x1p-24;
  // Rounded weights have no code offsets, so magnitudes add up to at most sum |x w|.
  const double terms = rounds ? 1.02 * std::sqrt(static_cast<double>(p.k) * sum.squares) : sum.magnitude;
  const double of_weights = rounds ? kWeightSlack * sum.rounding : 0.0;
  const double usual = kUsualSums + (rounds ? kUsualWeights * weight_unit(p.a.type) : 0.0);
  return {.worst = (products_error(p) + adds) * terms + of_weights,
          .usual = usual * std::hypot(sum.value, std::sqrt(sum.squares)) + kUsualCancelled * sum.magnitude,
          .mean = (mean_products_error(p) + adds) * terms,
          .weights = of_weights};
}

Expected expected_sum(const HostData& data, const PackedSum& sum, Place place, WeightRounding rounding) {
  const Problem& p = data.problem;
  const double bias = bias_of(data, place.column);
  const double scale = scale_of_token(data, place.row), magnitude = std::fabs(scale) * sum.magnitude;
  const double x = scale * sum.value + bias;
  const double root =
      p.norm_a ? (static_cast<double>(p.k) / 64 + 24) * 0x1p-24 : 0.0;  // rounding of the sum of squares
  const bool whole =
      sum.magnitude <= exact_limit(p) && magnitude + std::fabs(bias) <= exact_token_limit(data, place.row);
  const Errors errors = sum_errors(p, sum, rounding) * std::fabs(scale) + (root + 0x1p-23) * std::fabs(x);
  return {x, errors, magnitude, whole};
}

Expected before_scale_d(const HostData& data, std::span<const PackedSum> sums, Place place,
                        WeightRounding rounding) {
  const Problem& p = data.problem;
  const auto sum_at = [&](i64 column) {
    const PackedSum& sum = sums[static_cast<size_t>(place.row * p.n + column)];
    return expected_sum(data, sum, {place.row, column}, rounding);
  };
  Expected e = sum_at(place.column);
  const double x = e.value;
  e.value = activate(p.epilogue.activation, x);
  if (is_smooth(p.epilogue.activation)) {
    e.errors = e.errors * kSteepest + kActivationSlack * (std::fabs(x) + std::fabs(e.value));
    e.exact = false;
  }
  if (p.epilogue.residual) {
    const double c = number_at(p.d.type, data.c.data(), place.row * p.c.ld + place.column);
    e.value += c;
    e.errors = e.errors + 0x1p-24 * std::fabs(e.value);
    const double all = e.magnitude + std::fabs(bias_of(data, place.column)) + std::fabs(c);
    e.exact = e.exact && all <= exact_token_limit(data, place.row);
  }
  if (!p.epilogue.gated) return e;
  const Expected up = sum_at(p.n / 2 + place.column);
  // The product of two 24-bit numbers is exact in double; the kernel rounds it to fp32 before D.
  const double product = static_cast<double>(static_cast<float>(e.value * up.value));
  return {product,
          e.errors * std::fabs(up.value) + up.errors * std::fabs(e.value) + e.errors * up.errors +
              0x1p-23 * std::fabs(product),
          e.magnitude * std::fabs(up.value) + std::fabs(e.value) * up.magnitude, e.exact && up.exact};
}

/// Divides by scale_d: the reciprocal and the product are each rounded to fp32.
Expected expected(const HostData& data, std::span<const PackedSum> sums, Place place,
                  WeightRounding rounding) {
  Expected e = before_scale_d(data, sums, place, rounding);
  if (data.scale_d.empty()) return e;
  const double scale = number_at(DType::fp32, data.scale_d.data(), 0);
  e.value /= scale;
  e.errors = e.errors * (1 / std::fabs(scale)) + 3 * 0x1p-24 * std::fabs(e.value);
  e.magnitude /= std::fabs(scale);
  return e;
}

class Totals {
 public:
  /// `rounding`: the largest error of rounding to D's type.
  void add(double error, const Expected& e, double rounding) {
    squares_ += error * error;
    allowed_squares_ += (e.errors.usual + rounding) * (e.errors.usual + rounding);
    if (e.magnitude == 0) return;
    mean_ += error / e.magnitude;
    allowed_mean_ += (e.errors.mean + rounding) / e.magnitude;
    const double weights = e.errors.weights / e.magnitude;
    weights_ += weights;
    weights_squares_ += weights * weights;
  }
  double mean(i64 count) const { return count > 0 ? mean_ / static_cast<double>(count) : 0.0; }
  double norm_ratio() const { return allowed_squares_ > 0 ? std::sqrt(squares_ / allowed_squares_) : 0.0; }
  /// The mean error divided by its bound. Rounding errors of weights are independent between columns, but
  /// equal for all `tokens`.
  double mean_ratio(i64 tokens) const {
    const double random = kWeightsMean * std::sqrt(static_cast<double>(tokens) * weights_squares_);
    const double allowed = allowed_mean_ + std::min(weights_, random);
    return allowed > 0 ? std::fabs(mean_) / allowed : 0.0;
  }

 private:
  double squares_ = 0, allowed_squares_ = 0;  // sums of squared errors
  double mean_ = 0, allowed_mean_ = 0, weights_ = 0,
         weights_squares_ = 0;  // sums of errors relative to magnitudes, not yet divided by the count
};

/// Returns about half of the distance from `value` to the next number of `type`. Distances of 2^-150 and less
/// are negligible.
double half_unit(DType type, double value) {
  const verify::CodeLayout layout = verify::code_layout(type);
  const int least = 1 - verify::bias_of(layout);
  const int exponent = value == 0.0 ? least : std::max(std::ilogb(value), least);
  return std::ldexp(1.0, exponent - layout.fraction_bits - 1);
}
/// Returns the largest finite number. Above it e4m3 saturates and other types become infinite.
double largest_of(DType type) {
  return type == DType::e4m3 ? 448.0 : type == DType::fp16 ? 65504.0 : 0x1.fep127;
}

bool allowed(DType type, double got, const Expected& e, bool exact) {
  const double slack = exact ? 0.0 : e.errors.worst;
  if (std::fabs(got - e.value) <= slack) return true;  // the common case, cheaper than two roundings
  const double low = verify::decode(type, verify::encode(type, e.value - slack));
  const double high = verify::decode(type, verify::encode(type, e.value + slack));
  return got >= low && got <= high;
}

void note_wrong(Comparison& found, const LoggedElement& element, bool unwritten) {
  if (found.wrong++ == 0) {
    found.row_low = found.row_high = element.row;
    found.column_low = found.column_high = element.column;
  }
  found.unwritten += unwritten ? 1 : 0;
  found.row_low = std::min(found.row_low, element.row);
  found.row_high = std::max(found.row_high, element.row);
  found.column_low = std::min(found.column_low, element.column);
  found.column_high = std::max(found.column_high, element.column);
  if (found.examples.size() < kLoggedElements) found.examples.push_back(element);
}

/// Counts the 16-byte pieces outside D's elements that no longer hold poison.
void find_damage(const Problem& p, std::span<const u8> buffer, i64 begin, Comparison& found) {
  const i64 row_bytes = d_columns(p) * bytes_of(p.d.type), pitch = p.d.ld * bytes_of(p.d.type);
  i64 last_piece = -1;
  const auto scan = [&](i64 from, i64 to) {
    for (i64 i = from; i < to; ++i)
      if (buffer[static_cast<size_t>(i)] != kPoison && i / kChunkBytes != last_piece) {
        last_piece = i / kChunkBytes;
        if (found.damaged_chunks++ == 0)
          found.damage_address = static_cast<u64>(i);  // relative to the buffer
      }
  };
  scan(0, begin);
  for (i64 row = 0; row + 1 < p.m; ++row) scan(begin + row * pitch + row_bytes, begin + (row + 1) * pitch);
  scan(p.m == 0 || p.n == 0 ? begin : begin + (p.m - 1) * pitch + row_bytes, static_cast<i64>(buffer.size()));
}

}  // namespace

i64 d_begin(const Problem& problem, int shift) {
  return kGuardBytes + shift * bytes_of(problem.d.type);
}

i64 d_buffer_bytes(const Problem& p, int shift) {
  const i64 elements = p.m == 0 ? 0 : (p.m - 1) * p.d.ld + d_columns(p);
  return d_begin(p, shift) + elements * bytes_of(p.d.type) + kGuardBytes;
}

WeightRounding rounding_of(const KernelConfig& config) {
  const bool fragments =
      config.schedule == Schedule::wide || (config.schedule == Schedule::strip && is_16bit(config.a));
  return fragments ? WeightRounding::to_tokens : WeightRounding::none;
}

Comparison judge(const HostData& data, std::span<const PackedSum> sums, std::span<const u8> d_buffer,
                 int shift, WeightRounding rounding) {
  const Problem& p = data.problem;
  const i64 begin = d_begin(p, shift);
  const u8* d = d_buffer.data() + begin;
  Comparison found;
  Totals totals;
  for (i64 row = 0; row < p.m; ++row)
    for (i64 column = 0; column < d_columns(p); ++column) {
      const Expected e = expected(data, sums, {row, column}, rounding);
      const double got = number_at(p.d.type, d, row * p.d.ld + column);
      const bool exact = data.kind == DataKind::exact && !is_smooth(p.epilogue.activation);
      ++found.checked;
      if (exact && !e.exact) ++found.inexact_inputs;
      const double error = got - e.value;
      if (!allowed(p.d.type, got, e, exact && e.exact))  // NaN, and so poison, is never allowed
        note_wrong(found, {0, row, column, e.value, got, exact ? 0.0 : e.errors.worst}, std::isnan(got));
      if (!std::isfinite(error)) continue;
      const double own = half_unit(p.d.type, e.value);
      if (std::fabs(e.value) < largest_of(p.d.type)) totals.add(error, e, own);
      if (e.magnitude == 0 || std::fabs(error) <= found.worst_ratio * e.errors.worst) continue;
      const double rounding = std::fabs(verify::decode(p.d.type, verify::encode(p.d.type, e.value)) -
                                        e.value);  // the rounding to D's type
      if (std::isfinite(rounding))
        found.worst_ratio =
            std::max(found.worst_ratio, std::fabs(error) / (e.errors.worst + rounding + 0x1p-149));
    }
  found.mean_error = totals.mean(found.checked);
  found.norm_ratio = totals.norm_ratio();
  found.mean_ratio = totals.mean_ratio(p.m);
  find_damage(p, d_buffer, begin, found);
  return found;
}

}  // namespace sluice::packed
