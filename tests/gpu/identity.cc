// SPDX-License-Identifier: Apache-2.0
// What a run of these tests was on and of: GPU, driver, NVRTC, commit, and the sources of the build. They are
// properties of the whole run, so --gtest_output=json carries them, and tools/certify.py reads them there and
// nowhere else: a certificate cannot name a build other than the one that ran.
#include <gtest/gtest.h>

#include <sluice/host/jit/compiler.h>

#include "bench/telemetry.h"
#include "cli/command_line.h"
#include "gpu.h"

namespace sluice::testing {
namespace {

class Identity : public ::testing::Environment {
 public:
  void SetUp() override {
    const auto tell = [](const char* key, const std::string& text) {
      ::testing::Test::RecordProperty(key, text);
    };
    tell("built_commit", cli::built_commit());
    tell("built_sources", cli::built_sources());
    tell("gpu", gpu() ? gpu()->info().name : "");
    if (!gpu()) return tell("no_gpu", gpu().error().message);
    tell("sm_count", std::to_string(gpu()->info().sm_count));
    tell("driver", bench::Telemetry::open(0).driver_version());
    const auto compiler = Compiler::load(gpu()->options().nvrtc_path);
    tell("nvrtc", compiler ? (*compiler)->version() : "absent: kernels are from a cache");
  }
};

/// The run that tools/certify.py begins with, to know where it is: it needs no GPU.
TEST(identity, is_told) {
  EXPECT_NE(cli::built_sources(), "");
}

const auto* const kIdentity = ::testing::AddGlobalTestEnvironment(new Identity);

}  // namespace
}  // namespace sluice::testing
