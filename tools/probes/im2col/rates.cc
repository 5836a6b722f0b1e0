// SPDX-License-Identifier: Apache-2.0
// E1: SM clocks to load a row of 128 bytes, by im2col boxes and by tiled ones.
#include "rates.h"

#include <algorithm>
#include <cmath>

#include "experiments.h"

namespace probe {
namespace {

constexpr size_t kL2Bytes = 12'000'000, kHbmBytes = 200'000'000;
constexpr int kRowsEach = 49152;  // rows that a CTA loads
constexpr int kRepeats = 5;
constexpr int kRingBytes = 192 * 1024;

/// A traversal of pixels and taps. Axes are w, h, d; those from `spatial` on have size 1.
struct Walk {
  std::string name;
  int spatial = 2;  // 0: tiled boxes
  int size[3] = {1, 1, 1}, filter[3] = {1, 1, 1};
  int pad = 0, stride = 1, dilation = 1;
  int channels = 64;
  // Axis along which all rows are outside of the tensor; 3: after the last image; -1: none.
  int outside_axis = -1;
  int times_bytes = 1;  // enlarges the tensor, if it has too few positions for all SMs
};

Walk square(const std::string& name, int size, int filter, int pad, int stride = 1, int dilation = 1,
            int channels = 64) {
  Walk w{name};
  for (int d = 0; d < 2; ++d) w.size[d] = size, w.filter[d] = filter;
  w.pad = pad, w.stride = stride, w.dilation = dilation, w.channels = channels;
  w.times_bytes = stride > 1 || channels > 64 ? 2 : 1;
  return w;
}

std::vector<Walk> walks() {
  std::vector<Walk> all;
  all.push_back({"tiled once", 0});
  all.push_back({"tiled 9 times", 0, {1, 1, 1}, {9, 1, 1}});
  all.push_back(
      {.name = "tiled 9 times, C 256", .spatial = 0, .filter = {9, 1, 1}, .channels = 256, .times_bytes = 2});
  all.push_back({.name = "tiled, all outside", .spatial = 0, .outside_axis = 3});
  all.push_back(square("56px 1x1", 56, 1, 0));
  all.push_back(square("7px 1x1", 7, 1, 0));
  all.push_back(square("56px 3x3 unpadded", 56, 3, 0));
  all.push_back(square("56px 3x3", 56, 3, 1));
  all.push_back(square("28px 3x3", 28, 3, 1));
  all.push_back(square("14px 3x3", 14, 3, 1));
  all.push_back(square("7px 3x3", 7, 3, 1));
  all.push_back(square("56px 1x1/2", 56, 1, 0, 2));
  all.push_back(square("56px 3x3/2", 56, 3, 1, 2));
  all.push_back(square("28px 3x3 dilation 2", 28, 3, 2, 1, 2));
  all.push_back(square("14px 3x3, C 256", 14, 3, 1, 1, 1, 256));
  for (const int axis : {0, 1, 3}) {
    Walk w = square(axis == 0   ? "outside along w"
                    : axis == 1 ? "outside along h"
                                : "outside along n",
                    56, 1, 0);
    w.outside_axis = axis;
    all.push_back(w);
  }
  all.push_back({"1-D 3136px 3", 1, {3136, 1, 1}, {3, 1, 1}, 1});
  all.push_back({"1-D 3136px 3 dilation 64", 1, {3136, 1, 1}, {3, 1, 1}, 64, 1, 64});
  all.push_back({"3-D 28x28x8 1x1x1", 3, {28, 28, 8}});
  all.push_back({"3-D 28x28x8 3x3x3", 3, {28, 28, 8}, {3, 3, 3}, 1});
  all.push_back({"3-D 7x7x4 3x3x3", 3, {7, 7, 4}, {3, 3, 3}, 1});
  all.push_back({.name = "3-D 28x28x8 3x3x3/2",
                 .spatial = 3,
                 .size = {28, 28, 8},
                 .filter = {3, 3, 3},
                 .pad = 1,
                 .stride = 2,
                 .times_bytes = 3});
  return all;
}

int positions_of(const Walk& w, int d) {
  const int pad = d < w.spatial ? w.pad : 0;
  const int stride = d < w.spatial ? w.stride : 1;
  return (w.size[d] + 2 * pad - w.dilation * (w.filter[d] - 1) - 1) / stride + 1;
}

/// Returns the fraction of rows outside of the tensor, over all positions and taps.
double outside_of(const Walk& w) {
  if (w.outside_axis >= 0) return 1;
  double inside = 1;
  for (int d = 0; d < w.spatial; ++d) {
    const int positions = positions_of(w, d);
    int count = 0;
    for (int p = 0; p < positions; ++p)
      for (int t = 0; t < w.filter[d]; ++t) {
        const int x = -w.pad + p * w.stride + t * w.dilation;
        count += x >= 0 && x < w.size[d];
      }
    inside *= static_cast<double>(count) / positions / w.filter[d];
  }
  return 1 - inside;
}

struct Prepared {
  RateShape shape;
  RateParams params{};
  int clusters;
  double outside;
};

/// Sets the kernel's parameters. The tensor takes about `bytes` of `memory`.
Prepared prepare(const Walk& w, const RateShape& shape, size_t bytes, void* memory, int sms) {
  Prepared out{
      shape, {}, sms / shape.ctas, w.spatial == 0 ? (w.outside_axis < 0 ? 0.0 : 1.0) : outside_of(w)};
  RateParams& p = out.params;
  p.blocks = w.channels / 64;
  p.taps = w.filter[0];  // tiled: how often each tile is loaded
  const long in_pixels = static_cast<long>(bytes) / (w.channels * 2);
  if (w.spatial == 0) {
    Matrix m{.rows = in_pixels, .columns = w.channels, .pitch = w.channels, .box_rows = shape.box_rows};
    if (w.outside_axis >= 0) m.rows = 1;  // all boxes but the first are wholly outside
    p.map = tiled_map(m, memory);
    p.pixels = static_cast<int>(in_pixels);
  } else {
    Geometry g;
    g.spatial = w.spatial;
    g.dims[0] = w.channels;
    long image = 1, walk = 1;
    int taps = 1;
    for (int d = 0; d < 3; ++d) {
      const int positions = positions_of(w, d);
      p.extents[d] = positions, p.lower[d] = 0, p.steps[d] = 1;
      if (d >= w.spatial) continue;
      g.dims[1 + d] = w.size[d];
      g.lower[d] = -w.pad, g.steps[d] = w.stride;
      g.upper[d] = upper_corner(-w.pad, positions, w.stride, w.size[d]);
      if (w.outside_axis == d) g.lower[d] = g.upper[d] = -w.size[d];
      p.lower[d] = g.lower[d], p.steps[d] = g.steps[d];
      image *= w.size[d], walk *= positions, taps *= w.filter[d];
    }
    const int images = static_cast<int>(in_pixels / image);
    g.dims[w.spatial + 1] = images;
    g.pack(w.channels);
    g.pixels = shape.box_rows;
    if (w.outside_axis == 3) p.image_base = images;
    p.map = im2col_map(g, memory);
    p.pixels = static_cast<int>(walk * images);
    p.taps = taps;
    for (int t = 0; t < taps; ++t) {
      const int s = t % w.filter[0], r = t / w.filter[0] % w.filter[1], q = t / w.filter[0] / w.filter[1];
      p.offsets[t] = {static_cast<unsigned short>(s * w.dilation),
                      static_cast<unsigned short>(r * w.dilation),
                      static_cast<unsigned short>(q * w.dilation)};
    }
  }
  const int tiles = p.pixels / shape.stage_rows;
  p.tiles_each = std::min(tiles / out.clusters, kMostEntries / shape.boxes());
  p.stages = std::min(kMostStages, kRingBytes / (shape.stage_rows * 128));
  return out;
}

struct Results {
  long long* clocks;
  long long* elapsed;
  int* failed;
};

/// Returns clocks per row; 0 if the run failed.
double measure(Cases& cases, const Walk& walk, Prepared& run, const std::string& memory, double tiled,
               const Results& r) {
  RateParams& p = run.params;
  p.clocks = r.clocks, p.elapsed = r.elapsed, p.failed = r.failed;
  const int k_tiles = p.tiles_each * p.taps * p.blocks;
  p.loads = std::max(1, kRowsEach / run.shape.stage_rows);
  // From HBM each tensor is loaded once as a whole, so that each row comes from there once.
  if (memory == "HBM") p.loads = std::min(k_tiles, 4 * p.loads);
  if (p.tiles_each < 1) {
    std::printf("%s: too few tiles\n", cases.name().c_str());
    return 0;
  }
  const int ctas = run.clusters * run.shape.ctas;
  copy_to_device(r.failed, std::vector<int>{0});
  struct Sample {
    double clocks, most, elapsed;
    float ms;
  };
  std::vector<Sample> samples;
  for (int i = 0; i < kRepeats + 1; ++i) {
    const float ms = run_rate(run.shape, p, run.clusters, nullptr);
    if (ms < 0) {
      std::printf("%s: no kernel of this shape\n", cases.name().c_str());
      return 0;
    }
    const auto clocks = copy_to_host(r.clocks, ctas), elapsed = copy_to_host(r.elapsed, ctas);
    Sample s{0, 0, 0, ms};
    for (int c = 0; c < ctas; ++c) {
      s.clocks += static_cast<double>(clocks[c]) / ctas;
      s.elapsed += static_cast<double>(elapsed[c]) / ctas;
      s.most = std::max(s.most, static_cast<double>(clocks[c]));
    }
    if (i > 0) samples.push_back(s);
  }
  std::sort(samples.begin(), samples.end(),
            [](const Sample& a, const Sample& b) { return a.clocks < b.clocks; });
  const Sample& s = samples[samples.size() / 2];
  const bool failed = copy_to_host(r.failed, 1)[0] != 0;
  const double rows = static_cast<double>(p.loads) * run.shape.stage_rows;
  const double per_row = s.clocks / rows, bytes_per_ns = rows * 128 / s.elapsed;
  std::printf("%-26s %-3s %4d %2d %7.1f%% %8.2f %8.2f %8.2f %9.1f %8.2f%s\n", walk.name.c_str(),
              memory.c_str(), run.shape.box_rows, run.shape.ctas, run.outside * 100, per_row, s.most / rows,
              tiled > 0 ? per_row / tiled : NAN, bytes_per_ns, s.clocks / s.elapsed,
              failed ? " TIMED OUT" : "");
  Line(cases.experiment(), cases.name())
      .add("walk", walk.name)
      .add("memory", memory)
      .add("box_rows", run.shape.box_rows)
      .add("cluster", run.shape.ctas)
      .add("outside", run.outside)
      .add("clocks_per_row", per_row)
      .add("clocks_per_row_of_slowest", s.most / rows)
      .add("clocks_per_issued_row", per_row * run.shape.ctas)
      .add("times_tiled", tiled > 0 ? per_row / tiled : NAN)  // null if the tiled run failed
      .add("bytes_per_ns_per_sm", bytes_per_ns)
      .add("clock_ghz", s.clocks / s.elapsed)
      .add("rows_per_cta", rows)
      .add("k_tiles_of_a_walk", k_tiles)
      .add("ms", static_cast<double>(s.ms))
      .add("timed_out", failed)
      .write();
  return failed ? 0 : per_row;
}

RateShape shape_of(const Walk& w, int box_rows, int ctas) {
  return {w.spatial, ctas, box_rows, std::max(128, box_rows * ctas)};
}

}  // namespace

void run_rates(Cases& cases) {
  int sms = 0;
  check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), "SMs");
  auto* memory = device_array<unsigned char>(kHbmBytes);
  check(cudaMemset(memory, 1, kHbmBytes), "memset");
  const Results results{device_array<long long>(1024), device_array<long long>(1024), device_array<int>(1)};
  std::printf("%-26s %-3s %4s %2s %8s %8s %8s %8s %9s %8s\n", "walk", "mem", "box", "cl", "outside",
              "clk/row", "slowest", "x tiled", "B/ns/SM", "GHz");
  const auto all = [&](const char* where, size_t bytes, const std::vector<int>& boxes, int ctas,
                       const auto& wanted) {
    for (const int box_rows : boxes) {
      double once = 0, many = 0;  // clocks per row of tiled boxes that are loaded once, or nine times
      for (const Walk& walk : walks()) {
        if (!wanted(walk)) continue;
        const RateShape shape = shape_of(walk, box_rows, ctas);
        if (!cases.begin(format("%s, %s, box %d, cluster %d", walk.name.c_str(), where, box_rows, ctas)))
          continue;
        Prepared run = prepare(walk, shape, std::min(bytes * walk.times_bytes, kHbmBytes), memory, sms);
        double& tiled = run.params.taps == 1 ? once : many;
        const double per_row = measure(cases, walk, run, where, tiled, results);
        if (walk.spatial == 0 && tiled == 0) tiled = per_row;
      }
    }
  };
  const auto any = [](const Walk&) { return true; };
  all("L2", kL2Bytes, {32, 64, 128, 256}, 1, any);
  all("L2", kL2Bytes, {32, 64, 128}, 2, any);
  // Cases that load each row once, and some that load it again from L2.
  const auto streams = [](const Walk& w) {
    return w.outside_axis < 0 && w.channels == 64 && w.size[0] != 3136;
  };
  all("HBM", kHbmBytes, {64, 128, 256}, 1, streams);
  all("HBM", kHbmBytes, {64, 128}, 2, streams);
}

}  // namespace probe
