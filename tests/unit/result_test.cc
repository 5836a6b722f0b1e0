// SPDX-License-Identifier: Apache-2.0
// A Result contains a value or an Error, and every error code has its own name.
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include <sluice/result.h>

namespace sluice {
namespace {

TEST(Result, holds_a_value_or_an_error) {
  const Result<int> seven = 7;
  EXPECT_TRUE(seven.ok());
  EXPECT_EQ(*seven, 7);
  const Result<int> failed = Error{ErrorCode::io, "disk"};
  EXPECT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::io);
  EXPECT_EQ(failed.error().message, "disk");
}

TEST(Result, moves_what_cannot_be_copied) {
  Result<std::unique_ptr<int>> owner = std::make_unique<int>(3);
  const std::unique_ptr<int> taken = *std::move(owner);
  EXPECT_EQ(*taken, 3);
}

TEST(Result, of_nothing_is_success_or_an_error) {
  EXPECT_TRUE(Result<void>());
  const Result<void> failed = Error{ErrorCode::driver, "no GPU"};
  EXPECT_EQ(failed.error().message, "no GPU");
}

TEST(ErrorCode, each_has_a_name_of_its_own) {
  std::set<std::string> names;
  const int count = static_cast<int>(ErrorCode::internal) + 1;  // `internal` is the last one
  for (int i = 0; i < count; ++i) names.insert(name_of(static_cast<ErrorCode>(i)));
  EXPECT_EQ(static_cast<int>(names.size()), count);
  EXPECT_EQ(names.count("?"), 0u);
  EXPECT_STREQ(name_of(ErrorCode::not_prepared), "not_prepared");
}

}  // namespace
}  // namespace sluice
