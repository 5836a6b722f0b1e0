// SPDX-License-Identifier: Apache-2.0
// Compiles kernels with one change: the embedded source is joined to one text, and parts of it are replaced.
// Used for planted bugs that a tool must find, and for variants that explain a tool's report. Used by
// tests/gpu and tests/compile.
#pragma once

#include <ostream>
#include <span>
#include <string>
#include <vector>

#include <sluice/run/jit/cache.h>

namespace sluice::testing {

/// A text replacement in an embedded source. `before` must occur exactly once in `file`.
struct Edit {
  std::string file;  // path as in its #include, such as "sluice/device/machine.cuh"
  std::string before, after;
};

/// A named change of the kernels' source: edits that are made together.
struct Change {
  std::string name;
  std::string tool;    // the tool of compute-sanitizer that must report the bug; "": the change is not a bug
  std::string family;  // family of kernels that the tool runs to find it (sanitize_pool.h)
  std::vector<Edit> edits;
};
inline void PrintTo(const Change& change, std::ostream* out) {
  *out << change.name;
}

/// Returns the unit's text with embedded files inserted at their first #include, and edited. #line directives
/// keep file names and line numbers in compiler messages. Edits of files that the unit does not include are
/// skipped; `made` counts the others. Error invalid_argument: an edit's text does not occur exactly once in
/// an included file.
Result<std::string> changed_unit(const std::string& unit, std::span<const Edit> edits, int* made = nullptr);

/// Returns a kernel cache whose compiler makes `change` in every unit that includes a changed file. Its
/// entries have the change's name, so they do not mix with unchanged kernels. `compiler_options`: extra
/// options for NVRTC.
KernelCache changed_cache(const Options& options, const Change& change,
                          std::vector<const char*> compiler_options = {});

}  // namespace sluice::testing
