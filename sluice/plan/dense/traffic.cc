// SPDX-License-Identifier: Apache-2.0
// Implements traffic.h. The model of HBM traffic: a raster band is `group` panels of one operand, and every
// panel of the other operand is multiplied with it before the next band starts. A panel is one cluster tile
// wide and has all of k.
#include <sluice/plan/dense/traffic.h>

#include <algorithm>
#include <cmath>

#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/spec/conv_problem.h>

namespace sluice {
namespace {

constexpr int kLineBytes = 128;  // bytes of an L2 line
/// The two L2 partitions hold copies of each other's lines, so panels can use only half of L2.
constexpr double kPartitionsOfL2 = 2;

double bytes_of_matrix(i64 rows, i64 columns, DType type) {
  return static_cast<double>(rows) * static_cast<double>(columns) * bytes_of(type);
}

/// Returns the share of `bytes` that L2 evicts before they are used again: 0 if they fit, 1 if nothing is
/// left. In between it is linear, because L2 replacement is not strictly by age.
double lost_share(double bytes, double capacity) {
  return std::clamp((bytes - capacity) / capacity, 0.0, 1.0);
}

/// Returns the mean number of rows of a tile inside the matrix. An MN-major operand is loaded in whole
/// blocks.
double rows_per_tile(i64 rows, int tile, Major major) {
  const double tiles = static_cast<double>(ceil_div(rows, i64{tile}));
  const i64 loaded = major == Major::mn ? round_up(rows, i64{kMnBlock}) : rows;
  return std::min(static_cast<double>(loaded) / std::max(tiles, 1.0), static_cast<double>(tile));
}

/// Mean bytes of each operand that one CTA reads per k-tile.
struct TileBytes {
  double a, b;
};
TileBytes bytes_per_k_tile(const Problem& p, const KernelConfig& c) {
  const double rows_a = rows_per_tile(p.m, c.tile.m, c.a_major) / c.cluster.n;
  // Stage rows per tile row: a stage may also hold columns next to the tile's own.
  const double blocks = static_cast<double>(stage_b_rows(c)) / c.tile.n;
  const double rows_b = blocks * rows_per_tile(p.n, c.tile.n, c.b_major) / c.cluster.m;
  const double k = std::min<double>(c.tile.k, static_cast<double>(p.k));
  return {rows_a * bytes_of(c.a) * k, rows_b * bytes_of(c.b) * k};
}

/// Returns the share of a tile's rows that span two L2 lines. `width`: the tile's contiguous extent if
/// MN-major.
double split_share(const Matrix& matrix, int width) {
  if (matrix.ld * bytes_of(matrix.type) % kLineBytes != 0) return 1;
  return matrix.major == Major::mn && width * bytes_of(matrix.type) % kLineBytes != 0 ? 0.5 : 0;
}

/// Returns the share of a tensor's 128-byte blocks of channels that span two L2 lines, averaged over all
/// pixels.
double second_lines(i64 channels, i64 pitch, DType type) {
  const int row = static_cast<int>(pitch * bytes_of(type) % kLineBytes);
  // Each pixel's row starts at a multiple of this.
  const int step = row == 0 ? kLineBytes : greatest_divisor(kLineBytes, row);
  const i64 blocks = ceil_div(channels * bytes_of(type), i64{kLineBytes});
  const i64 last = channels * bytes_of(type) - (blocks - 1) * kLineBytes;
  i64 second = 0;
  for (int begin = 0; begin < kLineBytes; begin += step)
    second += (begin > 0 ? blocks - 1 : 0) + (begin + last > kLineBytes ? 1 : 0);
  return static_cast<double>(second * step) / static_cast<double>(blocks * kLineBytes);
}

/// Shares of the rows of A and of B that span two L2 lines.
struct SplitShares {
  double a = 0, b = 0;
};
SplitShares split_shares(const Problem& p, const KernelConfig& c) {
  const Conv& v = p.conv;
  if (!is_conv(v)) return {split_share(p.a, c.tile.m), split_share(p.b, c.tile.n)};
  const double x = second_lines(v.channels, x_pitch_of(v), p.a.type);
  const double y = second_lines(v.filters, y_pitch_of(v), p.a.type);
  const double w = second_lines(v.channels, v.channels, p.b.type);
  if (v.op == ConvOp::wgrad) return {y, x};
  return {v.op == ConvOp::fprop ? x : y, w};
}

/// Bytes of A and B in memory. The gathered operand of a convolution is smaller than what the product reads.
struct OperandBytes {
  double a, b;
};
OperandBytes memory_of(const Problem& p) {
  const Conv& v = p.conv;
  const OperandBytes whole{bytes_of_matrix(p.m, p.k, p.a.type), bytes_of_matrix(p.n, p.k, p.b.type)};
  if (!is_conv(v)) return whole;
  const i64 touched = touched_elements(v);
  const double gathered = static_cast<double>(touched) * bytes_of(p.a.type) / static_cast<double>(p.batch);
  if (v.op == ConvOp::wgrad) return {whole.a, gathered};
  return {gathered,
          static_cast<double>(filter_elements(v)) * bytes_of(p.b.type) / static_cast<double>(p.batch)};
}

}  // namespace

double l2_bytes_per_k_tile(const Problem& p, const KernelConfig& c) {
  const TileBytes bytes = bytes_per_k_tile(p, c);
  return bytes.a + bytes.b;
}

double split_bytes_per_k_tile(const Problem& p, const KernelConfig& c) {
  const TileBytes bytes = bytes_per_k_tile(p, c);
  auto [a, b] = split_shares(p, c);
  if (is_conv(p.conv)) {
    double& gathered = p.conv.op == ConvOp::wgrad ? b : a;
    gathered = std::ceil(gathered);
  }
  return bytes.a * a + bytes.b * b;
}

double port_bytes_per_k_tile(const Problem& p, const KernelConfig& c) {
  const TileBytes bytes = bytes_per_k_tile(p, c);
  const SplitShares split = is_conv(p.conv) ? split_shares(p, c) : SplitShares{};
  return bytes.a * c.cluster.n * (1 + split.a) + bytes.b * c.cluster.m * (1 + split.b);
}

bool are_in_step(const Problem& p, const KernelConfig& c, const WorkSplit& split) {
  return cluster_size(c) == 1 && split.slices == 1 && grid_tiles(p, c) <= split.clusters;
}

Traffic traffic_of(const Problem& p, const KernelConfig& c, const WorkSplit& split,
                   const DeviceInfo& device) {
  const double rows = static_cast<double>(grid_rows(p, c)), columns = static_cast<double>(grid_columns(p, c));
  const double batch = static_cast<double>(p.batch);
  Traffic traffic;
  if (rows * columns * batch == 0) return traffic;
  const auto [a, b] = memory_of(p);
  // If the product is added to D, D is read from HBM as well.
  const double d = bytes_of_matrix(p.m, d_columns(p), p.d.type) * (adds(p.epilogue) ? 2 : 1);
  const double residual = p.epilogue.residual ? bytes_of_matrix(p.m, p.n, p.epilogue.c_type) : 0.0;

  const bool along_m = split.raster == Raster::along_m;
  const double walked = along_m ? a : b, other = along_m ? b : a;
  const double walked_extent = along_m ? rows : columns, other_extent = along_m ? columns : rows;
  const double group = std::min<double>(split.group, walked_extent);
  const double bands = std::ceil(walked_extent / group);
  // Clusters that run at the same time cover `abreast` panels of the other operand, or several whole bands.
  // If all tiles of a matrix are in one wave, they cover all panels.
  const bool at_once = rows * columns <= split.clusters;
  const double abreast =
      at_once ? other_extent : std::clamp(std::ceil(split.clusters / group), 1.0, other_extent);
  const double bands_at_once =
      at_once ? bands : std::clamp(std::floor(split.clusters / (group * other_extent)), 1.0, bands);
  const double band_bytes = walked * std::min(group * bands_at_once / walked_extent, 1.0);
  const double abreast_bytes = other / other_extent * abreast;

  const double usable = static_cast<double>(device.l2_bytes) / kPartitionsOfL2;
  const double walked_again =
      (std::ceil(other_extent / abreast) - 1) * lost_share(band_bytes + abreast_bytes, usable);
  const double other_again = (std::ceil(bands / bands_at_once) - 1) * lost_share(band_bytes + other, usable);

  traffic.l2_bytes =
      batch * (bytes_of_matrix(p.m, p.k, p.a.type) * columns + bytes_of_matrix(p.n, p.k, p.b.type) * rows);
  traffic.hbm_bytes = batch * (walked * (1 + walked_again) + other * (1 + other_again) + d + residual);
  traffic.wave_bytes = band_bytes + abreast_bytes;
  // Neighbours in the raster share a panel of the operand along which bands run. If bands are one tile wide
  // and run along the other index, neighbours share the other operand's panel.
  const double walked_repeats = other_extent > 1 ? walked : 0, other_repeats = walked_extent > 1 ? other : 0;
  const bool in_bands = group > 1 || other_extent == 1;
  const double shared = in_bands ? other_repeats : walked_repeats;
  const double apart = in_bands ? walked_repeats : other_repeats;
  // Each band requests the shared panel for itself.
  const bool several_bands = in_bands && other_extent > 1 && bands > 1;
  const bool one_wave_along_k = c.cluster.k > 1 && split.slices == 1 && grid_tiles(p, c) <= split.clusters;
  double askings = 1;
  if (are_in_step(p, c, split) && !several_bands) askings = 0;
  if (one_wave_along_k) askings = 2;
  traffic.repeated_bytes = batch * (askings * shared + apart);
  return traffic;
}

}  // namespace sluice
