// SPDX-License-Identifier: Apache-2.0
// Tensor maps: arguments of the driver call, refusals before the call, and that the boxes of every registered
// config fill a stage exactly. The fake driver refuses everything beyond the documented limits. To see it
// fail: remove a `/ c.cluster.n` in gemm_maps.h, or the `outer > 1` in encode_tensor_map.
#include <gtest/gtest.h>

#include <sluice/kernels/registry.h>
#include <sluice/run/driver/gemm_maps.h>

#include "fake_driver.h"

namespace sluice {
namespace {

class TensorMapTest : public ::testing::Test {
 protected:
  TensorMapTest() { driver.make_current(0); }

  Result<void> encode(const TensorMapShape& shape) {
    return encode_tensor_map(**load_driver(), "A", shape, encoded);
  }

  void refused(const TensorMapShape& shape, ErrorCode code, const std::string& mention) {
    const int calls = driver.calls();
    const Result<void> done = encode(shape);
    ASSERT_FALSE(done.ok()) << mention;
    EXPECT_EQ(done.error().code, code) << done.error().message;
    EXPECT_NE(done.error().message.find(mention), std::string::npos) << done.error().message;
    EXPECT_EQ(driver.calls(), calls) << "refused before the driver is asked";
  }

  FakeDriver driver;
  alignas(CUtensorMap) TensorMap encoded{};
  const TensorMapShape legal{.type = DType::bf16,
                             .inner = 100,
                             .outer = 30,
                             .batch = 3,
                             .ld = 104,
                             .batch_stride = 4000,
                             .box_inner = 64,
                             .box_outer = 128};
};

TEST_F(TensorMapTest, tells_the_driver_sizes_strides_and_box) {
  const Result<void> done = encode(legal);
  ASSERT_TRUE(done.ok()) << done.error().message;
  const DecodedMap d = decode(encoded);
  EXPECT_EQ(d.inner, 100u);
  EXPECT_EQ(d.outer, 30u);
  EXPECT_EQ(d.batch, 3u);
  EXPECT_EQ(d.row_stride, 208u);
  EXPECT_EQ(d.batch_stride, 8000u);
  EXPECT_EQ(d.box_inner, 64);
  EXPECT_EQ(d.box_outer, 128);
  EXPECT_EQ(d.box_batch, 1);
  EXPECT_EQ(d.rank, 3);
  EXPECT_EQ(d.swizzle, CU_TENSOR_MAP_SWIZZLE_128B);
  EXPECT_EQ(d.l2_promotion, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
  EXPECT_EQ(d.oob_fill, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  EXPECT_EQ(d.interleave, CU_TENSOR_MAP_INTERLEAVE_NONE);
}

TEST_F(TensorMapTest, names_every_type_and_swizzle) {
  const struct {
    DType type;
    int data_type;
  } types[] = {{DType::bf16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16},
               {DType::fp16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16},
               {DType::fp32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32},
               {DType::e4m3, CU_TENSOR_MAP_DATA_TYPE_UINT8},
               {DType::e5m2, CU_TENSOR_MAP_DATA_TYPE_UINT8}};
  const struct {
    int bytes, swizzle;
  } swizzles[] = {{128, CU_TENSOR_MAP_SWIZZLE_128B},
                  {64, CU_TENSOR_MAP_SWIZZLE_64B},
                  {32, CU_TENSOR_MAP_SWIZZLE_32B},
                  {16, CU_TENSOR_MAP_SWIZZLE_NONE}};
  for (const auto& [type, data_type] : types)
    for (const auto& [bytes, swizzle] : swizzles) {
      TensorMapShape shape = legal;
      shape.type = type;
      shape.ld = 1600;
      shape.box_inner = bytes / bytes_of(type);
      shape.swizzle_bytes = bytes;
      const Result<void> done = encode(shape);
      ASSERT_TRUE(done.ok()) << done.error().message;
      EXPECT_EQ(decode(encoded).type, data_type) << name_of(type);
      EXPECT_EQ(decode(encoded).swizzle, swizzle) << bytes;
    }
}

TEST_F(TensorMapTest, refuses_strides_and_extents_past_the_limits) {
  TensorMapShape shape = legal;
  shape.ld = 100;
  refused(shape, ErrorCode::misaligned, "ld of 100 bf16 elements: must be a multiple of 16 bytes");
  refused(shape, ErrorCode::misaligned, "pad it to 104");
  shape = legal;
  shape.ld = i64{1} << 39;
  refused(shape, ErrorCode::invalid_stride, "2^40");
  shape.ld = -8;
  refused(shape, ErrorCode::invalid_stride, "positive");
  shape = legal;
  shape.batch_stride = 4001;
  refused(shape, ErrorCode::misaligned, "batch_stride of 4001");
  shape = legal;
  shape.inner = 0;
  refused(shape, ErrorCode::invalid_size, "extent of 0");
  shape.inner = (i64{1} << 32) + 1;
  refused(shape, ErrorCode::invalid_size, "2^32");
  shape = legal;
  shape.box_outer = 257;
  refused(shape, ErrorCode::internal, "257");
  shape = legal;
  shape.box_inner = 128;  // 256 bytes: wider than the swizzle
  refused(shape, ErrorCode::internal, "128 x 128");
}

TEST_F(TensorMapTest, ignores_strides_that_are_never_used) {
  TensorMapShape shape = legal;
  shape.outer = 1;
  shape.ld = 3;
  shape.batch = 1;
  shape.batch_stride = 7;
  EXPECT_TRUE(encode(shape).ok());
  shape.outer = (i64{1} << 31) - 1;
  // Rows * ld exceeds TMA's 2^40, so it must not be used as the batch stride of a single matrix.
  shape.ld = (i64{1} << 39) - 8;
  EXPECT_TRUE(encode(shape).ok());
}

TEST_F(TensorMapTest, reports_the_drivers_own_refusal) {
  driver.fail_call(0, CUDA_ERROR_INVALID_VALUE);
  const Result<void> done = encode(legal);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, ErrorCode::driver);
  EXPECT_NE(done.error().message.find("cuTensorMapEncodeTiled (A, 100 x 30 x 3 bf16"), std::string::npos)
      << done.error().message;
}

TEST_F(TensorMapTest, replaces_nothing_but_the_address) {
  ASSERT_TRUE(encode(legal).ok());
  const DecodedMap before = decode(encoded);
  ASSERT_EQ(replace_address(**load_driver(), encoded, reinterpret_cast<void*>(0x7f0000000100)), CUDA_SUCCESS);
  const DecodedMap after = decode(encoded);
  EXPECT_EQ(after.address, 0x7f0000000100u);
  EXPECT_EQ(after.row_stride, before.row_stride);
  EXPECT_EQ(replace_address(**load_driver(), encoded, reinterpret_cast<void*>(0x7f0000000108)),
            CUDA_ERROR_INVALID_VALUE);
}

/// Returns the bytes that one operand's boxes write to a stage: boxes per CTA x CTAs that share the tile.
i64 filled_bytes(const TensorMapShape& shape, Major major, int rows, int sharers) {
  const int boxes = major == Major::k ? 1 : ceil_div(rows, kMnBlock);
  return i64{shape.box_inner} * shape.box_outer * bytes_of(shape.type) * boxes * sharers;
}

TEST_F(TensorMapTest, boxes_of_every_registered_config_fill_a_stage_and_tile_d) {
  int checked = 0;
  for (const DType type : {DType::bf16, DType::fp16, DType::e4m3, DType::e5m2})
    for (const BaseConfig& base : kGemmSpace)
      for (const ClusterShape cluster :
           {ClusterShape{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}, {4, 2}, {2, 4}})
        for (const Major a : {Major::k, Major::mn})
          for (const Major b : {Major::k, Major::mn})
            for (const auto& [d, d_major] : {std::pair(DType::bf16, Major::k),
                                             {DType::bf16, Major::mn},
                                             {DType::fp32, Major::k},
                                             {DType::e4m3, Major::k}}) {
              const KernelConfig c{.schedule = base.schedule,
                                   .tile = {base.tile_m, base.tile_n, k_block(type)},
                                   .stages = 2,
                                   .cluster = cluster,
                                   .a = type,
                                   .b = type,
                                   .d = d,
                                   .a_major = a,
                                   .b_major = b,
                                   .d_major = d_major};
              if (validate(c) != nullptr) continue;
              Problem p{.m = 8192, .n = 4096, .k = 2048, .batch = 2};
              p.a = {.type = type, .major = a};
              p.b = {.type = type, .major = b};
              p.d = {.type = d};
              p = with_strides(p);
              for (const TensorMapShape& shape : {a_map_shape(c, p), b_map_shape(c, p), d_map_shape(c, p)}) {
                const Result<void> done = encode(shape);
                ASSERT_TRUE(done.ok()) << done.error().message;
              }
              EXPECT_EQ(filled_bytes(a_map_shape(c, p), a, c.tile.m, cluster.n), stage_a_bytes(c));
              EXPECT_EQ(filled_bytes(b_map_shape(c, p), b, c.tile.n, cluster.m), stage_b_bytes(c));
              const TensorMapShape store = d_map_shape(c, p);
              EXPECT_EQ(store.box_inner * store.box_outer * bytes_of(d), store_buffer_bytes(c));
              EXPECT_EQ(c.tile.n % (is_swapped(c) ? store.box_outer : store.box_inner), 0);
              ++checked;
            }
  EXPECT_GT(checked, 500);
}

}  // namespace
}  // namespace sluice
