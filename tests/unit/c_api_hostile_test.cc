// SPDX-License-Identifier: Apache-2.0
// Arrays that no caller should pass: more dimensions than the shape array has, extents whose product
// overflows, names with control characters. To see it fail: remove the limit of ndim from check_shape(). The
// message then contains memory after the shape, and the address sanitizer reports it.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "c_api_calls.h"

namespace sluice {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

sluice_array array_of(const int64_t* shape, int32_t ndim) {
  return {.dtype = SLUICE_BF16, .ndim = ndim, .device_type = SLUICE_ON_CUDA, .shape = shape};
}

std::string refused(const Product& product) {
  sluice_problem problem;
  EXPECT_NE(describe(product, &problem), SLUICE_OK);
  return sluice_error_message();
}

TEST(CApiHostile, more_dimensions_than_a_shape_may_have_are_not_read) {
  const int64_t shape[] = {8, 8};
  for (const int32_t ndim : {9, 20, 100000, std::numeric_limits<int32_t>::max()}) {
    const sluice_array a = array_of(shape, ndim);
    const std::string rule = "ndim = " + std::to_string(ndim) + ": it must be in 0..8";
    EXPECT_NE(refused({.a = &a, .b = &a, .d = &a, .alpha = 1}).find("a has " + rule), std::string::npos);
    const sluice_weight_format format{SLUICE_UINT4, 128, SLUICE_FP16, 0, 0};
    EXPECT_NE(refused({.a = &a, .b = &a, .d = &a, .packed = format, .n = 8, .k = 8}).find(rule),
              std::string::npos);
    sluice_packing packing{};
    packing.format = format;
    packing.codes = packing.scales = packing.blob = &a;
    EXPECT_NE(sluice_pack_on_host(&packing), SLUICE_OK);
    EXPECT_NE(std::string(sluice_error_message()).find(rule), std::string::npos) << sluice_error_message();
  }
  const sluice_array none = array_of(shape, -1);
  EXPECT_NE(refused({.a = &none, .b = &none, .d = &none}).find("a has no shape"), std::string::npos);
}

TEST(CApiHostile, extents_and_strides_do_not_overflow) {
  const int64_t wide[] = {2147479552, kHuge / 2}, deep[] = {kHuge / 2, 8, 8}, negative[] = {-1, 8};
  const sluice_array a = array_of(wide, 2), b = array_of(deep, 3), c = array_of(negative, 2);
  for (const sluice_array* x : {&a, &b})
    EXPECT_NE(refused({.a = x, .b = x, .d = x}).find("fewer than 2^63 elements"), std::string::npos)
        << sluice_error_message();
  EXPECT_NE(refused({.a = &c, .b = &c, .d = &c}).find("(-1, 8): no extent may be negative"),
            std::string::npos);
  const int64_t shape[] = {8, 8}, strides[] = {kHuge, 1};
  sluice_array far = array_of(shape, 2);
  far.strides = strides;
  sluice_problem problem;
  const Product product{.a = &far, .b = &far, .d = &far, .alpha = 1};
  describe(product, &problem);  // returns an error or the stride unchanged, without overflow
}

TEST(CApiHostile, names_are_escaped) {
  const char* names[SLUICE_OPERANDS] = {"a\x1b[2J\n", "b", "c", "d", "bias", "scale_a"};
  const Product product{.names = names};
  EXPECT_EQ(refused(product), "a\\x1b[2J\\n is missing: pass an array");
}

TEST(CApiHostile, a_stride_of_an_absent_c_is_refused) {
  sluice_problem problem{};
  problem.m = problem.n = problem.k = 64, problem.batch = 1, problem.c.ld = -1;
  sluice_plan* plan = nullptr;
  EXPECT_EQ(sluice_plan_create(nullptr, AsCall(problem), nullptr, &plan), SLUICE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sluice_error_message()).find("c.ld = -1"), std::string::npos)
      << sluice_error_message();
}

}  // namespace
}  // namespace sluice
