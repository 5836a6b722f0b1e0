// SPDX-License-Identifier: Apache-2.0
// Root-mean-square norm of rows, with an optional residual before it and quantiser after it: the step between
// two products of a layer. A row is spread over the warps of a CTA, or of a team of CTAs (RowTeam). Each
// thread has one or two chunks of 8 columns, and issues all loads before it uses the first.
//
// The sum of squares has a fixed order, so a row's bits depend only on that row. Squares of a chunk are
// summed by fused multiply-adds, the 32 chunks of a segment (256 columns) pairwise. Segments 0, 32, 64, ...
// are added one after the other, and the 32 results pairwise.
//
// A row needs one synchronisation of the team for the sum of squares, and one more for an amax. In a chain of
// dependent launches (spec/overlap.h) the order is: trigger, L2 prefetch, load gamma, PDL wait, then
// everything else. `Arith` implements the steps on the GPU (norm_entry.cuh) or in a test
// (tests/unit/norm_kernels_test.cc).
#pragma once

#include <sluice/spec/norm.h>
#include <sluice/device/math/e4m3_scale.cuh>

namespace sluice::norm {

using quantize::Chunk;

/// A chunk of eight 16-bit elements, as in memory.
struct Words {
  u32 words[kNormChunk / 2];
};

template <NormConfig kConfig, class Arith>
struct Norm {
  using Team = typename Arith::template Team<kNormSlots>;

  const NormParams& p;
  Team& team;
  const u32 warps;  // warps of the team
  const u32 warp;   // number among the team's warps
  const u32 lane;

  SLUICE_DEVICE Norm(const NormParams& params, Team& shared_by)
      : p(params),
        team(shared_by),
        warps(shared_by.ctas * (params.working_threads / 32)),
        warp(shared_by.rank * (params.working_threads / 32) + threadIdx.x / 32),
        lane(threadIdx.x % 32) {}

  SLUICE_DEVICE u32 segments() const { return static_cast<u32>(ceil_div(p.columns, i64{kNormSegment})); }
  SLUICE_DEVICE u32 held_segment(int i) const { return static_cast<u32>(i) * warps + warp; }
  SLUICE_DEVICE i64 column(u32 segment) const { return i64{segment} * kNormSegment + lane * kNormChunk; }

  /// Loads a chunk of the row that begins at element `first`; zeros past the row's end.
  SLUICE_DEVICE Words fetch(const void* base, i64 first, i64 column) const {
    const u16* from = static_cast<const u16*>(base) + first + column;
    if constexpr (kConfig.vectors) {
      return Arith::load_words(from, column < p.columns);
    } else {
      Words result{};
#pragma unroll
      for (int i = 0; i < kNormChunk; ++i)
        if (column + i < p.columns) result.words[i / 2] |= u32{Arith::load_bits(from + i)} << (i % 2 * 16);
      return result;
    }
  }
  /// Loads gamma. No launch writes it, so it may be read before the PDL wait.
  SLUICE_DEVICE Words fetch_gamma(i64 column) const {
    if constexpr (kConfig.vectors)
      return Arith::load_constant_words(static_cast<const u16*>(p.gamma) + column, column < p.columns);
    else
      return fetch(p.gamma, 0, column);
  }

  /// Stores kWords * 4 bytes at `target`; each column takes kWords / 2 bytes.
  template <int kWords>
  SLUICE_DEVICE void store(u8* target, i64 column, const u32 (&words)[kWords]) const {
    if constexpr (kConfig.vectors) {
      if (column < p.columns) Arith::store(target, words);
    } else {
#pragma unroll
      for (int i = 0; i < kNormChunk; ++i) {
        if (column + i >= p.columns) continue;
        if constexpr (kWords == 4)
          reinterpret_cast<u16*>(target)[i] = static_cast<u16>(words[i / 2] >> (i % 2 * 16));
        else
          target[i] = static_cast<u8>(words[i / 4] >> (i % 4 * 8));
      }
    }
  }

  SLUICE_DEVICE static Words pack(const Chunk& chunk) {
    Words result;
#pragma unroll
    for (int i = 0; i < kNormChunk / 2; ++i)
      result.words[i] =
          Arith::template pack_16bit<kConfig.input>(chunk.values[2 * i], chunk.values[2 * i + 1]);
    return result;
  }
  SLUICE_DEVICE static Chunk unpack(const Words& words) {
    Chunk result;
#pragma unroll
    for (int i = 0; i < kNormChunk / 2; ++i)
      Arith::template unpack_16bit<kConfig.input>(words.words[i], result.values[2 * i],
                                                  result.values[2 * i + 1]);
    return result;
  }

  /// The value to be normed, in the input's type: the input, plus the residual if there is one.
  SLUICE_DEVICE Words added(const Words& input, const Words& residual) const {
    if (p.residual == nullptr) return input;
    Chunk sum = unpack(input);
    const Chunk more = unpack(residual);
#pragma unroll
    for (int i = 0; i < kNormChunk; ++i) sum.values[i] += more.values[i];
    return pack(sum);
  }
  SLUICE_DEVICE Words fetch_residual(i64 row, i64 column) const {
    return p.residual == nullptr ? Words{} : fetch(p.residual, row * p.residual_ld, column);
  }
  SLUICE_DEVICE void store_sum(i64 row, i64 column, const Words& sum) const {
    if (p.sum == nullptr) return;
    store(static_cast<u8*>(p.sum) + (row * p.sum_ld + column) * 2, column, sum.words);
  }
  /// Returns the sum once more: from p.sum if it was stored (it may have overwritten the input or the
  /// residual), else computed again.
  SLUICE_DEVICE Words sum_again(i64 row, i64 column) const {
    if (p.sum != nullptr) return fetch(p.sum, row * p.sum_ld, column);
    return added(fetch(p.input, row * p.input_ld, column), fetch_residual(row, column));
  }

  /// Call from a whole warp. Adds up the squares of the warp's segments, of which this thread has one chunk
  /// each. Each warp must put a value, so it puts 0 for a first segment past the row's end.
  template <int kChunks>
  SLUICE_DEVICE void put_squares(u32 first, const Words (&chunks)[kChunks]) const {
    float sums[kChunks];
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const Chunk chunk = unpack(chunks[i]);
      sums[i] = 0.0f;
#pragma unroll
      for (const float value : chunk.values) sums[i] = Arith::multiply_add(value, value, sums[i]);
    }
    Arith::sum_of_warp(sums);
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const u32 segment = first + static_cast<u32>(i) * warps;
      if (i == 0 || segment < segments()) team.put(segment, __builtin_bit_cast(u32, sums[i]));
    }
  }
  /// 1 / sqrt(mean of squares + epsilon), once all segments are put. `words`: number of slots to add; slots
  /// past the row's end hold 0.
  SLUICE_DEVICE float meet_squares(u32 words) const {
    const u32* slots = team.meet(words);
    float sum[1] = {};
#pragma unroll 1
    for (u32 slot = lane; slot < words; slot += 32) sum[0] += __builtin_bit_cast(float, slots[slot]);
    Arith::sum_of_warp(sum);
    return Arith::inverse_root(Arith::multiply_add(sum[0], p.inverse_columns, p.epsilon));
  }
  SLUICE_DEVICE u32 meet_largest(u32 bits) const {
    team.put(warp, Arith::largest_of_warp(bits));
    const u32* slots = team.meet(warps);
    bits = 0;
#pragma unroll 1
    for (u32 slot = lane; slot < warps; slot += 32) bits = slots[slot] > bits ? slots[slot] : bits;
    return Arith::largest_of_warp(bits);
  }

  SLUICE_DEVICE static Chunk normed(const Words& sum, float inverse, Words gamma) {
    Arith::keep(gamma);
    const Chunk factors = unpack(gamma);
    Chunk result = unpack(sum);
#pragma unroll
    for (int i = 0; i < kNormChunk; ++i) result.values[i] = result.values[i] * inverse * factors.values[i];
    return result;
  }
  SLUICE_DEVICE Chunk normed_again(i64 row, i64 column, float inverse) const {
    return normed(sum_again(row, column), inverse, fetch_gamma(column));
  }

  /// Call from a whole warp. `multiplier` is used for e4m3 with one scale per row or one per matrix.
  SLUICE_DEVICE void store_output(i64 row, u32 segment, const Chunk& chunk, float multiplier) const {
    const i64 at = column(segment), index = row * p.output_ld + at;
    if constexpr (kConfig.store == NormStore::plain) {
      store(static_cast<u8*>(p.output) + index * 2, at, pack(chunk).words);
    } else {
      if constexpr (kConfig.store == NormStore::row_block) {
        const quantize::Scale scale = quantize::scale_of(quantize::largest_of_lanes(magnitude(chunk), 16));
        multiplier = scale.multiplier;
        if (lane % 16 == 0 && at < p.columns)
          p.scales[row * scale_blocks(p.columns) + at / kScaleBlock] = scale.scale;
      }
      u32 words[2];
      quantize::to_e4m3<Arith>(chunk, multiplier, words);
      store(static_cast<u8*>(p.output) + index, at, words);
    }
  }

  /// Call from each thread after it has issued its last load.
  SLUICE_DEVICE static void loaded(bool last) {
    if constexpr (kConfig.overlap.trigger == Trigger::after_loads)
      if (last) Arith::launch_dependents();
  }

  SLUICE_DEVICE void row(i64 row, bool last, const Words (&gamma)[kNormHeld]) const {
    float multiplier = 1.0f;
    Words held[kNormHeld], residual[kNormHeld];  // held: the input, then the sum
#pragma unroll
    for (int i = 0; i < kNormHeld; ++i) held[i] = fetch(p.input, row * p.input_ld, column(held_segment(i)));
#pragma unroll
    for (int i = 0; i < kNormHeld; ++i) residual[i] = fetch_residual(row, column(held_segment(i)));
    loaded(last);
    // After the row's loads: the division waits for the scale, and would delay them.
    if constexpr (kConfig.store == NormStore::tensor) multiplier = 1.0f / Arith::load_float(p.scales);
#pragma unroll
    for (int i = 0; i < kNormHeld; ++i) held[i] = added(held[i], residual[i]);
    put_squares(warp, held);
#pragma unroll
    for (int i = 0; i < kNormHeld; ++i) store_sum(row, column(held_segment(i)), held[i]);
    const u32 rest = held_segment(kNormHeld), end = segments();
#pragma unroll 1
    for (u32 segment = rest; segment < end; segment += warps) {
      const i64 at = column(segment);
      const Words sum[] = {added(fetch(p.input, row * p.input_ld, at), fetch_residual(row, at))};
      put_squares(segment, sum);
      store_sum(row, at, sum[0]);
    }
    const float inverse = meet_squares(end > warps ? end : warps);

    if constexpr (kConfig.store == NormStore::row) {
      u32 bits = 0;
#pragma unroll
      for (int i = 0; i < kNormHeld; ++i) {
        if (held_segment(i) >= end) continue;
        const u32 mine = magnitude(normed(held[i], inverse, gamma[i]));
        bits = mine > bits ? mine : bits;
      }
#pragma unroll 1
      for (u32 segment = rest; segment < end; segment += warps) {
        const u32 more = magnitude(normed_again(row, column(segment), inverse));
        bits = more > bits ? more : bits;
      }
      const quantize::Scale scale = quantize::scale_of(meet_largest(bits));
      if (warp == 0 && lane == 0) p.scales[row] = scale.scale;
      multiplier = scale.multiplier;
    }
#pragma unroll
    for (int i = 0; i < kNormHeld; ++i)
      if (held_segment(i) < end)
        store_output(row, held_segment(i), normed(held[i], inverse, gamma[i]), multiplier);
#pragma unroll 1
    for (u32 segment = rest; segment < end; segment += warps)
      store_output(row, segment, normed_again(row, column(segment), inverse), multiplier);
  }

  SLUICE_DEVICE void rows() const {
    Words gamma[kNormHeld];
#pragma unroll
    for (int i = 0; i < kNormHeld; ++i) gamma[i] = fetch_gamma(column(held_segment(i)));
    team.begin();
    if constexpr (kConfig.overlap.wait != Wait::none) Arith::wait_for_prerequisites();
    for (i64 at = team.index; at < p.rows; at += team.teams) row(at, at + team.teams >= p.rows, gamma);
  }
};

template <NormConfig kConfig, class Arith>
SLUICE_DEVICE void run(const NormParams& params) {
  if constexpr (kConfig.overlap.trigger == Trigger::at_start) Arith::launch_dependents();
  using Kernel = Norm<kConfig, Arith>;
  __shared__ typename Kernel::Team::Shared exchange;
  typename Kernel::Team team(exchange);
  if (threadIdx.x == 0) Arith::warm(params.hand_off, blockIdx.x, gridDim.x);
  Kernel(params, team).rows();
}

}  // namespace sluice::norm
