// SPDX-License-Identifier: Apache-2.0
// Checks changed kernels without a GPU: each edit must match exactly once, and the result must compile.
// tools/gpu_sanitize.py checks on a GPU that the tools find the bugs.
#include <gtest/gtest.h>

#include <map>

#include <sluice/plan/text/norm_units.h>
#include <sluice/plan/text/pack_units.h>
#include <sluice/plan/text/quantize_units.h>
#include <sluice/plan/text/units.h>
#include <sluice/run/jit/compiler.h>

#include "kernel_changes.h"
#include "sanitize_pool.h"
#include "tests/packed_problems.h"

namespace sluice::testing {
namespace {

/// Returns a few units of each family, on which the family's changes are tried.
std::vector<std::string> units_of_family(const std::string& family) {
  if (family == "block strided strip wide") {
    std::vector<std::string> all;
    for (const char* one : {"block", "strided", "strip", "byte", "wide"})
      for (std::string& unit : units_of_family(one)) all.push_back(std::move(unit));
    return all;
  }
  if (family == "norm") return {norm_unit_text({})};
  if (family.starts_with("plain"))
    for (const KernelConfig& c : sanitize_plain_pool())
      if (name_of(c.schedule) == family && c.cluster.k == 1) return unit_texts(c);
  if (family == "strided") return unit_texts(sanitize_strided_pool().front());
  if (family == "quantise") return quantize_units(DType::bf16, Granularity::tensor, Gate::none);
  std::vector<std::string> units;
  if (family == "narrow" || family == "pack") {
    units.push_back(pack_unit_text({}));
  }
  if (family == "narrow") units.push_back(unit_text(std::get<NarrowConfig>(sanitize_narrow_pool().front())));
  if (family == "strip") units.push_back(unit_text(std::get<StripConfig>(sanitize_strip_pool().front())));
  if (family == "byte") units.push_back(unit_text(std::get<StripConfig>(sanitize_strip_pool().back())));
  if (family == "wide") units.push_back(unit_text(std::get<WideConfig>(sanitize_wide_pool().front())));
  if (family == "wide_fp32")
    for (const PackedConfig& config : sanitize_wide_pool())
      if (const auto& c = std::get<WideConfig>(config); c.d == DType::fp32 && units.empty())
        units.push_back(unit_text(c));
  for (const KernelConfig& c : family.starts_with("conv") ? sanitize_conv_pool() : sanitize_dense_pool()) {
    const bool wanted = family == "block"               ? is_block_scaled(c.epilogue)
                        : family.ends_with("split")     ? c.combine == Combine::last_arriver
                        : family.ends_with("vectors")   ? c.epilogue.bias == Bias::column
                        : family.ends_with("sum_parts") ? c.combine == Combine::separate
                        : family == "conv"              ? c.conv.phased
                                                        : family == "dense" && c.store == StorePath::direct;
    if (wanted && units.empty())
      for (std::string& unit : unit_texts(c)) units.push_back(std::move(unit));
  }
  return units;
}

/// Returns the kernel without a change, compiled only once because many tests compare with it.
const Result<Cubin>& sound_kernel(const Compiler& compiler, const std::string& unit) {
  static std::map<std::string, Result<Cubin>> kept;
  const std::string text = *changed_unit(unit, {});
  const auto found = kept.find(text);
  return found != kept.end() ? found->second : kept.emplace(text, compiler.compile(text)).first->second;
}

class changes : public ::testing::TestWithParam<Change> {};

TEST_P(changes, are_made_once_and_compile) {
  const auto compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  const Change& change = GetParam();
  int made = 0;
  bool has_changed = change.edits.empty();
  for (const std::string& unit : units_of_family(change.family)) {
    int here = 0;
    const auto text = changed_unit(unit, change.edits, &here);
    ASSERT_TRUE(text) << text.error().message;
    made += here;
    if (here == 0) continue;
    const auto cubin = (*compiler)->compile(*text);
    ASSERT_TRUE(cubin) << cubin.error().message;
    const Result<Cubin>& sound = sound_kernel(**compiler, unit);
    ASSERT_TRUE(sound) << sound.error().message;
    has_changed = has_changed || cubin->image != sound->image;
  }
  EXPECT_TRUE(has_changed) << "the machine code is what it was";
  EXPECT_TRUE(made > 0 || change.edits.empty()) << "its family does not hold what it changes";
}

/// Proves that sanitizers run exactly the kernel that runs without them.
TEST(changes_of_nothing, are_the_very_kernel) {
  const auto compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  for (const char* family : {"block", "narrow", "strip", "norm"})
    for (const std::string& unit : units_of_family(family)) {
      const auto usual = (*compiler)->compile(unit);
      const Result<Cubin>& flat = sound_kernel(**compiler, unit);
      ASSERT_TRUE(usual.ok() && flat.ok());
      EXPECT_TRUE(usual->image == flat->image) << unit;
    }
}

INSTANTIATE_TEST_SUITE_P(kernel, changes,
                         ::testing::ValuesIn(kernel_changes().begin(), kernel_changes().end()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sluice::testing
