// SPDX-License-Identifier: Apache-2.0
// See experts.h.
#include <sluice/reference/experts.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <sluice/reference/element.h>

namespace sluice {

Routed reference_route(const RouteInput& input) {
  const auto id_of = [&](i64 slot) -> i64 {
    const i64 at = slot / input.chosen * input.ids_ld + slot % input.chosen;
    return input.wide ? static_cast<const i64*>(input.ids)[at] : static_cast<const int*>(input.ids)[at];
  };
  const i64 slots = input.tokens * input.chosen;
  std::vector<i64> sorted(static_cast<std::size_t>(slots));
  std::iota(sorted.begin(), sorted.end(), i64{0});
  std::stable_sort(sorted.begin(), sorted.end(), [&](i64 a, i64 b) { return id_of(a) < id_of(b); });
  Routed routed{{},
                std::vector<int>(static_cast<std::size_t>(slots), -1),
                std::vector<int>(static_cast<std::size_t>(input.rows), -1)};
  i64 row = 0;
  auto next = std::find_if(sorted.begin(), sorted.end(), [&](i64 slot) { return id_of(slot) >= 0; });
  for (i64 expert = 0; expert < input.experts; ++expert) {
    row = (row + input.pitch - 1) / input.pitch * input.pitch;
    for (; next != sorted.end() && id_of(*next) == expert; ++next, ++row) {
      if (row >= input.rows) continue;
      routed.row_of_slot[static_cast<std::size_t>(*next)] = static_cast<int>(row);
      routed.token_of_row[static_cast<std::size_t>(row)] = static_cast<int>(*next / input.chosen);
    }
    routed.ends.push_back(static_cast<int>(std::min(row, input.rows)));
  }
  return routed;
}

void reference_combine(const CombineInput& input, void* out, i64 out_ld) {
  const auto element = [&](const void* base, i64 at) {
    return static_cast<float>(load_element(input.type, base, at));
  };
  for (i64 token = 0; token < input.tokens; ++token)
    for (i64 column = 0; column < input.columns; ++column) {
      float sum = input.shared != nullptr ? element(input.shared, token * input.shared_ld + column) : 0.0f;
      for (i64 slot = token * input.chosen; slot < (token + 1) * input.chosen; ++slot) {
        i64 row = input.row_of_slot[slot];
        if (input.experts != 0) row = row >= 0 && row < input.experts ? slot : -1;
        if (row < 0 || row >= input.rows) continue;
        const float weight = input.weights != nullptr ? input.weights[slot] : 1.0f;
        sum = std::fma(weight, element(input.y, row * input.y_ld + column), sum);
      }
      store_element(input.type, out, token * out_ld + column, sum);
    }
}

std::vector<u8> reference_gather(const void* input, i64 input_rows, i64 row_bytes, i64 pitch_bytes,
                                 const std::vector<int>& index) {
  std::vector<u8> rows(index.size() * static_cast<std::size_t>(row_bytes));
  for (std::size_t row = 0; row < index.size(); ++row)
    if (index[row] >= 0 && index[row] < input_rows)
      std::memcpy(rows.data() + row * static_cast<std::size_t>(row_bytes),
                  static_cast<const u8*>(input) + index[row] * pitch_bytes,
                  static_cast<std::size_t>(row_bytes));
  return rows;
}

}  // namespace sluice
