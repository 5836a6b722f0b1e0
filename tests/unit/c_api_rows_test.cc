// SPDX-License-Identifier: Apache-2.0
// Ranges of rows through the C interface: plans for sluice_compile(), kernels for sluice_run(), and misuse.
// To see it fail: let sluice_make_rows_ready() ignore the range.
#include <sluice/c_rows.h>

#include <set>
#include <string>

#include "c_api_fixture.h"

namespace sluice {
namespace {

sluice_problem layer() {
  return dense_problem(1, 512, 1024);
}
sluice_problem packed_layer() {
  return packed_problem(1, 512, 1024);
}

class CApiRows : public LaunchTest {
 protected:
  CApiRows() : handle_{c_api::Session(device()), "fake"} {}
  ~CApiRows() override { free_all(); }

  void free_all() {
    for (int i = 0; i < found_.count; ++i) sluice_plan_free(found_.plans[i]);
    found_ = {};
  }
  void refused(sluice_status status, sluice_status wanted, const char* mention) {
    EXPECT_EQ(status, wanted);
    EXPECT_NE(std::string(sluice_error_message()).find(mention), std::string::npos) << sluice_error_message();
    EXPECT_EQ(found_.count, 0);
  }

  sluice_device handle_;
  sluice_row_plans found_{};
};

TEST_F(CApiRows, plans_are_few_and_of_the_kernels_of_the_summary) {
  const sluice_row_range rows{1, 200};
  const sluice_problem dense = layer();
  ASSERT_EQ(sluice_plan_rows(nullptr, AsCall(dense), &rows, &found_), SLUICE_OK) << sluice_error_message();
  EXPECT_GE(found_.count, 1);
  EXPECT_LE(found_.count, SLUICE_MOST_ROW_KERNELS);
  std::set<std::string> configs;
  for (int i = 0; i < found_.count; ++i) configs.insert(sluice_plan_config(found_.plans[i]));
  EXPECT_EQ(configs.size(), static_cast<std::size_t>(found_.count));
  EXPECT_GE(found_.summary.kernels, found_.count);
  for (int i = 0; i < found_.count; ++i)
    for (int unit = 0; unit < sluice_plan_unit_count(found_.plans[i]); ++unit)
      EXPECT_EQ(std::string(sluice_plan_unit(found_.plans[i], unit)).find("sluice::locate"),
                std::string::npos);
  const std::string text = sluice_plan_rows_text(found_.plans[0]);
  EXPECT_NE(text.find("rows      1..200 of 512 x 1024"), std::string::npos) << text;
  free_all();
  const sluice_problem packed = packed_layer();
  ASSERT_EQ(sluice_plan_rows(&handle_, AsCall(packed), &rows, &found_), SLUICE_OK) << sluice_error_message();
  EXPECT_GE(found_.count, 1);
  EXPECT_LE(found_.summary.kernels, SLUICE_MOST_ROW_KERNELS);
}

TEST_F(CApiRows, a_plan_of_one_m_has_no_text_of_a_range) {
  sluice_plan* plan = nullptr;
  const sluice_problem dense = layer();
  ASSERT_EQ(sluice_plan_create(nullptr, AsCall(dense), nullptr, &plan), SLUICE_OK) << sluice_error_message();
  EXPECT_STREQ(sluice_plan_rows_text(plan), "");
  EXPECT_STREQ(sluice_plan_rows_text(nullptr), "");
  sluice_plan_free(plan);
}

TEST_F(CApiRows, what_was_made_ready_needs_no_compiler) {
  const sluice_row_range rows{1, 48};
  const sluice_problem dense = layer();
  sluice_row_summary summary{};
  ASSERT_EQ(sluice_make_rows_ready(&handle_, AsCall(dense), &rows, &summary), SLUICE_OK)
      << sluice_error_message();
  const sluice_problem packed = packed_layer();
  ASSERT_EQ(sluice_make_rows_ready(&handle_, AsCall(packed), &rows, nullptr), SLUICE_OK);
  EXPECT_GE(summary.kernels, 1);
  const int compiles = device().impl().cache.stats().compiles;
  const Problem most{.m = 48, .n = 512, .k = 1024};
  const gemm::Args args = args_for(most);
  for (i64 m = 1; m <= 48; ++m) {
    Problem one = most;
    one.m = m;
    ASSERT_TRUE(gemm::run(device(), one, args, nullptr).ok()) << m;
  }
  EXPECT_EQ(device().impl().cache.stats().compiles, compiles);
}

TEST_F(CApiRows, misuse_is_an_error_with_the_value_and_leaves_nothing_to_free) {
  const sluice_row_range good{1, 8}, none{0, 8}, back{9, 8}, huge{1, i64{1} << 62}, negative{-5, -1};
  const sluice_problem dense = layer();
  const sluice_problem packed = packed_layer();
  refused(sluice_plan_rows(nullptr, nullptr, &good, &found_), SLUICE_INVALID_ARGUMENT, "call is NULL");
  refused(sluice_plan_rows(nullptr, AsCall(dense), nullptr, &found_), SLUICE_INVALID_ARGUMENT,
          "rows is NULL");
  refused(sluice_plan_rows(nullptr, AsCall(dense), &good, nullptr), SLUICE_INVALID_ARGUMENT, "found is NULL");
  refused(sluice_plan_rows(nullptr, AsCall(dense), &none, &found_), SLUICE_INVALID_SIZE, "rows = 0 to 8");
  refused(sluice_plan_rows(nullptr, AsCall(dense), &back, &found_), SLUICE_INVALID_SIZE, "rows = 9 to 8");
  refused(sluice_plan_rows(nullptr, AsCall(dense), &negative, &found_), SLUICE_INVALID_SIZE,
          "rows = -5 to -1");
  refused(sluice_plan_rows(nullptr, AsCall(dense), &huge, &found_), SLUICE_INVALID_SIZE,
          "4611686018427387904");
  refused(sluice_plan_rows(nullptr, AsCall(packed), &huge, &found_), SLUICE_INVALID_SIZE,
          "4611686018427387904");
  refused(sluice_make_rows_ready(nullptr, AsCall(dense), &good, nullptr), SLUICE_INVALID_ARGUMENT,
          "device is NULL");
  refused(sluice_make_rows_ready(&handle_, AsCall(dense), &back, nullptr), SLUICE_INVALID_SIZE,
          "rows = 9 to 8");
  refused(sluice_make_rows_ready(&handle_, nullptr, &good, nullptr), SLUICE_INVALID_ARGUMENT, "call is NULL");
  refused(sluice_make_rows_ready(&handle_, AsCall(packed), &none, nullptr), SLUICE_INVALID_SIZE,
          "rows = 0 to 8");
}

}  // namespace
}  // namespace sluice
