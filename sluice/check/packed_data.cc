// SPDX-License-Identifier: Apache-2.0
#include <sluice/check/packed_data.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include <sluice/plan/packed/packed_problem_checks.h>
#include <sluice/try.h>

namespace sluice::packed {
namespace {

constexpr u8 kPoison = 0xFF;
constexpr double kWholeLimit =
    16777215.0;  // largest exact sum, in units of the smallest summand: fp32 has 24 significant bits
constexpr i64 kLargestNormed = 128;  // times a root of up to 4: exact in bf16, and its squares' sum in fp32

void store(DType type, void* base, i64 index, double value) {
  const u32 bits = verify::encode(type, value);
  const int bytes = bytes_of(type);
  std::memcpy(static_cast<u8*>(base) + index * bytes, &bits, static_cast<size_t>(bytes));
}

struct Random {
  u64 seed;
  u64 operator()(i64 index) const { return verify::hash(seed, static_cast<u64>(index)); }
  double unit(i64 index) const { return static_cast<double>((*this)(index) >> 11) * 0x1p-53; }
};

std::vector<u8> numbers(DType type, i64 count, const std::function<double(i64)>& value) {
  std::vector<u8> bytes(static_cast<size_t>(count * bytes_of(type)));
  for (i64 i = 0; i < count; ++i) store(type, bytes.data(), i, value(i));
  return bytes;
}

/// Returns the largest |x w| times scales, in units of exact_limit(), that a token element x = 1 can give.
double largest_term(const Problem& p) {
  const double largest_code = p.b.packed.type == WeightType::uint4  ? 15
                              : p.b.packed.type == WeightType::int8 ? 255
                                                                    : 8;
  const double largest_operand =
      p.a.type == DType::e4m3 ? 8 : largest_code + code_offset(p.b.packed.type, p.a.type);
  const double of_scales = scale_a_count(p) > 0 ? 4 : 2;  // the largest product of scales
  return of_scales * 2 * largest_operand;
}
/// Returns the largest allowed sum of products. It is half of the exact limit; the other half is for bias and
/// C.
double most_of_sum(const Problem& p) {
  return exact_limit(p) / 2;
}
/// Returns the largest magnitude of token elements for which every sum stays exact. largest_token() caps it
/// at 8: then 128 products of e4m3 tokens also stay within 2^14 (128 * 8 * 8), up to which the 8-bit tensor
/// core adds exactly (docs/numerics.md).
double largest_token_unbounded(const Problem& p) {
  return most_of_sum(p) / (largest_term(p) * static_cast<double>(std::max<i64>(p.k, 1)));
}
int largest_token(const Problem& p) {
  return static_cast<int>(std::clamp(largest_token_unbounded(p), 1.0, 8.0));
}

/// Returns the largest magnitude of gamma in exact data.
int largest_gamma(const Problem& p) {
  return largest_token(p) > 1 ? 2 : 1;
}

/// Returns a row of exact data: whole numbers. A row longer than most_exact_k() is divided into
/// most_exact_k() pieces. Each piece has -1, 0 or 1 at one random position, and zeros elsewhere.
std::vector<double> exact_row(const Problem& p, i64 row, const Random& random) {
  const i64 most = most_exact_k(p);
  const int magnitude = largest_token(p);
  const auto number = [&](i64 k) {
    return verify::pick(random(row * p.k + k), 2 * magnitude + 1) - magnitude;
  };
  std::vector<double> values(static_cast<size_t>(p.k));
  if (p.k <= most) {
    for (i64 k = 0; k < p.k; ++k) values[static_cast<size_t>(k)] = number(k);
    return values;
  }
  for (i64 piece = 0; piece < most; ++piece) {
    const i64 begin = piece * p.k / most, end = (piece + 1) * p.k / most;
    const i64 k = begin + verify::pick(random(row * p.k + begin) >> 32, static_cast<int>(end - begin));
    values[static_cast<size_t>(k)] = number(k);
  }
  return values;
}

/// Returns a row of exact data whose root mean square is a power of two. A random quarter of the elements has
/// twice that magnitude, and the others are 0. So partial sums of squares differ along the row.
/// In long rows a sixteenth has four times the magnitude, and so on; each such step halves the sum of
/// magnitudes. The remainder, if k is no multiple of 4 (16, ...), has the root mean square itself.
std::vector<double> normed_row(const Problem& p, const Random& random) {
  const i64 k = p.k, most = most_exact_k(p) / largest_gamma(p);
  int root = 1 << random(0) % 3;
  while (root > 1 && 2 * root > largest_token(p)) root /= 2;
  i64 times = 2;  // the magnitude of nonzero elements, divided by the root mean square
  const auto sum = [&] { return root * (k / (times * times) * times + k % (times * times)); };
  while (sum() > most && times < kLargestNormed) times *= 2;
  const i64 fraction = times * times, whole = k / fraction * fraction;
  std::vector<i64> order(static_cast<size_t>(whole));
  std::iota(order.begin(), order.end(), i64{0});
  std::sort(order.begin(), order.end(),
            [&](i64 x, i64 y) { return std::pair(random(x + 1), x) < std::pair(random(y + 1), y); });
  std::vector<double> row(static_cast<size_t>(k), root);
  for (size_t i = 0; i < order.size(); ++i)
    row[static_cast<size_t>(order[i])] =
        static_cast<i64>(i) < whole / fraction ? static_cast<double>(times) * root : 0.0;
  for (i64 i = 0; i < k; ++i)
    if (random(k + 1 + i) % 2 != 0) row[static_cast<size_t>(i)] *= -1;
  return row;
}

std::vector<u8> random_tokens(const Problem& p, DataKind kind, const Random& random) {
  std::vector<u8> x(static_cast<size_t>(p.m == 0 ? 0 : ((p.m - 1) * p.a.ld + p.k) * bytes_of(p.a.type)),
                    kPoison);
  const FillSpec reals{.kind = kind == DataKind::positive ? Fill::positive : Fill::normal};
  for (i64 row = 0; row < p.m; ++row) {
    const std::vector<double> whole = kind != DataKind::exact ? std::vector<double>()
                                      : p.norm_a
                                          ? normed_row(p, {verify::hash(random.seed, static_cast<u64>(row))})
                                          : exact_row(p, row, random);
    for (i64 k = 0; k < p.k; ++k)
      store(p.a.type, x.data(), row * p.a.ld + k,
            kind == DataKind::exact
                ? whole[static_cast<size_t>(k)]
                : verify::fill_value(reals, random.seed, static_cast<u64>(row * p.k + k)));
  }
  return x;
}

/// Returns gamma. Exact data: powers of two, small enough that normed tokens stay exact. Else any values.
std::vector<u8> random_gamma(const Problem& p, DataKind kind, const Random& random) {
  const double largest = largest_gamma(p);
  return numbers(p.a.type, p.k, [&](i64 i) {
    if (kind != DataKind::exact) return 0.25 + random.unit(i);
    return (random(i) % 8 == 0 ? -1.0 : 1.0) * (random(i) % 3 == 0 ? largest : 1.0);
  });
}

std::vector<u8> random_codes(const Problem& p, DataKind kind, const Random& random) {
  std::vector<u8> codes(static_cast<size_t>(p.n * p.k));
  const auto size = static_cast<i64>(codes.size());
  for (i64 i = 0; i < size; i += 8) {  // eight codes from each random number
    const u64 bits = random(i);
    std::memcpy(codes.data() + i, &bits, static_cast<size_t>(std::min<i64>(8, size - i)));
  }
  if (code_bits(p.b.packed.type) == 4)
    for (u8& code : codes) code &= 15;
  if (kind == DataKind::positive)  // codes of the upper half; zero points are drawn from the lower half
    for (u8& code : codes)
      code = p.b.packed.type == WeightType::uint4  ? code | 8
             : p.b.packed.type == WeightType::int8 ? code | 128
             : p.b.packed.type == WeightType::e2m1 ? code & 7
                                                   : code & 0x7F;
  if (p.b.packed.type != WeightType::e4m3) return codes;
  u8 whole[17];  // -8 .. 8
  for (int i = 0; i < 17; ++i) whole[i] = static_cast<u8>(verify::encode(DType::e4m3, i - 8.0));
  for (u8& code : codes) {
    if (kind == DataKind::exact) code = whole[code % 17];
    if ((code & 0x7F) == 0x7F) code ^= 1;  // avoids NaN
  }
  return codes;
}

double random_scale(DataKind kind, const Random& random, i64 i, DType type = DType::fp32) {
  const bool is_signed = kind != DataKind::positive && type != DType::e8m0;
  const double sign = is_signed && random(i) % 8 == 0 ? -1.0 : 1.0;
  if (kind == DataKind::exact) return sign * verify::power_of_two(verify::pick(random(i) >> 8, 3) - 1);
  return sign * (0.5 + random.unit(i)) / 64;
}

/// Returns a scale_d that keeps most elements of an e4m3 D below its limit of 448 and above the subnormal
/// range. It is the outputs' root mean square divided by 8 to 128, for the distributions above. A gated
/// output is a product of two sums.
double random_scale_d(const Problem& p, DataKind kind, const Random& random) {
  const bool exact = kind == DataKind::exact;
  const double token = exact ? 0.6 * largest_token(p) : 1.0, code = 4.6, scale = exact ? 1.3 : 1.0 / 64;
  const double terms = static_cast<double>(exact ? std::min(p.k, most_exact_k(p)) : p.k);
  const double products = (kind == DataKind::positive ? terms : std::sqrt(terms)) * token * code * scale;
  const double bias = p.epilogue.bias == Bias::none ? 0.0 : exact ? 37.0 : 1.2;
  const double sum = std::hypot(products * (scale_a_count(p) > 0 ? scale : 1.0), bias);
  if (sum == 0.0) return 1.0;
  const double output = p.epilogue.gated ? sum * sum : sum;
  if (!exact) return output / 16 * (0.5 + random.unit(0));
  return std::exp2(std::round(std::log2(output)) - 3 - verify::pick(random(0), 4));
}

/// Returns a random zero point: an end of the range, or a number between; a whole number unless data are
/// real.
double random_zero(WeightType type, DataKind kind, const Random& random, i64 i) {
  const int top = type == WeightType::uint4 ? 15 : 255, largest = kind == DataKind::positive ? top / 2 : top;
  switch (random(i) % 4) {
    case 0: return 0;
    case 1: return largest;
    case 2: return verify::pick(random(i) >> 8, largest + 1);
    default: return kind == DataKind::exact ? (largest + 1) / 2 : random.unit(i) * largest;
  }
}

}  // namespace

double number_at(DType type, const void* base, i64 index) {
  u32 bits = 0;
  const int bytes = bytes_of(type);
  std::memcpy(&bits, static_cast<const u8*>(base) + index * bytes, static_cast<size_t>(bytes));
  return verify::decode(type, bits);
}

i64 most_exact_k(Problem p) {
  p.k = 1;
  return static_cast<i64>(largest_token_unbounded(p));
}

double exact_limit(const Problem& p) {
  const double least_code = p.b.packed.type == WeightType::e2m1 ? 0.5 : 1.0;
  return kWholeLimit * least_code / (scale_a_count(p) > 0 ? 4 : 2);
}

Result<HostData> random_data(const Problem& problem, DataKind kind, u64 seed) {
  SLUICE_TAKE(const Problem checked, check_packed(problem));
  const Problem& p = checked;
  if (has_groups(p))
    return Error{ErrorCode::invalid_argument,
                 "groups of packed weights are checked against products of each group alone "
                 "(tests/gpu/packed_groups_test.cc): leave groups out"};
  const auto stream = [&](u64 operand) { return Random{verify::hash(seed, 0x200 + operand)}; };
  const i64 scales = p.n * group_count(p.b.packed, p.k);
  HostData data{.problem = p, .kind = kind};
  data.x = random_tokens(p, kind, stream(0));
  data.codes = random_codes(p, kind, stream(1));
  data.scales = numbers(p.b.packed.scale, scales, [&, random = stream(2)](i64 i) {
    return random_scale(kind, random, i, p.b.packed.scale);
  });
  if (p.b.packed.zero == ScaleZero::per_group)
    data.zeros = numbers(p.b.packed.scale, scales, [&, random = stream(3)](i64 i) {
      return random_zero(p.b.packed.type, kind, random, i);
    });
  if (p.epilogue.bias != Bias::none)
    data.bias = numbers(p.epilogue.bias_type, p.n, [&, random = stream(4)](i64 i) {
      return kind == DataKind::exact ? verify::pick(random(i), 129) - 64.0 : random.unit(i) * 4 - 2;
    });
  if (scale_a_count(p) > 0)
    data.scale_x = numbers(DType::fp32, scale_a_count(p),
                           [&, random = stream(5)](i64 i) { return random_scale(kind, random, i); });
  if (p.epilogue.scale_d != ScaleMode::none)
    data.scale_d = numbers(DType::fp32, 1, [&](i64) { return random_scale_d(p, kind, stream(6)); });
  if (p.norm_a) {
    data.gamma = random_gamma(p, kind, stream(7));
    data.epsilon =
        kind == DataKind::exact ? 0.0f : 0.125f;  // large, so that the check catches a kernel that omits it
    data.roots = roots_of(p, data.x, data.epsilon);
  }
  if (p.epilogue.residual) data.c = random_residual(p, kind, stream(8).seed);
  if (kind == DataKind::exact && largest_sum(data) > most_of_sum(p))
    return Error{ErrorCode::invalid_size, "k = " + std::to_string(p.k) +
                                              " is too long for exact data of these weights: take real data"};
  return data;
}

double largest_sum(const HostData& data) {
  const Problem& p = data.problem;
  const std::vector<u8> x = multiplied_tokens(data);
  double largest = 0;
  for (i64 row = 0; row < p.m; ++row) {
    double tokens = 0;
    for (i64 k = 0; k < p.k; ++k) tokens += std::fabs(number_at(p.a.type, x.data(), row * p.a.ld + k));
    largest = std::max(largest, largest_term(p) * tokens);
  }
  return largest;
}

std::vector<double> roots_of(const Problem& p, std::span<const u8> x, float epsilon) {
  std::vector<double> roots(static_cast<size_t>(p.m), 1.0);
  for (i64 row = 0; row < p.m && p.k > 0; ++row) {
    double squares = 0;
    for (i64 k = 0; k < p.k; ++k) {
      const double value = number_at(p.a.type, x.data(), row * p.a.ld + k);
      squares += value * value;
    }
    roots[static_cast<size_t>(row)] =
        1.0 / std::sqrt(squares / static_cast<double>(p.k) + static_cast<double>(epsilon));
  }
  return roots;
}

std::vector<u8> multiplied_tokens(const HostData& data) {
  const Problem& p = data.problem;
  std::vector<u8> x = data.x;
  if (!p.norm_a) return x;
  for (i64 row = 0; row < p.m; ++row)
    for (i64 k = 0; k < p.k; ++k)
      store(p.a.type, x.data(), row * p.a.ld + k,
            number_at(p.a.type, data.x.data(), row * p.a.ld + k) * number_at(p.a.type, data.gamma.data(), k));
  return x;
}

std::vector<u8> random_residual(const Problem& p, DataKind kind, u64 seed) {
  const Random random{seed};
  const i64 elements = p.m == 0 ? 0 : (p.m - 1) * p.c.ld + p.n;
  std::vector<u8> c(static_cast<size_t>(elements * bytes_of(p.d.type)), kPoison);
  for (i64 row = 0; row < p.m; ++row)
    for (i64 column = 0; column < p.n; ++column) {
      const i64 index = row * p.n + column;
      store(p.d.type, c.data(), row * p.c.ld + column,
            kind == DataKind::exact ? verify::pick(random(index), 129) - 64.0 : random.unit(index) * 8 - 4);
    }
  return c;
}

double scale_of_token(const HostData& data, i64 token) {
  if (!data.roots.empty()) return data.roots[static_cast<size_t>(token)];
  if (data.scale_x.empty()) return 1.0;
  return number_at(DType::fp32, data.scale_x.data(),
                   data.problem.epilogue.scale_a == ScaleMode::vector ? token : 0);
}

std::vector<PackedSum> reference_sums(const HostData& data) {
  const Problem& p = data.problem;
  const i64 groups = group_count(p.b.packed, p.k);
  std::vector<PackedSum> sums(static_cast<size_t>(p.m * p.n));
  const std::vector<u8> tokens = multiplied_tokens(data);
  std::vector<double> x(static_cast<size_t>(p.m * p.k));
  for (i64 row = 0; row < p.m; ++row)
    for (i64 k = 0; k < p.k; ++k)
      x[static_cast<size_t>(row * p.k + k)] = number_at(p.a.type, tokens.data(), row * p.a.ld + k);
  for (i64 n = 0; n < p.n; ++n)
    for (i64 k = 0; k < p.k; ++k) {
      const i64 group = n * groups + (p.b.packed.group == 0 ? 0 : k / p.b.packed.group);
      const double zero = data.zeros.empty() ? implied_zero(p.b.packed.type)
                                             : number_at(p.b.packed.scale, data.zeros.data(), group);
      const Weight weight = weight_of(p.b.packed, p.a.type, data.codes[static_cast<size_t>(n * p.k + k)],
                                      number_at(p.b.packed.scale, data.scales.data(), group), zero);
      for (i64 m = 0; m < p.m; ++m) {
        const double token = x[static_cast<size_t>(m * p.k + k)];
        PackedSum& sum = sums[static_cast<size_t>(m * p.n + n)];
        sum.value += token * weight.value;
        sum.magnitude += std::fabs(token) * weight.magnitude;
        sum.rounding += std::fabs(token) * weight.rounding;
        sum.squares += token * token * weight.spread_squared;
      }
    }
  return sums;
}

}  // namespace sluice::packed
