// SPDX-License-Identifier: Apache-2.0
// Launches of a quantiser on the fake driver: number of kernels, refusals, no allocation.
#include <sluice/quantize.h>

#include <sluice/c_api.h>
#include <sluice/c_api/handles.h>

#include "allocation_counter.h"
#include "launch_fixture.h"

namespace sluice {
namespace {

class QuantizeLaunch : public LaunchTest {
 protected:
  Quantizer made(Granularity granularity) {
    const Result<Quantizer> quantizer = Quantizer::create(device(), DType::bf16, granularity);
    EXPECT_TRUE(quantizer.ok()) << (quantizer.ok() ? "" : quantizer.error().message);
    return *quantizer;
  }
  QuantizeArgs args() {
    return {.input = driver.memory(1 << 20),
            .output = driver.memory(1 << 20),
            .scales = static_cast<float*>(driver.memory(1 << 12)),
            .workspace = {driver.memory(1 << 10), 1 << 10}};
  }
};

TEST_F(QuantizeLaunch, is_one_kernel_or_two_for_a_whole_matrix) {
  int launches = 0;
  for (const Granularity granularity :
       {Granularity::row, Granularity::row_block, Granularity::square_block, Granularity::tensor}) {
    const Quantizer quantizer = made(granularity);
    const QuantizeArgs given = args();
    const long before = allocations_of_this_thread();
    const bool ok = quantizer.launch({.rows = 64, .columns = 256}, given, nullptr).ok();
    EXPECT_EQ(allocations_of_this_thread(), before) << name_of(granularity);
    EXPECT_TRUE(ok);
    launches += granularity == Granularity::tensor ? 2 : 1;
    EXPECT_EQ(driver.launches(), launches);
  }
  QuantizeArgs given = args();
  given.scale_given = true;
  launched(made(Granularity::tensor).launch({.rows = 64, .columns = 256}, given, nullptr), launches + 1);
}

TEST_F(QuantizeLaunch, refuses_with_value_rule_and_remedy) {
  const Quantizer quantizer = made(Granularity::row);
  const QuantizeShape shape{.rows = 64, .columns = 256};
  QuantizeArgs bad = args();
  bad.output = nullptr;
  refused(quantizer.launch(shape, bad, nullptr), ErrorCode::invalid_pointer, "output is null");
  bad = args();
  bad.input = shifted(bad.input, 1);
  refused(quantizer.launch(shape, bad, nullptr), ErrorCode::misaligned, "input");
  bad = args();
  bad.output = shifted(const_cast<void*>(bad.input), 256);
  refused(quantizer.launch(shape, bad, nullptr), ErrorCode::aliasing, "overlaps input");
  refused(quantizer.launch({.rows = -1, .columns = 8}, args(), nullptr), ErrorCode::invalid_size, "-1");
  refused(quantizer.launch({.rows = 4, .columns = 8, .input_ld = i64{1} << 62}, args(), nullptr),
          ErrorCode::invalid_size, "2^63");
  refused(quantizer.launch({.rows = 4, .columns = 8, .input_ld = 7}, args(), nullptr),
          ErrorCode::invalid_stride, "7");
  refused(quantizer.launch({.rows = i64{1} << 20, .columns = i64{1} << 20}, args(), nullptr),
          ErrorCode::invalid_size, "2^31");
  bad = args();
  bad.scale_given = true;
  refused(quantizer.launch(shape, bad, nullptr), ErrorCode::invalid_argument, "row");
  bad = args();
  bad.workspace = {};
  refused(made(Granularity::tensor).launch(shape, bad, nullptr), ErrorCode::workspace, "counters");
  const Result<Quantizer> gated = Quantizer::create(device(), DType::bf16, Granularity::row, Gate::silu);
  ASSERT_TRUE(gated.ok());
  refused(gated->launch({.rows = 4, .columns = 8, .input_ld = 15}, args(), nullptr),
          ErrorCode::invalid_stride, "16");
  bad = args();
  // Inside the input: after the gates, in the other half.
  bad.output = shifted(const_cast<void*>(bad.input), 64 * 256 * 2);
  refused(gated->launch(shape, bad, nullptr), ErrorCode::aliasing, "overlaps input");
  const Result<Quantizer> of_fp8 = Quantizer::create(device(), DType::e4m3, Granularity::row);
  EXPECT_FALSE(of_fp8.ok());
}

TEST_F(QuantizeLaunch, without_a_granularity_needs_no_scales_and_a_gate) {
  const Overlap chain{Wait::first, Trigger::at_start};
  const auto made = Quantizer::create(device(), DType::bf16, {}, Gate::silu, chain);
  ASSERT_TRUE(made.ok()) << made.error().message;
  QuantizeArgs given = args();
  given.scales = nullptr;
  QuantizeArgs bad = given;
  bad.output = shifted(bad.output, 1);
  refused(made->launch({.rows = 4, .columns = 64}, bad, nullptr), ErrorCode::misaligned, "output");
  bad = given;  // the output's last two bytes overlap the input; an e4m3 output would be half as long
  bad.output = shifted(const_cast<void*>(bad.input), -(4 * 64 * 2 - 2));
  refused(made->launch({.rows = 4, .columns = 64}, bad, nullptr), ErrorCode::aliasing, "overlaps input");
  bad = given;
  bad.scale_given = true;
  refused(made->launch({.rows = 4, .columns = 64}, bad, nullptr), ErrorCode::invalid_argument,
          "not quantised");
  launched(made->launch({.rows = 16, .columns = 14336}, given, nullptr), 1);
  EXPECT_TRUE(driver.launch(0).dependent);
  EXPECT_EQ(driver.launch(0).grid_x, 112u) << "a chunk for each thread";
  const auto wide = Quantizer::create(device(), DType::fp32, {}, Gate::silu);
  ASSERT_FALSE(wide.ok());
  EXPECT_EQ(wide.error().code, ErrorCode::invalid_type);
  const auto copy = Quantizer::create(device(), DType::bf16, {}, Gate::none);
  ASSERT_FALSE(copy.ok());
  EXPECT_NE(copy.error().message.find("copy"), std::string::npos) << copy.error().message;
}

TEST_F(QuantizeLaunch, of_a_chain_are_dependent_and_spread_few_rows_over_clusters) {
  const auto create = [&](Granularity granularity, Gate gate, Overlap overlap) {
    const auto made = Quantizer::create(device(), DType::bf16, granularity, gate, overlap);
    EXPECT_TRUE(made.ok());
    return *made;
  };
  const Overlap chain{Wait::first, Trigger::at_start};
  const QuantizeShape one{.rows = 1, .columns = 14336}, many{.rows = 500, .columns = 64};
  QuantizeArgs given = args();
  launched(create(Granularity::row, Gate::silu, chain).launch(one, given, nullptr), 1);
  EXPECT_TRUE(driver.launch(0).dependent);
  EXPECT_EQ(driver.launch(0).cluster_x, 8u);
  EXPECT_EQ(driver.launch(0).grid_x, 8u);
  launched(create(Granularity::row, Gate::silu, {.trigger = Trigger::at_start}).launch(one, given, nullptr),
           2);
  EXPECT_FALSE(driver.launch(1).dependent) << "its code has no wait";
  launched(create(Granularity::row, Gate::none, chain).launch(many, given, nullptr), 3);
  EXPECT_EQ(driver.launch(2).cluster_x, 1u);
  EXPECT_EQ(driver.launch(2).grid_x, 500u);
  given.hand_off = {driver.memory(1 << 20), 1 << 20};
  launched(
      create(Granularity::row_block, Gate::none, chain).launch({.rows = 1, .columns = 128}, given, nullptr),
      4);
  EXPECT_EQ(driver.launch(3).grid_x, 16u) << "64 KB to warm for each";
  given = args();
  given.scale_given = true;
  launched(create(Granularity::tensor, Gate::none, chain).launch(many, given, nullptr), 5);
  EXPECT_TRUE(driver.launch(4).dependent);
}

TEST_F(QuantizeLaunch, of_a_chain_are_one_kernel_or_refused) {
  const auto made = Quantizer::create(device(), DType::bf16, Granularity::tensor, Gate::none,
                                      {Wait::first, Trigger::at_start});
  ASSERT_TRUE(made.ok());
  const QuantizeShape shape{.rows = 64, .columns = 256};
  refused(made->launch(shape, args(), nullptr), ErrorCode::invalid_argument, "give the scale");
  QuantizeArgs bad = args();
  bad.scale_given = true;
  bad.hand_off = {bad.input, -1};
  refused(made->launch(shape, bad, nullptr), ErrorCode::invalid_argument, "hand_off.bytes = -1");
}

TEST_F(QuantizeLaunch, nobody_writes_over_another) {
  const QuantizeShape shape{.rows = 64, .columns = 256};
  QuantizeArgs bad = args();
  bad.scales = reinterpret_cast<float*>(static_cast<u8*>(bad.output) + 64 * 256 - 4);
  refused(made(Granularity::row).launch(shape, bad, nullptr), ErrorCode::aliasing, "output");
  bad = args();
  bad.workspace.data = const_cast<void*>(bad.input);
  refused(made(Granularity::tensor).launch(shape, bad, nullptr), ErrorCode::aliasing, "the workspace");
  const QuantizeArgs not_for_rows = bad;
  bad = args();
  bad.workspace.data = shifted(bad.workspace.data, 2);
  refused(made(Granularity::tensor).launch(shape, bad, nullptr), ErrorCode::misaligned, "the workspace");
  bad = args();
  bad.workspace.bytes = 7;
  refused(made(Granularity::tensor).launch(shape, bad, nullptr), ErrorCode::workspace, "not 7");
  launched(made(Granularity::row).launch(shape, not_for_rows, nullptr), 1);
  // Right after the output, so nothing overlaps.
  bad.scales = reinterpret_cast<float*>(static_cast<u8*>(bad.output) + 64 * 256);
  launched(made(Granularity::row).launch(shape, bad, nullptr), 2);
}

TEST_F(QuantizeLaunch, follows_memory_of_its_own_device_alone) {
  QuantizeArgs bad = args();
  bad.output = driver.memory(1 << 20, 0, CU_MEMORYTYPE_HOST);
  refused(made(Granularity::row).launch({.rows = 64, .columns = 256}, bad, nullptr),
          ErrorCode::invalid_pointer, "output");
}

/// The first kernel leaves the maximum in the workspace, where products expect counters of zero.
TEST_F(QuantizeLaunch, a_second_kernel_that_is_refused_leaves_a_clean_workspace) {
  const QuantizeArgs given = args();
  u32* scratch = static_cast<u32*>(given.workspace.data);
  const Quantizer quantizer = made(Granularity::tensor);
  launched(quantizer.launch({.rows = 64, .columns = 256}, given, nullptr),
           2);  // makes the memory's owner known
  int found = 0;
  for (int index = 0; index < 10; ++index) {
    scratch[0] = scratch[1] = 7;  // as if the first kernel had run
    const int before = driver.launches();
    driver.fail_call(index, CUDA_ERROR_UNKNOWN);
    const bool ok = quantizer.launch({.rows = 64, .columns = 256}, given, nullptr).ok();
    driver.fail_nothing();
    if (driver.launches() != before + 1) continue;  // both kernels were launched, or none
    ++found;
    EXPECT_FALSE(ok);
    EXPECT_EQ(scratch[0], 0u);
    EXPECT_EQ(scratch[1], 0u);
  }
  EXPECT_EQ(found, 1);
}

TEST_F(QuantizeLaunch, of_nothing_a_whole_matrix_has_a_scale) {
  QuantizeArgs given = args();
  given.input = nullptr;
  given.output = nullptr;
  QuantizeArgs bad = given;
  bad.scales = nullptr;
  refused(made(Granularity::tensor).launch({.rows = 0, .columns = 256}, bad, nullptr),
          ErrorCode::invalid_pointer, "scales");
  launched(made(Granularity::tensor).launch({.rows = 0, .columns = 256}, given, nullptr), 2);
  launched(made(Granularity::tensor).launch({.rows = 4, .columns = 0}, given, nullptr), 4);
}

TEST_F(QuantizeLaunch, nothing_is_nothing_to_do) {
  launched(made(Granularity::row).launch({.rows = 0, .columns = 256}, {}, nullptr), 0);
  launched(made(Granularity::row_block).launch({.rows = 4, .columns = 0}, {}, nullptr), 0);
}

TEST_F(QuantizeLaunch, through_c_names_what_is_wrong) {
  sluice_device* handle = new sluice_device{c_api::Session(device()), "fake"};
  const int64_t shape[] = {64, 256}, scales_shape[] = {64, 2}, wrong_shape[] = {64, 1};
  const QuantizeArgs memory = args();
  const sluice_array input{
      const_cast<void*>(memory.input), SLUICE_BF16, 2, SLUICE_ON_CUDA, 0, shape, nullptr};
  const sluice_array output{memory.output, SLUICE_E4M3, 2, SLUICE_ON_CUDA, 0, shape, nullptr};
  const sluice_array scales{memory.scales, SLUICE_FP32, 2, SLUICE_ON_CUDA, 0, scales_shape, nullptr};
  sluice_quantization what{&input, &output, &scales, SLUICE_PER_ROW_BLOCK, 0, SLUICE_NO_GATE};
  EXPECT_EQ(sluice_quantize(handle, &what, nullptr), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(driver.launches(), 1);
  const sluice_array wrong{memory.scales, SLUICE_FP32, 2, SLUICE_ON_CUDA, 0, wrong_shape, nullptr};
  what.scales = &wrong;
  EXPECT_EQ(sluice_quantize(handle, &what, nullptr), SLUICE_INVALID_SIZE);
  EXPECT_NE(std::string(sluice_error_message()).find("128 values"), std::string::npos)
      << sluice_error_message();
  what = {&input, &output, &scales, SLUICE_PER_ROW_BLOCK, 0, SLUICE_SILU_GATE};
  EXPECT_EQ(sluice_quantize(handle, &what, nullptr), SLUICE_INVALID_SIZE) << "input has no up beside gate";
  EXPECT_NE(std::string(sluice_error_message()).find("half the columns"), std::string::npos)
      << sluice_error_message();
  const int64_t wide_shape[] = {64, 512};
  const sluice_array wide{input.data, SLUICE_BF16, 2, SLUICE_ON_CUDA, 0, wide_shape, nullptr};
  what.input = &wide;
  EXPECT_EQ(sluice_quantize(handle, &what, nullptr), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(driver.launches(), 2);
  what = {&input, &output, &scales, SLUICE_PER_TENSOR, 0, SLUICE_NO_GATE};
  const int64_t one[] = {1};
  const sluice_array single{memory.scales, SLUICE_FP32, 1, SLUICE_ON_CUDA, 0, one, nullptr};
  what.scales = &single;
  EXPECT_EQ(sluice_quantize(handle, &what, nullptr), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(driver.launches(), 4);
  sluice_device_close(handle);
}

}  // namespace
}  // namespace sluice
