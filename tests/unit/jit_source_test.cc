// SPDX-License-Identifier: Apache-2.0
// The text of a unit, its embedded headers, and the parsing of a compile's log.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include <sluice/plan.h>
#include <sluice/plan/text/units.h>
#include <sluice/run/jit/build_report.h>
#include <sluice/run/jit/cache_key.h>
#include <sluice/run/jit/embedded_files.h>
#include <sluice/run/jit/hash.h>

#include "tests/registered_configs.h"

namespace sluice {
namespace {

TEST(JitSource, a_unit_is_seven_lines_and_says_its_config) {
  const KernelConfig config{.tile = {.m = 128, .n = 96, .k = 64}, .stages = 5};
  const std::string text = unit_text(config);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7) << "docs/jit.md says so";
  EXPECT_NE(text.find("wgmma_n96.cuh"), std::string::npos);
  EXPECT_NE(text.find(to_string(config)), std::string::npos);
  EXPECT_NE(text.find(kEntryName), std::string::npos);
}

TEST(JitSource, every_registered_config_has_its_own_unit_and_key) {
  static const ConfigList list = registered_configs();
  std::set<std::string> units, names;
  for (const KernelConfig& config : list) {
    units.insert(unit_text(config));
    names.insert(entry_name(source_key(unit_text(config)), "NVRTC 13.0"));
  }
  EXPECT_GT(units.size(), 100u);
  EXPECT_EQ(names.size(), units.size());
}

TEST(JitSource, the_headers_that_units_include_are_embedded) {
  std::set<std::string> paths;
  for (const EmbeddedFile& file : embedded_files()) {
    paths.insert(file.path);
    EXPECT_EQ(file.text.data()[file.text.size()], '\0') << file.path << ": NVRTC reads C strings";
    EXPECT_EQ(file.text.find('\0'), std::string_view::npos) << file.path;
  }
  for (const char* path : {"sluice/spec/config.h", "sluice/device/machine.cuh", "sluice/kernels/gemm.cuh",
                           "sluice/device/ptx/generated/wgmma_n256.cuh"})
    EXPECT_EQ(paths.count(path), 1u) << path;
}

TEST(JitKey, says_everything_that_goes_into_a_compile) {
  const std::string key = full_key(source_key("the unit"), "NVRTC 13.0");
  for (const char* part : {"the unit", "NVRTC 13.0", "sm_90a", "c++20", "headers "})
    EXPECT_NE(key.find(part), std::string::npos) << part;
  const std::string name = entry_name(source_key("the unit"), "NVRTC 13.0");
  EXPECT_EQ(compiler_of(name), "NVRTC 13.0");
  EXPECT_TRUE(name.starts_with(any_compiler_prefix(source_key("the unit"))));
  EXPECT_EQ(name.find(' '), std::string::npos);
  EXPECT_EQ(compiler_of("something else"), "");
  EXPECT_EQ(compiler_of(name + ".lock"), "");
}

TEST(JitHash, digests_are_the_published_ones) {
  // XXH3-128 of no bytes with seed 0, from xxhash's own test vectors.
  EXPECT_EQ(hex(digest("")), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(digest("a"), digest("b"));
}

TEST(JitReport, reads_numbers_and_keeps_what_is_unusual) {
  BuildReport report;
  read_compile_log(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : (C7515) Potential Performance Loss: wgmma.mma_async instructions are serialized\n"
      "ptxas info    : Compiling entry function 'sluice_entry' for 'sm_90a'\n"
      "ptxas info    : Function properties for sluice_entry\n"
      "ptxas         .     200 bytes stack frame, 400 bytes spill stores, 16 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 16 barriers, 32 bytes smem\n"
      "ptxas info    : Compile time = 66.473 ms\n"
      "unit.cu(3): warning #177-D: variable \"unused\" was declared but never referenced\n",
      report);
  EXPECT_EQ(report.registers, 168);
  EXPECT_EQ(report.stack_bytes, 200);
  EXPECT_EQ(report.spill_bytes, 416);
  EXPECT_EQ(report.static_smem_bytes, 32);
  EXPECT_NE(report.log.find("C7515"), std::string::npos);
  EXPECT_NE(report.log.find("warning #177-D"), std::string::npos);
  EXPECT_EQ(std::count(report.log.begin(), report.log.end(), '\n'), 2) << report.log;
}

TEST(JitReport, finds_the_toolchain_in_a_cubin) {
  EXPECT_EQ(toolchain_version(std::string_view("\x7f"
                                               "ELF\0Cuda compilation tools, release 13.0, V13.0.88\0x",
                                               57)),
            "13.0.88");
  EXPECT_EQ(toolchain_version("nothing of the kind"), "");
}

}  // namespace
}  // namespace sluice
