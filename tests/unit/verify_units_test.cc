// SPDX-License-Identifier: Apache-2.0
// The verification kernels compile for sm_90a with the library's own options, without spills. Needs no GPU.
// To see it fail: remove SLUICE_HD from a function of verify_arith.h.
#include <gtest/gtest.h>

#include <sluice/check/verify_units.h>
#include <sluice/run/jit/compiler.h>

namespace sluice {
namespace {

TEST(verify_units, compile_for_hopper_without_spills_or_warnings) {
  const auto compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  for (const VerifyUnit unit : {VerifyUnit::fill, VerifyUnit::check}) {
    const auto cubin = (*compiler)->compile(verify_unit_text(unit));
    ASSERT_TRUE(cubin) << cubin.error().message;
    EXPECT_FALSE(cubin->image.empty());
    EXPECT_EQ(cubin->report.spill_bytes, 0);
    EXPECT_LE(cubin->report.registers, 128) << "two blocks of 256 threads an SM at least";
  }
}

}  // namespace
}  // namespace sluice
