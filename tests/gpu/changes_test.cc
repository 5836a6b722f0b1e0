// SPDX-License-Identifier: Apache-2.0
// Kernels with something changed, without a GPU: each change is made exactly once, and what comes out
// compiles. Whether a tool finds the bugs is for a GPU to say (tools/gpu_sanitize.py).
#include <gtest/gtest.h>

#include <sluice/host/jit/compiler.h>
#include <sluice/host/jit/source.h>

#include <sluice/plan.h>

#include "config_pool.h"
#include "kernel_changes.h"

namespace sluice::testing {
namespace {

TEST(changes, tmp_compile) {
  const auto compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  const std::vector<KernelConfig> classes = class_pool();
  for (const Change& change : kernel_changes())
    for (const size_t i : {9, 21, 45, 54, 75}) {
      int made = 0;
      const auto text = changed_unit(unit_text(classes[i]), change.edits, &made);
      ASSERT_TRUE(text) << text.error().message;
      const auto cubin = (*compiler)->compile(*text);
      ASSERT_TRUE(cubin) << change.name << cubin.error().message;
      printf("%s %zu made %d %s\n", change.name.c_str(), i, made, cubin->report.log.c_str());
      if (change.name == "nothing") {
        printf("%s\n", sluice::to_string(classes[i]).c_str());
        const auto plain = (*compiler)->compile(unit_text(classes[i]));
        const auto lines = (*compiler)->compile(*text, std::vector<const char*>{"--generate-line-info"});
        for (const auto& [n, c] : {std::pair{"plain", plain}, {"flat", cubin}, {"lines", lines}})
          if (FILE* f = fopen(("/tmp/races_" + std::to_string(i) + n + ".cubin").c_str(), "wb"))
            fwrite(c->image.data(), 1, c->image.size(), f), fclose(f);
      }
    }
}

}  // namespace
}  // namespace sluice::testing
