// SPDX-License-Identifier: Apache-2.0
// E4r: compares random geometries, four boxes each, with walk.h; and walk.h with published examples.
#include "compare.h"
#include "experiments.h"

namespace probe {
namespace {

constexpr size_t kElements = 8 << 20;
constexpr long kBase = 1 << 16;
constexpr int kGeometries = 220;
constexpr int kBoxes = 4;

struct Trial {
  Geometry g;
  int taps[3], dilation[3], positions[3];
};

/// Returns the number of positions along an axis, from lower to before extent + upper.
int positions_of(const Geometry& g, int axis) {
  return (g.dims[1 + axis] + g.upper[axis] - g.lower[axis] + g.steps[axis] - 1) / g.steps[axis];
}

/// Makes an axis of a forward convolution: corners from padding, stride, dilation and filter.
void forward_axis(Random& random, Trial& t, int d, int most) {
  Geometry& g = t.g;
  const int pad = random.in(0, 3), after = random.in(0, 3);
  t.taps[d] = random.one_of({1, 2, 3, 3, 5});
  t.dilation[d] = random.one_of({1, 1, 2, 3});
  g.steps[d] = random.one_of({1, 1, 2, 3, 8});
  const int reach = (t.taps[d] - 1) * t.dilation[d] + 1;
  g.dims[1 + d] = random.in(1, most);
  if (g.dims[1 + d] + pad + after < reach) g.dims[1 + d] = reach;
  t.positions[d] = (g.dims[1 + d] + pad + after - reach) / g.steps[d] + 1;
  g.lower[d] = -pad;
  g.upper[d] = upper_corner(g.lower[d], t.positions[d], g.steps[d], g.dims[1 + d]);
}

/// Makes an axis with any corners that leave a box, also ones that begin inside or end far outside.
void free_axis(Random& random, Trial& t, int d, int most) {
  Geometry& g = t.g;
  g.dims[1 + d] = random.in(1, most);
  g.steps[d] = random.in(1, 8);
  g.lower[d] = random.in(-9, 4);
  const int span = random.in(1, 20);
  g.upper[d] = g.lower[d] + span - g.dims[1 + d];
  if (g.upper[d] > 15) g.upper[d] = 15;
  if (g.upper[d] < -16) g.upper[d] = -16;
  if (g.dims[1 + d] + g.upper[d] <= g.lower[d]) g.upper[d] = g.lower[d] + 1 - g.dims[1 + d];
  t.taps[d] = 4, t.dilation[d] = random.in(1, 7);
  t.positions[d] = positions_of(g, d);
}

Trial trial_of(Random& random, bool forward) {
  Trial t;
  Geometry& g = t.g;
  g.spatial = random.in(1, 3);
  g.base = kBase;
  const int most = g.spatial == 1 ? 300 : g.spatial == 2 ? 24 : 12;
  for (int d = 0; d < g.spatial; ++d)
    forward ? forward_axis(random, t, d, most) : free_axis(random, t, d, most);
  g.dims[0] = random.one_of({8, 24, 64, 64, 72, 128, 136});
  g.pixels = random.one_of({1, 8, 31, 64, 64, 72, 128, 200, 256});
  // In three of four trials there are images enough for two boxes, in the others too few.
  int positions = 1;
  for (int d = 0; d < g.spatial; ++d) positions *= t.positions[d];
  const int filled = random.in(0, 3) > 0 ? 2 * g.pixels / positions : 0;
  g.dims[g.spatial + 1] = random.in(1, 4) + (filled < 60 ? filled : 60);
  g.pack(g.dims[0] + random.one_of({0, 0, 8, 64}));
  long most_images = (static_cast<long>(kElements) - kBase) / g.strides[g.spatial + 1];
  if (g.images() > most_images) g.dims[g.spatial + 1] = static_cast<int>(most_images);
  g.swizzle = random.one_of({128, 128, 128, 0});
  return t;
}

/// Returns a random start. `odd`: not a multiple of the step from the lower corner.
Start start_of(Random& random, const Trial& t, bool odd) {
  const Geometry& g = t.g;
  Start s;
  s.at[0] = random.one_of({0, 0, 64, 8});
  for (int d = 0; d < g.spatial; ++d) {
    const int box = g.dims[1 + d] + g.upper[d] - g.lower[d];
    s.at[1 + d] =
        g.lower[d] + (odd ? random.in(0, box - 1) : random.in(0, positions_of(g, d) - 1) * g.steps[d]);
    s.offsets[d] = random.in(0, t.taps[d] - 1) * t.dilation[d];
  }
  s.at[g.spatial + 1] = random.in(0, g.images());
  return s;
}

/// Returns the geometry with its corners in reverse order, to test whether the driver reads them from the
/// outermost axis.
Geometry turned(const Geometry& g) {
  Geometry other = g;
  for (int d = 0; d < g.spatial; ++d) {
    other.lower[d] = g.lower[g.spatial - 1 - d];
    other.upper[d] = g.upper[g.spatial - 1 - d];
  }
  return other;
}

/// Counts boxes with wrong contents, and describes the first.
struct Judge {
  const Buffer<uint16_t>& x;
  std::string first{};
  int boxes = 0, wrong_boxes = 0;
  long rows = 0, outside = 0;

  void judge(const std::vector<unsigned char>& got, bool came, const Geometry& g, const Start& s) {
    ++boxes;
    rows += g.pixels;
    outside += live_channels(g, s) > 0 ? outside_rows(g, s) : g.pixels;
    const int wrong = wrong_elements(got, expected_box(g, s, x.host), g.swizzle);
    if (came && wrong == 0) return;
    ++wrong_boxes;
    if (!first.empty()) return;
    const bool as_turned = wrong_elements(got, expected_box(turned(g), s, x.host), g.swizzle) == 0;
    first = format("%s; %s; arrived %d, wrong %d%s", g.text().c_str(), s.text(g.spatial).c_str(), came, wrong,
                   as_turned ? "; right if the corners are from the outermost axis" : "");
  }
};

bool example(int images, int lower, int upper, const Start& start, int pixels,
             const std::vector<int>& wanted) {
  Geometry g;
  g.dims[0] = 32, g.dims[1] = g.dims[2] = 4, g.dims[3] = images;
  g.pack(32);
  g.lower[0] = g.lower[1] = lower, g.upper[0] = g.upper[1] = upper;
  g.channels = 32, g.pixels = pixels;
  const std::vector<long> rows = rows_of(g, start);
  for (int i = 0; i < pixels; ++i)
    if ((rows[i] < 0 ? 0 : rows[i] / 32 + 1) != wanted[i]) return false;
  return true;
}

std::vector<int> count_from(int first) {
  std::vector<int> values(16);
  for (int i = 0; i < 16; ++i) values[i] = first + i;
  return values;
}

}  // namespace

/// The four examples that Triton's tutorial on im2col asserts on a Hopper GPU: pixels of 4x4 images, counted
/// from 1.
void run_emulator(Cases& cases) {
  const bool right[] = {
      example(1, 0, 0, {}, 16, count_from(1)),
      example(1, -1, -1, {{0, -1, -1, 0}, {0, 0}}, 16, {0, 0, 0, 0, 0, 1, 2, 3, 0, 5, 6, 7, 0, 9, 10, 11}),
      example(1, -1, -1, {{0, -1, -1, 0}, {1, 1}}, 16, count_from(1)),
      example(2, 0, 0, {{0, 3, 1, 0}, {0, 0}}, 16, count_from(8)),
      example(1, 0, 0, {{0, 2, 3, 0}, {0, 0}}, 8, {15, 16, 0, 0, 0, 0, 0, 0}),
  };
  for (const bool one : right) {
    if (!cases.begin("published example")) continue;
    std::printf("published example: %s\n", one ? "right" : "WRONG");
    Line(cases.experiment(), cases.name()).add("right", one).write();
  }
}

void run_geometries(Cases& cases) {
  BoxLoader loader(1 << 20);
  const Buffer<uint16_t> x(kElements, 4);
  // Three classes: forward convolutions; any corners; any corners, with starts between positions.
  const char* classes[] = {"forward", "free corners", "free corners, odd starts"};
  int wrong[3] = {}, boxes[3] = {}, refused[3] = {};
  double inside[3] = {}, rows[3] = {};
  for (int i = 0; i < kGeometries; ++i) {
    const int kind = i % 5 < 3 ? 0 : i % 5 == 3 ? 1 : 2;
    Random random(1000 + i);
    const Trial t = trial_of(random, kind == 0);
    if (!cases.begin(format("geometry %d, %s", i, classes[kind]))) continue;
    CUtensorMap map;
    const CUresult code = encode_im2col(&map, t.g, x.device);
    Line line(cases.experiment(), cases.name());
    line.add("class", classes[kind]).add("code", name_of(code));
    if (code != CUDA_SUCCESS) {
      ++refused[kind];
      std::printf("%s: %s for %s\n", cases.name().c_str(), name_of(code).c_str(), t.g.text().c_str());
      line.add("geometry", t.g.text()).write();
      continue;
    }
    Judge judge{x};
    for (int box = 0; box < kBoxes; ++box) {
      const Start s = start_of(random, t, kind == 2);
      bool came = false;
      const auto got = loader.im2col(map, t.g, s, &came);
      judge.judge(got, came, t.g, s);
    }
    wrong[kind] += judge.wrong_boxes, boxes[kind] += judge.boxes;
    inside[kind] += static_cast<double>(judge.rows - judge.outside),
        rows[kind] += static_cast<double>(judge.rows);
    line.add("boxes", judge.boxes).add("wrong_boxes", judge.wrong_boxes);
    if (judge.wrong_boxes > 0) {
      line.add("first_wrong", judge.first);
      std::printf("%s: %d of %d boxes are wrong: %s\n", cases.name().c_str(), judge.wrong_boxes, judge.boxes,
                  judge.first.c_str());
    }
    line.write();
  }
  for (int kind = 0; kind < 3; ++kind) {
    std::printf("%-26s %d of %d boxes wrong, %.0f %% of rows inside, %d maps refused\n", classes[kind],
                wrong[kind], boxes[kind], 100 * inside[kind] / rows[kind], refused[kind]);
    if (cases.begin(format("sum of %s", classes[kind])))
      Line(cases.experiment(), cases.name())
          .add("boxes", boxes[kind])
          .add("wrong_boxes", wrong[kind])
          .add("rows_inside", inside[kind] / rows[kind])
          .add("refused", refused[kind])
          .write();
  }
}

}  // namespace probe
