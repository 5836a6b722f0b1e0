// SPDX-License-Identifier: Apache-2.0
// Adds up the rows of a token's experts: out[t] = shared[t] + sum over j, in order, of w[t][j] * y[row of
// slot (t, j)]. Sums are fp32 and begin with `shared`, or 0; each step is one fused multiply-add, and the
// result is rounded once. So a token's bits depend on its own rows alone. A slot without a row reads neither
// a weight nor y, so a NaN that stands there does no harm.
//
// One unit of work is 8 columns of a token, done by one thread. All loads of up to 8 experts are in flight
// together. A grid of any size is valid; no CTA waits for another. In a chain of dependent launches
// (spec/overlap.h) the order is: trigger, L2 prefetch, PDL wait, then everything else. `Arith` implements the
// steps on the GPU (combine_entry.cuh) or in a test (tests/unit/combine_kernel_test.cc).
#pragma once

#include <sluice/spec/combine.h>

namespace sluice::combine {

template <CombineConfig kConfig, class Arith>
struct Combine {
  using Words = typename Arith::Words;  // a chunk of eight 16-bit elements, as in memory

  const CombineParams& p;

  SLUICE_DEVICE u32 chunks() const { return static_cast<u32>(ceil_div(p.columns, i64{kCombineChunk})); }

  /// Loads a chunk of row `row`; zeros past its end, and where not `inside`.
  SLUICE_DEVICE Words fetch(const void* base, i64 first, i64 column, bool inside) const {
    const u16* const from = static_cast<const u16*>(base) + first + column;
    if constexpr (kConfig.vectors) return Arith::load_words(from, inside);
    Words chunk{};
#pragma unroll
    for (int i = 0; i < kCombineChunk; ++i)
      if (inside && column + i < p.columns)
        chunk.words[i / 2] |= u32{Arith::load_bits(from + i)} << (i % 2 * 16);
    return chunk;
  }

  SLUICE_DEVICE static void begin(const Words& chunk, float (&sum)[kCombineChunk]) {
#pragma unroll
    for (int i = 0; i < kCombineChunk / 2; ++i)
      Arith::template unpack_16bit<kConfig.type>(chunk.words[i], sum[2 * i], sum[2 * i + 1]);
  }
  SLUICE_DEVICE static void add(const Words& chunk, float weight, float (&sum)[kCombineChunk]) {
#pragma unroll
    for (int i = 0; i < kCombineChunk / 2; ++i) {
      float low, high;
      Arith::template unpack_16bit<kConfig.type>(chunk.words[i], low, high);
      sum[2 * i] = Arith::multiply_add(weight, low, sum[2 * i]);
      sum[2 * i + 1] = Arith::multiply_add(weight, high, sum[2 * i + 1]);
    }
  }

  SLUICE_DEVICE void store(i64 token, i64 column, const float (&sum)[kCombineChunk]) const {
    u32 words[kCombineChunk / 2];
#pragma unroll
    for (int i = 0; i < kCombineChunk / 2; ++i)
      words[i] = Arith::template pack_16bit<kConfig.type>(sum[2 * i], sum[2 * i + 1]);
    u16* const target = static_cast<u16*>(p.out) + token * p.out_ld + column;
    if constexpr (kConfig.vectors) {
      Arith::store(reinterpret_cast<u8*>(target), words);
    } else {
#pragma unroll
      for (int i = 0; i < kCombineChunk; ++i)
        if (column + i < p.columns) target[i] = static_cast<u16>(words[i / 2] >> (i % 2 * 16));
    }
  }

  /// Adds experts `from` to from + 7 of the token. `loaded`: called when all their loads are issued.
  template <class Loaded>
  SLUICE_DEVICE void add_experts(i64 token, i64 column, int from, float (&sum)[kCombineChunk],
                                 const Loaded& loaded) const {
    i64 rows[kCombineHeld];
    float weights[kCombineHeld];
    Words chunks_of[kCombineHeld];
    const i64 slot = token * p.chosen + from;
#pragma unroll
    for (int i = 0; i < kCombineHeld; ++i)
      rows[i] = Arith::load_row(p.row_of_slot + slot + i, from + i < p.chosen);
    if (p.experts != 0) {
#pragma unroll
      for (int i = 0; i < kCombineHeld; ++i) rows[i] = rows[i] >= 0 && rows[i] < p.experts ? slot + i : -1;
    }
    const auto has = [&](int i) { return rows[i] >= 0 && rows[i] < p.rows; };
#pragma unroll
    for (int i = 0; i < kCombineHeld; ++i) {
      weights[i] = Arith::load_weight(p.weights + slot + i, p.weights != nullptr && has(i));
      chunks_of[i] = fetch(p.y, rows[i] * p.y_ld, column, has(i));
    }
    loaded();
#pragma unroll
    for (int i = 0; i < kCombineHeld; ++i)
      if (has(i)) add(chunks_of[i], weights[i], sum);
  }

  SLUICE_DEVICE void tokens() const {
    const u32 units = static_cast<u32>(p.tokens) * chunks(), step = gridDim.x * kCombineThreads;
    for (u32 unit = blockIdx.x * kCombineThreads + threadIdx.x; unit < units; unit += step) {
      const i64 token = unit / chunks(), column = i64{unit % chunks()} * kCombineChunk;
      const bool last = units - unit <= step;
      float sum[kCombineChunk] = {};
      if (p.shared != nullptr) begin(fetch(p.shared, token * p.shared_ld, column, true), sum);
      for (int from = 0; from < p.chosen; from += kCombineHeld)
        add_experts(token, column, from, sum, [&] {
          if constexpr (kConfig.overlap.trigger == Trigger::after_loads)
            if (last && from + kCombineHeld >= p.chosen) Arith::launch_dependents();
        });
      store(token, column, sum);
    }
  }
};

template <CombineConfig kConfig, class Arith>
SLUICE_DEVICE void run(const CombineParams& params) {
  if constexpr (kConfig.overlap.trigger == Trigger::at_start) Arith::launch_dependents();
  if (threadIdx.x == 0) Arith::warm(params.hand_off, blockIdx.x, gridDim.x);
  if constexpr (kConfig.overlap.wait != Wait::none) Arith::wait_for_prerequisites();
  Combine<kConfig, Arith>{params}.tokens();
}

}  // namespace sluice::combine
