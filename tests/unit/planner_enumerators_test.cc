// SPDX-License-Identifier: Apache-2.0
// Numbers that are not enumerators, in every field of an enumeration type: they are refused by name before
// any use. Without the check, DType(77) has size 0, and the planner divides by it.
#include <gtest/gtest.h>

#include <functional>

#include <sluice/plan.h>
#include "tests/packed_problems.h"

namespace sluice {
namespace {

const DeviceInfo kH200;

template <class Enum>
void spoil(Enum& field) {
  field = static_cast<Enum>(77);
}

template <class Planned>
void expect_refused(const Planned& planned, ErrorCode code, const std::string& field) {
  ASSERT_FALSE(planned) << field;
  EXPECT_EQ(planned.error().code, code) << field;
  EXPECT_EQ(planned.error().message.find(field + " = 77 must be one of the enumerators "), 0u)
      << planned.error().message;
}

TEST(planner_enumerators, every_field_of_a_problem_is_checked) {
  const std::pair<const char*, std::function<void(Problem&)>> fields[] = {
      {"a.type", [](Problem& p) { spoil(p.a.type); }},
      {"a.major", [](Problem& p) { spoil(p.a.major); }},
      {"b.type", [](Problem& p) { spoil(p.b.type); }},
      {"b.major", [](Problem& p) { spoil(p.b.major); }},
      {"c.type", [](Problem& p) { p.epilogue.residual = true, spoil(p.c.type); }},
      {"c.major", [](Problem& p) { p.epilogue.residual = true, spoil(p.c.major); }},
      {"d.type", [](Problem& p) { spoil(p.d.type); }},
      {"d.major", [](Problem& p) { spoil(p.d.major); }},
      {"accumulate", [](Problem& p) { spoil(p.accumulate); }},
      {"epilogue.scale_a", [](Problem& p) { spoil(p.epilogue.scale_a); }},
      {"epilogue.scale_b", [](Problem& p) { spoil(p.epilogue.scale_b); }},
      {"epilogue.bias", [](Problem& p) { spoil(p.epilogue.bias); }},
      {"epilogue.bias_type", [](Problem& p) { spoil(p.epilogue.bias_type); }},
      {"epilogue.activation", [](Problem& p) { spoil(p.epilogue.activation); }},
      {"epilogue.c_type", [](Problem& p) { spoil(p.epilogue.c_type); }},
      {"epilogue.update", [](Problem& p) { spoil(p.epilogue.update); }},
      {"epilogue.scale_d", [](Problem& p) { spoil(p.epilogue.scale_d); }}};
  for (const auto& [name, spoil_it] : fields) {
    Problem p{.m = 64, .n = 64, .k = 64};
    spoil_it(p);
    expect_refused(gemm::plan(p, kH200), ErrorCode::invalid_type, name);
    expect_refused(gemm::candidates(p, kH200), ErrorCode::invalid_type, name);
  }
}

TEST(planner_enumerators, every_field_of_packed_weights_is_checked) {
  const std::pair<const char*, std::function<void(Problem&)>> fields[] = {
      {"a.type", [](Problem& p) { spoil(p.a.type); }},
      {"epilogue.scale_a", [](Problem& p) { spoil(p.epilogue.scale_a); }},
      {"d.type", [](Problem& p) { spoil(p.d.type); }},
      {"b.packed.type", [](Problem& p) { spoil(p.b.packed.type); }},
      {"b.packed.scale", [](Problem& p) { spoil(p.b.packed.scale); }},
      {"b.packed.zero", [](Problem& p) { spoil(p.b.packed.zero); }},
      {"b.packed.order", [](Problem& p) { spoil(p.b.packed.order); }},
      {"epilogue.bias", [](Problem& p) { spoil(p.epilogue.bias); }},
      {"epilogue.bias_type", [](Problem& p) { spoil(p.epilogue.bias_type); }},
      {"epilogue.activation", [](Problem& p) { spoil(p.epilogue.activation); }},
      {"epilogue.scale_d", [](Problem& p) { spoil(p.epilogue.scale_d); }}};
  for (const auto& [name, spoil_it] : fields) {
    Problem p = packed_problem(4, 64, 128, DType::bf16, DType::bf16);
    spoil_it(p);
    expect_refused(gemm::plan(p, kH200), ErrorCode::invalid_type, name);
    expect_refused(gemm::candidates(p, kH200), ErrorCode::invalid_type, name);
  }
}

TEST(planner_enumerators, every_override_that_has_one_is_checked) {
  const Problem p{.m = 64, .n = 64, .k = 64};
  expect_refused(gemm::plan(p, kH200, {.schedule = static_cast<Schedule>(77)}), ErrorCode::invalid_config,
                 "schedule");
  expect_refused(gemm::plan(p, kH200, {.store = static_cast<StorePath>(77)}), ErrorCode::invalid_config,
                 "store");
  expect_refused(gemm::plan(p, kH200, {.raster = static_cast<Raster>(77)}), ErrorCode::invalid_config,
                 "raster");
  expect_refused(gemm::candidates(p, kH200, {.combine = static_cast<Combine>(77)}), ErrorCode::invalid_config,
                 "combine");
}

TEST(planner_enumerators, a_workspace_limit_is_not_negative) {
  const Problem p{.m = 64, .n = 64, .k = 64};
  for (const auto& limited : {gemm::plan(p, kH200, {.workspace_limit = -1})}) {
    ASSERT_FALSE(limited);
    EXPECT_EQ(limited.error().code, ErrorCode::invalid_config);
    EXPECT_EQ(limited.error().message,
              "workspace_limit = -1 must be at least 0, the bytes a plan may ask for; 0: none");
  }
  EXPECT_TRUE(gemm::plan(p, kH200, {.workspace_limit = 0}));
}

TEST(planner_enumerators, the_message_names_those_that_there_are) {
  Problem p{.m = 64, .n = 64, .k = 64};
  spoil(p.a.type);
  EXPECT_EQ(
      gemm::plan(p, kH200).error().message,
      "a.type = 77 must be one of the enumerators bf16, fp16, fp32, e4m3, e5m2, e8m0: set it, or leave it at "
      "its default");
}

}  // namespace
}  // namespace sluice
