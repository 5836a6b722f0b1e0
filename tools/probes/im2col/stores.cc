// SPDX-License-Identifier: Apache-2.0
// E3: im2col_no_offs stores of every stride-th pixel into a buffer with guards on both sides, and the rate of
// such stores.
#include <algorithm>

#include "compare.h"
#include "experiments.h"
#include "stores.h"

namespace probe {
namespace {

constexpr int kBoxRows = 64;
constexpr long kGuard = 1 << 16;  // elements before the tensor

struct Target {
  std::string name;
  int spatial = 2;
  int size[3] = {1, 1, 1}, stride[3] = {1, 1, 1};
  int channels = 64, pitch = 64, images = 3;
  // true: elementStrides over the whole tensor; false: wider strides of a smaller tensor.
  bool element_strides = false;
  bool add = false;  // true: fp32, and each box is added twice
};

long image_elements(const Target& t) {
  return static_cast<long>(t.pitch) * t.size[0] * t.size[1] * t.size[2];
}

/// Returns the map of one phase: pixels a + stride * position along each axis.
Geometry phase_of(const Target& t, const int* a, int element_bytes, int* positions) {
  Geometry g;
  g.spatial = t.spatial;
  g.element_bytes = element_bytes;
  g.channels = 128 / element_bytes;
  g.pixels = kBoxRows;
  g.base = kGuard;
  g.dims[0] = t.channels;
  g.dims[t.spatial + 1] = t.images;
  long pitch = t.pitch;
  g.strides[0] = 1;
  for (int d = 0; d < t.spatial; ++d) {
    positions[d] = (t.size[d] - a[d] + t.stride[d] - 1) / t.stride[d];
    if (t.element_strides) {
      g.dims[1 + d] = t.size[d], g.strides[1 + d] = pitch;
      g.lower[d] = a[d], g.steps[d] = t.stride[d];
      g.upper[d] = upper_corner(a[d], positions[d], t.stride[d], t.size[d]);
    } else {
      g.dims[1 + d] = positions[d], g.strides[1 + d] = pitch * t.stride[d];
      g.base += a[d] * pitch;
    }
    pitch *= t.size[d];
  }
  g.strides[t.spatial + 1] = image_elements(t);
  return g;
}

template <class T>
struct StoreCheck {
  const Target& target;
  long count;
  std::vector<T> memory;
  T* device;
  unsigned char* rows;
  int phases = 0, boxes = 0, clipped_rows = 0;
  std::string refused;

  explicit StoreCheck(const Target& t)
      : target(t),
        count(2 * kGuard + image_elements(t) * (t.images + kBoxRows)),
        memory(count),
        device(device_array<T>(count)),
        rows(device_array<unsigned char>(kBoxRows * 128)) {
    for (long i = 0; i < count; ++i) memory[i] = static_cast<T>(i % 1000 + 1);
    copy_to_device(device, memory);
  }

  void store_one(const CUtensorMap& map, const Geometry& g, const Start& s) {
    std::vector<T> box(static_cast<size_t>(kBoxRows) * g.channels);
    for (size_t i = 0; i < box.size(); ++i) box[i] = static_cast<T>((boxes * 7919 + i) % 30000 + 2000);
    check(cudaMemcpy(rows, box.data(), kBoxRows * 128, cudaMemcpyHostToDevice), "copy of a box");
    const int times = target.add ? 2 : 1;
    for (int i = 0; i < times; ++i) store_box(map, g, s, target.add, rows);
    const std::vector<long> places = rows_of(g, s);
    const int live = live_channels(g, s);
    for (int r = 0; r < kBoxRows; ++r) {
      clipped_rows += places[r] < 0;
      for (int c = 0; c < live && places[r] >= 0; ++c) {
        T& to = memory[places[r] + s.at[0] + c];
        const T value = box[static_cast<size_t>(r) * g.channels + c];
        to = target.add ? static_cast<T>(to + 2 * value) : value;
      }
    }
    ++boxes;
  }

  void store_phase(const int* a) {
    int positions[3] = {1, 1, 1};
    const Geometry g = phase_of(target, a, sizeof(T), positions);
    CUtensorMap map;
    const CUresult code = encode_im2col(&map, g, device);
    if (code != CUDA_SUCCESS) {
      refused = name_of(code);
      return;
    }
    ++phases;
    const int total = positions[0] * positions[1] * positions[2] * target.images;
    for (int first = 0; first < total; first += kBoxRows)
      for (int c = 0; c < target.channels; c += g.channels) {
        Start s;
        s.at[0] = c;
        int rest = first;
        for (int d = 0; d < target.spatial; ++d) {
          s.at[1 + d] = g.lower[d] + rest % positions[d] * g.steps[d];
          rest /= positions[d];
        }
        s.at[target.spatial + 1] = rest;
        store_one(map, g, s);
      }
  }

  void report(Cases& cases) {
    const std::vector<T> got = copy_to_host(device, count);
    const long begin = kGuard, end = kGuard + image_elements(target) * target.images;
    long before = 0, inside = 0, behind = 0, first = -1;
    for (long i = 0; i < count; ++i) {
      if (std::memcmp(&got[i], &memory[i], sizeof(T)) == 0) continue;
      if (first < 0) first = i;
      (i < begin ? before : i < end ? inside : behind) += 1;
    }
    const bool right = refused.empty() && before + inside + behind == 0;
    std::printf("%-54s %-7s phases %d boxes %d rows to clip %d wrong: before %ld inside %ld behind %ld %s\n",
                cases.name().c_str(), right ? "exact" : "WRONG", phases, boxes, clipped_rows, before, inside,
                behind, refused.c_str());
    Line(cases.experiment(), cases.name())
        .add("exact", right)
        .add("encode_refused", refused)
        .add("phases", phases)
        .add("boxes", boxes)
        .add("rows_to_clip", clipped_rows)
        .add("wrong_before", static_cast<double>(before))
        .add("wrong_inside", static_cast<double>(inside))
        .add("wrong_behind", static_cast<double>(behind))
        .add("first_wrong_element", static_cast<double>(first < 0 ? -1 : first - begin))
        .write();
  }
};

template <class T>
void run_target(Cases& cases, const Target& t) {
  if (!cases.begin(t.name)) return;
  StoreCheck<T> stores(t);
  int a[3];
  for (a[2] = 0; a[2] < t.stride[2]; ++a[2])
    for (a[1] = 0; a[1] < t.stride[1]; ++a[1])
      for (a[0] = 0; a[0] < t.stride[0]; ++a[0]) stores.store_phase(a);
  stores.report(cases);
  check(cudaFree(stores.device), "cudaFree");
}

std::vector<Target> targets(bool floats) {
  std::vector<Target> all;
  const auto suffix = [&](Target t) {
    t.name += floats ? (t.add ? ", fp32 add" : ", fp32") : ", 16 bits";
    all.push_back(t);
  };
  for (const bool add : {false, true}) {
    if (add && !floats) continue;
    for (const bool by_steps : {false, true}) {
      const std::string how = by_steps ? " by element strides" : "";
      suffix({"2-D 14x14 stride 2" + how, 2, {14, 14, 1}, {2, 2, 1}, 64, 64, 3, by_steps, add});
      suffix({"2-D 7x9 stride 2, pitch 128" + how, 2, {7, 9, 1}, {2, 2, 1}, 64, 128, 3, by_steps, add});
      suffix({"2-D 7x5 stride 3x2, C 72" + how, 2, {7, 5, 1}, {3, 2, 1}, 72, 72, 2, by_steps, add});
      suffix({"2-D 5x5 stride 2, C 40" + how, 2, {5, 5, 1}, {2, 2, 1}, 40, 48, 5, by_steps, add});
      suffix({"1-D 101 stride 2" + how, 1, {101, 1, 1}, {2, 1, 1}, 64, 64, 3, by_steps, add});
      suffix({"3-D 5x7x3 stride 2" + how, 3, {5, 7, 3}, {2, 2, 2}, 64, 64, 3, by_steps, add});
    }
    suffix({"2-D 14x14 stride 1", 2, {14, 14, 1}, {1, 1, 1}, 64, 64, 3, false, add});
    suffix({"2-D 3x3 stride 2, one image", 2, {3, 3, 1}, {2, 2, 1}, 8, 8, 1, false, add});
  }
  return all;
}

void run_rate(Cases& cases, const char* name, StoreKind kind, int stride, int element_bytes,
              unsigned char* memory) {
  if (!cases.begin(name)) return;
  constexpr int kSize = 56, kImages = 60;  // 24 MB of 128-byte pixels
  int sms = 0;
  check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), "SMs");
  const int channels = 128 / element_bytes;
  const int positions[2] = {kSize / stride, kSize / stride};
  const int pixels = positions[0] * positions[1] * kImages;
  Geometry g;
  g.element_bytes = element_bytes, g.channels = channels, g.dims[0] = channels;
  g.dims[1] = positions[0], g.dims[2] = positions[1], g.dims[3] = kImages;
  g.strides[1] = channels * stride, g.strides[2] = channels * kSize * stride,
  g.strides[3] = channels * kSize * kSize;
  const CUtensorMap map = kind == StoreKind::tiled ? tiled_map({.rows = pixels,
                                                                .columns = channels,
                                                                .pitch = channels * stride,
                                                                .box_columns = channels,
                                                                .element_bytes = element_bytes},
                                                               memory)
                                                   : im2col_map(g, memory);
  const StoreRate r = store_rate(map, kind, positions, std::min(512, pixels / 64 / sms));
  std::printf("%-54s %.2f clocks a row, %.1f bytes/ns/SM\n", name, r.clocks_per_row, r.bytes_per_ns);
  Line(cases.experiment(), name)
      .add("clocks_per_row", r.clocks_per_row)
      .add("bytes_per_ns_per_sm", r.bytes_per_ns)
      .write();
}

}  // namespace

void run_stores(Cases& cases) {
  for (const Target& t : targets(false)) run_target<uint16_t>(cases, t);
  for (const Target& t : targets(true)) run_target<float>(cases, t);
  auto* memory = device_array<unsigned char>(60 * 56 * 56 * 128);
  check(cudaMemset(memory, 0, 60 * 56 * 56 * 128), "memset");
  run_rate(cases, "rate: tiled, rows dense", StoreKind::tiled, 1, 2, memory);
  run_rate(cases, "rate: tiled, every second row", StoreKind::tiled, 2, 2, memory);
  run_rate(cases, "rate: im2col, every pixel", StoreKind::im2col, 1, 2, memory);
  run_rate(cases, "rate: im2col, every second pixel and row", StoreKind::im2col, 2, 2, memory);
  run_rate(cases, "rate: im2col add fp32, every pixel", StoreKind::im2col_add, 1, 4, memory);
  run_rate(cases, "rate: im2col add fp32, every second", StoreKind::im2col_add, 2, 4, memory);
}

}  // namespace probe
