// SPDX-License-Identifier: Apache-2.0
// See choices.h.
#include <sluice/c_api/choices.h>
#include <sluice/host/text/quoted.h>

#include <string>

namespace sluice::c_api {
namespace {

/// Sets `target` to the enumerator that is called `text`, if there is a text.
template <class Enum>
Result<void> take(const char* what, const char* text, std::initializer_list<Enum> values,
                  std::optional<Enum>& target) {
  if (text == nullptr) return {};
  std::string names;
  for (const Enum value : values) {
    if (std::string(text) == name_of(value)) {
      target = value;
      return {};
    }
    names += (names.empty() ? "" : ", ") + std::string(name_of(value));
  }
  return Error{ErrorCode::invalid_argument,
               std::string(what) + " = " + in_quotes(text) + " must be one of " + names};
}

void take(int32_t value, std::optional<int>& target) {
  if (value >= 0) target = value;
}

}  // namespace

Result<void> check_choice(const ChoiceNumber& number) {
  const auto& [name, value, most] = number;
  if (value >= -1 && value <= most) return {};
  return Error{ErrorCode::invalid_argument, std::string(name) + " = " + std::to_string(value) + " must be " +
                                                (most == 1 ? "0 or 1" : "at least 0") +
                                                ", or -1 to leave it the choice"};
}

Options options_of(const sluice_options* given) {
  Options options = options_from_environment();
  if (given == nullptr) return options;
  if (given->cache_dir != nullptr) options.cache_dir = given->cache_dir;
  if (given->nvrtc_path != nullptr) options.nvrtc_path = given->nvrtc_path;
  if (given->records_dir != nullptr) options.records_dir = given->records_dir;
  if (given->cache_read_only >= 0) options.cache_read_only = given->cache_read_only != 0;
  if (given->jobs >= 0) options.jobs = given->jobs;
  return options;
}

Result<PlanOverrides> overrides_of(const sluice_choices* c) {
  PlanOverrides overrides;
  if (c == nullptr) return overrides;
  for (const Result<void>& taken :
       {take("schedule", c->schedule,
             {Schedule::ping_pong, Schedule::cooperative, Schedule::plain, Schedule::plain_wgmma},
             overrides.schedule),
        take("store", c->store, {StorePath::tma, StorePath::direct}, overrides.store),
        take("raster", c->raster, {Raster::along_m, Raster::along_n}, overrides.raster),
        take("combine", c->combine, {Combine::none, Combine::last_arriver, Combine::separate, Combine::add},
             overrides.combine),
        take("numbering", c->numbering, {Numbering::launch, Numbering::gpc}, overrides.numbering)})
    if (!taken) return taken.error();
  for (const ChoiceNumber& number :
       std::initializer_list<ChoiceNumber>{{"tile_m", c->tile_m},
                                           {"tile_n", c->tile_n},
                                           {"stages", c->stages},
                                           {"cluster_m", c->cluster_m},
                                           {"cluster_n", c->cluster_n},
                                           {"cluster_k", c->cluster_k},
                                           {"raster_group", c->raster_group},
                                           {"clusters", c->clusters},
                                           {"streamed", c->streamed},
                                           {"splits", c->splits},
                                           {"workspace_limit", c->workspace_limit},
                                           {"ignore_records", c->ignore_records, 1},
                                           {"swapped", c->swapped, 1}})
    if (Result<void> good = check_choice(number); !good) return good.error();
  take(c->tile_m, overrides.tile_m);
  take(c->tile_n, overrides.tile_n);
  take(c->stages, overrides.stages);
  take(c->raster_group, overrides.raster_group);
  take(c->clusters, overrides.clusters);
  take(c->streamed, overrides.streamed);
  take(c->splits, overrides.splits);
  if (c->cluster_m >= 0 || c->cluster_n >= 0 || c->cluster_k >= 0)
    overrides.cluster =
        ClusterShape{c->cluster_m >= 0 ? c->cluster_m : 1, c->cluster_n >= 0 ? c->cluster_n : 1,
                     c->cluster_k >= 0 ? c->cluster_k : 1};
  if (c->workspace_limit >= 0) overrides.workspace_limit = c->workspace_limit;
  overrides.ignore_records = c->ignore_records > 0;
  if (c->swapped >= 0) overrides.swapped = c->swapped > 0;
  return overrides;
}

}  // namespace sluice::c_api
