// SPDX-License-Identifier: Apache-2.0
// Problems with data for the twin: small whole numbers, so that sums are exact in every type that can hold
// them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include <sluice/kernels/registry.h>
#include <sluice/plan/dense/slices.h>
#include <sluice/reference/element.h>
#include <sluice/twin/run.h>

namespace sluice::twin {

/// A problem with its operands in host memory.
struct Operands {
  Problem problem;
  std::vector<u8> a, b, c, d, expected, bias;
  std::vector<float> scale_a, scale_b, scale_d{4.0f}, row_factors;
  std::vector<float> scale_out, expected_scales;  // block scales of D: those of the twin start as NaN
  std::vector<int> groups;

  HostBuffers buffers(std::vector<u8>& out) {
    std::vector<float>& scales = &out == &expected ? expected_scales : scale_out;
    return {a.data(),    b.data(),       c.data(),      out.data(),    scale_a.data(),    scale_b.data(),
            bias.data(), scale_d.data(), groups.data(), scales.data(), row_factors.data()};
  }
  /// True if D and its scales have the expected bits.
  bool as_expected() const {
    const auto same = [](const auto& x, const auto& y) {
      return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof x[0]) == 0;
    };
    return same(d, expected) && same(scale_out, expected_scales);
  }
};

inline std::vector<u8> whole_numbers(DType type, i64 count, u32 seed) {
  std::vector<u8> data(static_cast<size_t>(count * bytes_of(type)) + 16, 0);
  for (i64 i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    store_element(type, data.data(), i, static_cast<int>(seed >> 28) % 5 - 2);
  }
  return data;
}

/// Makes operands. D and the expected D start as NaN, or as equal whole numbers if the product is added to D.
inline Operands make_operands(const Problem& given) {
  const Problem p = with_strides(given);
  Operands o{.problem = p};
  const auto elements = [](const Matrix& x, i64 rows, i64 matrices) {
    return x.batch_stride == 0 ? x.ld * rows : x.batch_stride * matrices;
  };
  o.a = whole_numbers(p.a.type, elements(p.a, outer_extent(p.a, a_rows(p), p.k), p.batch), 1);
  o.b = whole_numbers(p.b.type, elements(p.b, outer_extent(p.b, p.n, p.k), p.batch), 2);
  o.c = whole_numbers(p.epilogue.c_type, elements(p.c, p.m, p.batch), 3);
  o.bias = whole_numbers(p.epilogue.bias_type, column_vectors(p) * p.n, 4);
  for (i64 i = 0; i < scale_a_count(p); ++i) o.scale_a.push_back(i % 3 == 0 ? 0.5f : 2.0f);
  for (i64 i = 0; i < scale_b_count(p); ++i) o.scale_b.push_back(i % 2 == 0 ? 1.0f : -1.0f);
  o.d.assign(static_cast<size_t>(elements(p.d, p.m, p.batch) * bytes_of(p.d.type)), 0xff);
  if (adds(p.epilogue)) o.d = whole_numbers(p.d.type, p.d.batch_stride * p.batch, 5);
  o.expected = o.d;
  for (i64 i = 0; i < row_factor_count(p); ++i) o.row_factors.push_back(i % 5 == 0 ? -2.0f : 0.25f);
  o.scale_out.assign(static_cast<size_t>(scale_out_count(p)), std::numeric_limits<float>::quiet_NaN());
  o.expected_scales = o.scale_out;
  return o;
}

/// Makes the rows of A that belong to no group NaN; with groups along k, those of A and B.
inline void poison_rows_of_no_group(Operands& o) {
  const Problem& p = o.problem;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const i64 all = by_slots(p) ? a_rows(p) : group_total(p);
  std::vector<bool> used(static_cast<size_t>(all));
  if (by_slots(p))
    for_each_row(p, o.groups.data(), [&](i64, i64 row) { used[static_cast<size_t>(a_row(p, row))] = true; });
  else
    for (const GroupRows& rows : rows_of_groups(p, o.groups.data()))
      std::fill(used.begin() + rows.begin, used.begin() + rows.end, true);
  for (i64 row = 0; row < all; ++row) {
    if (used[static_cast<size_t>(row)]) continue;
    for (i64 i = 0; i < p.a.ld; ++i) store_element(p.a.type, o.a.data(), row * p.a.ld + i, nan);
    for (i64 i = 0; sums_groups(p) && i < p.b.ld; ++i)
      store_element(p.b.type, o.b.data(), row * p.b.ld + i, nan);
  }
}

/// Returns `given` with the types and layouts of the problem.
inline KernelConfig config_of(const Problem& problem, const KernelConfig& given) {
  KernelConfig config = given;
  const Problem product = product_of(problem, given);
  config.tile.k = k_block(product.a.type);
  config.a = product.a.type, config.b = product.b.type, config.d = product.d.type;
  config.a_major = product.a.major, config.b_major = product.b.major;
  config.epilogue = product.epilogue;
  config.conv = kind_of(product.conv);
  if (reads_table(problem)) config.groups = group_config(problem);
  config.scale_a_columns = scales_by_columns(problem);
  return config;
}

/// Cuts every tile of the plan into slices along k, with a cluster per slice.
inline Plan sliced(Plan plan, int slices) {
  if (slices > 1)
    plan.split = split_into(product_of(plan.problem, plan.config), plan.config, plan.split, slices);
  return plan;
}

/// A plan made by hand.
inline Plan plan_of(const Problem& problem, const KernelConfig& given, int clusters) {
  const KernelConfig config = config_of(problem, given);
  EXPECT_EQ(validate(config), nullptr) << validate(config);
  return {.problem = with_strides(problem), .config = config, .split = {.clusters = clusters, .group = 2}};
}

}  // namespace sluice::twin
