// SPDX-License-Identifier: Apache-2.0
// Each embedded header must compile on its own under NVRTC, included twice, without a warning.
// (tests/CMakeLists.txt does this for host headers with g++.) Fails if a header relies on an earlier include.
// Generated headers differ only in the width, so three stand for all.
#include <gtest/gtest.h>

#include <set>

#include <sluice/run/jit/compiler.h>
#include <sluice/run/jit/embedded_files.h>

namespace sluice::test {
namespace {

bool stands_for_others(const std::string& path) {
  static const std::set<std::string> kGenerated = {"n8", "n128", "n256"};
  if (path.find("/generated/") == std::string::npos) return true;
  const size_t begin = path.rfind('_') + 1;
  return kGenerated.contains(path.substr(begin, path.find('.') - begin));
}

TEST(device_headers, each_compiles_alone) {
  const Result<std::shared_ptr<const Compiler>> compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  int compiled = 0;
  for (const EmbeddedFile& file : embedded_files()) {
    if (!stands_for_others(file.path)) continue;
    const std::string include = "#include <" + std::string(file.path) + ">\n";
    const Result<Cubin> unit =
        (*compiler)->compile(include + include + "extern \"C\" __global__ void sluice_entry() {}\n");
    ASSERT_TRUE(unit) << file.path << "\n" << unit.error().message;
    EXPECT_EQ(unit->report.log, "") << file.path;
    ++compiled;
  }
  EXPECT_GT(compiled, 20);
}

}  // namespace
}  // namespace sluice::test
