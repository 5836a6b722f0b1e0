// SPDX-License-Identifier: Apache-2.0
#include <sluice/twin/conv_walk.h>

#include <algorithm>

#include <sluice/spec/loaded_rows.h>

namespace sluice::twin {
namespace {

using AnyPixelWalk = std::variant<PixelWalk<1>, PixelWalk<2>, PixelWalk<3>>;

AnyPixelWalk walk_from(int spatial, const PixelBox& box, int pixel) {
  AnyPixelWalk walk;
  if (spatial == 2) walk.emplace<PixelWalk<2>>();
  if (spatial == 3) walk.emplace<PixelWalk<3>>();
  std::visit([&](auto& each) { each.begin(box, pixel); }, walk);
  return walk;
}

/// Writes the position of the walk's pixel in the im2col tensor to `to`.
void put_pixel(const AnyPixelWalk& walk, const PixelBox& box, ConvBoxes& to) {
  std::visit(
      [&](const auto& each) {
        for (size_t axis = 0; axis < std::size(each.at); ++axis)
          to.pixel[axis] = each.place(box, static_cast<int>(axis));
        to.image = each.image;
      },
      walk);
}

/// `place`: of a k-tile or of an atom.
template <class Place>
TapBox tap_box(const Gather& gather, const Place& place, int block) {
  const Tap& tap = gather.taps[place.tap];
  TapBox box{.filter = tap.filter, .channel = place.block * block};
  std::copy(std::begin(tap.offset), std::end(tap.offset), box.offset);
  return box;
}

TapRange taps_of(const KernelConfig& config, const PhasedParams& params, const Tile& tile) {
  constexpr KernelConfig kPhased{.conv = {.op = ConvOp::dgrad, .phased = true}}, kWhole{};
  return config.conv.phased ? taps_of_tile<kPhased>(params, tile) : taps_of_tile<kWhole>(params, tile);
}

}  // namespace

void ConvWalk::begin(const KernelConfig& config, const PhasedParams& params, const Tile& tile, int cta_rank) {
  const Gather& gather = params.gather;
  const int rows = config.cluster.m, rank = multicasts(config) ? cta_rank : 0;
  const int slice_a = rank / rows, slice_b = rank % rows;
  if (gathers_a(config.conv)) {  // Im2colRows and FilterTaps
    box_ = config.conv.phased ? phase_of(params, tile.batch).pixels : gather.pixels;
    pixel_ =
        walk_from(config.conv.spatial, box_, tile.m_offset + slice_a * (config.tile.m / config.cluster.n));
    taps_a_.begin(taps_of(config, params, tile), tile.first_k_tile);
    taps_b_ = taps_a_;
    return;
  }
  // Im2colColumns
  box_ = gather.pixels;
  pixel_ = walk_from(config.conv.spatial, box_,
                     tile.first_k_tile * config.tile.k + slice_b * (config.tile.k / rows));
  atom_count_ = blocks_loaded(params.n, tile.n_offset, config.tile.n);
  const int first = min(tile.n_offset, params.n - kMnBlock) / kMnBlock;
  for (int i = 0; i < atom_count_; ++i) atoms_[i].find(gather, first + i);
}

ConvBoxes ConvWalk::next_a(const KernelConfig& config, const PhasedParams& params) {
  ConvBoxes load;
  if (!gathers_a(config.conv)) return load;
  load.count = 1;
  put_pixel(pixel_, box_, load);
  load.boxes[0] = tap_box(params.gather, taps_a_, config.tile.k);
  taps_a_.advance();
  return load;
}

ConvBoxes ConvWalk::next_b(const KernelConfig& config, const PhasedParams& params) {
  ConvBoxes load;
  if (gathers_a(config.conv)) {
    load.count = 1;
    load.boxes[0] = tap_box(params.gather, taps_b_, config.tile.k);
    taps_b_.advance();
  } else if (config.conv.op == ConvOp::wgrad) {
    load.count = atom_count_;
    put_pixel(pixel_, box_, load);
    for (int i = 0; i < atom_count_; ++i) load.boxes[i] = tap_box(params.gather, atoms_[i], kMnBlock);
    std::visit([&](auto& each) { each.advance(params.gather); }, pixel_);
  }
  return load;
}

ConvBoxes stored_pixels(const KernelConfig& config, const PhasedParams& params, const Tile& tile, int row) {
  ConvBoxes store;
  if (!config.conv.phased) return store;
  const AnyPixelWalk walk =
      walk_from(config.conv.spatial, phase_of(params, tile.batch).pixels, tile.m_offset + row);
  std::visit(
      [&](const auto& each) {
        std::copy(std::begin(each.at), std::end(each.at), store.pixel);
        store.image = each.image;
      },
      walk);
  store.count = 1;
  return store;
}

}  // namespace sluice::twin
