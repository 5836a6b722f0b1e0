// SPDX-License-Identifier: Apache-2.0
#include "conv_walk.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include <sluice/run/driver/conv_maps.h>
#include <sluice/spec/conv_problem.h>
#include <sluice/twin/gather.h>
#include <sluice/device/load/pixel_walk.cuh>

namespace sluice::test {
namespace {

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
constexpr KernelConfig kWgrad{.conv = {.op = ConvOp::wgrad}};
constexpr KernelConfig kPhased{.conv = {.op = ConvOp::dgrad, .phased = true}};

twin::GatherMap map_of(const Im2colShape& s) {
  twin::GatherMap map{.rank = s.rank,
                      .channels = s.channels,
                      .pixels = s.pixels,
                      .element_bytes = bytes_of(s.type),
                      .swizzle_bytes = s.swizzle_bytes};
  std::copy_n(s.extents, 5, map.extents);
  std::copy_n(s.strides, 4, map.strides);
  std::copy_n(s.lower, 3, map.lower);
  std::copy_n(s.upper, 3, map.upper);
  std::copy_n(s.steps, 5, map.steps);
  return map;
}

/// Returns the phases of a convolution, with the mutant's bug planted in their axes.
Phases planted_phases(const Conv& v, WalkMutant mutant) {
  Phases phases = phases_of(v);
  for (int i = 0; i < phases.count; ++i)
    for (int axis = 0; axis < v.spatial; ++axis) {
      GatherAxis& a = phases.items[i].axes[axis];
      if (mutant == WalkMutant::lower_corner_off_by_one) ++a.lower;
      if (v.op != ConvOp::dgrad) continue;
      if (mutant == WalkMutant::taps_of_dgrad_not_turned_round)
        a.offset_step = a.offset_step < 0 ? -a.offset_step : a.offset_step, a.offset_first = 0;
      if (mutant == WalkMutant::taps_of_a_phase_a_stride_apart) a.filter_step = v.stride[axis];
    }
  return phases;
}
Tap planted_tap(const Conv& v, const Phase& phase, int index, WalkMutant mutant) {
  Tap tap = tap_of(v, phase, index);
  if (mutant != WalkMutant::taps_of_the_filter_h_before_w || v.spatial < 2) return tap;
  const int w = tap.filter % v.filter.w, h = tap.filter / v.filter.w % v.filter.h;
  const int rest = tap.filter - w - h * v.filter.w;
  tap.filter = static_cast<u16>(rest + w * v.filter.h + h);
  return tap;
}

/// One stage of the ring: A as rows x k, B as k x columns.
struct Stage {
  std::vector<float> a, b;
};

template <int kSpatial>
class Walk {
 public:
  Walk(const Conv& v, const WalkPlan& plan, const WalkTensors& tensors, WalkMutant mutant)
      : v_(v),
        c_(plan.config),
        direct_(plan.direct),
        t_(tensors),
        mutant_(mutant),
        p_(product_of_conv(v, plan.config.a, plan.config.d)),
        phases_(planted_phases(v, mutant)) {
    fill_params();
    make_maps();
    slices_ = std::clamp(plan.slices, 1, std::max(1, grid_.k_tiles));
    const i64 elements = v.op == ConvOp::wgrad   ? filter_elements(v)
                         : v.op == ConvOp::fprop ? y_span(v)
                                                 : x_span(v);
    result_.d.assign(static_cast<size_t>(elements), kPoison);
    result_.written.assign(result_.d.size(), 0);
  }

  WalkResult run() {
    for (int index = 0; index < cluster_tiles(grid_); ++index)
      for (int rank = 0; rank < c_.cluster.m * c_.cluster.n; ++rank) {
        Tile tile = tile_at(c_, grid_, Raster::along_m, 8, index, rank);
        if (c_.conv.phased) tile.k_tiles = phase_of(params(), tile.batch).k_tiles;
        sums_.assign(static_cast<size_t>(c_.tile.m) * c_.tile.n, 0.0f);
        for (const auto& [first, count] : runs_of(tile)) {
          tile.first_k_tile = first, tile.k_tiles = count;
          multiply(tile);
        }
        store(tile);
        if (!result_.refusal.empty()) return result_;
      }
    return result_;
  }

 private:
  const GemmParams& params() const { return *params_; }
  const Gather& gather() const { return params_->gather; }
  bool is(WalkMutant mutant) const { return mutant_ == mutant; }
  void refuse(const Result<void>& found) {
    if (!found && result_.refusal.empty()) result_.refusal = found.error().message;
  }

  // ---- as the host fills parameters ----
  void fill_params() {
    PhasedParams& p = *params_;
    p.m = static_cast<int>(p_.m), p.n = static_cast<int>(p_.n);
    Gather& g = p.gather;
    g.pixels = box_of(phases_.items[0]);
    g.blocks = ceil_div(static_cast<int>(v_.op == ConvOp::dgrad ? v_.filters : v_.channels), c_.tile.k);
    g.channels = static_cast<int>(v_.channels);
    int rest = c_.tile.k, next = 0;
    for (int axis = 0; axis < kMostSpatial; ++axis) {
      g.advance_at[axis] = rest % g.pixels.positions[axis];
      rest /= g.pixels.positions[axis];
    }
    g.advance_images = rest;
    for (int i = 0; i < phases_.count; ++i) {
      const Phase& phase = phases_.items[i];
      PhaseParams& of = p.phases[i];
      of.pixels = box_of(phase);
      of.m = static_cast<int>(v_.images * phase.positions());
      of.k_tiles = phase.taps() * g.blocks;
      of.first_tap = is(WalkMutant::phases_with_the_first_taps) ? 0 : next;
      for (int tap = 0; tap < phase.taps(); ++tap) g.taps[next++] = planted_tap(v_, phase, tap, mutant_);
    }
    grid_ = tile_grid(c_, p.m, p.n, static_cast<int>(p_.k), static_cast<int>(p_.batch));
    p.grid = grid_;
  }
  twin::GatherMap gather_map(const Phase& phase, int channels, int pixels) {
    Im2colShape s = gathered_shape(v_, c_.a, phase, channels, pixels);
    for (int axis = 0; axis < v_.spatial; ++axis) {
      if (is(WalkMutant::upper_corner_one_more)) ++s.upper[axis];
      if (is(WalkMutant::upper_corner_one_less)) --s.upper[axis];
    }
    if (is(WalkMutant::corners_h_before_w)) {
      std::swap(s.lower[0], s.lower[v_.spatial - 1]);
      std::swap(s.upper[0], s.upper[v_.spatial - 1]);
    }
    const twin::GatherMap map = map_of(s);
    refuse(twin::check_gather_map(map));
    return map;
  }
  int rows_of_tail(i64 extent, int rows) const {
    return is(WalkMutant::tails_of_8_rows) ? kLoadRows : tail_rows(static_cast<int>(extent), rows);
  }
  void make_maps() {
    const int rows_a = c_.tile.m / c_.cluster.n, part_b = c_.tile.n / c_.cluster.m;
    const int depth_b = c_.tile.k / c_.cluster.m;
    for (int i = 0; i < phases_.count; ++i)
      phase_maps_.push_back(phases_.items[i].taps() == 0 ? twin::GatherMap{}
                            : v_.op == ConvOp::wgrad     ? gather_map(phases_.items[i], kMnBlock, depth_b)
                                                         : gather_map(phases_.items[i], c_.tile.k, rows_a));
    if (v_.op == ConvOp::wgrad) {
      tiled_a_ = a_map_shape(c_, p_);
    } else if (!c_.conv.phased) {
      tail_a_ = gather_map(phases_.items[0], c_.tile.k, rows_of_tail(p_.m, rows_a));
    }
    if (v_.op == ConvOp::fprop) {
      tiled_b_ = taps_shape(v_, c_.b, c_.tile.k, part_b);
      tail_b_ = taps_shape(v_, c_.b, c_.tile.k, rows_of_tail(p_.n, part_b));
    } else {
      tiled_b_ = taps_shape(v_, c_.b, kMnBlock, depth_b);
    }
  }

  /// First k-tile and count of each slice of a tile.
  std::vector<std::pair<int, int>> runs_of(const Tile& tile) const {
    if (c_.conv.phased) return {{0, tile.k_tiles}};
    const Slices slices = slices_of(grid_, {.slices = slices_});
    if (slices.count == 1) return {{0, grid_.k_tiles}};
    std::vector<std::pair<int, int>> runs;
    for (int i = 0; i < slices.count; ++i)
      runs.emplace_back(slice_begin(slices, i), slice_begin(slices, i + 1) - slice_begin(slices, i));
    return runs;
  }

  // ---- the copy engine ----
  float element(const std::vector<float>& memory, i64 index) {
    if (index >= 0 && index < static_cast<i64>(memory.size())) return memory[static_cast<size_t>(index)];
    if (result_.refusal.empty()) result_.refusal = "a read outside the tensor";
    return kPoison;
  }
  /// Calls `put(row, channel, value)` for each element that an im2col load returns.
  template <class Put>
  void load_pixels(const twin::GatherMap& map, const twin::GatherAt& at, const Tap& tap, const Put& put) {
    const std::vector<float>& memory = gathers_x(v_.op) ? t_.x : t_.y;
    refuse(twin::gather_load(map, at, tap.offset, rows_));
    if (!result_.refusal.empty()) return;
    for (size_t row = 0; row < rows_.size(); ++row)
      for (int channel = 0; channel < map.channels; ++channel)
        put(static_cast<int>(row), channel,
            channel < rows_[row].channels ? element(memory, rows_[row].element + channel) : 0.0f);
  }
  /// Calls `put(outer, inner, value)` for each element that a tiled load of a batched matrix returns.
  template <class Put>
  void load_tiled(const TensorMapShape& map, const std::vector<float>& memory, i64 inner, i64 outer,
                  i64 batch, const Put& put) {
    for (int o = 0; o < map.box_outer; ++o)
      for (int i = 0; i < map.box_inner; ++i) {
        const bool inside = inner + i < map.inner && outer + o < map.outer && batch < map.batch;
        const i64 index = inner + i + (outer + o) * map.ld + batch * map.batch_stride;
        put(o, i, inside ? element(memory, index) : 0.0f);
      }
  }

  // ---- as the loaders of gathered.cuh ----
  struct RowsState {
    const twin::GatherMap* map;
    twin::GatherAt first;
    TapWalk taps;
  };
  twin::GatherAt place_of(const PixelWalk<kSpatial>& pixel, const PixelBox& box) const {
    twin::GatherAt at{.image = pixel.image};
    for (int axis = 0; axis < kSpatial; ++axis) at.pixel[axis] = pixel.place(box, axis);
    return at;
  }
  TapRange range_of(const Tile& tile) const {
    return c_.conv.phased ? taps_of_tile<kPhased>(params(), tile)
                          : taps_of_tile<KernelConfig{}>(params(), tile);
  }
  RowsState begin_rows(int slice, const Tile& tile) {
    const int slice_rows = c_.tile.m / c_.cluster.n, row = tile.m_offset + slice * slice_rows;
    const PixelBox& box = c_.conv.phased ? phase_of(params(), tile.batch).pixels : gather().pixels;
    PixelWalk<kSpatial> pixel;
    pixel.begin(box, row);
    RowsState state{.map = &phase_maps_[static_cast<size_t>(tile.batch)], .first = place_of(pixel, box)};
    if (!c_.conv.phased && row + slice_rows > params().m) state.map = &tail_a_;
    state.taps.begin(range_of(tile), tile.first_k_tile);
    return state;
  }
  void load_rows(RowsState& state, int slice, Stage& stage) {
    twin::GatherAt at = state.first;
    at.channel = state.taps.block * c_.tile.k;
    const int first = slice * (c_.tile.m / c_.cluster.n);
    load_pixels(*state.map, at, gather().taps[state.taps.tap], [&](int row, int channel, float value) {
      stage.a[static_cast<size_t>((first + row) * c_.tile.k + channel)] = value;
    });
    state.taps.advance();
  }
  void load_filter(TapWalk& taps, const Tile& tile, Stage& stage) {
    const int matrix = gather().taps[taps.tap].filter, k0 = taps.block * c_.tile.k;
    for (int slice = 0; slice < c_.cluster.m; ++slice) {
      if (v_.op == ConvOp::fprop) {
        const int rows = c_.tile.n / c_.cluster.m, row = tile.n_offset + slice * rows;
        load_tiled(row + rows > params().n ? tail_b_ : tiled_b_, t_.w, k0, row, matrix,
                   [&](int o, int i, float value) { put_b(stage, i, slice * rows + o, value); });
        continue;
      }
      const int first = slice * (c_.tile.k / c_.cluster.m);
      for (int block = 0; block < c_.tile.n; block += kMnBlock)
        load_tiled(tiled_b_, t_.w, tile.n_offset + block, k0 + first, matrix,
                   [&](int o, int i, float value) { put_b(stage, first + o, block + i, value); });
    }
    taps.advance();
  }
  struct ColumnsState {
    PixelWalk<kSpatial> pixel;
    int atoms;
    AtomPlace place[4];
  };
  ColumnsState begin_columns(int slice, const Tile& tile) const {
    ColumnsState state;
    state.pixel.begin(gather().pixels, tile.first_k_tile * c_.tile.k + slice * (c_.tile.k / c_.cluster.m));
    state.atoms = is(WalkMutant::atoms_past_the_last) ? c_.tile.n / kMnBlock
                                                      : blocks_loaded(params().n, tile.n_offset, c_.tile.n);
    const int first = std::min(tile.n_offset, params().n - kMnBlock) / kMnBlock;
    for (int i = 0; i < c_.tile.n / kMnBlock; ++i) state.place[i].find(gather(), first + i);
    return state;
  }
  void load_columns(ColumnsState& state, int slice, Stage& stage) {
    const int first = slice * (c_.tile.k / c_.cluster.m);
    for (int i = 0; i < state.atoms; ++i) {
      twin::GatherAt at = place_of(state.pixel, gather().pixels);
      at.channel = state.place[i].block * kMnBlock;
      if (state.place[i].tap >= taps_of(v_) && result_.refusal.empty())
        result_.refusal = "a tap past the last";  // the parameters hold no offsets for this tap
      load_pixels(phase_maps_[0], at, gather().taps[state.place[i].tap],
                  [&](int row, int channel, float value) {
                    put_b(stage, first + row, i * kMnBlock + channel, value);
                  });
    }
    advance(state.pixel);
  }
  void advance(PixelWalk<kSpatial>& pixel) const {
    if (!is(WalkMutant::pixels_without_a_carry)) return pixel.advance(gather());
    for (int axis = 0; axis < kSpatial; ++axis)
      pixel.at[axis] = (pixel.at[axis] + gather().advance_at[axis]) % gather().pixels.positions[axis];
    pixel.image += gather().advance_images;
  }
  void load_gradient(const Tile& tile, int k_tile, Stage& stage) {
    const int depth = c_.tile.k / c_.cluster.n;
    for (int slice = 0; slice < c_.cluster.n; ++slice)
      for (int block = 0; block < c_.tile.m; block += kMnBlock)
        load_tiled(tiled_a_, t_.y, tile.m_offset + block, k_tile * c_.tile.k + slice * depth, 0,
                   [&](int o, int i, float value) {
                     stage.a[static_cast<size_t>((block + i) * c_.tile.k + slice * depth + o)] = value;
                   });
  }
  void put_b(Stage& stage, int k, int column, float value) const {
    if (column < c_.tile.n) stage.b[static_cast<size_t>(k * c_.tile.n + column)] = value;
  }

  void multiply(const Tile& tile) {
    const bool wgrad = v_.op == ConvOp::wgrad;
    std::vector<RowsState> rows;
    std::vector<ColumnsState> columns;
    TapWalk taps{};
    if (tile.k_tiles == 0) return;
    if (!wgrad) {
      for (int slice = 0; slice < c_.cluster.n; ++slice) rows.push_back(begin_rows(slice, tile));
      taps.begin(range_of(tile), tile.first_k_tile);
    } else {
      for (int slice = 0; slice < c_.cluster.m; ++slice) columns.push_back(begin_columns(slice, tile));
    }
    Stage stage;
    for (int i = 0; i < tile.k_tiles && result_.refusal.empty(); ++i) {
      stage.a.assign(static_cast<size_t>(c_.tile.m) * c_.tile.k, kPoison);
      stage.b.assign(static_cast<size_t>(c_.tile.n) * c_.tile.k, kPoison);
      for (int slice = 0; slice < static_cast<int>(rows.size()); ++slice)
        load_rows(rows[static_cast<size_t>(slice)], slice, stage);
      if (!wgrad) load_filter(taps, tile, stage);
      if (wgrad) load_gradient(tile, tile.first_k_tile + i, stage);
      for (int slice = 0; slice < static_cast<int>(columns.size()); ++slice)
        load_columns(columns[static_cast<size_t>(slice)], slice, stage);
      add_products(tile, stage);
    }
  }

  /// Number of the tile's rows and columns that are inside of D.
  int live_rows(const Tile& tile) const {
    const int m = c_.conv.phased ? phase_of(params(), tile.batch).m : params().m;
    return std::clamp(m - tile.m_offset, 0, c_.tile.m);
  }
  bool is_live_column(const Tile& tile, int column) const {
    const int in_product = tile.n_offset + column;
    return v_.op == ConvOp::wgrad ? d_column<kWgrad>(params(), in_product) >= 0 : in_product < params().n;
  }
  /// Returns the ranges of the tile's columns that are inside of D.
  std::vector<std::pair<int, int>> live_columns(const Tile& tile) const {
    std::vector<std::pair<int, int>> runs;
    for (int column = 0; column < c_.tile.n; ++column) {
      if (!is_live_column(tile, column)) continue;
      if (runs.empty() || runs.back().second != column) runs.emplace_back(column, column);
      ++runs.back().second;
    }
    return runs;
  }
  void add_products(const Tile& tile, const Stage& stage) {
    const int rows = live_rows(tile);
    for (const auto& [begin, end] : live_columns(tile))
      for (int k = 0; k < c_.tile.k; ++k) {
        const float* b = stage.b.data() + k * c_.tile.n;
        const bool zeros = std::all_of(b + begin, b + end, [](float value) { return value == 0.0f; });
        const bool numbers = std::none_of(b + begin, b + end, [](float value) { return std::isnan(value); });
        for (int row = 0; row < rows; ++row) {
          const float a = stage.a[static_cast<size_t>(row * c_.tile.k + k)];
          if ((zeros && !std::isnan(a)) || (numbers && a == 0.0f)) continue;
          float* sums = sums_.data() + row * c_.tile.n;
          for (int column = begin; column < end; ++column) sums[column] += a * b[column];
        }
      }
  }

  // ---- stores ----
  void write(i64 index, float value) {
    if (index < 0 || index >= static_cast<i64>(result_.d.size())) {
      if (result_.refusal.empty()) result_.refusal = "a write outside D";
      return;
    }
    result_.d[static_cast<size_t>(index)] = value;
    ++result_.written[static_cast<size_t>(index)];
  }
  float sum(int row, int column) const { return sums_[static_cast<size_t>(row * c_.tile.n + column)]; }

  void store(const Tile& tile) {
    const int chunk = store_columns(c_);
    for (int wave = 0; wave < c_.tile.m; wave += kWaveRows)
      for (int column = 0; column < c_.tile.n; column += chunk) {
        if (v_.op == ConvOp::wgrad && !direct_) {
          store_taps(tile, wave, column, chunk);
        } else if (c_.conv.phased) {
          store_phase(tile, wave, column, chunk);
        } else {
          store_matrix(tile, wave, column, chunk);
        }
      }
  }
  /// Stores a box of D as a matrix, or element by element at d_column().
  void store_matrix(const Tile& tile, int wave, int column, int chunk) {
    for (int row = wave; row < std::min(wave + kWaveRows, live_rows(tile)); ++row)
      for (int i = column; i < column + chunk; ++i) {
        if (!is_live_column(tile, i)) continue;
        const int at = tile.n_offset + i;
        write(
            (tile.m_offset + row) * p_.d.ld + (v_.op == ConvOp::wgrad ? d_column<kWgrad>(params(), at) : at),
            sum(row, i));
      }
  }
  void store_taps(const Tile& tile, int wave, int column, int chunk) {
    const TensorMapShape map = taps_shape(v_, c_.d, chunk, kWaveRows);
    const int at = tile.n_offset + column, per_tap = gather().blocks * kConvBlock, tap = at / per_tap;
    if (at >= params().n) return;
    for (int row = 0; row < kWaveRows; ++row)
      for (int i = 0; i < chunk; ++i) {
        const i64 inner = at - tap * per_tap + i, outer = tile.m_offset + wave + row;
        if (inner < map.inner && outer < map.outer && tap < map.batch)
          write(inner + outer * map.ld + tap * map.batch_stride, sum(wave + row, column + i));
      }
  }
  void store_phase(const Tile& tile, int wave, int column, int chunk) {
    const Phase& phase = phases_.items[tile.batch];
    const twin::GatherMap map = map_of(phase_store_shape(v_, c_.d, phase, chunk));
    refuse(twin::check_gather_map(map));
    if (tile.m_offset + wave >= phase_of(params(), tile.batch).m || tile.n_offset + column >= params().n)
      return;
    PixelWalk<kSpatial> pixel;
    pixel.begin(phase_of(params(), tile.batch).pixels, tile.m_offset + wave);
    twin::GatherAt at{.channel = tile.n_offset + column, .image = pixel.image};
    for (int axis = 0; axis < kSpatial; ++axis) at.pixel[axis] = pixel.at[axis];
    refuse(twin::gather_store(map, at, rows_));
    if (!result_.refusal.empty()) return;
    for (size_t row = 0; row < rows_.size(); ++row)
      for (int i = 0; i < rows_[row].channels; ++i)
        write(phase_offset(v_, phase) + rows_[row].element + i,
              sum(wave + static_cast<int>(row), column + i));
  }

  const Conv& v_;
  const KernelConfig& c_;
  const bool direct_;
  const WalkTensors& t_;
  const WalkMutant mutant_;
  const Problem p_;
  const Phases phases_;
  const std::unique_ptr<PhasedParams> params_ = std::make_unique<PhasedParams>();
  TileGrid grid_;
  int slices_ = 1;
  std::vector<twin::GatherMap> phase_maps_;
  twin::GatherMap tail_a_;
  TensorMapShape tiled_a_, tiled_b_, tail_b_;
  std::vector<twin::GatherRow> rows_;
  std::vector<float> sums_;
  WalkResult result_;
};

}  // namespace

WalkResult walk_conv(const Conv& conv, const WalkPlan& plan, const WalkTensors& tensors, WalkMutant mutant) {
  switch (conv.spatial) {
    case 1: return Walk<1>(conv, plan, tensors, mutant).run();
    case 2: return Walk<2>(conv, plan, tensors, mutant).run();
    default: return Walk<3>(conv, plan, tensors, mutant).run();
  }
}

}  // namespace sluice::test
