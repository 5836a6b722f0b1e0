// SPDX-License-Identifier: Apache-2.0
// Records GPU, commit and source hashes as properties of the whole run, which --gtest_output=json contains.
// tools/certify.py reads them only there, so a certificate always names the build that ran. Driver and NVRTC
// versions are recorded by a test of their own, because querying them takes a moment.
#include <gtest/gtest.h>

#include <sluice/bench/session.h>
#include "cli/command_line.h"
#include "gpu.h"

namespace sluice::testing {
namespace {

void tell(const char* key, const std::string& text) {
  ::testing::Test::RecordProperty(key, text);
}

class Identity : public ::testing::Environment {
 public:
  void SetUp() override {
    tell("built_commit", cli::built_commit());
    tell("built_sources", cli::built_sources());
    tell("gpu", gpu() ? gpu()->info().name : "");
    if (!gpu()) tell("no_gpu", gpu().error().message);
  }
};

const auto* const kIdentity = ::testing::AddGlobalTestEnvironment(new Identity);

/// tools/certify.py runs this test first, to learn which machine it is on. Without a GPU, it prints that and
/// passes.
TEST(identity, is_told) {
  EXPECT_NE(cli::built_sources(), "");
  if (!gpu()) return;
  const auto lab = bench::open_lab(*gpu(), {.method = {.peer = false}});
  ASSERT_TRUE(ok(lab));
  const bench::RunRecord run = bench::describe_run(**lab);
  tell("driver", run.driver);
  tell("nvrtc", run.nvrtc);
  tell("sm_count", std::to_string(run.sm_count));
}

}  // namespace
}  // namespace sluice::testing
