// SPDX-License-Identifier: Apache-2.0
// Launches of a norm on the fake driver: one kernel, its shape and attributes, refusals, no allocation.
#include <sluice/norm.h>

#include "allocation_counter.h"
#include "launch_fixture.h"

namespace sluice {
namespace {

class NormLaunch : public LaunchTest {
 protected:
  Norm made(const NormOptions& options = {}) {
    const Result<Norm> norm = Norm::create(device(), options);
    EXPECT_TRUE(norm.ok()) << (norm.ok() ? "" : norm.error().message);
    return *norm;
  }
  NormArgs args() {
    return {.input = driver.memory(1 << 16),
            .residual = driver.memory(1 << 16),
            .sum = driver.memory(1 << 16),
            .gamma = driver.memory(1 << 12),
            .output = driver.memory(1 << 16),
            .scales = static_cast<float*>(driver.memory(1 << 12))};
  }
  static constexpr NormShape kShape{.rows = 64, .columns = 256};
};

TEST_F(NormLaunch, is_one_kernel_without_allocation) {
  int launches = 0;
  for (const DType type : {DType::bf16, DType::fp16})
    for (const std::optional<Granularity> quantize :
         {std::optional<Granularity>{}, std::optional(Granularity::tensor), std::optional(Granularity::row),
          std::optional(Granularity::row_block)}) {
      const Norm norm = made({.input = type, .quantize = quantize});
      const NormArgs given = args();
      const long before = allocations_of_this_thread();
      const bool ok = norm.launch(kShape, given, nullptr).ok();
      EXPECT_EQ(allocations_of_this_thread(), before);
      EXPECT_TRUE(ok);
      EXPECT_EQ(driver.launches(), ++launches);
      EXPECT_FALSE(driver.launch(launches - 1).dependent);
    }
}

TEST_F(NormLaunch, of_a_chain_is_dependent_where_its_code_waits) {
  NormArgs given = args();
  launched(made({.overlap = {Wait::first, Trigger::at_start}}).launch(kShape, given, nullptr), 1);
  EXPECT_TRUE(driver.launch(0).dependent);
  launched(made({.overlap = {.trigger = Trigger::at_start}}).launch(kShape, given, nullptr), 2);
  EXPECT_FALSE(driver.launch(1).dependent);
  given.hand_off = {driver.memory(1 << 23), 1 << 23};
  launched(made({.overlap = {Wait::first, Trigger::at_start}}).launch(kShape, given, nullptr), 3);
  EXPECT_EQ(driver.launch(2).grid_x, 128u) << "64 KB to warm for each";
  given.hand_off = {};
  const Overlap by_registers{Wait::first, Trigger::at_start, Spacing::registers};
  launched(made({.overlap = by_registers}).launch(kShape, given, nullptr), 4);
  EXPECT_GT(driver.launch(3).block_x, driver.launch(0).block_x) << "so that two do not fit on an SM";
  EXPECT_EQ(driver.launch(3).smem_bytes, 0u);
}

TEST_F(NormLaunch, refuses_with_value_rule_and_remedy) {
  const Norm norm = made({.quantize = Granularity::row});
  const auto expect = [&](ErrorCode code, const char* mention, auto&& change) {
    NormArgs bad = args();
    NormShape shape = kShape;
    change(bad, shape);
    refused(norm.launch(shape, bad, nullptr), code, mention);
  };
  const auto pointer = ErrorCode::invalid_pointer;
  expect(pointer, "input is null", [](NormArgs& a, NormShape&) { a.input = nullptr; });
  expect(pointer, "gamma is null", [](NormArgs& a, NormShape&) { a.gamma = nullptr; });
  expect(pointer, "output is null", [](NormArgs& a, NormShape&) { a.output = nullptr; });
  expect(pointer, "scales is null", [](NormArgs& a, NormShape&) { a.scales = nullptr; });
  const auto misaligned = ErrorCode::misaligned;
  expect(misaligned, "residual", [](NormArgs& a, NormShape&) { a.residual = shifted(a.residual, 1); });
  expect(misaligned, "sum", [](NormArgs& a, NormShape&) { a.sum = shifted(a.sum, 1); });
  expect(misaligned, "scales", [](NormArgs& a, NormShape&) { a.scales = shifted(a.scales, 2); });
  const auto aliasing = ErrorCode::aliasing;
  expect(aliasing, "output", [](NormArgs& a, NormShape&) { a.output = const_cast<void*>(a.input); });
  expect(aliasing, "output", [](NormArgs& a, NormShape&) { a.output = shifted(a.sum, 512); });
  expect(aliasing, "overlaps input",
         [](NormArgs& a, NormShape&) { a.sum = const_cast<void*>(shifted(a.input, 512)); });
  expect(aliasing, "overlaps residual", [](NormArgs& a, NormShape& s) {
    a.sum = const_cast<void*>(a.residual);
    s.sum_ld = 264;
  });
  expect(aliasing, "overlaps gamma", [](NormArgs& a, NormShape&) { a.sum = const_cast<void*>(a.gamma); });
  expect(aliasing, "scales", [](NormArgs& a, NormShape&) { a.scales = static_cast<float*>(a.output); });
  const auto size = ErrorCode::invalid_size;
  expect(size, "-1", [](NormArgs&, NormShape& s) { s.rows = -1; });
  expect(size, "262145", [](NormArgs&, NormShape& s) { s.columns = 262145; });
  expect(size, "2^31", [](NormArgs&, NormShape& s) { s.rows = i64{1} << 31; });
  expect(size, "2^63", [](NormArgs&, NormShape& s) { s.sum_ld = i64{1} << 60; });
  expect(ErrorCode::invalid_stride, "output_ld = 255", [](NormArgs&, NormShape& s) { s.output_ld = 255; });
  const auto argument = ErrorCode::invalid_argument;
  expect(argument, "epsilon", [](NormArgs& a, NormShape&) { a.epsilon = -1.0f; });
  expect(argument, "epsilon", [](NormArgs& a, NormShape&) { a.epsilon = __builtin_nanf(""); });
  expect(argument, "hand_off.bytes = -5", [](NormArgs& a, NormShape&) { a.hand_off.bytes = -5; });
  const Result<Norm> square = Norm::create(device(), {.quantize = Granularity::square_block});
  ASSERT_FALSE(square.ok());
  EXPECT_EQ(square.error().code, argument);
  const Result<Norm> wide = Norm::create(device(), {.input = DType::fp32});
  ASSERT_FALSE(wide.ok());
  EXPECT_EQ(wide.error().code, ErrorCode::invalid_type);
}

TEST_F(NormLaunch, the_sum_may_stand_where_it_was_read) {
  NormArgs given = args();
  given.sum = const_cast<void*>(given.residual);
  launched(made().launch(kShape, given, nullptr), 1);
  given.sum = const_cast<void*>(given.input);
  launched(made().launch(kShape, given, nullptr), 2);
}

TEST_F(NormLaunch, the_pitch_of_one_row_does_not_matter) {
  NormArgs given = args();
  given.sum = const_cast<void*>(given.input);
  NormShape one{.rows = 1, .columns = kShape.columns};
  one.input_ld = 3 * kShape.columns;
  NormShape two = one;
  two.rows = 2;
  refused(made().launch(two, given, nullptr), ErrorCode::aliasing, "sum");
  launched(made().launch(one, given, nullptr), 1);
}

TEST_F(NormLaunch, follows_memory_of_its_own_device_alone) {
  NormArgs bad = args();
  bad.input = driver.memory(1 << 20, 0, CU_MEMORYTYPE_HOST);
  refused(made().launch(kShape, bad, nullptr), ErrorCode::invalid_pointer, "input");
}

TEST_F(NormLaunch, nothing_is_nothing_to_do) {
  launched(made().launch({.rows = 0, .columns = 256}, {}, nullptr), 0);
  launched(made().launch({.rows = 4, .columns = 0}, {}, nullptr), 0);
}

TEST_F(NormLaunch, without_residual_sum_and_scales) {
  NormArgs given = args();
  given.residual = nullptr;
  given.sum = nullptr;
  given.scales = nullptr;
  launched(made().launch(kShape, given, nullptr), 1);
}

}  // namespace
}  // namespace sluice
