// SPDX-License-Identifier: Apache-2.0
// The text that NVRTC compiles: a unit of a few lines, and the embedded headers it includes by name.
// Invariant: only enumerators, integers and bools printed by host/text enter a unit, so no string of a caller
// becomes code. Called by gemm.cc, the cache and `sluice compile`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/options.h>
#include <sluice/spec/workspace_stamp.h>

namespace sluice {

/// Name of the one kernel in every unit. It has C linkage, so nothing needs demangling.
inline constexpr const char* kEntryName = "sluice_entry";

struct EmbeddedFile {
  const char* path;  // as in its #include: "sluice/spec/config.h"
  std::string_view text;
};

/// The device headers, embedded in the library at build time (tools/embed_sources.py).
std::span<const EmbeddedFile> embedded_files();

inline Stamping stamping_of(const Options& options) {
  return options.stamp_workspaces ? Stamping::on : Stamping::off;
}
/// The parts of a unit's entry function, as constant expressions of the unit.
struct Entry {
  std::string params;   // type of the kernel's parameter
  std::string threads;  // most threads of a CTA
  std::string ctas;     // CTAs that must find registers on an SM
  std::string call;
  std::string working = threads;  // threads from this index on leave at once (Spacing::registers)
};
/// Sizes registers by the working threads alone. Threads that a launch adds for Spacing::registers do not
/// count.
std::string entry_text(const Entry& entry, Spacing spacing = Spacing::memory);
/// The unit of a dense GEMM. Only configs that use a workspace are stamped.
std::string unit_text(const KernelConfig& config, Stamping stamping = Stamping::off);
/// The unit that adds up the slices of a GEMM with Combine::separate.
std::string sum_unit_text(const KernelConfig& config, Stamping stamping = Stamping::off);
/// All units that a plan with this config launches, in order.
std::vector<std::string> unit_texts(const KernelConfig& config, Stamping stamping = Stamping::off);

}  // namespace sluice
