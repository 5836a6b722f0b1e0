// SPDX-License-Identifier: Apache-2.0
// The text that NVRTC compiles: a unit of a few lines, and the embedded headers it includes by name.
// Invariant: only enumerators, integers and bools printed by to_string(KernelConfig) enter a unit, so no
// string of a caller can become code. Called by gemm.cc, the cache and `sluice compile`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/options.h>
#include <sluice/spec/workspace_stamp.h>

namespace sluice {

/// Every unit has one kernel with C linkage and this name, so nothing needs demangling.
inline constexpr const char* kEntryName = "sluice_entry";

struct EmbeddedFile {
  const char* path;  // as it is included: "sluice/spec/config.h"
  std::string_view text;
};

/// The device headers, put into the library at build time (tools/embed_sources.py).
std::span<const EmbeddedFile> embedded_files();

inline Stamping stamping_of(const Options& options) {
  return options.stamp_workspaces ? Stamping::on : Stamping::off;
}
/// What the entry of a unit is made of: constant expressions that the unit knows.
struct Entry {
  std::string params;   // the type of what a launch gives it
  std::string threads;  // of a CTA, at most
  std::string ctas;     // that must find registers on an SM
  std::string call;
  std::string working = threads;  // what is above them leaves at once: Spacing::registers
};
/// Threads that a launch adds so that registers keep CTAs apart are no reason to give each of them fewer.
std::string entry_text(const Entry& entry, Spacing spacing = Spacing::memory);
/// The unit of a dense GEMM. A config that uses no workspace has nothing to stamp, and one unit only.
std::string unit_text(const KernelConfig& config, Stamping stamping = Stamping::off);
/// The unit that adds up the parts which a GEMM with Combine::separate leaves.
std::string sum_unit_text(const KernelConfig& config, Stamping stamping = Stamping::off);
/// All that a plan with this config launches, in that order.
std::vector<std::string> unit_texts(const KernelConfig& config, Stamping stamping = Stamping::off);

}  // namespace sluice
