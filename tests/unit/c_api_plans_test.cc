// SPDX-License-Identifier: Apache-2.0
// Plans and compiles of the C interface. Every unit of a plan is listed and compiled ahead. First, prepare
// fills the cache folder on a device whose compiler only counts. Then sluice_compile(), which has no
// compiler, must find every unit there, so the two agree. To see it fail: let sluice_compile() use only the
// first unit of a plan.
#include <sluice/c_api.h>
#include <sluice/c_api/call.h>
#include <sluice/c_api/handles.h>
#include <sluice/c_rows.h>
#include <sluice/compile.h>

#include <cstring>
#include <filesystem>

#include "c_api_calls.h"
#include "cache_fake.h"
#include "launch_fixture.h"

namespace sluice {
namespace {

sluice_problem gradient(int32_t any_order) {
  sluice_problem p{};
  p.m = 256, p.n = 512, p.k = 4096, p.batch = 1, p.d.type = SLUICE_FP32;
  p.update = SLUICE_ADD, p.any_order = any_order;
  return p;
}

std::string in_two(const char* combine) {
  return std::string(
             "schedule=cooperative, tile_m=128, tile_n=128, splits=2, cluster_m=1, cluster_n=1, combine=") +
         combine;
}

class CApiPlans : public LaunchTest {
 protected:
  ~CApiPlans() override {
    for (sluice_plan* plan : made_) sluice_plan_free(plan);
  }

  const sluice_plan* plan_of(const sluice_problem& problem, const char* combine = nullptr) {
    const std::string choices = combine != nullptr ? in_two(combine) : "";
    sluice_plan* plan = nullptr;
    EXPECT_EQ(sluice_plan_create(nullptr, AsCall(problem), choices.c_str(), &plan), SLUICE_OK)
        << sluice_error_message();
    return made_.emplace_back(plan);
  }

  /// Prepares the plan on a device with a counting compiler. Then compiles it ahead on a device without a
  /// compiler.
  void expect_compile_asks_for_what_prepare_did(const sluice_plan* plan, int units) {
    const test::TemporaryFolder folder;
    const std::string cache = folder / "kernels", nowhere = folder / "nowhere";
    const test::FakeCompiler compiler;
    Options options = options_from_environment();
    options.cache_dir = cache;
    const Result<Device> device = open_fake_device(options);
    ASSERT_TRUE(device.ok());
    device->impl().cache = KernelCache(options, compiler.seam());
    ASSERT_TRUE(gemm::prepare(*device, plan->plan).ok());
    EXPECT_EQ(*compiler.calls, units);
    std::filesystem::create_directory(nowhere);
    const sluice_options given{cache.c_str(), nowhere.c_str(), nullptr, 0, 1, -1};
    sluice_compiled done{};
    EXPECT_EQ(sluice_compile(&plan, 1, &given, &done), SLUICE_OK) << sluice_error_message();
    EXPECT_EQ(done.already_there, units);
    EXPECT_EQ(done.compiled + done.failed, 0);
    options.nvrtc_path = nowhere;
    const Result<Compiled> ahead = compile({&plan->plan, 1}, options);
    ASSERT_TRUE(ahead.ok()) << ahead.error().message;
    EXPECT_EQ(ahead->already_there, units);
    EXPECT_TRUE(ahead->ok());
    options.cache_dir = folder / "empty";
    const Result<Compiled> none = compile({&plan->plan, 1}, options);
    ASSERT_TRUE(none.ok()) << none.error().message;
    EXPECT_EQ(none->failed, units);
    ASSERT_TRUE(none->first_failure);
    EXPECT_EQ(none->first_failure->code, ErrorCode::toolchain) << none->first_failure->message;
    options.cache_read_only = true;
    EXPECT_FALSE(compile({&plan->plan, 1}, options).ok());
  }

  std::vector<sluice_plan*> made_;
};

TEST_F(CApiPlans, every_unit_is_shown) {
  sluice_problem problem = gradient(0);
  problem.update = SLUICE_SET;
  const sluice_plan* one = plan_of(problem, "last_arriver");
  EXPECT_EQ(sluice_plan_unit_count(one), 1);
  const sluice_plan* two = plan_of(problem, "separate");
  ASSERT_EQ(sluice_plan_unit_count(two), 2);
  EXPECT_NE(std::strstr(sluice_plan_unit(two, 0), "run_gemm"), nullptr);
  EXPECT_NE(std::strstr(sluice_plan_unit(two, 1), "sum_parts"), nullptr);
  EXPECT_EQ(sluice_plan_unit(two, 2), nullptr);
  EXPECT_EQ(sluice_plan_unit(two, -1), nullptr);
}

TEST_F(CApiPlans, a_plan_of_nothing_has_no_unit) {
  sluice_problem nothing_to_add = gradient(0), empty = gradient(0);
  nothing_to_add.k = 0;
  empty.m = 0, empty.update = SLUICE_SET;
  EXPECT_EQ(sluice_plan_unit_count(plan_of(nothing_to_add)), 0);
  EXPECT_EQ(sluice_plan_unit_count(plan_of(empty)), 0);
  nothing_to_add.update = SLUICE_SET;
  EXPECT_EQ(sluice_plan_unit_count(plan_of(nothing_to_add)), 1);
}

TEST_F(CApiPlans, what_is_compiled_ahead_is_all_that_prepare_asks_for) {
  sluice_problem problem = gradient(0);
  problem.update = SLUICE_SET;
  expect_compile_asks_for_what_prepare_did(plan_of(problem, "last_arriver"), 1);
  expect_compile_asks_for_what_prepare_did(plan_of(problem, "separate"), 2);
  expect_compile_asks_for_what_prepare_did(plan_of(gradient(1), "add"), 1);
}

TEST_F(CApiPlans, choices_that_mean_nothing_are_refused_by_name) {
  const sluice_problem dense = gradient(0);
  sluice_problem packed{};
  packed.m = 4, packed.n = 64, packed.k = 128, packed.batch = 1, packed.a.type = packed.d.type = SLUICE_FP16;
  packed.packed = {SLUICE_UINT4, 128, SLUICE_FP16, 0, SLUICE_ORDER_HALF};
  const struct {
    const sluice_problem& problem;
    const char *choices, *mention;
  } cases[] = {{dense, "swapped=7", "swapped = \"7\""},
               {dense, "stages=4x", "stages = \"4x\""},
               {dense, "workspace_limit=", "workspace_limit = \"\""},
               {dense, "schedule=pong", "ping_pong"},
               {dense, "tokens=8", "\"tokens\""},
               {dense, "stages", "\"stages\""},
               {packed, "warps=two", "warps = \"two\""},
               {packed, "token_blocks=2", "\"token_blocks\" is no field"},
               {packed, "ignore_records=7", "ignore_records = \"7\""}};
  for (const auto& [problem, choices, mention] : cases) {
    sluice_plan* plan = nullptr;
    EXPECT_EQ(sluice_plan_create(nullptr, AsCall(problem), choices, &plan), SLUICE_INVALID_ARGUMENT)
        << choices;
    EXPECT_NE(std::string(sluice_error_message()).find(mention), std::string::npos) << sluice_error_message();
  }
  const std::pair<const sluice_problem&, const char*> others[] = {
      {packed, "schedule=plain"}, {packed, "splits=2"}, {dense, "schedule=narrow"}, {dense, "k_groups=2"}};
  for (const auto& [problem, choices] : others) {
    sluice_plan* plan = nullptr;
    EXPECT_EQ(sluice_plan_create(nullptr, AsCall(problem), choices, &plan), SLUICE_INVALID_CONFIG) << choices;
    EXPECT_NE(std::strstr(sluice_error_message(), "packed"), nullptr) << sluice_error_message();
  }
  for (const char* choices : {static_cast<const char*>(nullptr), "", " ,\n"}) {
    sluice_plan* plan = nullptr;
    EXPECT_EQ(sluice_plan_create(nullptr, AsCall(packed), choices, &plan), SLUICE_OK)
        << sluice_error_message();
    sluice_plan_free(plan);
  }
}

TEST_F(CApiPlans, an_update_goes_to_c_and_back) {
  for (const int32_t any_order : {0, 1}) {
    const Result<Problem> read = c_api::problem_of(gradient(any_order));
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->epilogue.update, Update::add);
    EXPECT_EQ(read->deterministic, any_order == 0);
    const sluice_problem back = c_api::values_of(*read);
    EXPECT_EQ(back.update, SLUICE_ADD);
    EXPECT_EQ(back.any_order, any_order);
  }
  sluice_problem zeroed{};
  const Result<Problem> usual = c_api::problem_of(zeroed);
  ASSERT_TRUE(usual.ok());
  EXPECT_EQ(usual->epilogue.update, Update::set);
  EXPECT_EQ(usual->accumulate, Accumulate::promoted) << "what is not said is not fast";
  EXPECT_TRUE(usual->deterministic);
  zeroed.any_order = 2;
  EXPECT_FALSE(c_api::problem_of(zeroed).ok());
}

TEST_F(CApiPlans, parts_are_added_in_any_order_only_where_that_is_asked_for) {
  EXPECT_EQ(sluice_plan_workspace_bytes(plan_of(gradient(1), "add")), 0);
  EXPECT_GT(sluice_plan_workspace_bytes(plan_of(gradient(0), "last_arriver")), 0);
}

TEST_F(CApiPlans, plans_are_for_the_gpu_that_is_named_or_the_machines_first) {
  sluice_problem problem{};
  problem.m = 128, problem.n = 14336, problem.k = 4096, problem.batch = 1;
  problem.a.type = problem.b.type = SLUICE_E4M3, problem.d.type = SLUICE_BF16;
  problem.scale_a = problem.scale_b = SLUICE_SCALE_VECTOR;
  sluice_plan *h100 = nullptr, *h200 = nullptr;
  ASSERT_EQ(sluice_plan_create_for("h100", AsCall(problem), nullptr, &h100), SLUICE_OK)
      << sluice_error_message();
  ASSERT_EQ(sluice_plan_create_for("H200", AsCall(problem), nullptr, &h200), SLUICE_OK)
      << sluice_error_message();
  made_.insert(made_.end(), {h100, h200});
  const std::string stand_in = "as no GPU was found or named";
  EXPECT_NE(std::string(sluice_plan_text(h100)).find("\ngpu        NVIDIA H100"), std::string::npos);
  EXPECT_NE(std::string(sluice_plan_config(h100)), sluice_plan_config(h200)) << "kernels differ";
  EXPECT_EQ(std::string(sluice_plan_text(h200)).find(stand_in), std::string::npos);
  const std::string unnamed = sluice_plan_text(plan_of(problem));
  EXPECT_NE(unnamed.find("\ngpu        Fake H200"), std::string::npos) << "the machine's first: " << unnamed;
  EXPECT_EQ(unnamed.find(stand_in), std::string::npos) << unnamed;

  sluice_plan* none = nullptr;
  EXPECT_EQ(sluice_plan_create_for("b200", AsCall(problem), nullptr, &none), SLUICE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sluice_error_message()).find("h100-pcie"), std::string::npos)
      << sluice_error_message();
  EXPECT_EQ(sluice_plan_create_for(nullptr, AsCall(problem), nullptr, &none), SLUICE_INVALID_ARGUMENT);
  sluice_row_plans found{};
  const sluice_row_range rows{1, 4};
  ASSERT_EQ(sluice_plan_rows_for("h100", AsCall(problem), &rows, &found), SLUICE_OK)
      << sluice_error_message();
  ASSERT_GT(found.count, 0);
  EXPECT_NE(std::string(sluice_plan_text(found.plans[0])).find("NVIDIA H100"), std::string::npos);
  made_.insert(made_.end(), found.plans, found.plans + found.count);
  EXPECT_EQ(sluice_plan_rows_for("b200", AsCall(problem), &rows, &found), SLUICE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace sluice
