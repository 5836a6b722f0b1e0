// SPDX-License-Identifier: Apache-2.0
// Simulated mma.sync m16n8k16 and ldmatrix, with the fragments of the PTX ISA. The last lane to come does the
// work of the warp. Sums are exact before they are rounded to fp32 once; the GPU's may lose low bits, which
// data of small whole numbers does not have.
#pragma once

#include <sluice/reference/element.h>
#include <sluice/spec/dtype.h>

#include "cuda_names.h"

namespace sluice::ptx {

/// The value of a 16-bit code.
template <DType kType>
float simulated_value(u32 code) {
  static_assert(is_16bit(kType));
  static const std::vector<float> values = [] {
    std::vector<float> all(1 << 16);
    for (u32 i = 0; i < all.size(); ++i) all[i] = static_cast<float>(decode_code(kType, i));
    return all;
  }();
  return values[code & 0xffff];
}

/// A register of a fragment holds k = first and first + 1 of a row of A or a column of B.
struct SimulatedFragment {
  int line, first;
};
/// Register `i` of the first operand: rows g and g + 8 at k = 2c, then both at 2c + 8.
inline SimulatedFragment fragment_of_a(int lane, int i) {
  if (simulated::cta.bug == simulated::Bug::swapped_halves) i = i / 2 + i % 2 * 2;
  return {lane / 4 + i % 2 * 8, lane % 4 * 2 + i / 2 * 8};
}
/// Register `i` of the second operand: column g at k = 2c, then at 2c + 8.
inline SimulatedFragment fragment_of_b(int lane, int i) {
  return {lane / 4, lane % 4 * 2 + i * 8};
}

template <DType kType>
void simulate_mma(simulated::Lanes& lanes) {
  float a[16][16], b[8][16];
  for (int lane = 0; lane < simulated::kLanes; ++lane) {
    const u32* in = lanes.in[lane];
    for (int i = 0; i < 6; ++i) {
      const SimulatedFragment at = i < 4 ? fragment_of_a(lane, i) : fragment_of_b(lane, i - 4);
      float* const to = (i < 4 ? a[at.line] : b[at.line]) + at.first;
      to[0] = simulated_value<kType>(in[i]);
      to[1] = simulated_value<kType>(in[i] >> 16);
    }
  }
  for (int lane = 0; lane < simulated::kLanes; ++lane)
    for (int i = 0; i < 4; ++i) {  // rows g and g + 8, columns 2c and 2c + 1
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      double sum = __uint_as_float(lanes.in[lane][6 + i]);
      for (int k = 0; k < 16; ++k) sum += static_cast<double>(a[row][k]) * b[column][k];
      lanes.out[lane][i] = __float_as_uint(static_cast<float>(sum));
    }
}

// sums = a * b + start, in fp32
template <DType kType>
void mma_m16n8k16(float (&sums)[4], const u32 (&a)[4], u32 b0, u32 b1, const float (&start)[4]) {
  const unsigned lane = threadIdx.x % simulated::kLanes;
  simulated::Lanes& lanes = simulated::cta.lanes();
  u32* const in = lanes.in[lane];
  for (int i = 0; i < 4; ++i) in[i] = a[i], in[6 + i] = __float_as_uint(start[i]);
  in[4] = b0, in[5] = b1;
  simulated::cta.meet_warp(simulated::Step::multiply, [&] { simulate_mma<kType>(lanes); });
  for (int i = 0; i < 4; ++i) sums[i] = __uint_as_float(lanes.out[lane][i]);
}

/// Lane 4 r + c gets elements 2c and 2c + 1 of row r of each matrix; the read is that lane's.
inline void simulate_load(simulated::Lanes& lanes) {
  simulated::Cta& cta = simulated::cta;
  for (int matrix = 0; matrix < 4; ++matrix)
    for (int row = 0; row < 8; ++row) {
      u32 address = lanes.in[8 * matrix + row][0];
      if (address % 16 != 0) cta.fault("ldmatrix is given an unaligned row");
      if (cta.bug == simulated::Bug::wrong_piece && row % 2 == 1) address ^= 16;
      const bool swaps = cta.bug == simulated::Bug::swapped_matrices && matrix % 3 != 0;
      for (int word = 0; word < 4; ++word)
        lanes.out[4 * row + word][swaps ? 3 - matrix : matrix] =
            cta.load_shared<u32>(address + 4 * static_cast<u32>(word), cta.thread_of_lane(4 * row + word));
    }
}

// ldmatrix.x4: lanes 8i..8i+7 give the row addresses of the i-th 8x8 matrix of 16-bit elements
inline void load_matrices(u32 row_address, u32& v0, u32& v1, u32& v2, u32& v3) {
  const unsigned lane = threadIdx.x % simulated::kLanes;
  simulated::Lanes& lanes = simulated::cta.lanes();
  lanes.in[lane][0] = row_address;
  simulated::cta.meet_warp(simulated::Step::load_matrices, [&] { simulate_load(lanes); });
  v0 = lanes.out[lane][0], v1 = lanes.out[lane][1], v2 = lanes.out[lane][2], v3 = lanes.out[lane][3];
}

}  // namespace sluice::ptx
