// SPDX-License-Identifier: Apache-2.0
// Quantises to e4m3 with fp32 scales: amax = max(|x|, 1e-4) over the values that share a scale, scale = amax
// * (1 / 448). An element is its value times (1 / amax) * 448, rounded to nearest even. torch computes `amax
// / 448.0` and `448.0 / amax` that way on a GPU, so the bits equal those of quantisers written in torch.
// silu(gate) * up uses the GPU's fast exponential and division: those bits are not torch's. The step `plain`
// ends there: it rounds to the input's type and has no scale. A NaN makes its scale and all values that share
// it NaN. Each element is read once if a thread's part fits in registers. No CTA waits for another, except in
// a team.
//
// With `gathered` a table names the input row of each output row. Where it names none, values are zeros, and
// scales of rows and of their blocks are 1. `plain` without a gate moves elements as they are, NaNs included.
//
// A grid of any size is valid. `Arith` implements the steps on the GPU (quantize_entry.cuh) or in a test
// (tests/unit/quantize_kernels_test.cc).
//
// | step         | one unit of work                 | done by one  |
// | amax, cast   | 8 elements                       | thread       |
// | row          | a row                            | block, or    |
// |              |                                  | team of them |
// | row_block    | 128 columns of a row             | half a warp  |
// | square_block | 128 rows of 128 columns          | block        |
// | plain        | 8 elements                       | thread       |
//
// In a chain of dependent launches (spec/overlap.h) the order is: trigger, L2 prefetch, PDL wait, then
// everything else, because earlier launches may have written all data that is read.
#pragma once

#include <sluice/spec/row_team.h>
#include <sluice/device/math/e4m3_scale.cuh>

namespace sluice::quantize {

inline constexpr int kWarps = kQuantizeThreads / 32;
inline constexpr int kTeamSlots = kWarps * kMaxRowTeam;
inline constexpr int kHalfWarps = kQuantizeThreads / 16;  // 16 chunks are the 128 columns of a block

/// Makes values of gate those of silu(gate) * up.
template <class Arith>
SLUICE_DEVICE void apply_gate(Chunk& values, const Chunk& up) {
#pragma unroll
  for (int i = 0; i < kQuantizeChunk; ++i) values.values[i] = Arith::silu(values.values[i]) * up.values[i];
}

template <QuantizeConfig kConfig, class Arith>
struct Quantizer {
  using Team = typename Arith::template Team<kTeamSlots>;

  /// Whether elements of 16 bits move as they are.
  static constexpr bool kMoves = kConfig.step == QuantizeStep::plain && kConfig.gate == Gate::none;

  const QuantizeParams& p;

  SLUICE_DEVICE u32 chunks() const { return static_cast<u32>(ceil_div(p.columns, i64{kQuantizeChunk})); }
  SLUICE_DEVICE i64 input_rows() const {
    if constexpr (kConfig.gathered)
      return static_cast<const GatherParams&>(p).input_rows;
    else
      return p.rows;
  }
  /// The input row of an output row; input_rows() or more if there is none.
  SLUICE_DEVICE i64 source_of(i64 row) const {
    if constexpr (kConfig.gathered) {
      const i32* const index = static_cast<const GatherParams&>(p).row_index;
      const i32 source = Arith::load_index(index + row, row < p.rows);
      return row < p.rows && source >= 0 ? i64{source} : input_rows();
    } else {
      return row;
    }
  }

  /// The loads of a chunk. With vectors the thread waits for them only in `values_of`, so that many chunks
  /// are in flight.
  struct Fetched {
    typename Arith::template Raw<kConfig.input> input, up;  // `up` with a gate
    Chunk elements;  // without vectors: the result of `values_of`, or bits of elements that only move
    bool inside;
  };

  /// Loads the chunk of columns from 8 * chunk on of an input row; nothing is read outside the matrix.
  SLUICE_DEVICE Fetched fetch(i64 source, i64 chunk) const {
    Fetched result{};
    const i64 column = chunk * kQuantizeChunk, first = source * p.input_ld + column;
    result.inside = source < input_rows() && column < p.columns;
    if constexpr (kConfig.vectors) {
      result.input = Arith::template load_raw<kConfig.input>(p.input, first, result.inside);
      if constexpr (kConfig.gate == Gate::silu)
        result.up = Arith::template load_raw<kConfig.input>(p.input, first + p.columns, result.inside);
    } else if constexpr (kMoves) {
#pragma unroll
      for (int i = 0; i < kQuantizeChunk; ++i)
        if (result.inside && column + i < p.columns)
          result.elements.values[i] =
              __builtin_bit_cast(float, u32{Arith::load_bits(static_cast<const u16*>(p.input) + first + i)});
    } else if (result.inside) {
      read(first, column, result.elements);
      if constexpr (kConfig.gate == Gate::silu) {
        Chunk up{};
        read(first + p.columns, column, up);
        apply_gate<Arith>(result.elements, up);
      }
    }
    return result;
  }

  /// Reads input elements from `first` on, as many as D has columns from `column` on.
  SLUICE_DEVICE void read(i64 first, i64 column, Chunk& chunk) const {
#pragma unroll
    for (int i = 0; i < kQuantizeChunk; ++i)
      if (column + i < p.columns)
        chunk.values[i] = Arith::template load_element<kConfig.input>(p.input, first + i);
  }

  /// The values to quantise; zeros outside the matrix.
  SLUICE_DEVICE static Chunk values_of(const Fetched& fetched) {
    if constexpr (!kConfig.vectors) {
      return fetched.elements;
    } else {
      if (!fetched.inside) return {};
      Chunk result{};
      Arith::template unpack<kConfig.input>(fetched.input, result.values);
      if constexpr (kConfig.gate == Gate::silu) {
        Chunk up{};
        Arith::template unpack<kConfig.input>(fetched.up, up.values);
        apply_gate<Arith>(result, up);
      }
      return result;
    }
  }

  SLUICE_DEVICE Chunk load(i64 source, i64 chunk) const {
    return values_of(fetch(source, chunk));
  }

  /// Row and chunk of a unit of 8 elements. Units are counted row by row; past the last one, `row` is outside
  /// the matrix.
  struct Unit {
    u32 row, chunk;
    i64 source = 0;  // where rows are gathered
  };
  SLUICE_DEVICE Unit unit_at(u32 index, u32 units) const {
    return {index < units ? index / chunks() : static_cast<u32>(p.rows), index % chunks()};
  }
  /// Finds the input row of a unit, where rows are gathered. Call it for two units before the first is
  /// fetched, so that both loads of the table are in flight together.
  SLUICE_DEVICE Unit found(Unit unit) const {
    if constexpr (kConfig.gathered) unit.source = source_of(unit.row);
    return unit;
  }
  SLUICE_DEVICE Fetched fetch(const Unit& unit) const {
    if constexpr (kConfig.gathered)
      return fetch(unit.source, unit.chunk);
    else
      return fetch(unit.row, unit.chunk);
  }
  /// The scale to store: 1 for a row that is gathered from nowhere.
  SLUICE_DEVICE static float stored(const Scale& scale, const Fetched& first) {
    return kConfig.gathered && !first.inside ? 1.0f : scale.scale;
  }

  SLUICE_DEVICE void store(i64 row, i64 chunk, const Chunk& values, float multiplier) const {
    const i64 column = chunk * kQuantizeChunk;
    if (row >= p.rows || column >= p.columns) return;
    u32 words[2];
    to_e4m3<Arith>(values, multiplier, words);
    u8* target = p.output + row * p.output_ld + column;
    if constexpr (kConfig.vectors) {
      Arith::store_words(target, words);
    } else {
#pragma unroll
      for (int i = 0; i < kQuantizeChunk; ++i)
        if (column + i < p.columns) target[i] = static_cast<u8>(words[i / 4] >> (i % 4 * 8));
    }
  }

  /// Stores values rounded to the input's type.
  SLUICE_DEVICE void store_plain(i64 row, i64 chunk, const Chunk& chunk_of) const {
    const i64 column = chunk * kQuantizeChunk;
    if (row >= p.rows || column >= p.columns) return;
    u32 words[kQuantizeChunk / 2];
#pragma unroll
    for (int i = 0; i < kQuantizeChunk / 2; ++i)
      words[i] =
          Arith::template pack_16bit<kConfig.input>(chunk_of.values[2 * i], chunk_of.values[2 * i + 1]);
    store_words(row, column, words);
  }
  /// Stores elements that only move.
  SLUICE_DEVICE void store_plain(i64 row, i64 chunk, const Fetched& fetched) const {
    const i64 column = chunk * kQuantizeChunk;
    if (row >= p.rows || column >= p.columns) return;
    u32 words[kQuantizeChunk / 2];
#pragma unroll
    for (int i = 0; i < kQuantizeChunk / 2; ++i)
      words[i] = __builtin_bit_cast(u32, fetched.elements.values[2 * i]) |
                 __builtin_bit_cast(u32, fetched.elements.values[2 * i + 1]) << 16;
    if constexpr (kConfig.vectors) Arith::template words_of<kConfig.input>(fetched.input, words);
    store_words(row, column, words);
  }
  SLUICE_DEVICE void store_words(i64 row, i64 column, const u32 (&words)[kQuantizeChunk / 2]) const {
    u8* target = p.output + 2 * (row * p.output_ld + column);
    if constexpr (kConfig.vectors) {
      Arith::store(target, words);
    } else {
#pragma unroll
      for (int i = 0; i < kQuantizeChunk; ++i)
        if (column + i < p.columns)
          reinterpret_cast<u16*>(target)[i] = static_cast<u16>(words[i / 2] >> (i % 2 * 16));
    }
  }

  /// The largest value of the block. `shared`: one word per warp, which may be reused on return (it ends with
  /// a barrier).
  SLUICE_DEVICE static u32 largest_of_block(u32 bits, u32* shared) {
    bits = largest_of_lanes(bits, 32);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = bits;
    __syncthreads();
    u32 largest = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) largest = shared[warp] > largest ? shared[warp] : largest;
    __syncthreads();
    return largest;
  }

  /// The largest value of the team, with one synchronisation.
  SLUICE_DEVICE static u32 largest_of_team(Team& team, u32 bits) {
    const u32 words = team.ctas * kWarps;
    team.put(team.rank * kWarps + threadIdx.x / 32, Arith::largest_of_warp(bits));
    const u32* slots = team.meet(words);
    bits = 0;
    for (u32 slot = threadIdx.x % 32; slot < words; slot += 32)
      bits = slots[slot] > bits ? slots[slot] : bits;
    return Arith::largest_of_warp(bits);
  }

  /// Call from each thread after it has issued its last load.
  SLUICE_DEVICE static void loaded(bool last) {
    if constexpr (kConfig.overlap.trigger == Trigger::after_loads)
      if (last) Arith::launch_dependents();
  }

  /// The multiplier for the block's values; one thread divides for all. `shared` may be reused on return (it
  /// ends with a barrier).
  SLUICE_DEVICE float multiplier_of_block(u32 bits, u32* shared, float* scale_target) const {
    bits = largest_of_lanes(bits, 32);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = bits;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int warp = 1; warp < kWarps; ++warp) bits = shared[warp] > bits ? shared[warp] : bits;
      const Scale scale = scale_of(bits);
      *scale_target = scale.scale;
      shared[0] = __builtin_bit_cast(u32, scale.multiplier);
    }
    __syncthreads();
    const float multiplier = __builtin_bit_cast(float, shared[0]);
    __syncthreads();
    return multiplier;
  }

  SLUICE_DEVICE void amax(u32* shared) const {
    const u32 units = static_cast<u32>(p.rows) * chunks(), step = gridDim.x * kQuantizeThreads;
    u32 bits = 0;
    for (u32 unit = blockIdx.x * kQuantizeThreads + threadIdx.x; unit < units; unit += 2 * step) {
      const Fetched one = fetch(found(unit_at(unit, units))),
                    other = fetch(found(unit_at(unit + step, units)));
      loaded(units - unit <= 2 * step);
      const Chunk first = values_of(one), second = values_of(other);
      const u32 larger = magnitude(first) > magnitude(second) ? magnitude(first) : magnitude(second);
      bits = larger > bits ? larger : bits;
    }
    bits = largest_of_block(bits, shared);
    if (threadIdx.x == 0) atomicMax(p.scratch, bits);
  }

  /// The multiplier for the matrix. Every block reads the amax before it increments the count; the last one
  /// to do so clears the scratch.
  SLUICE_DEVICE float multiplier_of_matrix(u32* shared) const {
    if (threadIdx.x == 0) {
      if (p.scale_given) {
        shared[0] = __builtin_bit_cast(u32, 1.0f / p.scales[0]);
      } else {
        const Scale scale = scale_of(Arith::read(p.scratch));
        shared[0] = __builtin_bit_cast(u32, scale.multiplier);
        __threadfence();
        if (atomicInc(p.scratch + 1, gridDim.x - 1) == gridDim.x - 1) {
          p.scratch[0] = 0;
          p.scales[0] = scale.scale;
        }
      }
    }
    __syncthreads();
    return __builtin_bit_cast(float, shared[0]);
  }

  /// Casts to e4m3. With few rows the kernel waits only for the first elements and for the scale. Both loads
  /// are issued together, and divisions that need no data run before the PDL wait, start()
  /// (docs/findings/chain-timelines.md).
  template <class Start>
  SLUICE_DEVICE void cast(u32* shared, const Start& start) const {
    const u32 units = static_cast<u32>(p.rows) * chunks(), step = gridDim.x * kQuantizeThreads;
    u32 index = blockIdx.x * kQuantizeThreads + threadIdx.x;
    Unit first = unit_at(index, units), second = unit_at(index + step, units);
    start();
    if constexpr (kConfig.gathered) first = found(first), second = found(second);
    Fetched one = fetch(first), other = fetch(second);
    loaded(index < units && units - index <= 2 * step);
    const float multiplier = multiplier_of_matrix(shared);
    while (index < units) {
      const Chunk values = values_of(one), more = values_of(other);
      store(first.row, first.chunk, values, multiplier);
      store(second.row, second.chunk, more, multiplier);
      index += 2 * step;
      first = unit_at(index, units);
      second = unit_at(index + step, units);
      if constexpr (kConfig.gathered) first = found(first), second = found(second);
      one = fetch(first);
      other = fetch(second);
      loaded(index < units && units - index <= 2 * step);
    }
  }

  SLUICE_DEVICE void plain() const {
    const u32 units = static_cast<u32>(p.rows) * chunks(), step = gridDim.x * kQuantizeThreads;
    for (u32 index = blockIdx.x * kQuantizeThreads + threadIdx.x; index < units; index += 2 * step) {
      Unit first = unit_at(index, units), second = unit_at(index + step, units);
      if constexpr (kConfig.gathered) first = found(first), second = found(second);
      const Fetched one = fetch(first), other = fetch(second);
      loaded(units - index <= 2 * step);
      if constexpr (kMoves) {
        store_plain(first.row, first.chunk, one);
        store_plain(second.row, second.chunk, other);
      } else {
        store_plain(first.row, first.chunk, values_of(one));
        store_plain(second.row, second.chunk, values_of(other));
      }
    }
  }

  /// Quantises whole rows. Rows of up to kHeld * 2048 columns per CTA of the team are read once. That is
  /// enough for the inner width of models with gated rows; without vectors, more would spill.
  SLUICE_DEVICE void rows(Team& team) const {
    constexpr bool kWide = kConfig.input == DType::fp32;
    constexpr int kHeld = kConfig.gate == Gate::none ? 4 : !kConfig.vectors ? 2 : kWide ? 4 : 7;
    const u32 threads = team.ctas * kQuantizeThreads, me = team.rank * kQuantizeThreads + threadIdx.x;
    team.begin();
    for (i64 row = team.index; row < p.rows; row += team.teams) {
      const i64 source = source_of(row);
      Fetched fetched[kHeld];
      Chunk held[kHeld];
      u32 bits = 0;
#pragma unroll
      for (int i = 0; i < kHeld; ++i) fetched[i] = fetch(source, i64{threads} * i + me);
      loaded(row + team.teams >= p.rows);
#pragma unroll
      for (int i = 0; i < kHeld; ++i) held[i] = values_of(fetched[i]);
#pragma unroll
      for (int i = 0; i < kHeld; ++i) bits = magnitude(held[i]) > bits ? magnitude(held[i]) : bits;
      const i64 rest = i64{threads} * kHeld + me;
      for (i64 chunk = rest; chunk < chunks(); chunk += threads) {
        const u32 more = magnitude(load(source, chunk));
        bits = more > bits ? more : bits;
      }
      const Scale scale = scale_of(largest_of_team(team, bits));
      if (me == 0) p.scales[row] = stored(scale, fetched[0]);
#pragma unroll
      for (int i = 0; i < kHeld; ++i) store(row, i64{threads} * i + me, held[i], scale.multiplier);
      for (i64 chunk = rest; chunk < chunks(); chunk += threads)
        store(row, chunk, load(source, chunk), scale.multiplier);
    }
  }

  /// Quantises blocks of 128 columns, with loads of several blocks in flight to hide HBM latency. If there
  /// are few blocks, they are first spread over more CTAs.
  SLUICE_DEVICE void row_blocks() const {
    constexpr int kTogether = 4;
    const u32 blocks = static_cast<u32>(scale_blocks(p.columns)), units = static_cast<u32>(p.rows) * blocks;
    const u32 lane = threadIdx.x % 16, half = threadIdx.x / 16;
    const u32 step = gridDim.x * kHalfWarps;
    for (u32 base = blockIdx.x * kHalfWarps; base < units; base += step * kTogether) {
      Fetched fetched[kTogether];
      u32 rows[kTogether], columns[kTogether];
      i64 sources[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const u32 unit = base + static_cast<u32>(i) * step + half;
        rows[i] = unit < units ? unit / blocks : static_cast<u32>(p.rows);
        columns[i] = unit % blocks;
        if constexpr (kConfig.gathered)
          sources[i] = source_of(rows[i]);
        else
          fetched[i] = fetch(rows[i], columns[i] * 16 + lane);
      }
      if constexpr (kConfig.gathered) {
#pragma unroll
        for (int i = 0; i < kTogether; ++i) fetched[i] = fetch(sources[i], columns[i] * 16 + lane);
      }
      loaded(units - base <= step * kTogether);
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const Chunk values = values_of(fetched[i]);
        const Scale scale = scale_of(largest_of_lanes(magnitude(values), 16));
        if (lane == 0 && rows[i] < p.rows)
          p.scales[static_cast<i64>(rows[i]) * blocks + columns[i]] = stored(scale, fetched[i]);
        store(rows[i], columns[i] * 16 + lane, values, scale.multiplier);
      }
    }
  }

  SLUICE_DEVICE void square_blocks(u32* shared) const {
    constexpr int kRows = kScaleBlock / kHalfWarps;  // rows of one thread
    const u32 columns = static_cast<u32>(scale_blocks(p.columns));
    const u32 units = static_cast<u32>(scale_blocks(p.rows)) * columns;
    for (u32 unit = blockIdx.x; unit < units; unit += gridDim.x) {
      const i64 row = static_cast<i64>(unit / columns) * kScaleBlock + threadIdx.x / 16;
      const i64 chunk = static_cast<i64>(unit % columns) * 16 + threadIdx.x % 16;
      Fetched fetched[kRows];
      Chunk held[kRows];
      u32 bits = 0;
#pragma unroll
      for (int i = 0; i < kRows; ++i) fetched[i] = fetch(source_of(row + i * kHalfWarps), chunk);
      loaded(units - unit <= gridDim.x);
#pragma unroll
      for (int i = 0; i < kRows; ++i) held[i] = values_of(fetched[i]);
#pragma unroll
      for (int i = 0; i < kRows; ++i) bits = magnitude(held[i]) > bits ? magnitude(held[i]) : bits;
      const float multiplier = multiplier_of_block(bits, shared, p.scales + unit);
#pragma unroll
      for (int i = 0; i < kRows; ++i) store(row + i * kHalfWarps, chunk, held[i], multiplier);
    }
  }
};

/// The steps that precede all reads of an earlier launch's data.
template <QuantizeConfig kConfig, class Arith>
SLUICE_DEVICE void start(const QuantizeParams& params) {
  if (threadIdx.x == 0) Arith::warm(params.hand_off, blockIdx.x, gridDim.x);
  if constexpr (kConfig.overlap.wait != Wait::none) Arith::wait_for_prerequisites();
}

template <QuantizeConfig kConfig, class Arith>
SLUICE_DEVICE void run(const QuantizeParams& params) {
  if constexpr (kConfig.overlap.trigger == Trigger::at_start) Arith::launch_dependents();
  const Quantizer<kConfig, Arith> quantizer{params};
  if constexpr (kConfig.step == QuantizeStep::row) {
    using Team = typename Quantizer<kConfig, Arith>::Team;
    __shared__ typename Team::Shared exchange;
    Team team(exchange);
    start<kConfig, Arith>(params);
    quantizer.rows(team);
  } else {
    __shared__ u32 shared[kWarps];
    if constexpr (kConfig.step == QuantizeStep::cast) {
      quantizer.cast(shared, [&] { start<kConfig, Arith>(params); });
    } else {
      start<kConfig, Arith>(params);
    }
    if constexpr (kConfig.step == QuantizeStep::amax) quantizer.amax(shared);
    if constexpr (kConfig.step == QuantizeStep::row_block) quantizer.row_blocks();
    if constexpr (kConfig.step == QuantizeStep::square_block) quantizer.square_blocks(shared);
    if constexpr (kConfig.step == QuantizeStep::plain) quantizer.plain();
  }
}

}  // namespace sluice::quantize
