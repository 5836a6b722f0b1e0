// SPDX-License-Identifier: Apache-2.0
// See ranges.h. A field that is added to the overrides gets a row here, and ranges_test.cc walks all rows.
#include <sluice/host/planner/ranges.h>

#include <algorithm>
#include <limits>
#include <span>

namespace sluice {
namespace {

constexpr int kAny = std::numeric_limits<int>::max();

constexpr FieldRange kOfDense[] = {{"tile_m", 8, 256},    {"tile_n", 8, 256},        {"stages", 2, 16},
                                   {"warps", 1, 16},      {"cluster_m", 1, 8},       {"cluster_n", 1, 8},
                                   {"cluster_k", 1, 8},   {"raster_group", 1, kAny}, {"clusters", 1, 1 << 16},
                                   {"streamed", 0, kAny}, {"splits", 1, kAny}};

constexpr FieldRange kOfPacked[] = {{"token_blocks", 1, 4}, {"row_blocks", 2, 8}, {"warps", 1, 16},
                                    {"stages", 2, 32},      {"parts", 1, 8},      {"ctas", 1, 64},
                                    {"tokens", 8, 256},     {"cluster_n", 1, 2},  {"cluster_k", 1, 2},
                                    {"x_stages", 2, 16},    {"w_stages", 1, 16},  {"tail_parts", 1, 2},
                                    {"strips", 1, 4},       {"k_groups", 1, 4}};

std::optional<FieldRange> find(std::span<const FieldRange> table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const FieldRange& r) { return r.name == name; });
  return found != table.end() ? std::optional(*found) : std::nullopt;
}

/// Keeps the first error of several fields. Success allocates nothing.
class Fields {
 public:
  explicit Fields(std::span<const FieldRange> table) : table_(table) {}

  Fields& check(std::string_view name, const std::optional<int>& value) {
    const std::optional<FieldRange> range = value && found_ ? find(table_, name) : std::nullopt;
    if (range && (*value < range->least || *value > range->most))
      found_ =
          Error{ErrorCode::invalid_config, std::string(name) + " = " + std::to_string(*value) + " " +
                                               rule_of(*range) + "; give such a number, or leave it out"};
    return *this;
  }
  const Result<void>& found() const { return found_; }

 private:
  std::span<const FieldRange> table_;
  Result<void> found_;
};

}  // namespace

std::optional<FieldRange> range_of_override(std::string_view name) {
  return find(kOfDense, name);
}
std::optional<FieldRange> range_of_packed_override(std::string_view name) {
  return find(kOfPacked, name);
}

std::string rule_of(const FieldRange& range) {
  const std::string least = std::to_string(range.least);
  return range.most == kAny ? "must be at least " + least
                            : "must be in " + least + ".." + std::to_string(range.most);
}

Result<void> check_ranges(const PlanOverrides& o) {
  const auto along = [&](int ClusterShape::*extent) {
    return o.cluster ? std::optional(*o.cluster.*extent) : std::nullopt;
  };
  return Fields(kOfDense)
      .check("tile_m", o.tile_m)
      .check("tile_n", o.tile_n)
      .check("stages", o.stages)
      .check("warps", o.warps)
      .check("cluster_m", along(&ClusterShape::m))
      .check("cluster_n", along(&ClusterShape::n))
      .check("cluster_k", along(&ClusterShape::k))
      .check("raster_group", o.raster_group)
      .check("clusters", o.clusters)
      .check("streamed", o.streamed)
      .check("splits", o.splits)
      .found();
}

Result<void> check_ranges(const packed::Overrides& o) {
  return Fields(kOfPacked)
      .check("token_blocks", o.token_blocks)
      .check("row_blocks", o.row_blocks)
      .check("warps", o.warps)
      .check("stages", o.stages)
      .check("parts", o.parts)
      .check("ctas", o.ctas)
      .check("tokens", o.tokens)
      .check("cluster_n", o.cluster_n)
      .check("cluster_k", o.cluster_k)
      .check("x_stages", o.x_stages)
      .check("w_stages", o.w_stages)
      .check("tail_parts", o.tail_parts)
      .check("strips", o.strips)
      .check("k_groups", o.k_groups)
      .found();
}

}  // namespace sluice
