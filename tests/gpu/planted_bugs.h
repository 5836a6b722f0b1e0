// SPDX-License-Identifier: Apache-2.0
// Kernels with one bug each, for the sanitizers to find: a tool that finds nothing here proves nothing about
// ours. Harmless without a tool: the bad accesses stay inside what the driver mapped, and no thread waits for
// ever.
#pragma once

#include <string>

namespace sluice::testing {

struct PlantedParams {
  int* data;  // kPlantedInts of them
  int* sum;
};
inline constexpr int kPlantedInts = 256;  // one for each thread of the one block

/// "memcheck", "racecheck", "initcheck", "synccheck": a unit with the bug that this tool is for. "divergent":
/// a second one for synccheck, which may hang.
std::string planted_unit(const std::string& tool);
/// The same kernel without the bug, which no tool may complain about.
std::string sound_unit();

}  // namespace sluice::testing
