// SPDX-License-Identifier: Apache-2.0
#include <sluice/twin/gather.h>

#include <algorithm>
#include <string>

#include <sluice/try.h>

namespace sluice::twin {
namespace {

constexpr int kAlignBytes = 16;

/// TMA's limits, which depend on the number of spatial axes: bits of a bounding-box corner, and the largest
/// offset.
struct Limits {
  int corner_bits;
  int offset;
};
Limits limits_of(int axes) {
  if (axes == 1) return {15, 65535};
  return axes == 2 ? Limits{7, 255} : Limits{4, 31};
}

Error refusal(const std::string& rule) {
  return Error{ErrorCode::invalid_argument, "im2col: " + rule};
}
std::string text(i64 value) {
  return std::to_string(value);
}
/// Returns the end of the range [lower, end) of positions along an axis at which pixels of a box may be.
i64 end_of(const GatherMap& map, int axis) {
  return map.extents[axis + 1] + map.upper[axis];
}

Result<void> check_axis(const GatherMap& map, int axis) {
  const int bits = limits_of(map.rank - 2).corner_bits;
  for (const int corner : {map.lower[axis], map.upper[axis]})
    if (corner < -(1 << bits) || corner >= 1 << bits)
      return refusal("corner " + text(corner) + " must fit " + text(bits + 1) + " bits");
  if (end_of(map, axis) <= map.lower[axis])
    return refusal("the box from " + text(map.lower[axis]) + " to " + text(end_of(map, axis)) + " is empty");
  return {};
}

/// Calls `visit` with every pixel of a load's box. Pixels are traversed in steps of the traversal stride. At
/// an axis's end the traversal returns to that axis's lower corner and advances along the next axis.
template <class Visit>
void walk(const GatherMap& map, GatherAt at, const Visit& visit) {
  const int axes = map.rank - 2;
  for (int pixel = 0; pixel < map.pixels; ++pixel) {
    visit(at);
    int axis = 0;
    for (; axis < axes; ++axis) {
      at.pixel[axis] += map.steps[axis + 1];
      if (at.pixel[axis] < end_of(map, axis)) break;
      at.pixel[axis] = map.lower[axis];
    }
    if (axis == axes) ++at.image;
  }
}

GatherRow row_at(const GatherMap& map, const GatherAt& at, const u16* offsets) {
  const int axes = map.rank - 2;
  GatherRow row{.element = at.channel + at.image * map.strides[axes]};
  bool inside = at.image >= 0 && at.image < map.extents[axes + 1];
  for (int axis = 0; axis < axes; ++axis) {
    const i64 place = at.pixel[axis] + (offsets == nullptr ? 0 : offsets[axis]);
    row.element += place * map.strides[axis];
    inside = inside && place >= 0 && place < map.extents[axis + 1];
  }
  if (inside) row.channels = static_cast<int>(std::clamp<i64>(map.extents[0] - at.channel, 0, map.channels));
  return row;
}

Result<void> check_place(const GatherMap& map, const GatherAt& at) {
  if (at.channel < 0) return refusal("channel " + text(at.channel) + " is negative");
  for (int axis = 0; axis < map.rank - 2; ++axis)
    if (at.pixel[axis] < map.lower[axis] || at.pixel[axis] >= end_of(map, axis))
      return refusal("place " + text(at.pixel[axis]) + " must lie in the box from " + text(map.lower[axis]) +
                     " to " + text(end_of(map, axis)));
  return {};
}

}  // namespace

Result<void> check_gather_map(const GatherMap& map) {
  if (map.rank < 3 || map.rank > 5) return refusal("rank " + text(map.rank) + " must be 3, 4 or 5");
  for (int i = 0; i < map.rank; ++i)
    if (map.extents[i] < 1) return refusal("extent " + text(map.extents[i]) + " must be positive");
  for (int i = 0; i + 1 < map.rank; ++i)
    if (map.strides[i] < 1 || map.strides[i] * map.element_bytes % kAlignBytes != 0)
      return refusal("a stride of " + text(map.strides[i]) + " elements must be a multiple of 16 bytes");
  for (const int step : map.steps)
    if (step < 1 || step > 8) return refusal("step " + text(step) + " must be in 1..8");
  if (map.channels < 1 || map.channels > 256 || map.channels * map.element_bytes > map.swizzle_bytes ||
      map.channels * map.element_bytes % kAlignBytes != 0)
    return refusal(text(map.channels) + " channels must be a multiple of 16 bytes within the swizzle's span");
  if (map.pixels < 1 || map.pixels > 1024) return refusal(text(map.pixels) + " pixels must be in 1..1024");
  for (int axis = 0; axis < map.rank - 2; ++axis) SLUICE_TRY(check_axis(map, axis));
  return {};
}

Result<void> gather_load(const GatherMap& map, const GatherAt& at, const u16* offsets,
                         std::vector<GatherRow>& rows) {
  SLUICE_TRY(check_place(map, at));
  const int most = limits_of(map.rank - 2).offset;
  for (int axis = 0; axis < map.rank - 2; ++axis)
    if (offsets[axis] > most)
      return refusal("offset " + text(offsets[axis]) + " must be in 0.." + text(most));
  rows.clear();
  walk(map, at, [&](const GatherAt& pixel) { rows.push_back(row_at(map, pixel, offsets)); });
  return {};
}

Result<void> gather_store(const GatherMap& map, const GatherAt& at, std::vector<GatherRow>& rows) {
  SLUICE_TRY(check_place(map, at));
  for (int axis = 0; axis < map.rank - 2; ++axis)
    if (map.lower[axis] < 0 || map.upper[axis] > 0) return refusal("a store's box must lie in the tensor");
  rows.clear();
  walk(map, at, [&](const GatherAt& pixel) { rows.push_back(row_at(map, pixel, nullptr)); });
  return {};
}

}  // namespace sluice::twin
