// SPDX-License-Identifier: Apache-2.0
// Kernels with one change: the embedded source as one text, with pieces replaced, compiled and launched as
// usual. For planted bugs that a tool must find, and for variants that explain a tool's complaint. Used by
// tests/gpu and tests/compile.
#pragma once

#include <ostream>
#include <span>
#include <string>
#include <vector>

#include <sluice/host/jit/cache.h>

namespace sluice::testing {

/// A replacement. `before` occurs exactly once in `file`.
struct Edit {
  std::string file;  // as in its #include: "sluice/device/machine.cuh"
  std::string before, after;
};

/// Edits made together.
struct Change {
  std::string name;
  std::string tool;    // tool of compute-sanitizer that must find the bug; "": no bug
  std::string family;  // family of kernels that the tool runs (sanitize_pool.h)
  std::vector<Edit> edits;
};
inline void PrintTo(const Change& change, std::ostream* out) {
  *out << change.name;
}

/// The unit with its embedded files inserted where they are first included, and edited. Compiler messages
/// keep file names and line numbers. Edits of files that it does not include are left out; `made` counts the
/// rest. Error invalid_argument: an edit of an included file does not match exactly once.
Result<std::string> changed_unit(const std::string& unit, std::span<const Edit> edits, int* made = nullptr);

/// A cache whose compiler makes `change` in every unit that includes a changed file. Its entries lie beside
/// the unchanged kernels', under the change's name. `compiler_options`: extra options for NVRTC.
KernelCache changed_cache(const Options& options, const Change& change,
                          std::vector<const char*> compiler_options = {});

}  // namespace sluice::testing
