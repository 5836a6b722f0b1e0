// SPDX-License-Identifier: Apache-2.0
// The text that NVRTC compiles: a unit of a few lines, which includes embedded headers by name
// (run/jit/embedded_files.h). Invariant: a unit contains only enumerators, integers and bools that plan/text
// printed, so no string of a caller becomes code. Called by gemm.cc, the cache and `sluice compile`.
#pragma once

#include <string>
#include <vector>

#include <sluice/spec/config.h>

namespace sluice {

/// The name of the only kernel in every unit. It has C linkage, so its name is not mangled.
inline constexpr const char* kEntryName = "sluice_entry";

/// The parts of a unit's entry function, as constant expressions in the unit.
struct Entry {
  std::string params;   // type of the kernel's parameter
  std::string threads;  // most threads per CTA
  std::string ctas;     // CTAs per SM for which there must be enough registers
  std::string call;
  std::string working = threads;  // threads from this index on exit at once (Spacing::registers)
};
/// Returns the text of the entry function. Registers per thread are limited for the working threads only:
/// threads that a launch adds for Spacing::registers do not count.
std::string entry_text(const Entry& entry, Spacing spacing = Spacing::memory);
/// Returns the unit of a product's kernel.
std::string unit_text(const KernelConfig& config);
/// Returns the unit that adds up the slices of a GEMM with Combine::separate.
std::string sum_unit_text(const KernelConfig& config);
/// Returns all units that a plan with this config launches, in order.
std::vector<std::string> unit_texts(const KernelConfig& config);

}  // namespace sluice
