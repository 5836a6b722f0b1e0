// SPDX-License-Identifier: Apache-2.0
// Convolutions in the twin. Exact numbers are compared with the reference for every op, number of axes and
// cluster, and the smallest cases are searched in every interleaving. Each recording is also checked for the
// right boxes and for complete coverage of D.
#include <cstdio>

#include "conv_scenarios.h"

namespace sluice::twin {
namespace {

constexpr ConvOp kOps[] = {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad};

// ---- numbers ----

TEST(conv, every_op_number_of_axes_and_cluster) {
  int ran = 0;
  for (const ConvOp op : kOps)
    for (int spatial = 1; spatial <= kMostSpatial; ++spatial)
      for (const ClusterShape cluster : {ClusterShape{1, 1}, {2, 1}, {1, 2}, {2, 2}, {1, 1, 2}})
        for (const KernelConfig& base : {kSmallPingPong, kSmallCooperative}) {
          ConvCase c{.conv = odd_conv(op, spatial), .config = base};
          if (op == ConvOp::dgrad && spatial == 3) c.conv.stride = kOnes;
          c.config.cluster = cluster;
          c.output = spatial == 2 ? DType::bf16 : DType::fp32;
          if (is_phased(c.conv) && (cluster.m > 1 || cluster.k > 1)) continue;
          expect_equals_reference(c);
          ++ran;
        }
  EXPECT_EQ(ran, 84);
}

/// A wgrad's columns are atoms: 64 channels at one tap. Tiles have 1 to 4 atoms, and the last tile has fewer.
TEST(conv, atoms_of_a_wgrad_cross_taps_and_end_early) {
  for (const int columns : {64, 128, 192, 256})
    for (const int channels : {24, 72, 128})
      for (const ClusterShape cluster : {ClusterShape{1, 1}, {2, 1}, {1, 2}}) {
        ConvCase c{.conv = odd_conv(ConvOp::wgrad, 1), .config = kSmallPingPong, .output = DType::bf16};
        c.conv.channels = channels;
        c.conv.x_pitch = 0;
        c.config.tile.n = columns;
        c.config.cluster = cluster;
        expect_equals_reference(c);
      }
}

/// D has one tap and few channels, so with two CTAs along n the second one's tile is outside of D. It still
/// loads one atom, because its peers wait for its multicast slice.
TEST(conv, a_tile_outside_of_a_wgrad_loads_one_atom) {
  Conv v = odd_conv(ConvOp::wgrad, 2);
  v.filter = kOnes;
  v.dilation = kOnes;
  v.channels = 24;
  for (const ClusterShape cluster : {ClusterShape{1, 2}, {2, 2}}) {
    ConvCase c{.conv = v, .config = kSmallPingPong};
    c.config.cluster = cluster;
    c.config.tile.n = 128;
    expect_equals_reference(c);
    const Recording recording = record_gemm(scenario_of(c));
    ASSERT_FALSE(recording.failure) << describe(*recording.failure);
    int outside = 0;
    for (const StepList& steps : recording.clusters.front().agents)
      for (const Step& step : steps)
        if (step.kind == StepKind::load_b && step.tile.n_offset > 0) {
          EXPECT_EQ(step.conv.count, 1);
          ++outside;
        }
    EXPECT_GT(outside, 0);
  }
}

/// In a wgrad, a k-tile is 64 pixels. With 9 x 5 pixels of y, k-tiles begin in the middle of rows and images.
/// In an fprop, slices begin in the middle of a tap.
TEST(conv, splits_begin_anywhere) {
  for (const ConvOp op : kOps)
    for (const Combine combine : {Combine::last_arriver, Combine::separate, Combine::add}) {
      ConvCase c{.conv = odd_conv(op, 2), .config = kSmallCooperative};
      c.conv.images = 7;
      c.conv.size = {9, 5, 1};
      if (op == ConvOp::dgrad) c.conv.stride = kOnes;
      c.conv.channels = op == ConvOp::wgrad ? 24 : 136;
      c.conv.filters = op == ConvOp::dgrad ? 136 : 40;
      c.conv.x_pitch = c.conv.y_pitch = 0;
      c.config.combine = combine;
      if (combine == Combine::add && op != ConvOp::wgrad) continue;
      if (combine == Combine::add) c.epilogue.update = Update::add;
      const Scenario whole = scenario_of(c);
      ASSERT_GE(whole.grid().k_tiles, 3);
      for (const int slices : {2, 3}) {
        c.slices = slices;
        expect_equals_reference(c);
      }
    }
}

TEST(conv, a_wgrad_is_added_to_what_is_there) {
  for (const StorePath store : {StorePath::tma, StorePath::direct})
    for (const Combine combine : {Combine::none, Combine::last_arriver, Combine::separate, Combine::add}) {
      ConvCase c{.conv = odd_conv(ConvOp::wgrad, 2), .config = kSmallPingPong, .alpha = 2};
      c.epilogue.update = Update::add;
      c.config.store = store;
      c.config.combine = combine;
      c.config.tile.n = 192;
      c.clusters = 3;
      if (combine != Combine::none) c.slices = 2;
      expect_equals_reference(c);
    }
}

TEST(conv, direct_stores) {
  for (const ConvOp op : kOps) {
    ConvCase c{.conv = odd_conv(op, 2), .config = kSmallCooperative, .output = DType::fp16};
    if (op == ConvOp::dgrad) c.conv.stride = kOnes;
    c.config.store = StorePath::direct;
    expect_equals_reference(c);
  }
}

/// Phases that have different numbers of taps, no taps, or no pixels. The pixels of different phases
/// alternate in dx.
TEST(conv, phases_of_a_strided_dgrad) {
  struct {
    int spatial;
    Axes size, filter, stride, dilation, padding, padding_after;
  } const cases[] = {
      {2, {9, 8, 1}, {3, 3, 1}, {2, 2, 1}, kOnes, {1, 1, 0}, {1, 1, 0}},
      {2, {9, 8, 1}, {1, 1, 1}, {2, 2, 1}, kOnes, {}, {}},  // three phases have no taps
      // The filter is smaller than the stride.
      {2, {10, 7, 1}, {2, 2, 1}, {3, 2, 1}, kOnes, {0, 1, 0}, {1, 0, 0}},
      // Stride and dilation have a common divisor.
      {2, {9, 9, 1}, {3, 3, 1}, {2, 2, 1}, {2, 2, 1}, {2, 1, 0}, {0, 2, 0}},
      // There are fewer pixels than phases.
      {1, {1, 1, 1}, {4, 1, 1}, {3, 1, 1}, kOnes, {3, 0, 0}, {3, 0, 0}},
      {1, {70, 1, 1}, {5, 1, 1}, {8, 1, 1}, {3, 1, 1}, {4, 0, 0}, {7, 0, 0}},
      {3, {5, 4, 3}, {3, 2, 3}, {2, 2, 2}, kOnes, {1, 0, 1}, {0, 1, 1}},
  };
  for (const auto& geometry : cases)
    for (const ClusterShape cluster : {ClusterShape{1, 1}, {1, 2}})
      for (const KernelConfig& base : {kSmallPingPong, kSmallCooperative})
        for (const DType output : {DType::bf16, DType::fp32}) {
          ConvCase c{.conv = odd_conv(ConvOp::dgrad, geometry.spatial), .config = base, .output = output};
          c.conv.images = 3;
          c.conv.filters = 72;
          c.conv.y_pitch = 72;
          c.conv.size = geometry.size;
          c.conv.filter = geometry.filter;
          c.conv.stride = geometry.stride;
          c.conv.dilation = geometry.dilation;
          c.conv.padding = geometry.padding;
          c.conv.padding_after = geometry.padding_after;
          c.config.cluster = cluster;
          expect_equals_reference(c);
        }
}

TEST(conv, nothing_is_loaded_if_alpha_is_0) {
  for (const ConvOp op : kOps) {
    ConvCase c{.conv = odd_conv(op, 2), .config = kSmallPingPong, .alpha = 0};
    EXPECT_EQ(expect_equals_reference(c).loads, 0);
  }
}

TEST(conv, fp8_forward_with_scales_bias_activation_and_residual) {
  for (const bool promotes : {false, true}) {
    ConvCase c{.conv = odd_conv(ConvOp::fprop, 2),
               .config = kSmallPingPong,
               .inputs = DType::e4m3,
               .output = DType::bf16,
               .epilogue = {.scale_a = ScaleMode::tensor,
                            .scale_b = ScaleMode::vector,
                            .bias = Bias::column,
                            .activation = Activation::relu,
                            .residual = true},
               .beta = 2};
    c.conv.channels = 144;  // one whole block of 128 channels, and a part of one
    c.conv.x_pitch = 160;
    c.config.promotes = promotes;
    expect_equals_reference(c);
  }
}

TEST(conv, weights_may_come_first) {
  for (const ConvOp op : {ConvOp::fprop, ConvOp::dgrad})
    for (const bool strided : {false, true}) {
      ConvCase c{.conv = odd_conv(op, 2), .config = kSmallCooperative};
      if (!strided) c.conv.stride = kOnes;
      c.config.stages = 4;
      c.config.overlap = {.wait = Wait::weights_first, .trigger = Trigger::after_loads};
      expect_equals_reference(c);
    }
}

TEST(conv, any_seed_gives_the_same_bits) {
  ConvCase c{.conv = odd_conv(ConvOp::wgrad, 2), .config = kSmallPingPong, .clusters = 3};
  c.config.combine = Combine::last_arriver;
  c.config.cluster = {2, 1};
  c.slices = 2;
  for (u64 seed = 0; seed < 6; ++seed) expect_equals_reference(c, seed);
}

/// The config names the convolution that the kernel gathers. Plans for another one are refused.
TEST(conv, another_kind_of_config_is_refused) {
  Plan plan = plan_of(ConvCase{.conv = odd_conv(ConvOp::fprop, 2), .config = kSmallPingPong});
  plan.config.conv.spatial = 3;
  const auto report = run_on_host(plan, {}, 1, 0, 1);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::invalid_config);
}

// ---- every interleaving ----

/// A convolution along one axis: `length` pixels of x, `taps` taps, one block of channels.
ConvCase smallest(ConvOp op, int taps, int length, const ClusterShape& cluster = {}) {
  ConvCase c{.conv = {.op = op, .spatial = 1, .channels = 8, .filters = 8}, .config = kSmallPingPong};
  c.conv.size = {length, 1, 1};
  c.conv.filter = {taps, 1, 1};
  c.conv.padding = {1, 0, 0};
  c.conv.padding_after = {taps - 1, 0, 0};
  c.config.stages = 2;
  c.config.cluster = cluster;
  c.clusters = 1;
  return c;
}

i64 explore_completely(const ConvCase& c) {
  const Exploration found = explore_all(record_gemm(scenario_of(c)), {.max_states = 3'000'000});
  EXPECT_FALSE(found.failure) << text_of(c) << '\n' << describe(*found.failure);
  EXPECT_TRUE(found.complete) << text_of(c) << ": more than " << found.states << " states";
  return found.states;
}

TEST(conv_exhaustive, one_cta_of_each_op) {
  i64 states = 0;
  for (const ConvOp op : kOps)
    for (const Schedule schedule : {Schedule::ping_pong, Schedule::cooperative})
      for (const int length : {40, 130, 190}) {
        ConvCase c = smallest(op, op == ConvOp::wgrad ? 2 : 3, length);
        c.config.schedule = schedule;
        if (schedule == Schedule::cooperative) c.config.tile.m = 128;
        states += explore_completely(c);
      }
  std::printf("             %lld distinct states, each explored\n", states);
}

/// Tiles that have one k-tile next to tiles that have none. Ping-pong's groups skip the latter.
TEST(conv_exhaustive, phases_of_one_k_tile_and_of_none) {
  i64 states = 0;
  for (const Schedule schedule : {Schedule::ping_pong, Schedule::cooperative})
    for (const int taps : {1, 2, 4})
      for (const int length : {50, 200}) {
        ConvCase c = smallest(ConvOp::dgrad, taps, length);
        c.conv.stride.w = 3;
        c.config.schedule = schedule;
        if (schedule == Schedule::cooperative) c.config.tile.m = 128;
        states += explore_completely(c);
      }
  std::printf("             %lld distinct states, each explored\n", states);
}

TEST(conv_exhaustive, clusters_of_two) {
  i64 states = 0;
  for (const ConvOp op : kOps)
    for (const ClusterShape cluster : {ClusterShape{2, 1}, {1, 2}}) {
      ConvCase c = smallest(op, 2, 60, cluster);
      // With two CTAs along n, the second one's tile is outside of D.
      if (op == ConvOp::wgrad) c.config.tile.n = 128;
      states += explore_completely(c);
    }
  ConvCase phased = smallest(ConvOp::dgrad, 1, 60, {1, 2});
  phased.conv.stride.w = 2;
  states += explore_completely(phased);
  std::printf("             %lld distinct states, each explored\n", states);
}

TEST(conv_random, larger_ones) {
  i64 schedules = 0;
  for (const ConvOp op : kOps)
    for (int spatial = 1; spatial <= kMostSpatial; ++spatial)
      for (const ClusterShape cluster : {ClusterShape{1, 1}, {2, 1}, {1, 2}, {2, 2}, {1, 1, 2}}) {
        ConvCase c{.conv = odd_conv(op, spatial), .config = kSmallPingPong};
        c.config.cluster = cluster;
        if (is_phased(c.conv) && (cluster.m > 1 || cluster.k > 1)) c.conv.stride = kOnes;
        const Exploration found = explore_random(record_gemm(scenario_of(c)), {.seed = 3, .schedules = 20});
        EXPECT_FALSE(found.failure) << text_of(c) << '\n' << describe(*found.failure);
        schedules += found.schedules;
      }
  EXPECT_GE(schedules, 800);
}

}  // namespace
}  // namespace sluice::twin
