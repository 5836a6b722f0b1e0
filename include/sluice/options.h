// SPDX-License-Identifier: Apache-2.0
// Folders and switches of this machine. The caller reads them from the environment once and passes them on.
#pragma once

#include <string>
#include <vector>

namespace sluice {

inline constexpr int kMostRacers = 16;
inline constexpr int kUsualRacers = 3;  // plans that a race times by default
/// Options::race and the argument of prepare(): nothing is said, and each call has its own default.
inline constexpr int kUsualRace = -1;

struct Options {
  std::string cache_dir{};       // folder of compiled kernels; empty: nothing is kept on disk
  bool cache_read_only = false;  // read the folder but never write to it (a shipped cache)
  std::string nvrtc_path{};      // libnvrtc to load; empty: the CUDA toolkit's
  std::string records_dir{};     // folder of the user's tuning records; empty: only shipped records are used
  int jobs = 0;                  // parallel compiles in prepare(); 0: one per core
  /// Number of plans that gemm::run and the C interface time when they first run or prepare a
  /// problem without a record. The winner is used, and stored for this card (docs/decisions/0027). 0 or 1:
  /// nothing is timed, and the model decides. Each race takes about 20 ms with kernels in the cache, and up
  /// to 4 GB of device memory for that time. Without cached kernels, as many kernels are compiled: 350 ms in
  /// all for three, on two cores. Two processes may choose differently, and so may give different bits, until
  /// one reads the other's result. kUsualRace: gemm::run does not race, and gemm::prepare of problems races
  /// kUsualRacers plans where that is in nobody's way (docs/decisions/0042).
  int race = kUsualRace;
  /// File to which one line is appended per kernel that is found or compiled (docs/jit.md); empty: none.
  std::string kernel_log{};
};

/// Reads SLUICE_CACHE_DIR (default: $XDG_CACHE_HOME/sluice or ~/.cache/sluice), SLUICE_CACHE_READ_ONLY,
/// SLUICE_NVRTC, SLUICE_RECORDS_DIR (default: $XDG_DATA_HOME/sluice/records or
/// ~/.local/share/sluice/records), SLUICE_JOBS, SLUICE_RACE, SLUICE_KERNEL_LOG. SLUICE_CACHE_READ_ONLY takes
/// 1, true, yes, on or 0, false, no, off in any case, SLUICE_JOBS 0..1024, SLUICE_RACE 0..16. Other values
/// are ignored, and the default is used.
Options options_from_environment();
/// Values of the environment that were ignored: one line each, with the rule and the remedy.
std::vector<std::string> environment_troubles();

}  // namespace sluice
