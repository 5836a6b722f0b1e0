// SPDX-License-Identifier: Apache-2.0
// Kernels of ours with one thing changed: the embedded source in one text, with pieces of it replaced, on its
// usual way through NVRTC, the cache and the launch. For kernels with a planted bug, which a tool must find,
// and for variants that show what a tool's complaint means. Used by tests/gpu and tests/compile.
#pragma once

#include <ostream>
#include <span>
#include <string>
#include <vector>

#include <sluice/host/jit/cache.h>

namespace sluice::testing {

/// One replacement. `before` stands exactly once in `file`.
struct Edit {
  std::string file;  // as it is included: "sluice/device/machine.cuh"
  std::string before, after;
};

/// Edits that are made together.
struct Change {
  std::string name;
  std::string tool;    // of compute-sanitizer that must find the bug; "": it is none
  std::string family;  // of the kernels that the tool is run on: see sanitize_pool.h
  std::vector<Edit> edits;
};
inline void PrintTo(const Change& change, std::ostream* out) {
  *out << change.name;
}

/// The unit with all embedded files that it includes in it, each where it is included first, and the edits
/// made. Lines keep the name and number of their file in what the compiler says. Error invalid_argument: an
/// edit of a file that the unit includes does not match exactly once. An edit of another file is left out;
/// `made` counts the others.
Result<std::string> changed_unit(const std::string& unit, std::span<const Edit> edits, int* made = nullptr);

/// A cache whose compiler makes `change` in every unit that includes a file of it. Its entries stand beside
/// those of the sound kernels, under the change's name. `options`: of NVRTC, beside the usual ones.
KernelCache changed_cache(const Options& options, const Change& change,
                          std::vector<const char*> compiler_options = {});

}  // namespace sluice::testing
