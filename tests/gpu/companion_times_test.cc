// SPDX-License-Identifier: Apache-2.0
// Times norms and quantisers of few rows in a graph of consecutive launches, with and without overlap, by
// threads and CTAs per row. It checks nothing, so it runs only on request (SLUICE_COMPANION_TIMES=1).
// docs/findings/companions.md has results.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <sluice/plan/text/norm_units.h>
#include <sluice/plan/text/quantize_units.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/launch.h>
#include <sluice/run/driver/memory.h>

#include "gpu.h"

namespace sluice::testing {
namespace {

constexpr int kLaunches = 64;  // launches in one graph
constexpr int kReplays = 9;
constexpr Overlap kChained{Wait::first, Trigger::at_start};

struct Layout {
  u32 team = 1, threads = 256;
};

class companion_times : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (setting("SLUICE_COMPANION_TIMES", 0) == 0) GTEST_SKIP() << "SLUICE_COMPANION_TIMES=1 runs it";
    for (DeviceBuffer& buffer : memory_) {
      auto made = DeviceBuffer::allocate(device(), i64{256} << 20);
      ASSERT_TRUE(ok(made));
      buffer = *std::move(made);
      ASSERT_TRUE(ok(buffer.fill(0x3c, nullptr)));  // bytes 0x3c3c are a small number in bf16
    }
    auto made = StreamHandle::create(device());
    ASSERT_TRUE(ok(made));
    stream_ = std::make_unique<StreamHandle>(*std::move(made));
    ASSERT_TRUE(ok(synchronize(device())));
  }

  /// Returns the microseconds per launch of `enqueue(i)` in a graph: the median over replays.
  template <class Enqueue>
  double time_of(const Enqueue& enqueue, int launches = kLaunches) {
    const auto graph = Graph::capture(device(), stream_->get(), [&]() -> Result<void> {
      for (int i = 0; i < launches; ++i)
        if (const Result<void> done = enqueue(i); !done) return done;
      return {};
    });
    EXPECT_TRUE(ok(graph));
    const auto begin = Event::create(device()), end = Event::create(device());
    EXPECT_TRUE(ok(begin) && ok(end));
    std::vector<double> times;
    for (int i = 0; i < kReplays; ++i) {
      EXPECT_TRUE(ok(begin->record(stream_->get())));
      EXPECT_TRUE(ok(graph->launch(stream_->get())));
      EXPECT_TRUE(ok(end->record(stream_->get())));
      EXPECT_TRUE(ok(end->synchronize()));
      const auto passed = end->microseconds_since(*begin);
      EXPECT_TRUE(ok(passed));
      times.push_back(*passed / launches);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  template <class Params>
  Result<void> enqueue(const Module& module, u32 ctas, const Layout& layout, bool dependent,
                       const Params& params) {
    const ContextScope scope(*device().impl().primary);
    if (const Result<void> entered = scope.entered(); !entered) return entered;
    return launch_kernel(
        *device().impl().api, module.function(),
        {.grid_x = ctas, .block_x = layout.threads, .cluster_x = layout.team, .dependent = dependent},
        &params, stream_->get());
  }

  double norm_time(NormStore store, i64 rows, i64 columns, const Layout& layout, bool chained, i64 warm = 0) {
    const auto module = device().impl().load_unit(
        norm_unit_text({.store = store, .overlap = chained ? kChained : Overlap{}}), 0);
    EXPECT_TRUE(ok(module));
    const auto params_of = [&](int i) {
      return NormParams{.input = memory_[i % 2].data(),
                        .residual = memory_[2].data(),
                        .sum = memory_[1 - i % 2].data(),
                        .gamma = memory_[3].data(),
                        .output = memory_[4].data(),
                        .scales = static_cast<float*>(memory_[5].data()),
                        .rows = rows,
                        .columns = columns,
                        .input_ld = columns,
                        .residual_ld = columns,
                        .sum_ld = columns,
                        .output_ld = columns,
                        .epsilon = 1e-5f,
                        .inverse_columns = 1.0f / static_cast<float>(columns),
                        .working_threads = layout.threads,
                        .hand_off = {static_cast<u8*>(memory_[6].data()) + i % 4 * warm, warm}};
    };
    return time_of([&](int i) {
      return enqueue(**module, static_cast<u32>(rows) * layout.team, layout, chained, params_of(i));
    });
  }

  double gated_time(QuantizeStep step, i64 rows, i64 columns, u32 team, u32 ctas, bool chained,
                    int launches) {
    const auto module = device().impl().load_unit(
        quantize_unit_text({.step = step, .gate = Gate::silu, .overlap = chained ? kChained : Overlap{}}), 0);
    EXPECT_TRUE(ok(module));
    const QuantizeParams params{.input = memory_[0].data(),
                                .output = static_cast<u8*>(memory_[4].data()),
                                .scales = static_cast<float*>(memory_[5].data()),
                                .scratch = nullptr,
                                .rows = rows,
                                .columns = columns,
                                .input_ld = 2 * columns,
                                .output_ld = columns,
                                .scale_given = false,
                                .hand_off = {}};
    return time_of(
        [&](int) {
          return enqueue(**module, ctas, {team, kQuantizeThreads}, chained, params);
        },
        launches);
  }

  DeviceBuffer memory_[7];
  std::unique_ptr<StreamHandle> stream_;
};

TEST_F(companion_times, of_norms) {
  std::printf("norm: us a launch, alone / chained; columns are CTAs a row x threads\n");
  for (const NormStore store : {NormStore::plain, NormStore::row, NormStore::row_block})
    for (const i64 columns : {4096, 8192})
      for (const i64 rows : {1, 4, 16, 64}) {
        std::printf("%-9s %2lld x %lld:", name_of(store), rows, columns);
        const i64 chunks = columns / 8;
        for (const u32 team : {1u, 2u, 4u, 8u})
          for (const i64 held : {1, 2}) {
            const i64 threads = chunks / team / held;
            if (threads > kMaxNormThreads || threads < 64 || rows * team > 132) continue;
            const Layout layout{team, static_cast<u32>(threads)};
            std::printf("  %ux%lld %.2f/%.2f", team, threads, norm_time(store, rows, columns, layout, false),
                        norm_time(store, rows, columns, layout, true));
          }
        std::printf("\n");
      }
}

TEST_F(companion_times, of_norms_that_warm) {
  std::printf("norm 1 x 4096, one CTA that warms: us a launch, chained\n");
  for (const i64 warm : {i64{0}, i64{1} << 14, i64{1} << 16, i64{1} << 18, i64{1} << 20, i64{1} << 22})
    std::printf("  %lld KB %.2f\n", warm >> 10, norm_time(NormStore::plain, 1, 4096, {1, 512}, true, warm));
}

TEST_F(companion_times, of_gated_quantisers) {
  std::printf("silu(gate) * up to e4m3: us a launch, alone / chained\n");
  for (const i64 columns : {3584, 14336})
    for (const i64 rows : {1, 4, 16, 64}) {
      std::printf("row       %2lld x %lld:", rows, columns);
      for (const u32 team : {1u, 2u, 4u, 8u}) {
        if (rows * team > 132 || i64{team} * 2048 > 2 * columns) continue;
        const u32 ctas = static_cast<u32>(rows) * team;
        std::printf("  team %u %.2f/%.2f", team,
                    gated_time(QuantizeStep::row, rows, columns, team, ctas, false, 64),
                    gated_time(QuantizeStep::row, rows, columns, team, ctas, true, 64));
      }
      const u32 ctas = static_cast<u32>(std::min<i64>(ceil_div(rows * (columns / 128), i64{16}), 132));
      std::printf("  row_block %.2f/%.2f\n",
                  gated_time(QuantizeStep::row_block, rows, columns, 1, ctas, false, 64),
                  gated_time(QuantizeStep::row_block, rows, columns, 1, ctas, true, 64));
    }
  std::printf("row 4096 x 14336 from HBM, 1056 CTAs: %.1f\n",
              gated_time(QuantizeStep::row, 4096, 14336, 1, 1056, false, 8));
}

}  // namespace
}  // namespace sluice::testing
