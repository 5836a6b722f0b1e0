// SPDX-License-Identifier: Apache-2.0
// E4: which im2col maps the driver accepts, at their documented limits and one beyond. One box of each is
// compared with walk.h.
#include <functional>

#include "compare.h"
#include "experiments.h"

namespace probe {
namespace {

constexpr size_t kElements = 4 << 20;
constexpr long kBase = 1 << 20;  // first element of each tensor; memory before it is not zero

struct Limit {
  std::string name;
  Geometry g;
  Start start;
  bool documented;  // true: the documentation allows it
};

/// Returns a tensor of 64 channels, 5 pixels along each axis and 3 images.
Geometry small(int spatial) {
  Geometry g;
  g.spatial = spatial;
  g.base = kBase;
  for (int d = 0; d < spatial; ++d) g.dims[1 + d] = 5;
  g.dims[spatial + 1] = 3;
  g.pack(64);
  return g;
}

/// Makes a case. `change` edits the small tensor; the box begins at the lower corner of the second image.
Limit limit(const std::string& name, int spatial, bool documented,
            const std::function<void(Geometry&, Start&)>& change) {
  Limit l{name, small(spatial), {}, documented};
  l.start.at[spatial + 1] = 1;
  change(l.g, l.start);
  for (int d = 0; d < spatial; ++d) l.start.at[1 + d] = l.g.lower[d];
  return l;
}

void add_corners(std::vector<Limit>& limits) {
  const int low[4] = {0, -32768, -128, -16}, high[4] = {0, 32767, 127, 15}, most[4] = {0, 65535, 255, 31};
  for (int spatial = 1; spatial <= 3; ++spatial) {
    const auto rank = format("rank %d: ", spatial + 2);
    for (int axis = 0; axis < spatial; ++axis) {
      const int l = low[spatial], h = high[spatial], o = most[spatial];
      limits.push_back(limit(rank + format("lower %d on axis %d", l, axis), spatial, true,
                             [=](Geometry& g, Start& s) { g.lower[axis] = l, s.offsets[axis] = -l; }));
      limits.push_back(limit(rank + format("lower %d on axis %d", l - 1, axis), spatial, false,
                             [=](Geometry& g, Start& s) { g.lower[axis] = l - 1, s.offsets[axis] = 1 - l; }));
      limits.push_back(limit(rank + format("upper %d on axis %d", h, axis), spatial, true,
                             [=](Geometry& g, Start&) { g.upper[axis] = h; }));
      limits.push_back(limit(rank + format("upper %d on axis %d", h + 1, axis), spatial, false,
                             [=](Geometry& g, Start&) { g.upper[axis] = h + 1; }));
      limits.push_back(
          limit(rank + format("lower and upper %d on axis %d, offset %d", l, axis, -l), spatial, true,
                [=](Geometry& g, Start& s) { g.lower[axis] = g.upper[axis] = l, s.offsets[axis] = -l; }));
      limits.push_back(
          limit(rank + format("offset %d on axis %d", o, axis), spatial, true, [=](Geometry& g, Start& s) {
            g.dims[1 + axis] = 2 - l;  // the lower corner is the last row but two of the axis
            if (spatial == 1) g.dims[2] = 1, s.at[2] = 0;
            g.pack(64);
            g.lower[axis] = l, g.upper[axis] = l, s.offsets[axis] = o;
          }));
    }
  }
}

void add_steps_and_boxes(std::vector<Limit>& limits) {
  for (const int step : {8, 9})
    limits.push_back(limit(format("step %d", step), 2, step == 8,
                           [=](Geometry& g, Start&) { g.dims[1] = 30, g.pack(64), g.steps[0] = step; }));
  for (const int pixels : {1, 7, 1024, 1025})
    limits.push_back(limit(format("%d pixels", pixels), 2, pixels <= 1024,
                           [=](Geometry& g, Start&) { g.pixels = pixels; }));
  for (const int channels : {256, 257, 264})
    limits.push_back(
        limit(format("%d channels, no swizzle", channels), 2, channels == 256, [=](Geometry& g, Start&) {
          g.dims[0] = 512, g.pack(512), g.channels = channels, g.swizzle = 0, g.pixels = 32;
        }));
  limits.push_back(limit("72 channels, swizzle 128", 2, false,
                         [](Geometry& g, Start&) { g.dims[0] = 72, g.pack(72), g.channels = 72; }));
  limits.push_back(limit("empty box", 2, false, [](Geometry& g, Start&) { g.upper[0] = -5; }));
  limits.push_back(limit("rank 2", 0, false, [](Geometry&, Start&) {}));
  limits.push_back(limit("strides of 8 bytes", 2, false, [](Geometry& g, Start&) {
    g.dims[0] = 4, g.pack(4), g.channels = 8, g.swizzle = 0;
  }));
  limits.push_back(limit("base at 8 bytes", 2, false, [](Geometry& g, Start&) { g.base += 4; }));
}

void add_channels(std::vector<Limit>& limits) {
  for (const int c : {8, 16, 24, 40, 56, 72})
    for (const int pitch : {c, c + 8, 128})
      limits.push_back(limit(format("C %d, pitch %d, 64 channels a pixel", c, pitch), 2, true,
                             [=](Geometry& g, Start&) { g.dims[0] = c, g.pack(pitch); }));
  limits.push_back(limit("C 72, second block of channels", 2, true,
                         [](Geometry& g, Start& s) { g.dims[0] = 72, g.pack(72), s.at[0] = 64; }));
  limits.push_back(
      limit("C 64, a block behind the channels", 2, true, [](Geometry&, Start& s) { s.at[0] = 64; }));
  for (const int swizzle : {0, 32, 64, 128})
    for (const int channels : {8, 16, 24, 32, 48})
      if (swizzle == 0 || channels * 2 <= swizzle)
        limits.push_back(limit(format("%d channels a pixel, swizzle %d", channels, swizzle), 2, true,
                               [=](Geometry& g, Start&) { g.channels = channels, g.swizzle = swizzle; }));
  limits.push_back(
      limit("pixels that overlap (pitch 32, C 64)", 2, true, [](Geometry& g, Start&) { g.pack(32); }));
  limits.push_back(limit("one pixel, one image, 8 channels", 2, true, [](Geometry& g, Start& s) {
    g.dims[0] = 8, g.dims[1] = g.dims[2] = g.dims[3] = 1, g.pack(8), s.at[3] = 0;
  }));
  limits.push_back(
      limit("a box that begins behind the last image", 2, true, [](Geometry&, Start& s) { s.at[3] = 3; }));
  limits.push_back(
      limit("a box that begins 1000 images behind", 2, true, [](Geometry&, Start& s) { s.at[3] = 1003; }));
  limits.push_back(
      limit("a box that begins before the first image", 2, true, [](Geometry&, Start& s) { s.at[3] = -1; }));
}

void run_replace(Cases& cases, BoxLoader& loader, const Buffer<uint16_t>& x) {
  if (!cases.begin("replace the address")) return;
  Geometry g = small(2);
  g.lower[0] = -1, g.upper[0] = -1;
  Geometry other = g;
  other.base = 2 * kBase + 1000 * 8;
  Start s;
  s.at[1] = -1, s.at[3] = 1, s.offsets[0] = 2;
  CUtensorMap map = im2col_map(g, x.device), before = map;
  const CUresult moved = replace_address(&map, x.device + other.base);
  const CUresult back = replace_address(&before, x.device + other.base + 4);
  const CUtensorMap fresh = im2col_map(other, x.device);
  const bool same = std::memcmp(&map, &fresh, sizeof map) == 0;
  bool came = false;
  const auto box = loader.im2col(map, g, s, &came);
  const int wrong = wrong_elements(box, expected_box(other, s, x.host), 128);
  std::printf("replace the address: %s, at 8 bytes %s, arrived %d, wrong %d, bytes as of a new map %d\n",
              name_of(moved).c_str(), name_of(back).c_str(), came, wrong, same);
  Line(cases.experiment(), cases.name())
      .add("code", name_of(moved))
      .add("code_at_8_bytes", name_of(back))
      .add("arrived", came)
      .add("wrong_elements", wrong)
      .add("bytes_as_of_a_new_map", same)
      .write();
}

}  // namespace

void run_limits(Cases& cases) {
  BoxLoader loader(1 << 20);
  const Buffer<uint16_t> x(kElements, 3);
  std::vector<Limit> limits;
  add_corners(limits);
  add_steps_and_boxes(limits);
  add_channels(limits);
  std::printf("%-52s %-28s %-9s %s\n", "case", "encode", "as said", "load");
  for (const Limit& l : limits) {
    if (!cases.begin(l.name)) continue;
    CUtensorMap map;
    const CUresult code = encode_im2col(&map, l.g, x.device);
    const bool encoded = code == CUDA_SUCCESS;
    Line line(cases.experiment(), cases.name());
    line.add("code", name_of(code))
        .add("documented", l.documented)
        .add("as_documented", encoded == l.documented);
    std::string load = "-";
    // A map beyond a documented limit is not used for a load, because its meaning is unknown.
    if (encoded && l.documented) {
      bool came = false;
      const auto box = loader.im2col(map, l.g, l.start, &came);
      const int wrong = wrong_elements(box, expected_box(l.g, l.start, x.host), l.g.swizzle);
      const int outside = outside_rows(l.g, l.start);
      load = format("arrived %d, wrong %d, rows outside %d of %d", came, wrong, outside, l.g.pixels);
      line.add("arrived", came)
          .add("wrong_elements", wrong)
          .add("rows_outside", outside)
          .add("rows", l.g.pixels);
    }
    line.write();
    std::printf("%-52s %-28s %-9s %s\n", l.name.c_str(), name_of(code).c_str(),
                encoded == l.documented ? "yes" : "NO", load.c_str());
  }
  run_replace(cases, loader, x);
}

}  // namespace probe
