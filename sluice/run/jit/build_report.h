// SPDX-License-Identifier: Apache-2.0
// The result of a compile: the cubin and ptxas's statistics. run/driver loads the cubin, the compile tests
// fail on spills and stack use, and `sluice compile` prints the statistics.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

struct BuildReport {
  int registers = 0;  // per thread, before setmaxnreg moves registers between roles
  int spill_bytes = 0;
  int stack_bytes = 0;
  int static_smem_bytes = 0;
  std::string compiler;  // for example "NVRTC 13.0.88"
  double seconds = 0;    // wall time of the compile; stored in the cache with the cubin
  std::string log;       // warnings and C75xx notes (serialised WGMMA); empty if there are none

  bool operator==(const BuildReport&) const = default;
};

struct Cubin {
  std::string image;  // an ELF file, for cuModuleLoadData
  BuildReport report;

  bool operator==(const Cubin&) const = default;
};

/// Fills in the numbers and `log` from NVRTC's log of one kernel, compiled with --ptxas-options=-v. Lines
/// that are not usual statistics go to `log`, so that no new kind of warning is lost.
void read_compile_log(std::string_view text, BuildReport& report);

/// Extracts "13.0.88" from a cubin's tool note ("... release 13.0, V13.0.88"); empty if there is none.
std::string toolchain_version(std::string_view image);

}  // namespace sluice
