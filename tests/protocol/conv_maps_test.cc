// SPDX-License-Identifier: Apache-2.0
// The twin must use the same tensor maps as the host encodes.
#include <gtest/gtest.h>

#include <algorithm>

#include <sluice/run/driver/conv_maps.h>
#include <sluice/twin/conv_maps.h>

namespace sluice::twin {
namespace {

void expect_same(const GatherMap& twin, const Im2colShape& host) {
  EXPECT_EQ(twin.rank, host.rank);
  EXPECT_TRUE(std::equal(std::begin(twin.extents), std::end(twin.extents), host.extents));
  EXPECT_TRUE(std::equal(std::begin(twin.strides), std::end(twin.strides), host.strides));
  EXPECT_TRUE(std::equal(std::begin(twin.lower), std::end(twin.lower), host.lower));
  EXPECT_TRUE(std::equal(std::begin(twin.upper), std::end(twin.upper), host.upper));
  EXPECT_TRUE(std::equal(std::begin(twin.steps), std::end(twin.steps), host.steps));
  EXPECT_EQ(twin.channels, host.channels);
  EXPECT_EQ(twin.pixels, host.pixels);
  EXPECT_EQ(twin.element_bytes, bytes_of(host.type));
}

TEST(conv_maps, are_those_of_the_host) {
  for (const ConvOp op : {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad})
    for (int spatial = 1; spatial <= kMostSpatial; ++spatial) {
      Conv v{.op = op, .spatial = spatial, .images = 5, .channels = 40, .filters = 24};
      v.size = {17, spatial > 1 ? 10 : 1, spatial > 2 ? 6 : 1};
      v.filter = {3, spatial > 1 ? 4 : 1, spatial > 2 ? 2 : 1};
      v.stride = {2, spatial > 1 ? 3 : 1, 1};
      v.dilation = {2, 1, spatial > 2 ? 3 : 1};
      v.padding = {2, spatial > 1 ? 1 : 0, 0};
      v.padding_after = {1, 0, spatial > 2 ? 2 : 0};
      v.x_pitch = 48;
      v.y_pitch = 32;
      const Phases phases = phases_of(v);
      for (int i = 0; i < phases.count; ++i) {
        const Phase& phase = phases.items[i];
        if (phase.taps() > 0)
          expect_same(gathered_map(v, DType::bf16, phase, 64, 96),
                      gathered_shape(v, DType::bf16, phase, 64, 96));
        if (op != ConvOp::dgrad) continue;
        expect_same(phase_map(v, DType::fp32, phase, 32, kWaveRows),
                    phase_store_shape(v, DType::fp32, phase, 32));
        EXPECT_EQ(twin::phase_offset(v, phase), sluice::phase_offset(v, phase));
      }
    }
}

}  // namespace
}  // namespace sluice::twin
