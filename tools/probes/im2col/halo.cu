// SPDX-License-Identifier: Apache-2.0
// E2: WGMMA reads the taps of a filter row from one box of pixels ("halo"). Tests shifted start addresses, a
// leading offset of one row or of a dilation, and the descriptor's base offset.
#include <sluice/device/ptx/generated/wgmma_n128.cuh>
#include <sluice/device/ptx/generated/wgmma_n192.cuh>
#include <sluice/device/ptx/generated/wgmma_n256.cuh>
#include <sluice/device/ptx/generated/wgmma_n64.cuh>

#include "compare.h"
#include "engine.cuh"
#include "experiments.h"

namespace probe {
namespace {

constexpr int kThreads = 128;
constexpr int kDepth = 64;  // k of a product: pixels (MN-major) or channels (K-major)
constexpr int kMostRows = 160;
constexpr int kTileBytes = 64 * 128;

/// Values of the descriptor's base_offset: 0, (address >> 7) & 7, or 8 minus that.
enum class BaseOffset { zero, row, minus };

struct HaloParams {
  CUtensorMap tile, box;  // tile: 64 x 64 of the other operand, tiled; box: pixels, im2col
  int box_rows;
  int start_row;      // first row of the box that WGMMA reads
  int leading_bytes;  // leading byte offset in the descriptor of the box
  BaseOffset base_offset;
  bool k_major;  // false: the box is B, MN-major; true: the box is A, K-major
  int repeats;   // number of products; more than one only to measure time
  float* out;    // 64 x kN
  long long* clocks;
  int* arrived;
};

SLUICE_DEVICE u64 box_descriptor(const HaloParams& p, u32 address) {
  const u64 plain = ptx::smem_descriptor(address, p.leading_bytes, 1024);
  const u64 row = address >> 7 & 7;
  if (p.base_offset == BaseOffset::row) return plain | row << 49;
  if (p.base_offset == BaseOffset::minus) return plain | ((8 - row) & 7) << 49;
  return plain;
}

template <int kN, bool kKMajor>
__global__ void __launch_bounds__(kThreads) halo(const __grid_constant__ HaloParams p) {
  using Instruction = ptx::Wgmma<sluice::DType::bf16, sluice::DType::bf16, kN>;
  extern __shared__ unsigned char raw[];
  __shared__ alignas(8) u64 barrier_memory;
  const u32 tile = (shared_address(raw) + 1023) / 1024 * 1024, box = tile + kTileBytes;
  const u32 barrier = shared_address(&barrier_memory);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(barrier, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(barrier, kTileBytes + p.box_rows * 128);
    load_tiled(tile, p.tile, 0, 0, barrier);
    load_im2col<1>(box, p.box, 0, {0, 0, 0, 0}, {0, 0, 0}, barrier);
  }
  __syncthreads();
  if (!wait_bounded(barrier, 0)) {
    *p.arrived = 0;
    return;
  }
  __syncthreads();
  float sums[kN / 2];
#pragma unroll
  for (float& sum : sums) sum = 0;
  const u32 first = box + p.start_row * 128;
  const long long begin = clock64();
  for (int i = 0; i < p.repeats; ++i) {
    ptx::pin_registers(sums);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kDepth / 16; ++step) {
      if constexpr (kKMajor)
        Instruction::template mma<0, 0>(sums, box_descriptor(p, first + step * 32),
                                        ptx::smem_descriptor(tile + step * 32, 16, 1024), 1);
      else
        Instruction::template mma<1, 1>(sums, ptx::smem_descriptor(tile + step * 2048, kTileBytes, 1024),
                                        box_descriptor(p, first + step * 2048), 1);
    }
    ptx::wgmma_commit_group();
    ptx::pin_registers(sums);
    ptx::wgmma_wait_group<0>();
  }
  const long long end = clock64();
  if (threadIdx.x == 0) *p.clocks = end - begin;
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) p.out[(row + i / 2 % 2 * 8) * kN + i / 4 * 8 + column + i % 2] = sums[i];
}

struct Device {
  uint16_t *tile, *box;
  float* out;
  long long* clocks;
  int* arrived;
};

/// Converts a whole number up to 256 to bf16, which is exact.
uint16_t bf16_of(int value) {
  const float f = static_cast<float>(value);
  unsigned bits;
  std::memcpy(&bits, &f, 4);
  return static_cast<uint16_t>(bits >> 16);
}

std::vector<uint16_t> bf16_of(const std::vector<int>& values) {
  std::vector<uint16_t> out;
  for (const int v : values) out.push_back(bf16_of(v));
  return out;
}

struct Halo {
  int taps, dilation;
  int start_row = 0;
  BaseOffset base_offset = BaseOffset::zero;
  bool k_major = false;
  int leading_bytes = 0;  // 0: 128 * dilation
  int rows() const { return start_row + 64 + (taps - 1) * dilation; }
  int columns() const { return k_major ? 64 : taps * 64; }
};

/// Multiplies `tile` (64 x 64) by `box` (rows x 64). Returns false if the boxes did not arrive.
bool product(const Halo& h, const std::vector<int>& tile, const std::vector<int>& box, int repeats,
             const Device& device, std::vector<float>* out, long long* clocks) {
  copy_to_device(device.tile, bf16_of(tile));
  copy_to_device(device.box, bf16_of(box));
  copy_to_device(device.arrived, std::vector<int>{1});
  HaloParams p{};
  p.tile = tiled_map({.rows = 64}, device.tile);
  Geometry g;
  g.spatial = 1;
  g.dims[0] = 64, g.dims[1] = kMostRows, g.dims[2] = 1;
  g.pack(64);
  g.pixels = h.rows();
  p.box = im2col_map(g, device.box);
  p.box_rows = h.rows(), p.start_row = h.start_row;
  p.leading_bytes = h.leading_bytes != 0 ? h.leading_bytes : 128 * h.dilation;
  p.base_offset = h.base_offset, p.k_major = h.k_major, p.repeats = repeats;
  p.out = device.out, p.clocks = device.clocks, p.arrived = device.arrived;
  const int smem = kTileBytes + kMostRows * 128 + 1024;
  const auto launch = [&](auto kernel) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem), "shared memory");
    kernel<<<1, kThreads, smem>>>(p);
  };
  if (h.k_major)
    launch(halo<64, true>);
  else if (h.taps == 1)
    launch(halo<64, false>);
  else if (h.taps == 2)
    launch(halo<128, false>);
  else if (h.taps == 3)
    launch(halo<192, false>);
  else
    launch(halo<256, false>);
  check(cudaGetLastError(), "launch of a product");
  check(cudaDeviceSynchronize(), "a product");
  *out = copy_to_host(device.out, 64 * h.columns());
  *clocks = copy_to_host(device.clocks, 1)[0];
  return copy_to_host(device.arrived, 1)[0] == 1;
}

/// Computes the product on the CPU. MN-major: out[m][tap * 64 + c] = sum over pixels of tile[pixel][m] *
/// box[pixel + shift][c]. K-major: out[pixel][n] = sum over c of box[pixel + start][c] * tile[n][c].
std::vector<float> expected(const Halo& h, const std::vector<int>& tile, const std::vector<int>& box) {
  std::vector<float> out(64 * h.columns());
  const int start = h.start_row + (planted() ? 1 : 0);
  for (int row = 0; row < 64; ++row)
    for (int column = 0; column < h.columns(); ++column) {
      int sum = 0;
      for (int k = 0; k < kDepth; ++k) {
        const int pixel = start + (h.k_major ? row : k + column / 64 * h.dilation);
        sum += h.k_major ? box[pixel * 64 + k] * tile[column * 64 + k]
                         : tile[k * 64 + row] * box[pixel * 64 + column % 64];
      }
      out[row * h.columns() + column] = static_cast<float>(sum);
    }
  return out;
}

std::vector<int> values(size_t count, Random& random) {
  std::vector<int> out(count);
  for (int& v : out) v = random.in(-4, 4);
  return out;
}

/// Tells which row and channel of the box each element came from, by an identity matrix as the other operand.
std::string places(const Halo& h, const Device& device) {
  std::vector<int> identity(64 * 64), rows(kMostRows * 64), channels(kMostRows * 64);
  for (int i = 0; i < 64; ++i) identity[i * 64 + i] = 1;
  for (int i = 0; i < kMostRows * 64; ++i) rows[i] = i / 64, channels[i] = i % 64;
  std::vector<float> row, channel;
  long long clocks;
  if (!product(h, identity, rows, 1, device, &row, &clocks)) return "";
  if (!product(h, identity, channels, 1, device, &channel, &clocks)) return "";
  int wrong = 0;
  std::string text;
  for (int i = 0; i < 64 * h.columns(); ++i) {
    const int k = i / h.columns(), n = i % h.columns();
    const int want_row = h.start_row + k + (h.k_major ? 0 : n / 64 * h.dilation), want_channel = n % 64;
    if (row[i] == static_cast<float>(want_row) && channel[i] == static_cast<float>(want_channel)) continue;
    if (wrong++ < 6)
      text +=
          format("(%d %d) came from (%g %g) not (%d %d); ", k, n, row[i], channel[i], want_row, want_channel);
  }
  return wrong == 0 ? "" : format("%d places differ: ", wrong) + text;
}

const char* name_of(BaseOffset offset) {
  return offset == BaseOffset::zero ? "0" : offset == BaseOffset::row ? "row" : "8 - row";
}

void run(Cases& cases, const std::string& what, const Halo& h, const Device& device) {
  const std::string name = format("%s, taps %d, dilation %d, start row %d, base offset %s", what.c_str(),
                                  h.taps, h.dilation, h.start_row, name_of(h.base_offset));
  if (h.rows() > kMostRows || !cases.begin(name)) return;
  Random random(7);
  const auto tile = values(64 * 64, random), box = values(kMostRows * 64, random);
  std::vector<float> got;
  long long clocks = 0, ignored = 0;
  const bool came = product(h, tile, box, 1, device, &got, &ignored);
  const auto wanted = expected(h, tile, box);
  int wrong = 0;
  for (size_t i = 0; i < wanted.size(); ++i) wrong += got[i] != wanted[i];
  const std::string where = came && wrong > 0 ? places(h, device) : "";
  constexpr int kRepeats = 256;
  std::vector<float> unused;
  product(h, tile, box, kRepeats, device, &unused, &clocks);
  const double per_k_tile = static_cast<double>(clocks) / kRepeats;
  std::printf("%-72s %-7s %7d wrong %7.1f clocks %s\n", name.c_str(), came && wrong == 0 ? "exact" : "WRONG",
              wrong, per_k_tile, where.c_str());
  Line(cases.experiment(), cases.name())
      .add("kind", what)
      .add("taps", h.taps)
      .add("dilation", h.dilation)
      .add("start_row", h.start_row)
      .add("base_offset", name_of(h.base_offset))
      .add("arrived", came)
      .add("exact", came && wrong == 0)
      .add("wrong_elements", wrong)
      .add("clocks_per_64_pixels", per_k_tile)
      .add("places", where)
      .write();
}

}  // namespace

void run_halo(Cases& cases) {
  const Device device{device_array<uint16_t>(64 * 64), device_array<uint16_t>(kMostRows * 64),
                      device_array<float>(64 * 256), device_array<long long>(1), device_array<int>(1)};
  const BaseOffset offsets[] = {BaseOffset::zero, BaseOffset::row, BaseOffset::minus};
  // Cases (a), (c): one tap per product, with shifted start addresses.
  for (const BaseOffset offset : offsets)
    for (const int start : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16})
      run(cases, "MN-major shifted start",
          {.taps = 1, .dilation = 1, .start_row = start, .base_offset = offset}, device);
  // Case (b): one instruction for all taps.
  for (const BaseOffset offset : offsets)
    for (const int start : {0, 1, 3, 8})
      for (const int taps : {2, 3, 4})
        for (const int dilation : {1, 2, 3, 4, 8}) {
          if (start == 0 && offset != BaseOffset::zero) continue;  // would be the same descriptor
          run(cases, "MN-major leading offset of rows",
              {.taps = taps, .dilation = dilation, .start_row = start, .base_offset = offset}, device);
        }
  // Rows of A (fprop) are K-major; start addresses are shifted again.
  for (const BaseOffset offset : offsets)
    for (const int start : {0, 1, 2, 3, 5, 7, 8, 9})
      run(cases, "K-major shifted start",
          {.taps = 1, .dilation = 1, .start_row = start, .base_offset = offset, .k_major = true}, device);
  // Time of the usual descriptor, in which each tap has its own block: a dilation of 64 rows.
  run(cases, "MN-major separate blocks", {.taps = 2, .dilation = 64}, device);
}

}  // namespace probe
