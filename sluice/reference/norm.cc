// SPDX-License-Identifier: Apache-2.0
// See norm.h.
#include <sluice/reference/norm.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include <sluice/reference/element.h>

namespace sluice {
namespace {

/// Returns a number that orders e4m3 codes by their values; both zeros give the same number.
int ordinal(u8 code) {
  return (code & 0x80) != 0 ? -(code & 0x7f) : code & 0x7f;
}
bool is_nan_code(u8 code) {
  return (code & 0x7f) == 0x7f;
}

struct Judge {
  const NormInput& input;
  const NormOutput& output;
  NormFindings found;

  void wrong(i64 row, i64 column, double got, double wanted) {
    if (found.wrong++ == 0)
      found.first = "row " + std::to_string(row) + ", column " + std::to_string(column) + ": " +
                    std::to_string(got) + ", not " + std::to_string(wanted);
  }

  void plain(i64 row, i64 column, double exact) {
    const double got = load_element(input.type, output.data, row * output.ld + column);
    u32 nearest_bits = 0;
    store_element(input.type, &nearest_bits, 0, exact);
    const double nearest = load_element(input.type, &nearest_bits, 0);
    if (std::isnan(exact) || std::isnan(got)) {
      if (std::isnan(exact) != std::isnan(got)) wrong(row, column, got, exact);
    } else if (got != nearest &&
               !(std::fabs(got - exact) <= std::fabs(nearest - exact) + 2 * kNormError * std::fabs(exact))) {
      wrong(row, column, got, exact);
    }
  }

  void code(i64 row, i64 column, double exact, double multiplier) {
    const u8 got = static_cast<const u8*>(output.data)[row * output.ld + column];
    const u8 wanted = static_cast<u8>(encode_code(DType::e4m3, exact * multiplier));
    const bool nan = is_nan_code(got) || is_nan_code(wanted);
    const int apart = std::abs(ordinal(got) - ordinal(wanted));
    if (nan ? is_nan_code(got) != is_nan_code(wanted) : apart > 1)
      wrong(row, column, got, wanted);
    else if (!nan && apart == 1)
      ++found.neighbours;
  }

  /// Checks columns that share the scale `scale`.
  void group(i64 row, i64 begin, i64 end, const double* normed, float scale) {
    double amax = 1e-4;
    for (i64 column = begin; column < end; ++column)
      amax = std::isnan(amax) || std::isnan(normed[column]) ? std::numeric_limits<double>::quiet_NaN()
                                                            : std::max(amax, std::fabs(normed[column]));
    const double wanted = amax / 448;
    if (std::isnan(wanted) != std::isnan(scale) ||
        (!std::isnan(wanted) && !(std::fabs(scale - wanted) <= 2 * kNormError * wanted)))
      wrong(row, begin, scale, wanted);
    for (i64 column = begin; column < end; ++column) code(row, column, normed[column], 448 / amax);
  }
};

}  // namespace

void reference_norm(const NormInput& input, void* sum, double* normed) {
  for (i64 row = 0; row < input.rows; ++row) {
    double squares = 0.0;
    for (i64 column = 0; column < input.columns; ++column) {
      float value = static_cast<float>(load_element(input.type, input.data, row * input.ld + column));
      if (input.residual != nullptr)
        value +=
            static_cast<float>(load_element(input.type, input.residual, row * input.residual_ld + column));
      const i64 at = row * input.columns + column;
      store_element(input.type, sum, at, value);
      normed[at] = load_element(input.type, sum, at);
      squares += normed[at] * normed[at];
    }
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(input.columns) + input.epsilon);
    for (i64 column = 0; column < input.columns; ++column)
      normed[row * input.columns + column] *= inverse * load_element(input.type, input.gamma, column);
  }
}

NormFindings check_norm(const NormInput& input, const double* normed, const NormOutput& output) {
  Judge judge{input, output, {}};
  const i64 blocks = (input.columns + 127) / 128;
  for (i64 row = 0; row < input.rows; ++row) {
    const double* values = normed + row * input.columns;
    if (output.store == NormStore::row)
      judge.group(row, 0, input.columns, values, output.scales[row]);
    else if (output.store == NormStore::row_block)
      for (i64 block = 0; block < blocks; ++block)
        judge.group(row, block * 128, std::min(block * 128 + 128, input.columns), values,
                    output.scales[row * blocks + block]);
    else
      for (i64 column = 0; column < input.columns; ++column)
        output.store == NormStore::plain ? judge.plain(row, column, values[column])
                                         : judge.code(row, column, values[column], 1.0 / output.scales[0]);
  }
  return judge.found;
}

}  // namespace sluice
