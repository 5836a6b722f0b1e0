// SPDX-License-Identifier: Apache-2.0
// The result of a compile: the cubin, and ptxas's statistics. The driver room loads it, the compile tests
// forbid spills and stack, `sluice compile` prints it.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

struct BuildReport {
  int registers = 0;  // per thread, before setmaxnreg moves them between the roles
  int spill_bytes = 0;
  int stack_bytes = 0;
  int static_smem_bytes = 0;
  std::string compiler;  // e.g. "NVRTC 13.0.88"
  double seconds = 0;    // wall time of the compile, kept in the cache with the cubin
  std::string log;       // warnings and C75xx notes (serialised WGMMA); empty for a clean build

  bool operator==(const BuildReport&) const = default;
};

struct Cubin {
  std::string image;  // an ELF file, for cuModuleLoadData
  BuildReport report;

  bool operator==(const Cubin&) const = default;
};

/// Fills the numbers and `log` from NVRTC's log of one kernel, compiled with --ptxas-options=-v. Lines that
/// are no usual statistics go to `log`, so that no new warning is lost.
void read_compile_log(std::string_view text, BuildReport& report);

/// Extracts "13.0.88" from a cubin's tool note ("... release 13.0, V13.0.88"); empty if there is none.
std::string toolchain_version(std::string_view image);

}  // namespace sluice
