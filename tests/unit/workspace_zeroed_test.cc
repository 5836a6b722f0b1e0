// SPDX-License-Identifier: Apache-2.0
// A new workspace is zero, reports a nonzero counter, and can be zeroed again. To see it fail: leave out the
// reset in Workspace::create (the fake driver's fresh memory is 0xA5).
#include <gtest/gtest.h>

#include <sluice/gemm.h>
#include <sluice/spec/work_split.h>

#include "fake_driver.h"

namespace sluice {
namespace {

class WorkspaceTest : public ::testing::Test {
 protected:
  FakeDriver driver;
  Device device = *open_fake_device();
};

TEST_F(WorkspaceTest, is_zeroed_once_and_verified) {
  const Result<Workspace> workspace = Workspace::create(device, 3 << 20);
  ASSERT_TRUE(workspace.ok());
  EXPECT_EQ(workspace->bytes(), 3 << 20);
  EXPECT_NE(workspace->data(), nullptr);
  EXPECT_TRUE(workspace->verify().ok());
}

/// Creating a workspace must not wait for the context or use the default stream. Either would invalidate
/// another thread's capture.
TEST_F(WorkspaceTest, is_made_without_waiting_for_others) {
  driver.fail_function("cuCtxSynchronize", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  const Result<Workspace> workspace = Workspace::create(device, 3 << 20);
  ASSERT_TRUE(workspace.ok()) << workspace.error().message;
  driver.fail_nothing();
  EXPECT_TRUE(workspace->verify().ok());
}

TEST_F(WorkspaceTest, names_the_first_dirty_counter_and_recovers) {
  Result<Workspace> workspace = Workspace::create(device, (2 << 20) + 5);
  ASSERT_TRUE(workspace.ok());
  static_cast<u32*>(workspace->data())[kWorkspaceCounterBytes / 4] = 9;
  EXPECT_TRUE(workspace->verify().ok()) << "behind the counters anything may be left";
  for (const int dirty : {kWorkspaceCounters - 1, 77, 0}) {
    static_cast<u32*>(workspace->data())[dirty] = 9;
    const Result<void> verified = workspace->verify();
    ASSERT_FALSE(verified.ok());
    EXPECT_EQ(verified.error().code, ErrorCode::workspace);
    EXPECT_NE(verified.error().message.find("counter " + std::to_string(dirty) + " of"), std::string::npos)
        << verified.error().message;
    EXPECT_NE(verified.error().message.find("is 9"), std::string::npos) << verified.error().message;
  }
  ASSERT_TRUE(workspace->reset(nullptr).ok());
  EXPECT_TRUE(workspace->verify().ok());
}

TEST_F(WorkspaceTest, may_be_empty) {
  Result<Workspace> workspace = Workspace::create(device, 0);
  ASSERT_TRUE(workspace.ok());
  EXPECT_EQ(workspace->data(), nullptr);
  EXPECT_TRUE(workspace->verify().ok());
  EXPECT_TRUE(workspace->reset(nullptr).ok());
  EXPECT_EQ(driver.alive().allocations, 0);
  EXPECT_EQ(Workspace::create(device, -1).error().code, ErrorCode::invalid_size);
}

TEST_F(WorkspaceTest, every_failing_call_is_an_error_and_leaks_nothing) {
  driver.fail_nothing();
  ASSERT_TRUE(Workspace::create(device, 64).ok());
  const int calls = driver.calls();
  int errors = 0;
  for (int call = 0; call < calls; ++call) {
    driver.fail_call(call, CUDA_ERROR_UNKNOWN);
    errors += !Workspace::create(device, 64).ok();
    EXPECT_EQ(driver.alive().allocations, 0) << driver.last_failed();
    EXPECT_EQ(driver.alive().pushed, 0) << driver.last_failed();
  }
  // Three calls with three driver calls each can fail: query, push, the call itself; a failed pop or free is
  // ignored.
  EXPECT_GE(errors, 9);
  driver.fail_nothing();
  const Workspace workspace = *Workspace::create(device, 64);
  driver.fail_function("cuMemcpyDtoH", CUDA_ERROR_ILLEGAL_ADDRESS);
  const Result<void> verified = workspace.verify();
  ASSERT_FALSE(verified.ok());
  EXPECT_NE(verified.error().message.find("the context is lost"), std::string::npos)
      << verified.error().message;
}

}  // namespace
}  // namespace sluice
