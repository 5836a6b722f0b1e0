// SPDX-License-Identifier: Apache-2.0
// The registry: its configs are distinct and cover the space, and rings are as deep as possible. To see it
// fail: let max_stages start one below kMaxStages (the depth test fails), or remove the line that adds e5m2
// to fp16 (the coverage test fails).
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <sluice/plan.h>

#include "tests/registered_configs.h"

namespace sluice {
namespace {

constexpr ConfigList kRegistered = registered_configs();

/// That configs are valid and fit into the list is checked at compile time by ConfigList::add.
TEST(planner_registry, registered_configs_are_distinct) {
  std::set<std::string> texts;
  for (const KernelConfig& c : kRegistered)
    EXPECT_TRUE(texts.insert(to_string(c)).second) << "twice: " << short_name(c);
}

/// ConfigList::add leaves out impossible configs, so their number is checked here.
TEST(planner_registry, every_convolution_of_the_gate_is_possible) {
  int convs = 0;
  for (const KernelConfig& c : kRegistered) convs += c.conv.op != ConvOp::none;
  EXPECT_EQ(convs, kConvRepresentatives);
}

TEST(planner_registry, every_base_configuration_type_layout_and_epilogue_is_compiled) {
  for (const BaseConfig& base : kGemmSpace)
    for (const DType type : {DType::bf16, DType::fp16, DType::e4m3}) {
      bool found = false;
      for (const KernelConfig& c : kRegistered)
        found |=
            c.schedule == base.schedule && c.tile.m == base.tile_m && c.tile.n == base.tile_n && c.a == type;
      EXPECT_TRUE(found) << name_of(base.schedule) << " " << base.tile_m << "x" << base.tile_n << " "
                         << name_of(type);
    }
  std::set<std::string> seen;
  for (const KernelConfig& c : kRegistered) {
    seen.insert(std::string("a ") + name_of(c.a));
    seen.insert(std::string("b ") + name_of(c.b));
    seen.insert(std::string("d ") + name_of(c.d) + (is_fp8(c.a) ? " of fp8" : ""));
    seen.insert(std::string("layout ") + name_of(c.a_major) + name_of(c.b_major));
    seen.insert(std::string("store ") + name_of(c.store));
    seen.insert(std::string("act ") + name_of(c.epilogue.activation));
    seen.insert(std::string("scale ") + name_of(c.epilogue.scale_a) + name_of(c.epilogue.scale_b));
    seen.insert("promotes " + std::to_string(c.promotes));
    if (c.epilogue.residual) seen.insert(std::string("residual ") + name_of(c.epilogue.c_type));
    if (c.epilogue.bias != Bias::none) seen.insert(std::string("bias ") + name_of(c.epilogue.bias_type));
    if (adds(c.epilogue))
      seen.insert(std::string("adds ") + name_of(c.store) + " combine " + name_of(c.combine));
    seen.insert("cluster " + std::to_string(c.cluster.m) + "x" + std::to_string(c.cluster.n));
  }
  for (const char* wanted : {"a bf16",
                             "a fp16",
                             "a e4m3",
                             "a e5m2",
                             "b e4m3",
                             "b e5m2",
                             "d bf16",
                             "d fp16",
                             "d fp32",
                             "d e4m3",
                             "d bf16 of fp8",
                             "d fp16 of fp8",
                             "d fp32 of fp8",
                             "d e4m3 of fp8",
                             "layout kk",
                             "layout kmn",
                             "layout mnk",
                             "layout mnmn",
                             "store tma",
                             "store direct",
                             "act none",
                             "act relu",
                             "act gelu",
                             "act silu",
                             "scale nonenone",
                             "scale tensortensor",
                             "scale vectorvector",
                             "promotes 0",
                             "promotes 1",
                             "scale blockblock",
                             "adds tma combine none",
                             "adds tma combine add",
                             "adds direct combine none",
                             "adds direct combine add",
                             "adds tma combine last_arriver",
                             "residual bf16",
                             "residual fp32",
                             "bias bf16",
                             "bias fp16",
                             "bias fp32",
                             "cluster 1x1",
                             "cluster 2x1",
                             "cluster 1x2",
                             "cluster 4x1",
                             "cluster 1x4"})
    EXPECT_TRUE(seen.count(wanted)) << wanted;
}

TEST(planner_registry, max_stages_is_the_deepest_ring_that_fits) {
  for (KernelConfig c : kRegistered) {
    EXPECT_GE(c.stages, c.cluster.k > 1 ? 2 : 3) << short_name(c);
    if (c.stages == kMaxStages) continue;
    ++c.stages;
    EXPECT_GT(smem_bytes(c), kMaxSmemBytes) << short_name(c);
  }
}

TEST(planner_registry, supports_what_the_types_allow_and_nothing_else) {
  const DType types[] = {DType::bf16, DType::fp16, DType::fp32, DType::e4m3, DType::e5m2};
  int supported = 0;
  for (const DType a : types)
    for (const DType b : types)
      for (const DType d : types)
        for (const Major a_major : {Major::k, Major::mn})
          for (const Major b_major : {Major::k, Major::mn}) {
            const Problem p{
                .a = {.type = a, .major = a_major}, .b = {.type = b, .major = b_major}, .d = {.type = d}};
            const bool inputs =
                is_fp8(a) ? is_fp8(b) && a_major == Major::k && b_major == Major::k : is_16bit(a) && a == b;
            EXPECT_EQ(gemm_supports(p), inputs && d != DType::e5m2)
                << name_of(a) << " " << name_of(b) << " " << name_of(d);
            supported += gemm_supports(p);
          }
  // 16-bit types in four layouts, pairs of fp8 types in one; four outputs each.
  EXPECT_EQ(supported, (2 * 4 + 4) * 4);
}

TEST(planner_registry, equal_kernels_are_equal_configs) {
  Problem p{.m = 64, .n = 64, .k = 64};
  const KernelConfig plain = config_for(p, {}, {}, StorePath::tma);
  p.epilogue.bias_type = DType::fp32;  // there is no bias and no residual
  p.epilogue.c_type = DType::fp16;
  EXPECT_EQ(config_for(p, {}, {}, StorePath::tma), plain);
  p.epilogue.bias = Bias::column;
  EXPECT_NE(config_for(p, {}, {}, StorePath::tma), plain);
}

}  // namespace
}  // namespace sluice
