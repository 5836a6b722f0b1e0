// SPDX-License-Identifier: Apache-2.0
// Route, gather and combine on the GPU against the reference, bit by bit. Ids are random, layouts have one to
// eight CTAs, capacities may be too small. Outputs are poisoned and have guards. One graph is replayed with
// new ids; a last test runs the three in a row. To see it fail: leave out the barrier between count() and
// scan() of kernels/route.cuh, or team.put_own() for one CTA.
#include <sluice/experts.h>

#include <cmath>
#include <cstring>
#include <vector>

#include <sluice/kernels/verify_arith.h>
#include <sluice/reference/element.h>
#include <sluice/reference/quantize.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/memory.h>

#include "gpu.h"
#include "tests/unit/route_cases.h"

namespace sluice::testing {
namespace {

constexpr i64 kGuard = 256;  // bytes behind an array, which keep the poison
constexpr u8 kPoison = 0x5a;

class experts : public GpuTest {
 protected:
  DeviceBuffer poisoned(i64 bytes) {
    Result<DeviceBuffer> made = DeviceBuffer::allocate(device(), bytes + kGuard);
    EXPECT_TRUE(ok(made) && ok(made->fill(kPoison, nullptr)));
    return std::move(*made);
  }
  DeviceBuffer uploaded(const void* data, i64 bytes) {
    DeviceBuffer made = poisoned(bytes);
    EXPECT_TRUE(bytes == 0 || ok(made.upload(data, bytes)));
    return made;
  }
  /// Returns what an array holds, and checks its guard.
  template <class T>
  std::vector<T> values_of(const DeviceBuffer& buffer) {
    std::vector<u8> bytes(static_cast<std::size_t>(buffer.bytes()));
    EXPECT_TRUE(ok(buffer.download(bytes.data(), buffer.bytes())));
    EXPECT_EQ(std::count(bytes.end() - kGuard, bytes.end(), kPoison), kGuard) << "written behind the end";
    std::vector<T> values((bytes.size() - kGuard) / sizeof(T));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }

  struct Tables {
    DeviceBuffer ends, row_of_slot, token_of_row;
  };
  Tables tables_for(const RouteShape& s) {
    return {poisoned(4 * s.experts), poisoned(4 * s.tokens * s.chosen), poisoned(4 * s.rows)};
  }
  Routed routed(const Tables& t) {
    return {values_of<int>(t.ends), values_of<int>(t.row_of_slot), values_of<int>(t.token_of_row)};
  }
  RouteArgs args_of(const DeviceBuffer& ids, const Tables& t) {
    return {.ids = ids.data(),
            .ends = static_cast<int*>(t.ends.data()),
            .row_of_slot = static_cast<int*>(t.row_of_slot.data()),
            .token_of_row = static_cast<int*>(t.token_of_row.data())};
  }
  void poison(const Tables& t) {
    for (const DeviceBuffer* each : {&t.ends, &t.row_of_slot, &t.token_of_row})
      ASSERT_TRUE(ok(each->fill(kPoison, nullptr)));
  }

  /// Captures the sort of `c` once, and replays it with `replays` other draws of ids.
  void expect_routed(RouteCase c, RouteDice& dice, int replays) {
    const auto router = Router::create(device(), {.wide_ids = c.wide});
    ASSERT_TRUE(ok(router));
    const DeviceBuffer ids = poisoned(static_cast<i64>(c.bytes().size()));
    const Tables tables = tables_for(c.shape);
    const auto stream = StreamHandle::create(device());
    ASSERT_TRUE(ok(stream));
    const auto graph = Graph::capture(device(), stream->get(), [&] {
      return router->launch(c.shape, args_of(ids, tables), stream->get());
    });
    ASSERT_TRUE(ok(graph));
    for (int i = 0; i <= replays; ++i) {
      const std::vector<u8> bytes = c.bytes();
      ASSERT_TRUE(ok(ids.upload(bytes.data(), static_cast<i64>(bytes.size()))));
      poison(tables);
      ASSERT_TRUE(ok(synchronize(device())));
      ASSERT_TRUE(ok(graph->launch(stream->get())));
      ASSERT_TRUE(ok(stream->synchronize()));
      const RouteShape& s = c.shape;
      ASSERT_TRUE(routed(tables) == c.wanted(bytes))
          << s.tokens << "x" << s.chosen << " to " << s.experts << ", " << s.rows << " rows by " << s.pitch;
      dice.draw_ids(c);
    }
    record("cases", replays + 1);
  }
};

// SLUICE_ROUTE_CASES: number of random cases.
TEST_F(experts, routes_are_a_stable_sort) {
  RouteDice dice(21);
  for (i64 i = setting("SLUICE_ROUTE_CASES", 60); i > 0 && !HasFatalFailure(); --i)
    expect_routed(dice.draw(i % 3 == 0 ? 1024 : 64, i % 4 == 0 ? 9000 : 300, i % 5 == 0 ? 32 : 8), dice, 2);
}

TEST_F(experts, routes_have_the_sizes_of_models) {
  RouteDice dice(22);
  for (const auto& [tokens, chosen, count] : {std::tuple<i64, i64, i64>{1, 8, 256},
                                              {512, 8, 256},
                                              {1024, 4, 32},
                                              {4096, 8, 256},
                                              {4097, 8, 128},
                                              {20000, 8, 1024}})
    for (const i64 pitch : {1, 128}) {
      RouteCase c{.shape = {.tokens = tokens,
                            .chosen = chosen,
                            .experts = count,
                            .rows = most_rows(tokens * chosen, count, pitch),
                            .pitch = pitch,
                            .ids_ld = chosen},
                  .wide = pitch == 1};
      c.ids.resize(static_cast<std::size_t>(tokens * chosen));
      dice.draw_ids(c);
      expect_routed(c, dice, 3);
    }
}

/// Random elements of 16 bits; a few are NaN, infinite or -0.
std::vector<u16> elements(DType type, i64 count, u64 seed, bool specials) {
  std::vector<u16> all(static_cast<std::size_t>(count));
  for (i64 i = 0; i < count; ++i) {
    const u64 h = verify::hash(seed, static_cast<u64>(i));
    double value = (static_cast<double>(h >> 11) * 0x1p-53 - 0.5) * 4;
    if (specials && h % 509 == 0) value = h % 2 != 0 ? std::nan("") : INFINITY;
    if (h % 61 == 0) value = -0.0;
    store_element(type, all.data(), i, value);
  }
  return all;
}

std::vector<int> drawn_rows(RouteDice& dice, i64 rows, i64 input_rows) {
  std::vector<int> index;
  for (i64 row = 0; row < rows; ++row)
    index.push_back(static_cast<int>(dice.one_in(5)   ? dice.one_in(2) ? -1 : input_rows
                                     : input_rows > 0 ? dice.between(0, input_rows - 1)
                                                      : 0));
  return index;
}

TEST_F(experts, gathered_rows_have_the_bits_of_the_reference) {
  RouteDice dice(23);
  for (const std::optional<Granularity> by :
       {std::optional<Granularity>{}, std::optional(Granularity::row), std::optional(Granularity::row_block)})
    for (const DType type : {DType::bf16, DType::fp16})
      for (const auto& [rows, columns, pad, shift] : {std::tuple<i64, i64, i64, i64>{1, 8, 0, 0},
                                                      {1, 4096, 8, 8},
                                                      {700, 2048, 0, 0},
                                                      {65, 1000, 3, 1},
                                                      {4100, 384, 8, 0}}) {
        const i64 sources = 37, ld = columns + pad;
        const std::vector<u16> input = elements(type, sources * ld + shift, 5, true);
        const std::vector<int> index = drawn_rows(dice, rows, sources);
        const std::vector<u8> gathered =
            reference_gather(input.data() + shift, sources, 2 * columns, 2 * ld, index);
        const i64 bytes = rows * columns * (by ? 1 : 2), scales = by ? scale_count(*by, rows, columns) : 0;
        std::vector<u8> wanted = gathered;
        std::vector<float> wanted_scales(static_cast<std::size_t>(scales));
        if (by) {
          wanted.resize(static_cast<std::size_t>(bytes));
          reference_quantize({type, gathered.data(), rows, columns, columns}, *by, wanted.data(), columns,
                             wanted_scales.data());
          for (i64 i = 0; i < scales; ++i) {
            const int source = index[static_cast<std::size_t>(i / (scales / rows))];
            if (source < 0 || source >= sources) wanted_scales[static_cast<std::size_t>(i)] = 1.0f;
          }
        }
        const auto made = Quantizer::create(device(), {.input = type, .granularity = by, .gathered = true});
        ASSERT_TRUE(ok(made));
        const DeviceBuffer in = uploaded(input.data(), 2 * static_cast<i64>(input.size()));
        const DeviceBuffer table = uploaded(index.data(), 4 * rows);
        const DeviceBuffer out = poisoned(bytes), factors = poisoned(4 * scales);
        const QuantizeArgs args{.input = static_cast<u16*>(in.data()) + shift,
                                .output = out.data(),
                                .scales = static_cast<float*>(factors.data()),
                                .row_index = static_cast<const int*>(table.data())};
        const QuantizeShape shape{.rows = rows, .columns = columns, .input_ld = ld, .input_rows = sources};
        ASSERT_TRUE(ok(made->launch(shape, args, nullptr)));
        ASSERT_TRUE(ok(synchronize(device())));
        const std::vector<u8> got = values_of<u8>(out);
        const std::vector<float> got_scales = values_of<float>(factors);
        i64 wrong = 0;
        for (std::size_t i = 0; i < got.size(); ++i)
          wrong +=
              got[i] != wanted[i] && !(by && (got[i] & 0x7f) == 0x7f && (wanted[i] & 0x7f) == 0x7f) ? 1 : 0;
        EXPECT_EQ(wrong, 0) << name_of(type) << " " << rows << "x" << columns;
        for (std::size_t i = 0; i < got_scales.size(); ++i)
          ASSERT_TRUE(got_scales[i] == wanted_scales[i] ||
                      (std::isnan(got_scales[i]) && std::isnan(wanted_scales[i])))
              << "scale " << i << " is " << got_scales[i] << ", not " << wanted_scales[i];
        record("cases", 1);
      }
}

TEST_F(experts, combined_rows_have_the_bits_of_the_reference) {
  RouteDice dice(24);
  for (const DType type : {DType::bf16, DType::fp16})
    for (const auto& [tokens, columns, chosen, pad] : {std::tuple<i64, i64, i64, i64>{1, 7168, 8, 0},
                                                       {1, 8, 1, 0},
                                                       {67, 2048, 8, 8},
                                                       {1000, 512, 4, 0},
                                                       {33, 1001, 9, 3},
                                                       {5, 264, 32, 0}})
      for (const bool with : {true, false}) {
        const i64 rows = 2 * tokens + 5, ld = columns + pad, slots = tokens * chosen;
        const std::vector<u16> y = elements(type, rows * ld, 6, false),
                               shared = elements(type, tokens * ld, 7, false);
        const std::vector<int> row_of_slot = drawn_rows(dice, slots, rows);
        std::vector<float> weights;
        for (const int row : row_of_slot)
          weights.push_back(row < 0 || row >= rows ? NAN
                                                   : static_cast<float>(dice.between(1, 1000)) / 999.0f);
        std::vector<u16> wanted(static_cast<std::size_t>(tokens * ld), kPoison << 8 | kPoison);
        const float* const factors = with ? weights.data() : nullptr;
        reference_combine({type, y.data(), row_of_slot.data(), factors, with ? shared.data() : nullptr,
                           tokens, columns, chosen, rows, ld, ld},
                          wanted.data(), ld);
        const auto made = Combiner::create(device(), {.type = type});
        ASSERT_TRUE(ok(made));
        const DeviceBuffer in = uploaded(y.data(), 2 * rows * ld),
                           more = uploaded(shared.data(), 2 * tokens * ld);
        const DeviceBuffer table = uploaded(row_of_slot.data(), 4 * slots),
                           scale = uploaded(weights.data(), 4 * slots);
        const DeviceBuffer out = poisoned(2 * tokens * ld);
        const CombineArgs args{.y = in.data(),
                               .row_of_slot = static_cast<const int*>(table.data()),
                               .weights = with ? static_cast<const float*>(scale.data()) : nullptr,
                               .shared = with ? more.data() : nullptr,
                               .out = out.data()};
        const CombineShape shape{.tokens = tokens,
                                 .columns = columns,
                                 .chosen = chosen,
                                 .rows = rows,
                                 .y_ld = ld,
                                 .shared_ld = ld,
                                 .out_ld = ld};
        ASSERT_TRUE(ok(made->launch(shape, args, nullptr)));
        ASSERT_TRUE(ok(synchronize(device())));
        EXPECT_TRUE(values_of<u16>(out) == wanted)
            << name_of(type) << " " << tokens << "x" << columns << " of " << chosen;
        record("cases", 1);
      }
}

/// Behind a product by slots, whose table holds experts.
TEST_F(experts, add_up_the_rows_of_slots) {
  RouteDice dice(31);
  const i64 tokens = 9, chosen = 8, columns = 520, slots = tokens * chosen, experts = 40;
  const std::vector<u16> y = elements(DType::bf16, slots * columns, 6, false);
  const std::vector<int> ids = drawn_rows(dice, slots, experts);
  std::vector<u16> wanted(static_cast<std::size_t>(tokens * columns));
  reference_combine({DType::bf16, y.data(), ids.data(), nullptr, nullptr, tokens, columns, chosen, slots,
                     columns, columns, experts},
                    wanted.data(), columns);
  const auto made = Combiner::create(device(), {.type = DType::bf16});
  ASSERT_TRUE(ok(made));
  const DeviceBuffer in = uploaded(y.data(), 2 * slots * columns), table = uploaded(ids.data(), 4 * slots),
                     out = poisoned(2 * tokens * columns);
  const CombineShape shape{
      .tokens = tokens, .columns = columns, .chosen = chosen, .rows = slots, .experts = experts};
  ASSERT_TRUE(ok(made->launch(
      shape, {.y = in.data(), .row_of_slot = static_cast<const int*>(table.data()), .out = out.data()},
      nullptr)));
  ASSERT_TRUE(ok(synchronize(device())));
  EXPECT_TRUE(values_of<u16>(out) == wanted);
  record("cases", 1);
}

/// With rows of its own for each slot, and weights of 1, a token becomes chosen times itself.
TEST_F(experts, in_a_row_give_each_token_its_own_rows) {
  const i64 tokens = 777, chosen = 8, count = 64, columns = 1024;
  RouteDice dice(25);
  RouteCase c{.shape = {.tokens = tokens,
                        .chosen = chosen,
                        .experts = count,
                        .rows = most_rows(tokens * chosen, count, 64),
                        .pitch = 64,
                        .ids_ld = chosen}};
  for (i64 i = 0; i < tokens * chosen; ++i) c.ids.push_back(dice.between(0, count - 1));
  std::vector<u16> x(static_cast<std::size_t>(tokens * columns)), wanted(x.size());
  for (i64 i = 0; i < tokens * columns; ++i) {
    store_element(DType::bf16, x.data(), i, static_cast<double>(dice.between(-15, 15)));
    store_element(DType::bf16, wanted.data(), i, 8 * load_element(DType::bf16, x.data(), i));
  }
  const auto router = Router::create(device(), {});
  const auto gatherer = Quantizer::create(device(), {.gathered = true});
  const auto combiner = Combiner::create(device(), {});
  ASSERT_TRUE(ok(router) && ok(gatherer) && ok(combiner));
  const DeviceBuffer ids = uploaded(c.bytes().data(), 4 * tokens * chosen);
  const DeviceBuffer in = uploaded(x.data(), 2 * tokens * columns), out = poisoned(2 * tokens * columns);
  const DeviceBuffer rows = poisoned(2 * c.shape.rows * columns);
  const Tables tables = tables_for(c.shape);
  ASSERT_TRUE(ok(router->launch(c.shape, args_of(ids, tables), nullptr)));
  ASSERT_TRUE(ok(gatherer->launch({.rows = c.shape.rows, .columns = columns, .input_rows = tokens},
                                  {.input = in.data(),
                                   .output = rows.data(),
                                   .row_index = static_cast<const int*>(tables.token_of_row.data())},
                                  nullptr)));
  ASSERT_TRUE(
      ok(combiner->launch({.tokens = tokens, .columns = columns, .chosen = chosen, .rows = c.shape.rows},
                          {.y = rows.data(),
                           .row_of_slot = static_cast<const int*>(tables.row_of_slot.data()),
                           .out = out.data()},
                          nullptr)));
  ASSERT_TRUE(ok(synchronize(device())));
  EXPECT_TRUE(values_of<u16>(out) == wanted);
}

}  // namespace
}  // namespace sluice::testing
