// SPDX-License-Identifier: Apache-2.0
// Tests every code of e4m3 weights, NaN included, and of e2m1 weights with every scale, in every kernel. Each
// row of W has one code and otherwise zeros, so a token of ones gives the weight. To see it fail: decode e4m3
// by shifts, which turns NaN into 480; multiply tokens by 2^79 in place.cuh.
#include <sluice/pack.h>

#include <cmath>
#include <cstring>
#include <vector>

#include <sluice/kernels/packed_reference.h>
#include <sluice/run/driver/memory.h>

#include "gpu.h"
#include "tests/packed_problems.h"

namespace sluice::testing {
namespace {

class packed_codes : public GpuTest {
 protected:
  static constexpr i64 kRows = 512, kK = 256;

  Result<DeviceBuffer> uploaded(const std::vector<u8>& bytes) {
    Result<DeviceBuffer> buffer = DeviceBuffer::allocate(device(), static_cast<i64>(bytes.size()));
    if (!buffer) return buffer.error();
    if (Result<void> done = buffer->upload(bytes.data(), static_cast<i64>(bytes.size())); !done)
      return done.error();
    return buffer;
  }
  static std::vector<u8> repeated(DType type, double value, i64 count) {
    const u32 bits = verify::encode(type, value);
    const auto size = static_cast<size_t>(bytes_of(type));
    std::vector<u8> bytes(static_cast<size_t>(count) * size);
    for (size_t i = 0; i < bytes.size(); i += size) std::memcpy(bytes.data() + i, &bits, size);
    return bytes;
  }
  /// The codes of rows: all of them, in another order in the second half. e2m1: each with 32 scales.
  static u32 code_of(const PackedProblem& p, i64 row) {
    if (p.weights.type == WeightType::e2m1) return static_cast<u32>(row / 32);
    return static_cast<u32>(row < kRows / 2 ? row : row * 37 + 5) & 0xff;
  }
  /// The scale bytes of e2m1 rows, from the least that is exact in every kernel to the largest (numerics.md).
  static u32 scale_of(const PackedProblem& p, i64 row) {
    const i64 low = p.x == DType::bf16 ? 48 : 104, high = p.x == DType::bf16 ? 148 : 140;
    return static_cast<u32>(low + row % 32 * (high - low) / 31);
  }
  static double weight_of(const PackedProblem& p, i64 row) {
    const double value = packed::code_value(p.weights.type, code_of(p, row));
    return p.weights.scale == DType::e8m0 ? value * verify::decode(DType::e8m0, scale_of(p, row)) : value;
  }
  static std::vector<u8> scales_of(const PackedProblem& p) {
    const i64 groups = group_count(p.weights, p.k);
    if (p.weights.scale != DType::e8m0) return repeated(p.weights.scale, 1.0, p.n * groups);
    std::vector<u8> scales;
    for (i64 row = 0; row < p.n; ++row)
      scales.insert(scales.end(), static_cast<size_t>(groups), static_cast<u8>(scale_of(p, row)));
    return scales;
  }

  void expect_all_codes(const PackedProblem& problem, const PlanOverrides& overrides) {
    const PackedProblem& p = problem;
    const auto plan = gemm::plan(p, device().info(), overrides);
    ASSERT_TRUE(ok(plan)) << to_string(p);
    SCOPED_TRACE(to_string(plan->config));
    std::vector<u8> codes(static_cast<size_t>(p.n * p.k));
    for (i64 row = 0; row < p.n; ++row)
      codes[static_cast<size_t>(row * p.k + row * 7 % p.k)] = static_cast<u8>(code_of(p, row));
    const auto code_buffer = uploaded(codes), x = uploaded(repeated(p.x, 1.0, p.m * p.k));
    const auto scales = uploaded(scales_of(p));
    const auto blob = DeviceBuffer::allocate(device(), blob_bytes(p));
    const i64 columns = d_columns(p), bytes = p.m * columns * bytes_of(p.d);
    const auto d = DeviceBuffer::allocate(device(), bytes);
    const auto packer = Packer::create(device(), p.weights);
    ASSERT_TRUE(ok(code_buffer) && ok(x) && ok(scales) && ok(blob) && ok(d) && ok(packer));
    ASSERT_TRUE(ok(packer->pack({p.n, p.k, p.gated},
                                {code_buffer->data(), scales->data(), nullptr, blob->data()}, nullptr)));
    const auto kernel = gemm::prepare(device(), *plan);
    ASSERT_TRUE(ok(kernel));
    ASSERT_TRUE(ok(gemm::launch(*kernel, {.a = x->data(), .b = blob->data(), .d = d->data()}, nullptr)));
    std::vector<float> got(static_cast<size_t>(p.m * columns));
    ASSERT_TRUE(ok(d->download(got.data(), bytes)));
    int wrong = 0;
    for (i64 m = 0; m < p.m; ++m)
      for (i64 column = 0; column < columns; ++column) {
        double wanted = weight_of(p, column);
        if (p.gated) wanted *= weight_of(p, columns + column);
        wanted = static_cast<double>(static_cast<float>(wanted));  // that of two small ones may underflow
        const auto value = static_cast<double>(got[static_cast<size_t>(m * columns + column)]);
        const bool right = std::isnan(wanted) ? std::isnan(value) : value == wanted;
        if (!right && wrong++ < 3)
          ADD_FAILURE() << "token " << m << ", column " << column << ": " << value << " for " << wanted;
      }
    EXPECT_EQ(wrong, 0);
  }
};

TEST_F(packed_codes, of_e4m3_weights_keep_their_value_in_every_kernel) {
  const struct {
    i64 m;
    PackedOverrides overrides;
    bool gates;
  } cases[] = {{1, {.token_blocks = 1}, true},  {8, {.token_blocks = 1}, true},
               {16, {.token_blocks = 2}, true}, {32, {.token_blocks = 4}, true},
               {40, {.strips = 2}, true},       {200, {.cluster_n = 1}, false}};
  for (const DType x : {DType::fp16, DType::bf16})
    for (const int group : {0, 32, 128})
      for (const DType scale : {DType::fp16, DType::bf16, DType::fp32})
        for (const auto& [m, overrides, gates] : cases)
          for (const bool gated : {false, true}) {
            if (gated && !gates) continue;
            expect_all_codes({.m = m,
                              .n = kRows,
                              .k = kK,
                              .x = x,
                              .d = DType::fp32,
                              .weights = {.type = WeightType::e4m3, .group = group, .scale = scale},
                              .gated = gated},
                             overrides);
            if (HasFatalFailure()) return;
          }
}

TEST_F(packed_codes, of_mxfp4_weights_keep_their_value_with_every_scale) {
  const struct {
    i64 m;
    PackedOverrides overrides;
    bool gates;
  } cases[] = {{1, {.token_blocks = 1}, true},  {8, {.token_blocks = 1}, true},
               {16, {.token_blocks = 2}, true}, {32, {.token_blocks = 4}, true},
               {40, {.strips = 2}, true},       {200, {.cluster_n = 1}, false}};
  for (const DType x : {DType::bf16, DType::fp16})
    for (const auto& [m, overrides, gates] : cases)
      for (const bool gated : {false, true}) {
        if (gated && !gates) continue;
        expect_all_codes(
            {.m = m, .n = kRows, .k = kK, .x = x, .d = DType::fp32, .weights = kMxfp4, .gated = gated},
            overrides);
        if (HasFatalFailure()) return;
      }
}

}  // namespace
}  // namespace sluice::testing
