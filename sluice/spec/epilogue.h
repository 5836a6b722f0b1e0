// SPDX-License-Identifier: Apache-2.0
// What happens to an accumulator before it is stored:
//   D = act(alpha * scale_a * scale_b * acc + beta * C + bias)
// or, to accumulate gradients,
//   D += alpha * scale_a * scale_b * acc
// or, gated (SwiGLU and the like), of two columns of the product that lie half of its width apart,
//   D[m][j] = act(alpha * scale_a * scale_b * acc[m][j] + bias) * (the same of acc[m][n / 2 + j], without
//   act)
// and divided by scale_d, if there is one, before it is rounded.
// and, for block scales, what happens to the sums of every 128 of k before they are added up:
//   acc = sum over blocks of scale_a[m][block] * scale_b[n / 128][block] * (sum of the block)
// The device ops are in device/epilogue/, the plain ones in reference/gemm.h.
#pragma once

#include <sluice/spec/dtype.h>

namespace sluice {

/// none: 1. tensor: one fp32 in device memory. vector: one fp32 per row of A (scale_a) or column of B
/// (scale_b). block (fp8 only, on both or on neither): scale_a is fp32 [batch][m][ceil(k / 128)], one for
/// each row and 128 of k; scale_b is fp32 [batch][ceil(n / 128)][ceil(k / 128)], one for each 128 x 128 of B;
/// both packed and row-major, as quantisers write them.
enum class ScaleMode : u8 { none, tensor, vector, block };
inline constexpr int kScaleBlock = 128;  // of k, and of n for scale_b
/// column: one value per column of D (n of them), broadcast over rows and batch. row: what that is to a
/// kernel with swapped operands, whose rows are D's columns; no caller has it.
enum class Bias : u8 { none, column, row };
/// gelu is the exact one, x * Phi(x) (torch's default); silu is x * sigmoid(x). NaN goes through all of them.
enum class Activation : u8 { none, relu, gelu, silu };
/// What becomes of the D that was there. set: it is overwritten. add (fp32 D; no residual, bias or
/// activation): the result is added to it, in fp32, in memory: the kernel does not read it.
enum class Update : u8 { set, add };

struct Epilogue {
  ScaleMode scale_a = ScaleMode::none;
  ScaleMode scale_b = ScaleMode::none;
  Bias bias = Bias::none;
  DType bias_type = DType::bf16;  // bf16, fp16 or fp32; read only with bias
  Activation activation = Activation::none;
  bool residual = false;       // C takes part, scaled by beta; beta = 0 does not read it
  DType c_type = DType::bf16;  // bf16, fp16 or fp32; read only with residual
  Update update = Update::set;
  /// B's first n / 2 rows make the gate, its last n / 2 what it multiplies ("up"), one behind the other as
  /// models have them: D is m x n / 2. n a multiple of 16; no residual, no update, no block scales.
  bool gated = false;
  /// none, or tensor: one fp32 in device memory, and D is the result / it, as a quantiser with a given scale
  /// has it (kernels/quantize.cuh: times 1 / scale). For an e4m3 D.
  ScaleMode scale_d = ScaleMode::none;

  constexpr bool operator==(const Epilogue&) const = default;
};

/// The sums of every 128 of k are scaled on their own, which takes promotion (spec/config.h).
SLUICE_HD constexpr bool is_block_scaled(const Epilogue& e) {
  return e.scale_a == ScaleMode::block;
}

SLUICE_HD constexpr bool adds(const Epilogue& e) {
  return e.update == Update::add;
}

/// A scale for each row or column, a bias for each column: those of a tile are staged in shared memory while
/// it is multiplied.
SLUICE_HD constexpr bool stages_vectors(const Epilogue& e) {
  return e.scale_a == ScaleMode::vector || e.scale_b == ScaleMode::vector || e.bias == Bias::column;
}

/// Rows of B that follow each other in a tile of gated products: so many of the gate, then as many of "up".
/// In WGMMA's fragments both halves of one element of D are in one thread then; kernels/plain.cuh has pairs.
inline constexpr int kGatedRows = 8;
/// A tile, and what is shared out of it, is whole groups of both.
inline constexpr int kGatedGroup = 2 * kGatedRows;
/// The row of B that is the `row`-th in the order of tiles; B has n.
SLUICE_HD constexpr i64 gated_row(i64 row, i64 n) {
  return row / kGatedGroup * kGatedRows + row % kGatedRows + (row % kGatedGroup < kGatedRows ? 0 : n / 2);
}
/// Columns of D that come from so many rows of B.
SLUICE_HD constexpr i64 outputs_of(const Epilogue& e, i64 rows) {
  return e.gated ? rows / 2 : rows;
}
SLUICE_HD constexpr int outputs_of(const Epilogue& e, int rows) {
  return e.gated ? rows / 2 : rows;
}

/// Few registers and instructions an element: of C only what is 16 bits, no division. The store loops of
/// light epilogues are unrolled; those of heavy ones are not (docs/findings/heavy-epilogues.md).
SLUICE_HD constexpr bool is_light(const Epilogue& e) {
  return !(e.residual && e.c_type == DType::fp32) && e.activation != Activation::silu;
}

SLUICE_HD constexpr const char* name_of(ScaleMode mode) {
  switch (mode) {
    case ScaleMode::none: return "none";
    case ScaleMode::tensor: return "tensor";
    case ScaleMode::vector: return "vector";
    case ScaleMode::block: return "block";
  }
  return "?";
}
SLUICE_HD constexpr const char* name_of(Bias bias) {
  switch (bias) {
    case Bias::none: return "none";
    case Bias::column: return "column";
    case Bias::row: return "row";
  }
  return "?";
}
SLUICE_HD constexpr const char* name_of(Activation activation) {
  switch (activation) {
    case Activation::none: return "none";
    case Activation::relu: return "relu";
    case Activation::gelu: return "gelu";
    case Activation::silu: return "silu";
  }
  return "?";
}
SLUICE_HD constexpr const char* name_of(Update update) {
  return update == Update::set ? "set" : "add";
}

}  // namespace sluice
