// SPDX-License-Identifier: Apache-2.0
// See gemm.h. The code follows the formula line by line; it decodes A once per row of D, and B once per
// batch.
#include <sluice/reference/gemm.h>

#include <algorithm>
#include <unordered_map>

#include <sluice/reference/conv.h>
#include <sluice/reference/element.h>
#include <sluice/reference/quantize.h>

namespace sluice {
namespace {

/// Returns the product of the block scales of A[row][k] and B[column][k].
double block_scale(const Problem& p, const HostBuffers& buffers, const ElementIndex& at, i64 k) {
  if (!is_block_scaled(p.epilogue)) return 1.0;
  return static_cast<double>(buffers.scale_a[block_scale_a_index(p, at.batch, at.row, k)]) *
         static_cast<double>(buffers.scale_b[block_scale_b_index(p, at.batch, at.column, k)]);
}

/// Elements of A and B as doubles: of one row of A, and of the columns of one batch's B that were asked for,
/// at most 8 n k bytes.
class DecodedOperands {
 public:
  DecodedOperands(const Problem& p, const HostBuffers& buffers) : p_(p), buffers_(buffers) {}

  /// Returns the sum over k of A[row][k] B[k][column], times block scales.
  double sum(const ElementIndex& at) {
    turn_to(at.batch, at.row);
    const std::vector<double>& b = column(at.column);
    double sum = 0.0, scale = 1.0;
    for (i64 k = range_.begin; k < range_.end; ++k) {
      if (k == range_.begin || k % kScaleBlock == 0) scale = block_scale(p_, buffers_, at, k);
      const auto i = static_cast<size_t>(k - range_.begin);
      sum += row_values_[i] * b[i] * scale;
    }
    return sum;
  }

 private:
  void turn_to(i64 batch, i64 row) {
    if (batch != batch_) {
      batch_ = batch, row_ = -1;
      range_ = k_range_of(p_, buffers_.groups, batch);
      columns_.clear();
    }
    if (row == row_) return;
    row_ = row;
    row_values_.clear();
    for (i64 k = range_.begin; k < range_.end; ++k)
      row_values_.push_back(load_element(p_.a.type, buffers_.a, a_index(p_, batch_, row, k)));
  }
  const std::vector<double>& column(i64 column) {
    std::vector<double>& values = columns_[column];
    if (values.empty())
      for (i64 k = range_.begin; k < range_.end; ++k)
        values.push_back(load_element(p_.b.type, buffers_.b, b_index(p_, batch_, column, k)));
    return values;
  }

  const Problem& p_;
  const HostBuffers& buffers_;
  i64 batch_ = -1, row_ = -1;
  GroupRows range_{};
  std::vector<double> row_values_;
  std::unordered_map<i64, std::vector<double>> columns_;
};

/// Returns the value before the activation. `at` is a position in A B, which has twice D's columns if gated.
double value_of(const Problem& p, const HostBuffers& buffers, Scalars scalars, const ElementIndex& at,
                DecodedOperands& operands) {
  const double sum = scalars.alpha == 0.0f ? 0.0 : operands.sum(at);
  return before_activation(p, buffers, scalars, output_place(p, at), sum);
}

double element(const Problem& p, const HostBuffers& buffers, Scalars scalars, const ElementIndex& at,
               DecodedOperands& operands) {
  double value = activate(p.epilogue.activation, value_of(p, buffers, scalars, at, operands));
  if (p.epilogue.gated)
    value *= gate_factor(p.epilogue.activation,
                         value_of(p, buffers, scalars, {at.batch, at.row, at.column + p.n / 2}, operands));
  if (p.epilogue.row_factors) value *= static_cast<double>(buffers.row_factors[at.row]);
  return over_scale_d(p, buffers, value);
}

/// Stores columns of a row that share a scale, and the scale.
void store_block(const Problem& p, const HostBuffers& buffers, const ElementIndex& at,
                 const std::vector<float>& values) {
  float amax = 0.0f;
  for (const float value : values) amax = larger_magnitude(amax, value);
  const ReferenceScale scale = reference_scale(amax);
  buffers.scale_out[scale_out_index(p, at.batch, at.row, at.column)] = scale.scale;
  u8* const d = static_cast<u8*>(buffers.d) + d_index(p, at);
  for (size_t i = 0; i < values.size(); ++i) d[i] = quantised(values[i], scale);
}
void reference_row(const Problem& p, const HostBuffers& buffers, Scalars scalars, i64 batch, i64 row,
                   DecodedOperands& operands) {
  std::vector<float> block;
  for (i64 column = 0; column < d_columns(p); ++column) {
    const ElementIndex at{batch, row, column};
    const double value = element(p, buffers, scalars, at, operands);
    if (!writes_scales(p.epilogue)) {
      store_element(p.d.type, buffers.d, d_index(p, at), value);
      continue;
    }
    block.push_back(static_cast<float>(value));
    if ((column + 1) % kScaleBlock != 0 && column + 1 < d_columns(p)) continue;
    store_block(p, buffers, {batch, row, column / kScaleBlock * kScaleBlock}, block);
    block.clear();
  }
}
}  // namespace

OutputPlace output_place(const Problem& p, const ElementIndex& at) {
  return {.row = a_row(p, at.row),
          .column = at.column,
          .vector = column_index(p, at.batch, at.column),
          .c = c_index(p, at),
          .d = d_index(p, at)};
}

std::vector<GroupRows> rows_of_groups(const Problem& p, const int* numbers) {
  const int total = static_cast<int>(group_total(p));
  std::vector<GroupRows> rows;
  int before = 0;
  for (int group = 0; group < p.batch; ++group) {
    rows.push_back(group_rows_of(p.groups.kind, p.groups.pitch, total, group, numbers[group], before));
    before = std::max(before, std::min(numbers[group], total));
  }
  return rows;
}

void for_each_row(const Problem& p, const int* numbers,
                  const std::function<void(i64 batch, i64 row)>& visit) {
  if (by_slots(p)) {
    for (i64 row = 0; row < p.m; ++row)
      if (const int group = group_of_slot(numbers[row], static_cast<int>(p.batch)); group >= 0)
        visit(group, row);
    return;
  }
  const std::vector<GroupRows> groups = has_groups(p) ? rows_of_groups(p, numbers) : std::vector<GroupRows>();
  for (i64 batch = 0; batch < p.batch; ++batch) {
    const GroupRows all{0, static_cast<int>(p.m)};
    const GroupRows rows = has_groups(p) ? groups[static_cast<size_t>(batch)] : all;
    for (i64 row = rows.begin; row < rows.end; ++row) visit(batch, row);
  }
}

GroupRows k_range_of(const Problem& p, const int* numbers, i64 batch) {
  if (!sums_groups(p)) return {0, static_cast<int>(p.k)};
  return rows_of_groups(p, numbers)[static_cast<size_t>(batch)];
}

double reference_element(const Problem& p, const HostBuffers& buffers, Scalars scalars,
                         const ElementIndex& at) {
  DecodedOperands operands(p, buffers);
  return element(p, buffers, scalars, at, operands);
}

void reference_gemm(const Problem& problem, const HostBuffers& buffers, float alpha, float beta) {
  if (is_conv(problem.conv)) return reference_conv(problem, buffers, alpha, beta);
  const Problem p = with_strides(problem);
  if (leaves_d(p, alpha)) return;
  DecodedOperands operands(p, buffers);
  for_each_row(p, buffers.groups, [&](i64 batch, i64 row) {
    reference_row(p, buffers, {alpha, beta}, batch, row, operands);
  });
}

}  // namespace sluice
