// SPDX-License-Identifier: Apache-2.0
// The error bound: in any order, each of k additions in fp32 has an error of at most 2^-24 of the sum so far.
// So the error is at most k * 2^-24 * sum|a b|; the factor 2 below doubles that. The rounding to D's type is
// added. GELU and SiLU enlarge an error by a factor of at most 1.13 (GELU's largest slope).
#include "bench/host/host_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <sluice/reference/conv.h>
#include <sluice/reference/element.h>
#include <sluice/reference/gemm.h>
#include <sluice/spec/quantize.h>
#include <sluice/try.h>

#include "bench/conv.h"

namespace sluice::bench {
namespace {

constexpr double kFp32Half = 0x1p-24;
constexpr double kSumSlack = 2.0;
constexpr double kEpilogueRoundings = 8.0;
/// Roundings of a block scale of D and of a result that is divided by it.
constexpr double kScaleRoundings = 8.0;
constexpr double kLargestSlope = 1.13;
// The host twin adds fp8 products in fp32, unlike the tensor core. Results of a GPU are checked against
// other, wider bounds.

i64 elements_of(i64 outer, i64 ld, i64 batch, i64 batch_stride) {
  return batch > 0 ? (batch - 1) * batch_stride + outer * ld : 0;
}

/// Number of elements of each operand, gaps included.
struct Extents {
  i64 a, b, c, d;
};
Extents extents_of_operands(const Problem& p) {
  if (is_conv(p.conv)) {
    const ConvElements spans = conv_spans(p.conv);
    return {spans.a, spans.b, spans.d, spans.d};
  }
  const i64 a_outer = outer_extent(p.a, a_rows(p), p.k), b_outer = outer_extent(p.b, p.n, p.k);
  const i64 of_rows = d_matrices(p);
  return {elements_of(a_outer, p.a.ld, a_matrices(p), p.a.batch_stride),
          elements_of(b_outer, p.b.ld, b_matrices(p), p.b.batch_stride),
          elements_of(p.m, p.c.ld, of_rows, p.c.batch_stride),
          elements_of(p.m, p.d.ld, of_rows, p.d.batch_stride)};
}

std::vector<u8> random_elements(DType type, i64 count, std::mt19937_64& random) {
  std::vector<u8> bytes(static_cast<size_t>(count * bytes_of(type)));
  std::uniform_real_distribution<double> value(-1.0, 1.0);
  for (i64 i = 0; i < count; ++i) store_element(type, bytes.data(), i, value(random));
  return bytes;
}

std::vector<float> random_scales(i64 count, std::mt19937_64& random) {
  std::vector<float> scales(static_cast<size_t>(count));
  std::uniform_real_distribution<float> value(0.5f, 1.5f);
  for (float& scale : scales) scale = value(random);
  return scales;
}

/// Returns a table of groups of random sizes. One in four has any numbers, which must be safe too.
std::vector<int> random_table(const Problem& p, std::mt19937_64& random) {
  if (!reads_table(p)) return {};
  const int rows = static_cast<int>(group_total(p)), groups = static_cast<int>(p.batch);
  if (by_slots(p)) {
    std::vector<int> slots(static_cast<size_t>(rows));
    for (int& slot : slots) slot = std::uniform_int_distribution<int>(-1, groups - 1)(random);
    return slots;
  }
  const int most = p.groups.kind == GroupKind::counts ? std::min(p.groups.pitch, rows) : rows;
  std::vector<int> numbers(static_cast<size_t>(groups));
  for (int& number : numbers) number = std::uniform_int_distribution<int>(0, most)(random);
  if (random() % 4 == 0) {
    for (int& number : numbers)
      if (random() % 2 == 0) number = static_cast<int>(random());
  } else if (p.groups.kind != GroupKind::counts) {
    std::sort(numbers.begin(), numbers.end());
  }
  return numbers;
}

double scale_at(ScaleMode mode, const std::vector<float>& scales, i64 index) {
  if (mode == ScaleMode::none) return 1.0;
  return scales[mode == ScaleMode::tensor ? 0 : static_cast<size_t>(index)];
}

}  // namespace

Result<Plan> plan_with_roles(const Problem& problem, const PlanOverrides& overrides,
                             const RecordBook& records) {
  Result<Plan> plan = gemm::plan(problem, DeviceInfo{}, overrides, records);
  if (!plan || !is_plain(plan->config.schedule)) return plan;
  SLUICE_TAKE(const std::vector<Plan> all, gemm::candidates(problem, DeviceInfo{}, overrides));
  for (const Plan& other : all)
    if (!is_plain(other.config.schedule)) return other;
  return Error{
      ErrorCode::invalid_config,
      "plain schedules have no roles for the host twin to run: leave --schedule out, or run on a GPU"};
}

HostProblem::HostProblem(const Problem& problem, float alpha, float beta, u64 seed)
    : problem_(with_strides(problem)), alpha_(alpha), beta_(beta) {
  const Problem& p = problem_;
  std::mt19937_64 random(seed);
  const Extents count = extents_of_operands(p);
  a_ = random_elements(p.a.type, count.a, random);
  b_ = random_elements(p.b.type, count.b, random);
  if (p.epilogue.residual) c_ = random_elements(p.epilogue.c_type, count.c, random);
  if (p.epilogue.bias != Bias::none)
    bias_ = random_elements(p.epilogue.bias_type, column_vectors(p) * p.n, random);
  scale_a_ = random_scales(scale_a_count(p), random);
  scale_b_ = random_scales(scale_b_count(p), random);
  scale_d_ = random_scales(p.epilogue.scale_d == ScaleMode::tensor ? 1 : 0, random);
  row_factors_ = random_scales(row_factor_count(p), random);
  scale_out_.assign(static_cast<size_t>(scale_out_count(p)), std::numeric_limits<float>::quiet_NaN());
  groups_ = random_table(p, random);
  const i64 d_count = count.d;
  d_.assign(static_cast<size_t>(d_count * bytes_of(p.d.type)), 0xff);  // all bits set is NaN in every type
  if (adds(p.epilogue)) d_ = random_elements(p.d.type, d_count, random);
  old_d_ = d_;
}

Result<twin::TwinReport> HostProblem::run(const Plan& plan, u64 schedule_seed) {
  return twin::run_on_host(plan, buffers(d_.data(), scale_out_.data()), alpha_, beta_, schedule_seed);
}

double HostProblem::magnitude_of(const ElementIndex& at) const {
  const Problem& p = problem_;
  double magnitude = 0;
  const auto [k_begin, k_end] = k_range_of(p, groups_.data(), at.batch);
  for (i64 k = k_begin; k < k_end; ++k) {
    const double a = load_element(p.a.type, a_.data(), a_index(p, at.batch, at.row, k));
    double term = a * load_element(p.b.type, b_.data(), b_index(p, at.batch, at.column, k));
    if (is_block_scaled(p.epilogue))
      term *= scale_at(ScaleMode::block, scale_a_, block_scale_a_index(p, at.batch, at.row, k)) *
              scale_at(ScaleMode::block, scale_b_, block_scale_b_index(p, at.batch, at.column, k));
    magnitude += std::abs(term);
  }
  return magnitude;
}

HostProblem::Bounded HostProblem::bounded(const ElementIndex& at) const {
  return bounded(output_place(problem_, at), magnitude_of(at));
}

HostProblem::Bounded HostProblem::bounded(const OutputPlace& place, double magnitude) const {
  const Problem& p = problem_;
  double scale = std::abs(alpha_);
  if (!is_block_scaled(p.epilogue))
    scale *= std::abs(scale_at(p.epilogue.scale_a, scale_a_, place.row) *
                      scale_at(p.epilogue.scale_b, scale_b_, place.vector));
  double others = 0;
  if (p.epilogue.bias != Bias::none)
    others += std::abs(load_element(p.epilogue.bias_type, bias_.data(), place.vector));
  if (p.epilogue.residual && beta_ != 0)
    others += std::abs(beta_ * load_element(p.epilogue.c_type, c_.data(), place.c));
  if (adds(p.epilogue))  // upper limit of the number of additions to one element
    others += std::abs(load_element(p.d.type, old_d_.data(), place.d)) *
              static_cast<double>(p.deterministic ? 1 : p.k);
  const double in_sum = kSumSlack * static_cast<double>(p.k) * kFp32Half * magnitude * scale;
  const double in_epilogue = kEpilogueRoundings * kFp32Half * (magnitude * scale + others);
  return {magnitude * scale + others, in_sum + in_epilogue};
}

double HostProblem::allowed(double error, double expected) const {
  const Problem& p = problem_;
  if (p.epilogue.scale_d == ScaleMode::tensor) error /= static_cast<double>(scale_d_[0]);
  const FloatFormat d = format_of(p.d.type);
  const int smallest_exponent = 2 - (1 << (d.exponent_bits - 1));
  const double unit =
      std::ldexp(1.0, std::max(expected == 0 ? smallest_exponent : std::ilogb(expected), smallest_exponent) -
                          d.fraction_bits);
  // Allows a whole unit in the last place instead of half: the error may move the value across a rounding
  // boundary.
  return error + unit;
}

bool HostProblem::judge(i64 d, double exact, double error, HostComparison& found) const {
  const DType type = problem_.d.type;
  // e4m3 saturates, so the exact value is rounded to D's type first.
  const double expected = decode_code(type, encode_code(type, exact));
  const double got = load_element(type, d_.data(), d);
  // If both overflow to the same infinity, their difference is NaN, but the element is right.
  const bool same_infinity = std::isinf(expected) && got == expected;
  const double ratio = same_infinity ? 0 : std::abs(got - expected) / allowed(error, expected);
  ++found.checked;
  if (ratio <= 1.0) {  // false if the ratio is NaN
    found.worst_ratio = std::max(found.worst_ratio, ratio);
    return false;
  }
  if (found.wrong++ > 0) return false;
  found.example = fmt::format("is {:.6g} and should be {:.6g}", got, expected);
  return true;
}

HostBuffers HostProblem::buffers(void* d, float* scale_out) const {
  return {.a = a_.data(),
          .b = b_.data(),
          .c = c_.data(),
          .d = d,
          .scale_a = scale_a_.data(),
          .scale_b = scale_b_.data(),
          .bias = bias_.data(),
          .scale_d = scale_d_.data(),
          .groups = groups_.data(),
          .scale_out = scale_out,
          .row_factors = row_factors_.data()};
}

HostComparison HostProblem::compare() const {
  HostComparison found;
  if (is_conv(problem_.conv))
    compare_convolution(found);
  else
    compare_products(found);
  return found;
}

void HostProblem::compare_products(HostComparison& found) const {
  const Problem& p = problem_;
  std::vector<u8> before = old_d_;  // a copy that is only read
  const HostBuffers operands = buffers(before.data());
  std::vector<bool> stored(static_cast<size_t>(p.m));
  for_each_row(p, groups_.data(), [&](i64 batch, i64 row) {
    stored[static_cast<size_t>(row)] = true;
    compare_row(operands, batch, row, found);
  });
  if (has_groups(p)) compare_rows_of_no_group(stored, found);
}

void HostProblem::compare_row(const HostBuffers& operands, i64 batch, i64 row, HostComparison& found) const {
  const Problem& p = problem_;
  std::vector<Judged> block;
  for (i64 column = 0; column < d_columns(p); ++column) {
    const ElementIndex at{batch, row, column};
    const Judged value = judged(at, operands);
    if (!writes_scales(p.epilogue)) {
      if (judge(d_index(p, at), value.exact, value.error, found))
        found.example = fmt::format("D[{}][{},{}] {}", batch, row, column, found.example);
      continue;
    }
    block.push_back(value);
    if ((column + 1) % kScaleBlock != 0 && column + 1 < d_columns(p)) continue;
    judge_block({batch, row, column / kScaleBlock * kScaleBlock}, block, found);
    block.clear();
  }
}

void HostProblem::compare_rows_of_no_group(const std::vector<bool>& used, HostComparison& found) const {
  const Problem& p = problem_;
  const size_t bytes = static_cast<size_t>(p.d.ld * bytes_of(p.d.type));
  for (size_t row = 0; row < used.size(); ++row) {
    const auto begin = static_cast<std::ptrdiff_t>(row * bytes),
               end = begin + static_cast<std::ptrdiff_t>(bytes);
    const bool last = row + 1 == used.size();
    if (used[row] ||
        std::equal(d_.begin() + begin, last ? d_.end() : d_.begin() + end, old_d_.begin() + begin))
      continue;
    if (found.wrong++ == 0)
      found.example = fmt::format("row {} of D belongs to no group and was written", row);
  }
}

HostProblem::Judged HostProblem::judged(const ElementIndex& at, const HostBuffers& operands) const {
  const Problem& p = problem_;
  Bounded value = bounded(at);
  value.error *= kLargestSlope;
  if (p.epilogue.gated) {
    Bounded up = bounded({at.batch, at.row, at.column + p.n / 2});
    if (clamps(p.epilogue.activation)) up.most += 1;
    value.error = value.error * (up.most + up.error) + value.most * up.error;
  }
  if (p.epilogue.row_factors) value.error *= std::abs(double{row_factors_[static_cast<size_t>(at.row)]});
  return {reference_element(p, operands, {.alpha = alpha_, .beta = beta_}, at), value.error};
}

/// The scale is the largest magnitude over 448, so its error is at most the largest of an element. Codes are
/// judged with the scale that the kernel wrote.
void HostProblem::judge_block(const ElementIndex& at, const std::vector<Judged>& values,
                              HostComparison& found) const {
  const Problem& p = problem_;
  double amax = kSmallestAmax, error = 0;
  for (const Judged& value : values) {
    amax = std::max(amax, std::abs(value.exact));
    error = std::max(error, value.error);
  }
  const double wanted = amax / kE4m3Largest;
  const double scale = scale_out_[static_cast<size_t>(scale_out_index(p, at.batch, at.row, at.column))];
  const double roundings = kScaleRoundings * kFp32Half;
  ++found.checked;
  if (!(std::abs(scale - wanted) <= error / kE4m3Largest + roundings * wanted) && found.wrong++ == 0)
    found.example = fmt::format("the scale of D[{}][{},{}] is {:.6g} and should be {:.6g}", at.batch, at.row,
                                at.column, scale, wanted);
  for (size_t i = 0; i < values.size(); ++i) {
    const i64 column = at.column + static_cast<i64>(i);
    const double exact = values[i].exact / scale;
    if (judge(d_index(p, {at.batch, at.row, column}), exact,
              values[i].error / scale + roundings * std::abs(exact), found))
      found.example = fmt::format("D[{}][{},{}] {}", at.batch, at.row, column, found.example);
  }
}

void HostProblem::compare_convolution(HostComparison& found) const {
  const Problem& p = problem_;
  const Conv& v = p.conv;
  std::vector<u8> expected = old_d_;
  const HostBuffers operands = buffers(expected.data());
  const std::vector<double> sums = conv_sums(p, operands), magnitudes = conv_magnitudes(p, operands);
  const bool wgrad = v.op == ConvOp::wgrad, forward = v.op == ConvOp::fprop;
  const i64 columns = wgrad ? taps_of(v) * v.channels : forward ? v.filters : v.channels;
  const i64 pitch = wgrad ? columns : forward ? y_pitch_of(v) : x_pitch_of(v);
  for (size_t i = 0; i < sums.size(); ++i) {
    const i64 row = static_cast<i64>(i) / columns, column = static_cast<i64>(i) % columns;
    const i64 element = row * pitch + column;
    const OutputPlace place{.row = row, .column = column, .vector = column, .c = element, .d = element};
    const double value = before_activation(p, operands, {.alpha = alpha_, .beta = beta_}, place, sums[i]);
    const double exact = over_scale_d(p, operands, activate(p.epilogue.activation, value));
    if (judge(element, exact, kLargestSlope * bounded(place, magnitudes[i]).error, found))
      found.example = fmt::format("D[{},{}] {}", row, column, found.example);
    const i64 width = bytes_of(p.d.type);
    std::copy_n(d_.begin() + element * width, width, expected.begin() + element * width);
  }
  const auto [first, unused] = std::mismatch(d_.begin(), d_.end(), expected.begin());
  if (first != d_.end() && found.wrong++ == 0)
    found.example = fmt::format("byte {} of D lies between pixels and was written", first - d_.begin());
}

void HostProblem::set_d(i64 index, double value) {
  store_element(problem_.d.type, d_.data(), index, value);
}

std::string describe(const HostComparison& found) {
  if (found.passed())
    return fmt::format("{} elements within the bound (largest error {:.2g} of it)", found.checked,
                       found.worst_ratio);
  return fmt::format("{} of {} elements are wrong; {}", found.wrong, found.checked, found.example);
}

}  // namespace sluice::bench
