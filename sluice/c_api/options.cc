// SPDX-License-Identifier: Apache-2.0
// See options.h.
#include <sluice/c_api/options.h>
#include <sluice/run/ops/race.h>
#include <sluice/try.h>

namespace sluice::c_api {

Result<Options> options_of(const sluice_options* given) {
  Options options = options_from_environment();
  if (given == nullptr) return options;
  if (given->cache_dir != nullptr) options.cache_dir = given->cache_dir;
  if (given->nvrtc_path != nullptr) options.nvrtc_path = given->nvrtc_path;
  if (given->records_dir != nullptr) options.records_dir = given->records_dir;
  if (given->cache_read_only >= 0) options.cache_read_only = given->cache_read_only != 0;
  if (given->jobs >= 0) options.jobs = given->jobs;
  SLUICE_TRY(ops::check_race(given->race));
  if (given->race >= 0) options.race = given->race;
  return options;
}

}  // namespace sluice::c_api
