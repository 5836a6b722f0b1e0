// SPDX-License-Identifier: Apache-2.0
// The epilogue turns an accumulator into a stored element:
//   D = act(alpha * scale_a * scale_b * acc + beta * C + bias)
// To accumulate gradients:
//   D += alpha * scale_a * scale_b * acc
// Gated (SwiGLU and similar), from two columns of the product that are half of its width apart:
//   D[m][j] = act(alpha * scale_a * scale_b * acc[m][j] + bias) * (alpha * scale_a * scale_b * acc[m][n / 2 +
//   j] + bias)
// With clamped_swiglu the second factor is clamped too, and 1 is added to it.
// With row_factors, the result is multiplied by its row's. Then it is divided by scale_d and rounded. Block
// scales are applied earlier, to the sum of each 128 of k:
//   acc = sum over blocks of scale_a[m][block] * scale_b[n / 128][block] * (sum of the block)
// scale_b has [block][n] with ScaleMode::vector128.
// The device code is in device/epilogue/, the plain code in reference/gemm.h.
#pragma once

#include <sluice/spec/dtype.h>

namespace sluice {

/// Granularity of a scale.
/// - none: there is no scale.
/// - tensor: one fp32 in device memory.
/// - vector: one fp32 per row of A (scale_a) or column of B (scale_b).
/// - block (fp8 only, on both operands or neither): scale_a is fp32 [batch][m][ceil(k / 128)], one per row
///   and 128 of k. scale_b is fp32 [batch][ceil(n / 128)][ceil(k / 128)], one per 128 x 128 block of B. Both
///   are row-major without gaps; those of A may be stored by columns instead (Problem::scale_a_ld). Of D, the
///   kernel computes them (Epilogue::scale_d).
/// - vector128 (of B only, beside block scales of A by columns): fp32 [batch][ceil(k / 128)][n] without gaps,
///   one per column and 128 of k. So a weight gradient is scaled, whose operands are both cast by 1 x 128.
enum class ScaleMode : u8 { none, tensor, vector, block, vector128 };
inline constexpr int kScaleBlock = 128;  // along k, and along n for scale_b
/// column: one value per column of D, broadcast over rows and batch. row: the same bias in a kernel with
/// swapped operands, whose rows are D's columns; callers never set it.
enum class Bias : u8 { none, column, row };
/// gelu is the exact form x * Phi(x), torch's default; silu is x * sigmoid(x). clamped_swiglu is a gate's,
/// that of gpt-oss: g * sigmoid(1.702 g) * (u + 1), where g is the gate, at most 7, and u is "up" in -7..7.
/// NaN passes through all of them.
enum class Activation : u8 { none, relu, gelu, silu, clamped_swiglu };
inline constexpr Activation kLastActivation = Activation::clamped_swiglu;
inline constexpr float kClampLimit = 7.0f, kClampedSlope = 1.702f;
/// True if the activation needs a gate, whose factor it clamps too.
SLUICE_HD constexpr bool clamps(Activation activation) {
  return activation == Activation::clamped_swiglu;
}
/// True if the device computes an approximation, so that even exact sums have results within a bound only.
SLUICE_HD constexpr bool is_smooth(Activation activation) {
  return activation >= Activation::gelu;
}
/// True if an element costs a division.
SLUICE_HD constexpr bool divides(Activation activation) {
  return activation == Activation::silu || clamps(activation);
}
/// set: D is overwritten. add (fp32 D; no residual, bias or activation): the result is added to D by fp32
/// memory operations; the kernel does not load D.
enum class Update : u8 { set, add };

struct Epilogue {
  ScaleMode scale_a = ScaleMode::none;
  ScaleMode scale_b = ScaleMode::none;
  Bias bias = Bias::none;
  DType bias_type = DType::bf16;  // bf16, fp16 or fp32; read only with bias
  Activation activation = Activation::none;
  bool residual = false;       // C is added, scaled by beta; with beta = 0 it is not read
  DType c_type = DType::bf16;  // bf16, fp16 or fp32; read only with residual
  Update update = Update::set;
  /// Rows 0 to n / 2 - 1 of B are the gate, the other n / 2 rows are "up", as models concatenate them. D is m
  /// x n / 2; n is a multiple of 16, with block scales of 256; no residual or update.
  bool gated = false;
  /// How an e4m3 D is scaled.
  /// - tensor: the result is divided by one fp32 in device memory. The division is computed as times 1 /
  ///   scale, as in kernels/quantize.cuh.
  /// - block: the kernel quantises the fp32 result as that quantiser does, and writes the scales: fp32
  ///   [batch][m][ceil(columns of D / 128)]. The next product takes them as its block scales of A.
  ScaleMode scale_d = ScaleMode::none;
  bool residual_last = false;  // C is added after the activation; packed weights only
  /// Each row of the result is multiplied by one fp32 of a vector of m, such as the router's weight of the
  /// row. No update, no convolution, no packed weights, no plain schedules.
  bool row_factors = false;

  constexpr bool operator==(const Epilogue&) const = default;
};

/// True if the scale is of 128 of k.
SLUICE_HD constexpr bool scales_128_of_k(ScaleMode mode) {
  return mode == ScaleMode::block || mode == ScaleMode::vector128;
}
/// True if each sum over 128 of k has a scale; the kernel then promotes (spec/config.h).
SLUICE_HD constexpr bool is_block_scaled(const Epilogue& e) {
  return e.scale_a == ScaleMode::block;
}

/// True if each column of B has a scale per 128 of k.
SLUICE_HD constexpr bool scales_each_column(const Epilogue& e) {
  return e.scale_b == ScaleMode::vector128;
}

/// True if the kernel computes the scales of D.
SLUICE_HD constexpr bool writes_scales(const Epilogue& e) {
  return e.scale_d == ScaleMode::block;
}

SLUICE_HD constexpr bool adds(const Epilogue& e) {
  return e.update == Update::add;
}

/// True if scale vectors or a bias are copied to shared memory while their tile is multiplied.
SLUICE_HD constexpr bool stages_vectors(const Epilogue& e) {
  return e.scale_a == ScaleMode::vector || e.scale_b == ScaleMode::vector || e.bias == Bias::column;
}

/// Rows of B in a gated tile alternate: kGatedRows of the gate, then kGatedRows of "up". So in WGMMA's
/// fragments one thread holds both halves of an element of D. kernels/plain.cuh pairs them too, two rows at a
/// time.
inline constexpr int kGatedRows = 8;
/// Tiles and slices of tiles contain whole groups of gate and up.
inline constexpr int kGatedGroup = 2 * kGatedRows;
/// The row of B (n rows) at position `row` in the order of a gated tile.
SLUICE_HD constexpr i64 gated_row(i64 row, i64 n) {
  return row / kGatedGroup * kGatedRows + row % kGatedRows + (row % kGatedGroup < kGatedRows ? 0 : n / 2);
}
/// Rows of B in a half of a gated product with block scales are a multiple of this, so that no block has rows
/// of both halves.
inline constexpr int kGatedScaleUnit = 2 * kScaleBlock;
/// Columns of D that `rows` rows of B produce.
SLUICE_HD constexpr i64 outputs_of(const Epilogue& e, i64 rows) {
  return e.gated ? rows / 2 : rows;
}
SLUICE_HD constexpr int outputs_of(const Epilogue& e, int rows) {
  return e.gated ? rows / 2 : rows;
}

/// True if an element costs few registers and instructions: no fp32 C, no division. Store loops are unrolled
/// only for light epilogues (docs/findings/heavy-epilogues.md).
SLUICE_HD constexpr bool is_light(const Epilogue& e) {
  return !(e.residual && e.c_type == DType::fp32) && !divides(e.activation);
}

SLUICE_HD constexpr const char* name_of(ScaleMode mode) {
  switch (mode) {
    case ScaleMode::none: return "none";
    case ScaleMode::tensor: return "tensor";
    case ScaleMode::vector: return "vector";
    case ScaleMode::block: return "block";
    case ScaleMode::vector128: return "vector128";
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
    case Activation::clamped_swiglu: return "clamped_swiglu";
  }
  return "?";
}
SLUICE_HD constexpr const char* name_of(Update update) {
  return update == Update::set ? "set" : "add";
}

}  // namespace sluice
