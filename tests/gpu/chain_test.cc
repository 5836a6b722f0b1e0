// SPDX-License-Identifier: Apache-2.0
// Chains of layers as `sluice chain` replays them. A difference that is planted must be found among many
// replays. Foreign steps, hand-offs across them and their overlap must not change a bit.
#include <sluice/run/device/device_impl.h>

#include "bench/chain/arms.h"
#include "gpu.h"
#include "tests/idle_steps.h"

namespace sluice::testing {
namespace {

using namespace sluice::bench;

constexpr LayerSpec kSmall{.model = {"small", 512, 768, 512, 1024}, .tokens = 8, .layers = 2, .passes = 1};

const bench::Phase kSilent = [](const std::string&) {};

class chains : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    const auto made = open_lab(device(), {.method = {.rounds = 1, .rest_ms = 0, .peer = false}});
    ASSERT_TRUE(ok(made));
    lab_ = *made;
  }
  std::shared_ptr<const Lab> lab_;
};

TEST_F(chains, the_comparer_counts_what_differs) {
  const Result<Comparer> comparer = Comparer::create(*lab_);
  ASSERT_TRUE(ok(comparer));
  const i64 bytes = 16 * 100'003;  // not a multiple of the number of threads
  Result<DeviceBuffer> a = DeviceBuffer::allocate(device(), bytes),
                       b = DeviceBuffer::allocate(device(), bytes);
  ASSERT_TRUE(ok(a) && ok(b));
  std::vector<u8> values(static_cast<size_t>(bytes));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<u8>(i * 37 + i / 999);
  ASSERT_TRUE(ok(a->upload(values.data(), bytes)));
  const auto differing = [&](const std::vector<i64>& flipped) {
    std::vector<u8> changed = values;
    for (const i64 at : flipped) changed[static_cast<size_t>(at)] ^= 4;
    EXPECT_TRUE(ok(b->upload(changed.data(), bytes)));
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(ok(comparer->enqueue(*a, *b, lab_->stream.get())));
    const Result<i64> count = comparer->take(lab_->stream.get());
    EXPECT_TRUE(ok(count));
    return *count;
  };
  EXPECT_EQ(differing({}), 0);
  EXPECT_EQ(differing({0}), 3) << "once in each of three comparisons";
  EXPECT_EQ(differing({bytes - 1}), 3);
  EXPECT_EQ(differing({16 * 67'584 + 3, 16 * 67'584 + 15, 16 * 67'585}), 6) << "two pieces";
  EXPECT_EQ(differing({}), 0) << "what was taken is not counted again";
}

TEST_F(chains, a_difference_planted_into_one_replay_of_many_is_found) {
  const Result<ChainData> data = ChainData::create(*lab_, kSmall);
  const Result<Comparer> comparer = Comparer::create(*lab_);
  ASSERT_TRUE(ok(data) && ok(comparer));
  Result<DeviceBuffer> expected = DeviceBuffer::allocate(device(), data->activations().bytes());
  ASSERT_TRUE(ok(expected));
  const Work work{*lab_, kSilent, *data, *comparer, *std::move(expected), lab_->workspace};
  Arm off, arm;
  ASSERT_TRUE(ok(prepare_arm(work, {.name = kChainOff, .options = {.overlap = ChainOverlap::off}}, off)));
  ASSERT_TRUE(ok(prepare_arm(work, {.name = "weights_first"}, arm)));
  arm.reference = off.replay;
  ASSERT_TRUE(ok(replay_arm(work, arm, 2500)));
  EXPECT_EQ(arm.record.differing, 0);
  EXPECT_EQ(arm.record.replays, 2500);

  int replay = 0;
  arm.replay = [&, right = arm.replay](Stream stream) -> Result<void> {
    if (Result<void> done = right(stream); !done || ++replay != 1234) return done;
    const ContextScope scope(*device().impl().primary);
    const DriverApi& api = *device().impl().api;
    const CUdeviceptr last =
        data->activations().address() + static_cast<CUdeviceptr>(data->offset_of(bench::Activations::kDown));
    EXPECT_EQ(api.cuMemsetD8Async(last + 32, 0x5A, 16, stream), CUDA_SUCCESS);
    return {};
  };
  ASSERT_TRUE(ok(replay_arm(work, arm, 5000)));
  EXPECT_EQ(arm.record.differing, 1);
  EXPECT_EQ(arm.record.replays, 2000) << "the look at the counter after it ends the arm";
}

TEST_F(chains, with_foreign_steps_keep_their_bits) {
  for (const LayerWeights weights : {LayerWeights::e4m3, LayerWeights::bf16, LayerWeights::int4})
    for (const char* before : {"o", "all"}) {
      ChainCase item{.spec = kSmall, .replays = 70};
      item.spec.weights = weights;
      const auto idle = [&](test::IdleSpec spec) {
        spec.before = before;
        return *test::idle_steps(device(), spec);
      };
      item.arms = {
          {.name = "idle", .add = idle({})},
          {.name = "across", .options = {.hand_off_bytes = 5000}, .add = idle({.hand_off_bytes = 100'000})},
          {.name = "early", .add = idle({.overlapped = true, .prefetch_bytes = 70'000})}};
      const ChainRecord record = measure_chain(*lab_, item, kSilent);
      EXPECT_EQ(record.error, "");
      ASSERT_EQ(record.arms.size(), 4u);
      for (const ArmRecord& made : record.arms) EXPECT_TRUE(made.right()) << made.name << ": " << made.error;
      EXPECT_EQ(record.arms[3].replays, 70);
      EXPECT_GT(record.arms[3].programmatic_edges, record.arms[1].programmatic_edges);
    }
}

}  // namespace
}  // namespace sluice::testing
