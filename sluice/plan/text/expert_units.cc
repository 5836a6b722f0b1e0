// SPDX-License-Identifier: Apache-2.0
#include <sluice/plan/text/expert_units.h>

#include <sluice/plan/text/overlap_text.h>
#include <sluice/plan/text/units.h>

namespace sluice {

namespace {

/// Returns the unit of kernels/NAME_entry.cuh. `fields`: those of its config in front of the overlap.
std::string unit_of(const std::string& name, const std::string& type, const std::string& fields,
                    const Overlap& overlap, Entry entry) {
  entry.params = "sluice::" + type + "Params";
  entry.call = "sluice::" + name + "::run<kConfig, sluice::" + name + "::DeviceArith>(params)";
  return "#include <sluice/kernels/" + name + "_entry.cuh>\ninline constexpr sluice::" + type +
         "Config kConfig{" + fields + overlap_field(overlap) + "};\n" + entry_text(entry, overlap.spacing);
}

std::string flag(bool value) {
  return value ? "true" : "false";
}

}  // namespace

std::string route_unit_text(const RouteConfig& config) {
  const auto& [wide, overlap] = config;  // a new field does not compile until it is printed here
  return unit_of("route", "Route", ".wide = " + flag(wide), overlap,
                 {.threads = "sluice::kMaxRouteThreads", .ctas = "1", .working = "params.working_threads"});
}

std::string combine_unit_text(const CombineConfig& config) {
  const auto& [type, vectors, overlap] = config;
  return unit_of("combine", "Combine",
                 std::string(".type = sluice::DType::") + name_of(type) + ", .vectors = " + flag(vectors),
                 overlap, {.threads = "sluice::kCombineThreads", .ctas = "4"});
}

std::vector<std::string> combine_units(DType type, Overlap overlap) {
  return {combine_unit_text({type, true, overlap}), combine_unit_text({type, false, overlap})};
}

}  // namespace sluice
