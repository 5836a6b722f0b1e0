// SPDX-License-Identifier: Apache-2.0
// See options.h.
#include <sluice/c_api/options.h>

namespace sluice::c_api {

Result<Options> options_of(const sluice_options* given) {
  Options options = options_from_environment();
  if (given == nullptr) return options;
  if (given->cache_dir != nullptr) options.cache_dir = given->cache_dir;
  if (given->nvrtc_path != nullptr) options.nvrtc_path = given->nvrtc_path;
  if (given->records_dir != nullptr) options.records_dir = given->records_dir;
  if (given->cache_read_only >= 0) options.cache_read_only = given->cache_read_only != 0;
  if (given->jobs >= 0) options.jobs = given->jobs;
  if (given->race < -1 || given->race > kMostRacers)
    return Error{ErrorCode::invalid_argument, "race = " + std::to_string(given->race) + " must be in 0.." +
                                                  std::to_string(kMostRacers) +
                                                  ": pass 0 for no race, or -1 for what SLUICE_RACE says"};
  if (given->race >= 0) options.race = given->race;
  return options;
}

}  // namespace sluice::c_api
