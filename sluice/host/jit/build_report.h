// SPDX-License-Identifier: Apache-2.0
// What a compile gave: the cubin, and what ptxas said about it. Read by the driver room (to load), by the
// compile tests (no spills, no stack) and by people (`sluice compile`).
#pragma once

#include <string>
#include <string_view>

namespace sluice {

struct BuildReport {
  int registers = 0;  // per thread, before setmaxnreg moves them between the roles
  int spill_bytes = 0;
  int stack_bytes = 0;
  int static_smem_bytes = 0;
  std::string compiler;  // that made the cubin, e.g. "NVRTC 13.0.88"
  double seconds = 0;    // wall time of the compile, also when the cubin now comes from the cache
  std::string log;       // warnings and C75xx notes (serialised WGMMA); empty for a clean build

  bool operator==(const BuildReport&) const = default;
};

struct Cubin {
  std::string image;  // an ELF file, for cuModuleLoadData
  BuildReport report;

  bool operator==(const Cubin&) const = default;
};

/// Fills the numbers and `log` from NVRTC's log of one kernel, compiled with --ptxas-options=-v. A line that
/// is not one of ptxas's usual statistics goes to `log`, so that no new warning is lost.
void read_compile_log(std::string_view text, BuildReport& report);

/// "13.0.88" from the tool note inside a cubin ("... release 13.0, V13.0.88"); empty if there is none.
std::string toolchain_version(std::string_view image);

}  // namespace sluice
