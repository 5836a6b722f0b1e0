// SPDX-License-Identifier: Apache-2.0
// Tests the contract of dependent launches for companions (norms, quantisers, steps of experts). The test
// itself is tested: it must detect a norm that is launched as dependent but compiled without the wait.
#include <sluice/experts.h>
#include <sluice/norm.h>
#include <sluice/quantize.h>

#include <sluice/kernels/verify_arith.h>
#include <sluice/plan/text/norm_units.h>
#include <sluice/reference/element.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/launch.h>

#include "gpu.h"
#include "overlap_contract.h"

namespace sluice::testing {
namespace {

constexpr Trigger kTriggers[] = {Trigger::never, Trigger::at_start, Trigger::after_loads};
/// Pairs each trigger with a spacing, so that every spacing occurs.
constexpr Spacing spacing_of(Trigger trigger) {
  return trigger == Trigger::after_loads ? Spacing::registers
         : trigger == Trigger::at_start  ? Spacing::memory
                                         : Spacing::none;
}
constexpr std::pair<i64, i64> kShapes[] = {{1, 4096}, {4, 16384}, {64, 1000}, {300, 520}};

class overlap_contract : public GpuTest {
 protected:
  /// Allocates outputs. Fills `rows` x `columns` random 16-bit inputs, gamma and residual.
  void make(i64 rows, i64 columns, i64 input_columns) {
    const i64 elements = rows * input_columns;
    std::vector<u8> values(static_cast<std::size_t>(2 * elements));
    for (i64 i = 0; i < elements; ++i) {
      const u64 h = verify::hash(17, static_cast<u64>(i));
      store_element(DType::bf16, values.data(), i, static_cast<double>(h >> 11) * 0x1p-51 - 2.0);
    }
    for (auto [buffer, bytes] : {std::pair(&input_, 2 * elements),
                                 {&residual_, 2 * elements},
                                 {&gamma_, 2 * columns},
                                 {&sum_, 2 * rows * columns},
                                 {&output_, 2 * rows * columns},
                                 {&scales_, 4 * rows * (columns / 128 + 1)},
                                 {&next_, i64{1} << 20}}) {
      auto made = DeviceBuffer::allocate(device(), bytes);
      ASSERT_TRUE(ok(made));
      *buffer = *std::move(made);
    }
    for (const DeviceBuffer* buffer : {&input_, &residual_, &gamma_})
      ASSERT_TRUE(ok(buffer->upload(values.data(), buffer->bytes())));
    const float scale = 0.02f;
    ASSERT_TRUE(ok(scales_.upload(&scale, 4)));
  }

  void expect_kept(const Chained& alone, const Chained& chained, const std::string& where) {
    for (const bool in_graph : {false, true}) {
      const auto differ = bytes_that_differ(device(), alone, chained, in_graph);
      ASSERT_TRUE(ok(differ));
      EXPECT_EQ(*differ, 0) << where << (in_graph ? ", in a graph" : "");
    }
    const auto early = bytes_written_early(device(), chained);
    ASSERT_TRUE(ok(early));
    EXPECT_EQ(*early, 0) << where << ": written while it was still read";
  }

  DeviceBuffer input_, residual_, gamma_, sum_, output_, scales_, next_;
};

TEST_F(overlap_contract, kept_by_norms) {
  for (const auto& [rows, columns] : kShapes) {
    make(rows, columns, columns);
    for (const std::optional<Granularity> quantize :
         {std::optional<Granularity>{}, std::optional(Granularity::tensor), std::optional(Granularity::row),
          std::optional(Granularity::row_block)})
      for (const Trigger trigger : kTriggers) {
        const auto chained_of = [&, rows = rows, columns = columns](Overlap overlap) -> Chained {
          const auto norm = Norm::create(device(), {.quantize = quantize, .overlap = overlap});
          EXPECT_TRUE(ok(norm));
          const NormArgs args{.input = input_.data(),
                              .residual = residual_.data(),
                              .sum = sum_.data(),
                              .gamma = gamma_.data(),
                              .output = output_.data(),
                              .scales = static_cast<float*>(scales_.data()),
                              .hand_off = {next_.data(), next_.bytes()}};
          const NormShape shape{.rows = rows, .columns = columns};
          Chained result{
              [=](Stream stream) { return norm->launch(shape, args, stream); }, &input_, {&sum_, &output_}};
          if (quantize && *quantize != Granularity::tensor) result.outputs.push_back(&scales_);
          return result;
        };
        expect_kept(
            chained_of({}), chained_of({Wait::first, trigger, spacing_of(trigger)}),
            "norm " + std::to_string(rows) + "x" + std::to_string(columns) + " trigger " + name_of(trigger));
      }
  }
}

TEST_F(overlap_contract, kept_by_quantisers) {
  for (const auto& [rows, columns] : kShapes) {
    make(rows, columns, 2 * columns);
    for (const std::optional<Granularity> granularity :
         {std::optional<Granularity>{}, std::optional(Granularity::tensor), std::optional(Granularity::row),
          std::optional(Granularity::row_block), std::optional(Granularity::square_block)})
      for (const Gate gate : kGates)
        for (const Trigger trigger : kTriggers) {
          if (!granularity && gate == Gate::none) continue;
          const auto chained_of = [&, rows = rows, columns = columns](Overlap overlap) -> Chained {
            const auto quantizer = Quantizer::create(device(), DType::bf16, granularity, gate, overlap);
            EXPECT_TRUE(ok(quantizer));
            const QuantizeArgs args{.input = input_.data(),
                                    .output = output_.data(),
                                    .scales = static_cast<float*>(scales_.data()),
                                    .scale_given = granularity == Granularity::tensor,
                                    .hand_off = {next_.data(), next_.bytes()}};
            const QuantizeShape shape{.rows = rows, .columns = columns};
            Chained result{
                [=](Stream stream) { return quantizer->launch(shape, args, stream); }, &input_, {&output_}};
            if (granularity && *granularity != Granularity::tensor) result.outputs.push_back(&scales_);
            return result;
          };
          expect_kept(chained_of({}), chained_of({Wait::first, trigger, spacing_of(trigger)}),
                      std::string("quantiser ") + (granularity ? name_of(*granularity) : "plain") + " gate " +
                          name_of(gate) + " " + std::to_string(rows) + "x" + std::to_string(columns) +
                          " trigger " + name_of(trigger));
        }
  }
}

TEST_F(overlap_contract, kept_by_the_steps_of_experts) {
  for (const auto& [rows, columns] : kShapes) {
    make(rows, columns, columns);
    const i64 slots = rows * columns / 2;  // as many int32
    const RouteShape route{.tokens = slots / 4, .chosen = 4, .experts = 64, .rows = slots / 2, .pitch = 16};
    auto ends = DeviceBuffer::allocate(device(), 4 * 64),
         places = DeviceBuffer::allocate(device(), 4 * slots);
    ASSERT_TRUE(ok(ends) && ok(places));
    std::vector<int> index;
    for (i64 row = 0; row < rows; ++row) index.push_back(static_cast<int>((row * 7 + 3) % (rows + 1)));
    const auto table = DeviceBuffer::allocate(device(), 4 * rows);
    ASSERT_TRUE(ok(table) && ok(table->upload(index.data(), 4 * rows)));
    std::vector<int> chosen;
    for (i64 slot = 0; slot < slots; ++slot)
      chosen.push_back(static_cast<int>(verify::hash(18, static_cast<u64>(slot)) % 70) - 3);
    const auto ids = DeviceBuffer::allocate(device(), 4 * slots);
    ASSERT_TRUE(ok(ids) && ok(ids->upload(chosen.data(), 4 * slots)));
    const auto* const row_index = static_cast<const int*>(table->data());
    for (const Trigger trigger : kTriggers) {
      const auto expect_step = [&](const char* name, const auto& chained_of) {
        expect_kept(chained_of({}), chained_of({Wait::first, trigger, spacing_of(trigger)}),
                    name + (" trigger " + std::string(name_of(trigger))));
      };
      expect_step("route", [&](Overlap overlap) -> Chained {
        const auto router = Router::create(device(), {.overlap = overlap});
        EXPECT_TRUE(ok(router));
        const RouteArgs args{.ids = ids->data(),
                             .ends = static_cast<int*>(ends->data()),
                             .row_of_slot = static_cast<int*>(places->data()),
                             .token_of_row = static_cast<int*>(output_.data()),
                             .hand_off = {next_.data(), next_.bytes()}};
        return {[=](Stream stream) { return router->launch(route, args, stream); },
                &*ids,
                {&*ends, &*places, &output_}};
      });
      expect_step("gather", [&, rows = rows, columns = columns](Overlap overlap) -> Chained {
        const auto gatherer = Quantizer::create(
            device(), {.granularity = Granularity::row_block, .overlap = overlap, .gathered = true});
        EXPECT_TRUE(ok(gatherer));
        const QuantizeArgs args{.input = input_.data(),
                                .output = output_.data(),
                                .scales = static_cast<float*>(scales_.data()),
                                .hand_off = {next_.data(), next_.bytes()},
                                .row_index = row_index};
        const QuantizeShape shape{.rows = rows, .columns = columns, .input_rows = rows};
        return {[=](Stream stream) { return gatherer->launch(shape, args, stream); },
                &input_,
                {&output_, &scales_}};
      });
      expect_step("combine", [&, rows = rows, columns = columns](Overlap overlap) -> Chained {
        const auto combiner = Combiner::create(device(), {.overlap = overlap});
        EXPECT_TRUE(ok(combiner));
        const CombineArgs args{.y = input_.data(),
                               .row_of_slot = row_index,
                               .shared = residual_.data(),
                               .out = output_.data(),
                               .hand_off = {next_.data(), next_.bytes()}};
        const CombineShape shape{.tokens = rows, .columns = columns, .rows = rows};
        return {[=](Stream stream) { return combiner->launch(shape, args, stream); }, &input_, {&output_}};
      });
    }
  }
}

TEST_F(overlap_contract, broken_by_a_norm_that_does_not_wait_is_seen) {
  make(4, 4096, 4096);
  const auto module = device().impl().load_unit(norm_unit_text({}), 0);
  ASSERT_TRUE(ok(module));
  const NormParams params{.input = input_.data(),
                          .residual = nullptr,
                          .sum = nullptr,
                          .gamma = gamma_.data(),
                          .output = output_.data(),
                          .scales = nullptr,
                          .rows = 4,
                          .columns = 4096,
                          .input_ld = 4096,
                          .residual_ld = 4096,
                          .sum_ld = 4096,
                          .output_ld = 4096,
                          .epsilon = 1e-5f,
                          .inverse_columns = 1.0f / 4096,
                          .working_threads = 512,
                          .hand_off = {}};
  const auto launch_as = [&](bool dependent) -> Chained {
    return {[&, dependent](Stream stream) -> Result<void> {
              const ContextScope scope(*device().impl().primary);
              if (const Result<void> entered = scope.entered(); !entered) return entered;
              return launch_kernel(*device().impl().api, (*module)->function(),
                                   {.grid_x = 4, .block_x = 512, .dependent = dependent}, &params, stream);
            },
            &input_,
            {&output_}};
  };
  for (const bool in_graph : {false, true}) {
    const auto kept = bytes_that_differ(device(), launch_as(false), launch_as(false), in_graph);
    ASSERT_TRUE(ok(kept));
    EXPECT_EQ(*kept, 0) << "launched in order it needs no wait";
    const auto broken = bytes_that_differ(device(), launch_as(false), launch_as(true), in_graph);
    ASSERT_TRUE(ok(broken));
    EXPECT_GT(*broken, 4 * 4096) << "it read what the producer had not written";
  }
  const auto early = bytes_written_early(device(), launch_as(true));
  ASSERT_TRUE(ok(early));
  EXPECT_GT(*early, 0) << "it wrote what was still to be read";
}

}  // namespace
}  // namespace sluice::testing
