// SPDX-License-Identifier: Apache-2.0
// Folders and switches of this machine. Read from the environment once, by the caller, and passed down.
#pragma once

#include <string>
#include <vector>

namespace sluice {

inline constexpr int kMostRacers = 16;

struct Options {
  std::string cache_dir{};       // compiled kernels; empty: nothing is kept on disk
  bool cache_read_only = false;  // use what is there, write nothing (a shipped cache)
  std::string nvrtc_path{};      // libnvrtc to load; empty: the toolkit's
  std::string records_dir{};     // the user's tuning records; empty: only the shipped ones
  int jobs = 0;                  // parallel compiles in prepare(); 0: one per core
  /// Plans that gemm::run, packed::run and the C interface time when they first meet or prepare a problem
  /// without a record; the winner is used, and kept for this card (docs/decisions/0027). 0 or 1: none, the
  /// model decides. Each race takes about 20 ms with kernels in the cache, and up to 4 GB of device memory
  /// for that time. Without them as many kernels are compiled: 350 ms in all for three, on two cores. Two
  /// processes may choose differently, and so may give different bits, until one reads the other's result.
  int race = 0;
  /// Kernels record which launch owns a workspace, so that Workspace::verify() finds two launches that used
  /// one at the same time. For debugging: these kernels are compiled separately and are slower.
  bool stamp_workspaces = false;
};

/// SLUICE_CACHE_DIR (default: $XDG_CACHE_HOME/sluice or ~/.cache/sluice), SLUICE_CACHE_READ_ONLY,
/// SLUICE_NVRTC, SLUICE_RECORDS_DIR (default: $XDG_DATA_HOME/sluice/records or
/// ~/.local/share/sluice/records), SLUICE_JOBS, SLUICE_RACE, SLUICE_STAMP_WORKSPACES. Switches take 1, true,
/// yes, on or 0, false, no, off in any case, SLUICE_JOBS 0..1024, SLUICE_RACE 0..16. Other values are ignored
/// and leave the default.
Options options_from_environment();
/// Ignored values of the environment: a line each, with the rule and the remedy.
std::vector<std::string> environment_troubles();

}  // namespace sluice
