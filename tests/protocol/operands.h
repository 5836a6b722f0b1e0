// SPDX-License-Identifier: Apache-2.0
// Problems with data for the twin: small whole numbers, whose sums are exact in every type that holds them.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include <sluice/reference/element.h>
#include <sluice/twin/run.h>

namespace sluice::twin {

/// A problem and its data.
struct Operands {
  Problem problem;
  std::vector<u8> a, b, c, d, expected, bias;
  std::vector<float> scale_a, scale_b, scale_d{4.0f};

  HostBuffers buffers(std::vector<u8>& out) {
    return {a.data(),       b.data(),       c.data(),    out.data(),
            scale_a.data(), scale_b.data(), bias.data(), scale_d.data()};
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

/// D and what is expected of it start as NaN, or as whole numbers if the product is added to them.
inline Operands make_operands(const Problem& given) {
  const Problem p = with_strides(given);
  Operands o{.problem = p};
  o.a = whole_numbers(p.a.type, p.a.batch_stride * p.batch, 1);
  o.b = whole_numbers(p.b.type, p.b.batch_stride * p.batch, 2);
  o.c = whole_numbers(p.epilogue.c_type, p.c.batch_stride * p.batch, 3);
  o.bias = whole_numbers(p.epilogue.bias_type, p.n, 4);
  for (i64 i = 0; i < scale_a_count(p); ++i) o.scale_a.push_back(i % 3 == 0 ? 0.5f : 2.0f);
  for (i64 i = 0; i < scale_b_count(p); ++i) o.scale_b.push_back(i % 2 == 0 ? 1.0f : -1.0f);
  o.d.assign(static_cast<size_t>(p.d.batch_stride * p.batch * bytes_of(p.d.type)), 0xff);
  if (adds(p.epilogue)) o.d = whole_numbers(p.d.type, p.d.batch_stride * p.batch, 5);
  o.expected = o.d;
  return o;
}

/// A plan by hand: `given` with the problem's types and layouts.
inline Plan plan_of(const Problem& problem, const KernelConfig& given, int clusters) {
  KernelConfig config = given;
  config.tile.k = k_block(problem.a.type);
  config.a = problem.a.type, config.b = problem.b.type, config.d = problem.d.type;
  config.a_major = problem.a.major, config.b_major = problem.b.major;
  config.epilogue = problem.epilogue;
  EXPECT_EQ(validate(config), nullptr) << validate(config);
  return {.problem = with_strides(problem), .config = config, .split = {.clusters = clusters, .group = 2}};
}

}  // namespace sluice::twin
