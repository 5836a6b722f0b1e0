// SPDX-License-Identifier: Apache-2.0
// Checks that each im2col box of a convolution belongs to its tile and k-tile. The expected box is computed
// by division from tile and k-tile, independently of the kernel's incremental counting.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include <sluice/spec/conv_params.h>
#include <sluice/twin/local_rules.h>

namespace sluice::twin {
namespace {

class BoxRules {
 public:
  BoxRules(const Scenario& scenario, int cta)
      : scenario_(scenario), config_(scenario.config), phases_(phases_of(scenario.conv)) {
    const int rank = multicasts(config_) ? cta : 0;
    slice_a_ = rank / config_.cluster.m;
    slice_b_ = rank % config_.cluster.m;
  }

  ConvBoxes wanted(const Step& step, int group_row) const {
    const bool by_rows = gathers_a(config_.conv);
    switch (step.kind) {
      case StepKind::load_a: return by_rows ? rows(step) : ConvBoxes{};
      case StepKind::load_b: return by_rows ? filter(step) : columns(step);
      case StepKind::issue_store: return stored(step, group_row);
      default: return {};
    }
  }

 private:
  const Phase& phase(const Tile& tile) const { return phases_.items[config_.conv.phased ? tile.batch : 0]; }
  TapBox box(const Phase& phase, int index, int channel) const {
    const Tap tap = tap_of(scenario_.conv, phase, index);
    TapBox box{.filter = tap.filter, .channel = channel};
    std::copy(std::begin(tap.offset), std::end(tap.offset), box.offset);
    return box;
  }
  TapBox box_of_k_tile(const Phase& phase, int k_tile) const {
    const int block = config_.tile.k, blocks = channel_blocks(scenario_.conv, block);
    if (k_tile >= phase.taps() * blocks) return {.channel = -1};  // no such k-tile
    return box(phase, k_tile % phase.taps(), k_tile / phase.taps() * block);
  }
  TapBox box_of_atom(int atom) const {
    const int blocks = channel_blocks(scenario_.conv, kMnBlock);
    return box(phases_.items[0], atom / blocks, atom % blocks * kMnBlock);
  }
  /// Returns the expected pixels. Axes that the kernel's config does not have stay 0.
  ConvBoxes pixels(const Phase& phase, i64 pixel, bool in_tensor) const {
    ConvBoxes boxes{.count = 1};
    for (int axis = 0; axis < kMostSpatial; ++axis) {
      const GatherAxis& a = phase.axes[axis];
      const int position = static_cast<int>(pixel % a.positions);
      pixel /= a.positions;
      if (axis < config_.conv.spatial) boxes.pixel[axis] = in_tensor ? a.lower + position * a.step : position;
    }
    boxes.image = static_cast<int>(pixel);
    return boxes;
  }

  ConvBoxes rows(const Step& load) const {
    const Phase& of = phase(load.tile);
    ConvBoxes boxes = pixels(of, load.tile.m_offset + slice_a_ * (config_.tile.m / config_.cluster.n), true);
    boxes.boxes[0] = box_of_k_tile(of, load.k_tile);
    return boxes;
  }
  ConvBoxes filter(const Step& load) const {
    ConvBoxes boxes{.count = 1};
    boxes.boxes[0] = box_of_k_tile(phase(load.tile), load.k_tile);
    return boxes;
  }
  ConvBoxes columns(const Step& load) const {
    const i64 first = i64{load.k_tile} * config_.tile.k + slice_b_ * (config_.tile.k / config_.cluster.m);
    ConvBoxes boxes = pixels(phases_.items[0], first, true);
    boxes.count = 0;
    for (int column = load.tile.n_offset; column < load.tile.n_offset + config_.tile.n; column += kMnBlock)
      if (column < scenario_.n) boxes.boxes[boxes.count++] = box_of_atom(column / kMnBlock);
    // A tile outside D loads the last column block, because its peers in the cluster wait for the bytes.
    if (boxes.count == 0)
      boxes.boxes[boxes.count++] = box_of_atom(static_cast<int>(scenario_.n / kMnBlock) - 1);
    return boxes;
  }
  ConvBoxes stored(const Step& store, int group_row) const {
    if (!config_.conv.phased) return {};
    return pixels(phase(store.tile), store.tile.m_offset + group_row + store.wave * kWaveRows, false);
  }

  const Scenario& scenario_;
  const KernelConfig& config_;
  Phases phases_;
  int slice_a_ = 0, slice_b_ = 0;
};

std::string text_of(const ConvBoxes& boxes) {
  std::string text = fmt::format("{} boxes from pixel ({}, {}, {}) of image {} at", boxes.count,
                                 boxes.pixel[0], boxes.pixel[1], boxes.pixel[2], boxes.image);
  for (int i = 0; i < boxes.count; ++i) {
    const TapBox& box = boxes.boxes[i];
    text += fmt::format(" tap {} (+{}, +{}, +{}) channel {}", box.filter, box.offset[0], box.offset[1],
                        box.offset[2], box.channel);
  }
  return text;
}

}  // namespace

std::optional<Failure> check_conv_boxes(const ClusterProgram& program) {
  const Scenario& scenario = program.scenario;
  if (!is_conv(scenario.conv)) return std::nullopt;
  for (int i = 0; i < scenario.agents(); ++i) {
    const Agent agent = agent_at(scenario, i);
    const BoxRules rules(scenario, agent.cta);
    const int group_row =
        scenario.config.schedule == Schedule::cooperative ? agent.group * group_rows(scenario.config) : 0;
    for (const Step& step : program.agents[i])
      if (const ConvBoxes wanted = rules.wanted(step, group_row); step.conv != wanted)
        return Failure{FailureKind::wrong_boxes,
                       fmt::format("{}: {} has {}, and needs {}", agent_name(scenario, i), to_string(step),
                                   text_of(step.conv), text_of(wanted))};
  }
  return std::nullopt;
}

}  // namespace sluice::twin
