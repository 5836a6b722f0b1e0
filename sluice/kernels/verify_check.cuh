// SPDX-License-Identifier: Apache-2.0
// The plain reference, in fp64 on the GPU, and the comparison. A block of 256 threads takes 32 x 32 outputs
// at a time. Each thread computes 2 x 2 of them over all of k, with the error that the tensor core may make
// (verify_model.h). It applies the epilogue in double and compares the result with D's bits. It reads A, B
// and C with indexing of its own and shares nothing with device/. Launched by check/verify.cc.
#pragma once

#include <sluice/kernels/verify_conv.h>
#include <sluice/kernels/verify_model.h>
#include <sluice/kernels/verify_activation.cuh>
#include <sluice/kernels/verify_groups.cuh>

namespace sluice::verify {

inline constexpr int kSide = kCheckTile / 2;  // threads along each edge; each has elements i and i + kSide
inline constexpr u32 kLargestCode = 0x7e;     // e4m3's code of 448
inline constexpr float kSmallestScale = 2.24e-7f;  // a bit more than 1e-4 / 448, the quantiser's smallest
inline constexpr int kPad = 1;  // avoids bank conflicts of column-wise writes to shared memory
inline constexpr double kActivationSlack =
    1.0 / (1 << 20);  // relative to |x| + |y|: erf and exp in fp32, and their products
inline constexpr double kSteepestGelu = 1.13;  // largest slope; silu's is 1.10
inline constexpr int kScaleRoundings = 8;      // roundings of a block scale of D and of a result over it

struct KBlock {
  double a[kCheckTile][kCheckTile + kPad];  // [k][row]
  double b[kCheckTile][kCheckTile + kPad];  // [k][column]
};

SLUICE_DEVICE u32 load_bits(DType type, const void* base, i64 element) {
  switch (bits_of(type)) {
    case 8: return static_cast<const u8*>(base)[element];
    case 16: return static_cast<const u16*>(base)[element];
    default: return static_cast<const u32*>(base)[element];
  }
}
SLUICE_DEVICE double load(DType type, const void* base, i64 element) {
  return decode(type, load_bits(type, base, element));
}

struct KRange {
  i64 begin, end;
};

/// Loads 32 k of the rows of A (or columns of B) of 32 rows of D, with zeros outside. `base`: the matrix.
SLUICE_DEVICE void load_operand(double (&to)[kCheckTile][kCheckTile + kPad], const CheckParams& p, Side side,
                                const void* base, i64 row_begin, const KRange& range) {
  const Problem& problem = p.problem;
  const Matrix& x = side == Side::a ? problem.a : problem.b;
  const i64 rows = side == Side::a ? problem.m : problem.n;
  for (int i = threadIdx.x; i < kCheckTile * kCheckTile; i += kCheckThreads) {
    const int fast = i % kCheckTile, slow = i / kCheckTile;  // along and across the contiguous index
    const int k_in = x.major == Major::k ? fast : slow, row_in = x.major == Major::k ? slow : fast;
    const i64 of_d = row_begin + row_in, k = range.begin + k_in;
    const i64 row = side == Side::a ? a_row(problem, of_d) : of_d;
    i64 element = kOutside;
    if (of_d < rows && k < range.end)
      element = is_conv(problem.conv) ? conv_element(problem, p.y_size, side, row, k)
                : x.major == Major::k ? row * x.ld + k
                                      : k * x.ld + row;
    to[k_in][row_in] = element == kOutside ? 0.0 : load(x.type, base, element);
  }
}

/// One thread's results for all its elements, added to the log once.
struct Findings {
  double worst_ratio = 0, error_sum = 0;
  Totals totals;
};

/// The bits that D had before the launch.
SLUICE_DEVICE u32 old_bits(const CheckParams& p, i64 batch, i64 row, i64 column) {
  const DType type = p.problem.d.type;
  if (p.old_d.kind == Fill::poison) return poison_of(type);
  const i64 index = (batch * p.problem.m + row) * d_columns(p.problem) + column;
  return encode(type, fill_value(p.old_d, p.old_d_seed, static_cast<u64>(index)));
}

struct Expected {
  double value = 0;               // before rounding to D's type
  double bound = 0;               // on the error before rounding
  double bias = 0, variance = 0;  // predicted for the error
  bool exact = true;
};

SLUICE_DEVICE bool fits_fp32(double x) {
  return !is_finite(x) || static_cast<double>(static_cast<float>(x)) == x;
}

/// The value before the activation. `column`: in the product, not in D.
SLUICE_DEVICE Expected before_activation(const CheckParams& p, const Sum& sum, i64 batch, i64 row,
                                         i64 column) {
  const Epilogue& e = p.problem.epilogue;
  const i64 vector = column_index(p.problem, batch, column);
  double scale = p.alpha;
  if (!is_block_scaled(e) && e.scale_a != ScaleMode::none && scale != 0.0)
    scale *= p.scale_a[e.scale_a == ScaleMode::vector ? a_row(p.problem, row) : 0];
  if (!is_block_scaled(e) && e.scale_b != ScaleMode::none && scale != 0.0)
    scale *= p.scale_b[e.scale_b == ScaleMode::vector ? vector : 0];
  const double product =
      p.alpha == 0.0f ? 0.0 : scale * sum.value;  // alpha = 0: A, B and scales are not read
  double residual = 0, bias = 0;
  if (e.residual && p.beta != 0.0f)
    residual = p.beta * load(e.c_type, p.c, batch * p.problem.c.batch_stride + row * p.problem.c.ld + column);
  if (adds(e)) residual = decode(p.problem.d.type, old_bits(p, batch, row, column));
  if (e.bias != Bias::none) bias = load(e.bias_type, p.bias, vector);
  const double x = product + residual + bias;

  const double limit = exact_sum_limit(p.problem.a.type);
  const bool promoted = is_promoted(p.problem);
  // With block scales, exact data has scales of 1/2, 1 and 2, so that sums are multiples of a quarter.
  const double promoted_limit = exact_sum_limit(DType::bf16) / (is_block_scaled(e) ? 4 : 1);
  Expected out;
  // If the true sum is infinity or NaN, the computed one must be too, however large the other terms are.
  const bool sum_fits = !is_finite(sum.value) || (!(sum.magnitude > (promoted ? promoted_limit : limit)) &&
                                                  !(promoted && sum.largest_block > limit));
  out.exact = sum_fits && fits_fp32(product) && fits_fp32(product + residual) && fits_fp32(product + bias) &&
              fits_fp32(x);
  out.value = x;
  if (p.judge == Judge::exact) return out;  // no rounding happens
  const double k_error = fabs(scale) * element_bound(p.problem, sum);
  const double terms = fabs(product) + fabs(residual) + fabs(bias);
  const double additions =
      adds(e) ? additions_bound(p.problem, fabs(residual) + fabs(scale) * sum.magnitude) : 0.0;
  out.bound = k_error + kEpilogueRoundings * power_of_two(-24) * (terms + k_error) + additions;
  out.bias = fabs(scale) * sum.bias() + kEpilogueRoundings * power_of_two(-24) * terms + additions;
  out.variance = scale * scale * sum.variance;
  return out;
}

/// The product of the activated gate and `up`, with its error.
SLUICE_DEVICE Expected gated(const Expected& gate, const Expected& up, bool smooth) {
  Expected out;
  out.value = gate.value * up.value;
  out.exact = gate.exact && up.exact && (smooth || fits_fp32(out.value));
  const double rounding = power_of_two(-24) * fabs(out.value);  // zero where the product is exact
  out.bound = gate.bound * (fabs(up.value) + up.bound) + fabs(gate.value) * up.bound + rounding;
  out.bias = gate.bias * (fabs(up.value) + up.bias) + fabs(gate.value) * up.bias + rounding;
  out.variance = gate.variance * (up.value * up.value + up.bias * up.bias + up.variance) +
                 (gate.value * gate.value + gate.bias * gate.bias) * up.variance;
  return out;
}

/// `sums`: one, or two for a gated product, of which the first is the gate's.
SLUICE_DEVICE Expected epilogue(const CheckParams& p, const Sum* sums, i64 batch, i64 row, i64 column) {
  const Epilogue& e = p.problem.epilogue;
  Expected out = before_activation(p, sums[0], batch, row, column);
  const double x = out.value;
  const bool smooth = is_smooth(e.activation);
  out.value = activated(e.activation, x);
  if (smooth) {
    const double slack = kActivationSlack * (fabs(x) + fabs(out.value)) + p.activation_error;
    out.bound = kSteepestGelu * out.bound + slack;
    out.bias = kSteepestGelu * out.bias + slack;
    out.variance *= kSteepestGelu * kSteepestGelu;
  }
  if (e.gated) {
    Expected up = before_activation(p, sums[1], batch, row, column + p.problem.n / 2);
    up.value = second_factor(e.activation, up.value);
    if (clamps(e.activation)) {  // the sum with 1 rounds
      up.bound += power_of_two(-24) * fabs(up.value);
      up.bias += power_of_two(-24) * fabs(up.value);
    }
    out = gated(out, up, smooth);
  }
  if (e.row_factors) {
    const double factor = p.row_factors[row];
    out.value *= factor;
    const double rounding = p.judge == Judge::exact ? 0.0 : power_of_two(-24) * fabs(out.value);
    out.bound = out.bound * fabs(factor) + rounding;
    out.bias = out.bias * fabs(factor) + rounding;
    out.variance *= factor * factor;
    out.exact = out.exact && (smooth || fits_fp32(out.value));
  }
  if (writes_scales(e)) {  // judged with the scale that the kernel wrote, which judge_scale() checks
    const double scale = p.scale_out[scale_out_index(p.problem, batch, row, column)];
    out.value /= scale;
    const double rounding = kScaleRoundings * power_of_two(-24) * fabs(out.value);
    out.bound = out.bound / scale + rounding;
    out.bias = out.bias / scale + rounding;
    out.variance /= scale * scale;
  }
  if (e.scale_d == ScaleMode::tensor) {  // computed as times 1 / scale; both operations round
    const double factor = 1 / fabs(*p.scale_d);
    out.value /= *p.scale_d;
    const double rounding = p.judge == Judge::exact ? 0.0 : 3 * power_of_two(-24) * fabs(out.value);
    out.bound = out.bound * factor + rounding;
    out.bias = out.bias * factor + rounding;
    out.variance *= factor * factor;
    out.exact = out.exact && (smooth || fits_fp32(out.value));
  }
  return out;
}

SLUICE_DEVICE bool same_exactly(DType type, u32 got, double expected) {
  const double value = decode(type, got);
  if (is_nan(expected)) return is_nan(value);
  return got == encode(type, expected) || (value == 0.0 && decode(type, encode(type, expected)) == 0.0);
}
/// True if D's value is one that the bound allows. Rounding is monotone, so these values are an interval.
SLUICE_DEVICE bool within_bound(DType type, u32 got, const Expected& expected) {
  const double value = decode(type, got);
  if (is_nan(expected.value)) return is_nan(value);
  if (!is_finite(expected.value)) return value == decode(type, encode(type, expected.value));
  return value >= decode(type, encode(type, expected.value - expected.bound)) &&
         value <= decode(type, encode(type, expected.value + expected.bound));
}

SLUICE_DEVICE void report_wrong(CheckLog* log, const LoggedElement& element, bool unwritten) {
  const u64 order = atomicAdd(&log->wrong, u64{1});
  if (unwritten) atomicAdd(&log->unwritten, u64{1});
  atomicMax(&log->row_low, ~static_cast<u64>(element.row));
  atomicMax(&log->row_high, static_cast<u64>(element.row) + 1);
  atomicMax(&log->column_low, ~static_cast<u64>(element.column));
  atomicMax(&log->column_high, static_cast<u64>(element.column) + 1);
  if (order < kLoggedElements) log->elements[order] = element;
}

/// True if the value is outside the range of D's type, so that its distance to D does not count as an error.
SLUICE_DEVICE bool saturates(DType type, double value) {
  const double rounded = decode(type, encode(type, value));
  return !(fabs(value - rounded) <= half_unit(type, value));
}

/// Adds one element to the totals, which are checked over all elements together.
SLUICE_DEVICE void add_up(DType type, const Expected& expected, double value, Totals& totals) {
  const double rounded = decode(type, encode(type, expected.value)), half = half_unit(type, expected.value);
  const double own = half * half / 3;  // variance of a rounding to nearest
  const double predicted = expected.bias * expected.bias + expected.variance + own;
  const double error = value - expected.value;
  if (!is_finite(predicted)) return;
  const double unit = 1 / sqrt(predicted), towards = expected.value < 0.0 ? 1.0 : -1.0;
  totals.add({.count = 1,
              .squares = error * error,
              .predicted = predicted,
              .fourths = predicted * predicted,
              .shifts = towards * (value - rounded) * unit,
              .predicted_shifts = expected.bias * unit});
}

/// True if a block scale of D is the one that its codes need: the largest of them is e4m3's largest, unless
/// the scale is the smallest one. NaN and infinity show in the codes.
SLUICE_DEVICE bool scale_fits(const CheckParams& p, i64 batch, i64 row, i64 column) {
  const Problem& problem = p.problem;
  const float scale = p.scale_out[scale_out_index(problem, batch, row, column)];
  if (is_nan(static_cast<double>(scale)) || scale < kSmallestScale) return true;
  const i64 columns = d_columns(problem) - column, in_d = batch * problem.d.batch_stride + row * problem.d.ld;
  for (i64 i = 0; i < (columns < kScaleBlock ? columns : kScaleBlock); ++i)
    if ((load_bits(DType::e4m3, p.d, in_d + column + i) & 0x7f) >= kLargestCode) return true;
  return false;
}

/// Compares one element. Not inlined: four copies would take most of the unit's compile time.
__device__ __noinline__ void judge_element(const CheckParams& p, const Sum* sums, i64 batch, i64 row,
                                           i64 column, Findings& findings) {
  const DType type = p.problem.d.type;
  const u32 got = load_bits(type, p.d, batch * p.problem.d.batch_stride + row * p.problem.d.ld + column);
  const u32 untouched = old_bits(p, batch, row, column);
  // still poison, if D was filled with it: no conversion instruction produces this NaN
  const bool unwritten = got == untouched;
  if (p.judge == Judge::unwritten) {
    if (!unwritten) report_wrong(p.log, {batch, row, column, 0.0, decode(type, got), 0.0}, false);
    return;
  }
  const Expected expected = epilogue(p, sums, batch, row, column);
  const bool exact = p.judge == Judge::exact, smooth = is_smooth(p.problem.epilogue.activation);
  const bool judges = !exact || expected.exact;
  if (!judges) atomicAdd(&p.log->inexact_inputs, u64{1});
  const bool may_stay = adds(p.problem.epilogue);  // D may be unchanged if the product is 0
  const bool scaled = writes_scales(p.problem.epilogue);
  const bool fits = !scaled || column % kScaleBlock != 0 || scale_fits(p, batch, row, column);
  const bool by_bits = exact && !smooth && !scaled;
  const bool good =
      fits && (!unwritten || may_stay) &&
      (!judges || (by_bits ? same_exactly(type, got, expected.value) : within_bound(type, got, expected)));
  const double value = decode(type, got), error = value - expected.value;
  if (!good)
    report_wrong(p.log,
                 {batch, row, column, decode(type, encode(type, expected.value)), value, expected.bound},
                 unwritten);
  if (!judges || !is_finite(error) || !is_finite(expected.value)) return;
  const bool biased = sums[0].magnitude > 0.0 && !p.problem.epilogue.gated;
  if (biased) findings.error_sum += error / sums[0].magnitude;
  const double half = half_unit(type, expected.value);
  if (saturates(type, expected.value)) return;
  // The smallest error before the rounding to D that explains this value.
  const double ratio = (fabs(error) - half) / (expected.bound + power_of_two(-149));
  if (is_finite(ratio) && ratio > findings.worst_ratio) findings.worst_ratio = ratio;
  if (!exact) add_up(type, expected, value, findings.totals);
}

/// The scale factor of the products of 128 k from `k` on. Rows and columns outside D are not checked.
SLUICE_DEVICE double block_scale(const CheckParams& p, i64 batch, i64 row, i64 column, i64 k) {
  if (!is_block_scaled(p.problem.epilogue) || row >= p.problem.m || column >= p.problem.n) return 1.0;
  return static_cast<double>(p.scale_a[block_scale_a_index(p.problem, batch, row, k)]) *
         p.scale_b[block_scale_b_index(p.problem, batch, column, k)];
}

/// One step of 32 k of one element.
struct Step {
  double value, terms;  // sum a b, sum |a b|
  double scale;         // scale of the accumulator, if it ends here
  bool ends;
};
/// Not inlined, so that values needed once in 32 k take no registers from the products.
__device__ __noinline__ void end_step(const Problem& p, const Step& step, Run& run, Sum& sum) {
  run.add(core_of(p.a.type), step.value, step.terms);
  if (!step.ends) return;
  sum.end(run, step.scale, promotion_roundings(p));
  run = {};
}

/// Where a block of D lies, and which of its rows are checked: those of one matrix or one group.
struct BlockAt {
  i64 batch, row, column;  // its matrix of B, and its first row and column
  i64 row_low, row_high;
  i64 k_low, k_high;  // the part of k that is summed
};

/// Adds up the block's products. `column_begin`: first row of B.
SLUICE_DEVICE void sum_block(const CheckParams& p, KBlock& shared, const BlockAt& at, i64 column_begin,
                             Sum (&sums)[2][2]) {
  const Problem& problem = p.problem;
  const i64 batch = at.batch, row_begin = at.row;
  const int row_in = threadIdx.x / kSide, column_in = threadIdx.x % kSide;
  const u8* a = static_cast<const u8*>(p.a) + batch * problem.a.batch_stride * bytes_of(problem.a.type);
  const u8* b = static_cast<const u8*>(p.b) + batch * problem.b.batch_stride * bytes_of(problem.b.type);
  const i64 k = p.judge == Judge::unwritten || p.alpha == 0.0f ? 0 : at.k_high - at.k_low;
  Run runs[2][2];
  for (i64 k_begin = 0; k_begin < k; k_begin += kStep) {
    __syncthreads();
    load_operand(shared.a, p, Side::a, a, row_begin, {at.k_low + k_begin, at.k_high});
    load_operand(shared.b, p, Side::b, b, column_begin, {at.k_low + k_begin, at.k_high});
    __syncthreads();
    double values[2][2] = {}, terms[2][2] = {};
    for (int i = 0; i < kStep; ++i) {
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const double x = shared.a[i][row_in + r * kSide], y = shared.b[i][column_in + c * kSide];
          values[r][c] = fma(x, y, values[r][c]);
          terms[r][c] = fma(fabs(x), fabs(y), terms[r][c]);
        }
    }
    const bool ends = ends_run(problem, k_begin + kStep) || k_begin + kStep >= k;
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const i64 row = row_begin + row_in + r * kSide, column = column_begin + column_in + c * kSide;
        const double scale = ends ? block_scale(p, batch, row, column, k_begin) : 0.0;
        end_step(problem, {values[r][c], terms[r][c], scale, ends}, runs[r][c], sums[r][c]);
      }
  }
}

SLUICE_DEVICE void check_block(const CheckParams& p, KBlock& shared, const BlockAt& at, Findings& findings) {
  const Problem& problem = p.problem;
  const int row_in = threadIdx.x / kSide, column_in = threadIdx.x % kSide;
  Sum sums[2][2][2];  // the last index: gate and up
#pragma unroll 1
  for (int side = 0; side < (problem.epilogue.gated ? 2 : 1); ++side) {
    Sum of_side[2][2];
    sum_block(p, shared, at, at.column + side * (problem.n / 2), of_side);
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int c = 0; c < 2; ++c) sums[r][c][side] = of_side[r][c];
  }
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const i64 row = at.row + row_in + r * kSide, column = at.column + column_in + c * kSide;
      if (row >= at.row_low && row < at.row_high && column < d_columns(problem))
        judge_element(p, sums[r][c], at.batch, row, column, findings);
    }
}

SLUICE_DEVICE bool is_selected(const CheckParams& p, i64 block, i64 block_row, i64 block_column) {
  const bool edge = block_row == 0 || block_row == p.block_rows - 1 || block_column == 0 ||
                    block_column == p.block_columns - 1;
  return edge || hash(0x5a3b1e, static_cast<u64>(block)) % p.sample_every == 0;
}

/// For a block whose values are not checked: checks that it was written.
SLUICE_DEVICE void find_unwritten(const CheckParams& p, const BlockAt& at) {
  if (adds(p.problem.epilogue) || p.judge == Judge::unwritten) return;
  const Matrix& d = p.problem.d;
  for (int i = threadIdx.x; i < kCheckTile * kCheckTile; i += kCheckThreads) {
    const i64 row = at.row + i / kCheckTile, column = at.column + i % kCheckTile;
    if (row < at.row_low || row >= at.row_high || column >= d_columns(p.problem)) continue;
    const u32 got = load_bits(d.type, p.d, at.batch * d.batch_stride + row * d.ld + column);
    if (got == poison_of(d.type))
      report_wrong(p.log, {at.batch, row, column, 0.0, decode(d.type, got), 0.0}, true);
  }
}

/// Checks that rows that belong to no group still have D's fill.
SLUICE_DEVICE void find_written(const CheckParams& p, const GroupList& groups, i64 row_begin,
                                i64 column_begin) {
  const Matrix& d = p.problem.d;
  for (int i = threadIdx.x; i < kCheckTile * kCheckTile; i += kCheckThreads) {
    const i64 row = row_begin + i / kCheckTile, column = column_begin + i % kCheckTile;
    bool used = row >= p.problem.m || column >= d_columns(p.problem);
    if (!used) visit_groups(p, groups, row, row + 1, [&](int, i64, i64) { used = true; });
    if (used) continue;
    const u32 got = load_bits(d.type, p.d, row * d.ld + column);
    if (got != poison_of(d.type))
      report_wrong(p.log, {-1, row, column, 0.0, decode(d.type, got), 0.0}, false);
  }
}

SLUICE_DEVICE void publish(CheckLog* log, Findings findings, u64 checked) {
  double* const sums[] = {&findings.error_sum,
                          &findings.totals.count,
                          &findings.totals.squares,
                          &findings.totals.predicted,
                          &findings.totals.fourths,
                          &findings.totals.shifts,
                          &findings.totals.predicted_shifts};
  for (int lanes = 16; lanes > 0; lanes /= 2) {
#pragma unroll
    for (double* const sum : sums) *sum += __shfl_xor_sync(~0u, *sum, lanes);
    findings.worst_ratio = fmax(findings.worst_ratio, __shfl_xor_sync(~0u, findings.worst_ratio, lanes));
  }
  if (threadIdx.x % 32 == 0) {
    double* const totals[] = {&log->error_sum, &log->count,  &log->squares,         &log->predicted,
                              &log->fourths,   &log->shifts, &log->predicted_shifts};
#pragma unroll
    for (int i = 0; i < 7; ++i) atomicAdd(totals[i], *sums[i]);
    atomicMax(&log->worst_ratio_bits,
              bits_as<u64>(findings.worst_ratio));  // bits of doubles >= 0 sort like the doubles
  }
  if (threadIdx.x == 0) atomicAdd(&log->checked, checked);
}

SLUICE_DEVICE void check_output(const CheckParams& p) {
  __shared__ KBlock shared;
  __shared__ GroupList groups;
  const Problem& problem = p.problem;
  if (reads_table(problem) && !by_slots(problem)) read_groups(p, groups);
  Findings findings;
  u64 checked = 0;
  const auto check = [&](const BlockAt& at, bool selected) {
    if (!selected) return find_unwritten(p, at);
    check_block(p, shared, at, findings);
    const i64 columns = d_columns(problem) - at.column;
    checked += static_cast<u64>((at.row_high - at.row_low) * (columns < kCheckTile ? columns : kCheckTile));
  };
  const i64 per_matrix = p.block_rows * p.block_columns;
  for (i64 block = blockIdx.x; block < per_matrix * d_matrices(problem); block += gridDim.x) {
    const i64 batch = block / per_matrix, in_matrix = block - batch * per_matrix;
    const i64 block_row = in_matrix / p.block_columns, block_column = in_matrix - block_row * p.block_columns;
    const i64 row = block_row * kCheckTile, column = block_column * kCheckTile;
    const i64 row_end = row + kCheckTile < problem.m ? row + kCheckTile : problem.m;
    const bool selected = is_selected(p, block, block_row, block_column);
    if (!has_groups(problem)) {
      const i64 k_low = sums_groups(problem) ? groups.begin[batch] : 0;
      const i64 k_high = sums_groups(problem) ? groups.end[batch] : problem.k;
      check({batch, row, column, row, row_end, k_low, k_high}, selected);
      continue;
    }
    visit_groups(p, groups, row, row_end, [&](int group, i64 low, i64 high) {
      check({group, row, column, low, high, 0, problem.k}, selected);
    });
    find_written(p, groups, row, column);
  }
  publish(p.log, findings, checked);
}

}  // namespace sluice::verify
