// SPDX-License-Identifier: Apache-2.0
// Memory layout of the operands with guard zones, and the three standard kinds of data.
#include <sluice/check/verify_data.h>

#include <algorithm>
#include <cmath>

#include <sluice/kernels/verify_arith.h>
#include <sluice/kernels/verify_conv.h>
#include <sluice/try.h>

namespace sluice {
namespace {

u64 seed_of(const DataSpec& spec, int region) {
  return verify::hash(spec.seed, 0x100 + static_cast<u64>(region));
}

struct Operand {
  const char* name;
  Matrix matrix;  // with its strides set
  i64 inner, outer, batch;
  FillSpec fill;
  int shift;  // elements
};

Operand vector_operand(const char* name, DType type, i64 count, const FillSpec& fill, int shift) {
  return {name, {.type = type, .ld = count, .batch_stride = count}, count, 1, 1, fill, shift};
}

Result<Region> region_of(const Operand& x, u64 seed) {
  const bool empty = x.inner == 0 || x.outer == 0 || x.batch == 0;
  const __int128 matrix = static_cast<__int128>(x.outer - 1) * x.matrix.ld + x.inner;
  if (!empty && (x.matrix.ld < x.inner || (x.batch > 1 && x.matrix.batch_stride < matrix)))
    return Error{ErrorCode::invalid_stride,
                 std::string(x.name) + " has ld " + std::to_string(x.matrix.ld) + " and batch stride " +
                     std::to_string(x.matrix.batch_stride) +
                     ": verification data need rows and matrices that do not overlap"};
  const __int128 extent = empty ? 0 : static_cast<__int128>(x.batch - 1) * x.matrix.batch_stride + matrix;
  if (extent > (__int128{1} << 58))
    return Error{ErrorCode::invalid_size, std::string(x.name) + " spans more than 2^58 elements"};
  const i64 size = bytes_of(x.matrix.type), begin = kGuardBytes + x.shift * size;
  const i64 span =
      ceil_div(begin + static_cast<i64>(extent) * size + kGuardBytes, i64{kRegionAlign}) * kRegionAlign;
  return Region{.span_bytes = span,
                .element_begin = begin,
                .inner = x.inner,
                .outer = x.outer,
                .batch = x.batch,
                .ld = x.matrix.ld,
                .batch_stride = x.matrix.batch_stride,
                .seed = seed,
                .fill = x.fill,
                .type = x.matrix.type};
}

/// Returns by how many elements (0 to 7, from the seed) an operand begins after a multiple of 16 bytes; 0 if
/// the problem requires alignment.
int shift_of(const Matrix& x, u64 seed) {
  return x.unaligned ? static_cast<int>(verify::hash(seed, 0x51) % 8) : 0;
}
Operand matrix_operand(const char* name, const Matrix& x, const Problem& p, i64 rows, const DataSpec& spec) {
  const bool is_a = *name == 'A';
  return {name,
          x,
          inner_extent(x, rows, p.k),
          outer_extent(x, rows, p.k),
          is_a ? a_matrices(p) : b_matrices(p),
          is_a ? spec.a : spec.b,
          shift_of(x, is_a ? spec.seed : ~spec.seed)};
}
/// Returns a tensor of a convolution with its size in memory. The product's m x k or n x k elements would be
/// as many times more as the filter has taps.
Operand tensor_operand(const char* name, Matrix x, const verify::TensorShape& shape, const FillSpec& fill) {
  x.ld = shape.pitch;
  return {name, x, shape.columns, shape.rows, 1, fill, 0};
}

}  // namespace

Result<DataLayout> lay_out(const Problem& given, const DataSpec& spec) {
  if (given.m < 0 || given.n < 0 || given.k < 0 || given.batch < 0)
    return Error{ErrorCode::invalid_size, "m, n, k and batch must not be negative"};
  const Problem p = verify::judged_problem(with_strides(given));
  const Epilogue& e = p.epilogue;
  const bool conv = is_conv(p.conv);
  Matrix c = p.c;
  c.type = e.c_type;
  const i64 c_rows = e.residual ? p.m : 0, bias_count = e.bias == Bias::none ? 0 : column_vectors(p) * p.n;
  const Operand operands[kRegionCount] = {
      conv ? tensor_operand("A", p.a, verify::a_shape(p.conv), spec.a)
           : matrix_operand("A", p.a, p, a_rows(p), spec),
      conv ? tensor_operand("B", p.b, verify::b_shape(p.conv), spec.b)
           : matrix_operand("B", p.b, p, p.n, spec),
      {"C", c, p.n, c_rows, d_matrices(p), spec.c, spec.element_shift},
      {"D", p.d, d_columns(p), p.m, d_matrices(p), adds(e) ? spec.d : FillSpec{.kind = Fill::poison},
       spec.d_shift != 0 ? spec.d_shift : shift_of(p.d, spec.seed + 1)},
      vector_operand("bias", e.bias_type, bias_count, spec.bias, spec.element_shift),
      vector_operand("scale_a", DType::fp32, scale_a_count(p), spec.scale_a, spec.element_shift),
      vector_operand("scale_b", DType::fp32, scale_b_count(p), spec.scale_b, spec.element_shift),
      vector_operand("scale_d", DType::fp32, e.scale_d == ScaleMode::tensor ? 1 : 0, spec.scale_d,
                     spec.element_shift),
      vector_operand("row_factors", DType::fp32, row_factor_count(p), spec.row_factors, spec.element_shift),
      vector_operand("scale_out", DType::fp32, scale_out_count(p), {.kind = Fill::poison},
                     spec.element_shift),
      vector_operand("groups", DType::fp32, table_size(p), {.kind = Fill::poison}, 0)};
  DataLayout layout{};
  for (int i = 0; i < kRegionCount; ++i) {
    SLUICE_TAKE(Region region, region_of(operands[i], seed_of(spec, i)));
    layout.regions[i] = region;
    layout.region_begin[i] = layout.bytes;
    layout.bytes += region.span_bytes;
  }
  return layout;
}

namespace {

/// Returns the group of each row: any, with some that do not exist, or one for all.
std::vector<int> slots_of(const Problem& p, Routing routing, u64 seed) {
  const int groups = std::max(static_cast<int>(p.batch), 1);
  const int chosen = verify::pick(verify::hash(seed, 0x67), groups);
  std::vector<int> slots(static_cast<size_t>(p.m));
  for (size_t s = 0; s < slots.size(); ++s) {
    const u64 random = verify::hash(seed, s);
    slots[s] = routing == Routing::balanced ? static_cast<int>(s) % groups
               : routing == Routing::one    ? chosen
               : random % 3 == 0            ? static_cast<int>(random >> 32)
                                            : static_cast<int>(random >> 33) % groups;
  }
  return slots;
}

}  // namespace

std::vector<int> table_of(const Problem& p, Routing routing, u64 seed) {
  if (!reads_table(p)) return {};
  if (by_slots(p)) return slots_of(p, routing, seed);
  const i64 groups = p.batch, pitch = p.groups.pitch, total = group_total(p);
  const bool counts = p.groups.kind == GroupKind::counts;
  std::vector<int> table(static_cast<size_t>(groups));
  if (routing == Routing::any) {
    for (size_t g = 0; g < table.size(); ++g) {
      const u64 random = verify::hash(seed, g);
      table[g] = random % 3 == 0 ? static_cast<int>(random >> 32)
                                 : static_cast<int>(random >> 32) % (static_cast<int>(total) + 2);
    }
    return table;
  }
  const i64 chosen = verify::pick(verify::hash(seed, 0x67), static_cast<int>(groups));
  // The share of all rows that belong to groups before g.
  const auto share_before = [&](i64 g) -> double {
    if (routing == Routing::one) return g > chosen ? 1.0 : 0.0;
    const double even = static_cast<double>(g) / static_cast<double>(groups);
    return routing == Routing::balanced ? even
           : even < 0.875               ? even * (0.5 / 0.875)
                                        : 0.5 + (even - 0.875) * 4;
  };
  i64 end = 0;
  for (i64 g = 0; g < groups; ++g) {
    if (counts) {
      // Rows of this group out of those of all; a group has room for `pitch`, and the last ones for less.
      const double rows = (share_before(g + 1) - share_before(g)) * static_cast<double>(total);
      const i64 room = std::clamp<i64>(total - g * pitch, 0, pitch);
      table[static_cast<size_t>(g)] = static_cast<int>(std::min(static_cast<i64>(std::ceil(rows)), room));
      continue;
    }
    // Whole pitches are shared out. Of a group's last pitch some rows pad.
    const i64 until =
                  static_cast<i64>(share_before(g + 1) * static_cast<double>(ceil_div(total, pitch))) * pitch,
              padding = verify::pick(verify::hash(seed, 0x70 + static_cast<u64>(g)), static_cast<int>(pitch));
    if (until > round_up(end, pitch)) end = std::min(until - padding, total);
    table[static_cast<size_t>(g)] = static_cast<int>(end);
  }
  return table;
}

i64 data_bytes(const Problem& problem, const DataSpec& spec) {
  const Result<DataLayout> layout = lay_out(problem, spec);
  return layout ? layout->bytes : 0;
}

namespace {

constexpr int kMostHalvings = 16;  // fill_value() has 16 bits of the hash for them

float power(u64 random, int low, int high) {
  return static_cast<float>(verify::power_of_two(low + verify::pick(random, high - low + 1)));
}

/// Returns a bound up to which the type represents every whole number.
int largest_integer(DType type) {
  switch (type) {
    case DType::e5m2: return 8;
    case DType::e4m3: return 16;
    case DType::bf16: return 256;
    case DType::fp16: return 2048;
    case DType::fp32: return 1 << 20;
    default: return 1;
  }
}

}  // namespace

DataSpec exact_data(const Problem& problem, u64 seed) {
  const u64 r = verify::hash(seed, 1);
  const Epilogue& e = problem.epilogue;
  const bool promoted = is_promoted(problem);
  const bool scaled = e.scale_a != ScaleMode::none || e.scale_b != ScaleMode::none;
  const bool plain = !scaled && !e.residual && e.bias == Bias::none && !adds(e);
  // alpha and each scale may shift the product by one bit relative to C and bias. So the limit is 2^19, five
  // bits below fp32's 24. The factors of a gated product are below 2^11, or 2^8 with scales, C or bias, so
  // that their product is exact.
  const double fp32_limit = e.gated ? (plain ? 2048.0 : 256.0) : plain ? 16777215.0 : 524288.0;
  const double sum_limit = is_fp8(problem.a.type) && !promoted && fp32_limit > 16384.0 ? 16384.0 : fp32_limit;
  // A typical sum of terms with random signs is sqrt(k) * magnitude^2 / 2. Keeps most sums below e4m3's 448.
  const double typical_limit = problem.d.type == DType::e4m3 ? (e.gated ? 40.0 : 400.0) : fp32_limit;
  const i64 k = std::max<i64>(problem.k, 1), block = promoted ? std::min<i64>(k, 128) : k;
  int magnitude = 1;
  const int cap = std::min({largest_integer(problem.a.type), largest_integer(problem.b.type), 64});
  while (magnitude < cap) {
    // The square of twice the magnitude, the next candidate.
    const double square = 4.0 * magnitude * magnitude;
    if (k * square > sum_limit || (promoted && block * square > 16384.0)) break;
    if (std::sqrt(static_cast<double>(k)) * square > typical_limit) break;
    magnitude *= 2;
  }
  // Makes A sparse if k ones could exceed the limit. The density is in 256ths, with a safety factor of 2.
  int density = 256, halvings = 0;
  if (k > sum_limit) {
    double share = 128.0 * sum_limit / static_cast<double>(k);
    for (; share < 1.0 && halvings < kMostHalvings; ++halvings) share *= 2;
    density = std::max(1, static_cast<int>(share));
  }
  // One seed in four: sparse inputs expose wrong addresses.
  const bool varied = verify::pick(r >> 32, 4) == 0;
  DataSpec spec{.seed = seed,
                .a = {.magnitude = magnitude,
                      .density = varied ? std::min(density, 64) : density,
                      .halvings = halvings},
                .b = {.magnitude = magnitude, .density = 256},
                .c = {.magnitude = std::min(largest_integer(e.c_type), 200)},
                .bias = {.magnitude = e.gated ? 8 : std::min(largest_integer(e.bias_type), 200)},
                .d = {.magnitude = 200}};
  spec.scale_a.magnitude = spec.scale_b.magnitude = spec.scale_d.magnitude = 1;
  spec.row_factors.magnitude = 1;
  spec.alpha = (r & 1 ? -1.0f : 1.0f) * power(r & 0xffffff00, scaled ? 0 : -1, 1);
  const int beta_choice = static_cast<int>(r >> 1 & 3);
  spec.beta =
      !e.residual || beta_choice == 0 ? 0.0f : (r & 8 ? -1.0f : 1.0f) * power(r << 8 & 0xffffffff, -1, 1);
  if (spec.beta == 0.0f) spec.c.kind = Fill::poison;
  spec.routing = static_cast<Routing>(verify::pick(r >> 16, 4));
  return spec;
}

bool holds_exact_sums(const Problem& problem, const DataSpec& spec) {
  if (spec.alpha == 0.0f || spec.a.kind == Fill::poison || spec.b.kind == Fill::poison)
    return true;  // 0, NaN
  const auto is_whole = [](const FillSpec& fill) {
    return fill.kind == Fill::integers || fill.kind == Fill::specials || fill.kind == Fill::ones;
  };
  if (!is_whole(spec.a) || !is_whole(spec.b)) return false;
  const auto share = [](const FillSpec& fill) {
    return fill.kind == Fill::ones ? 1.0 : fill.density / 256.0 / std::exp2(fill.halvings);
  };
  const auto magnitude = [](const FillSpec& fill) { return fill.kind == Fill::ones ? 1 : fill.magnitude; };
  const double term = static_cast<double>(magnitude(spec.a)) * magnitude(spec.b);
  const double kept = share(spec.a) * share(spec.b);
  const auto most = [&](i64 terms) {
    const double mean = kept * static_cast<double>(terms);
    return term * std::min(static_cast<double>(terms), mean + 10 * std::sqrt(mean) + 10);
  };
  const double limit = verify::exact_sum_limit(problem.a.type);
  if (!is_promoted(problem)) return most(problem.k) <= limit;
  const double promoted = verify::exact_sum_limit(DType::bf16) / (is_block_scaled(problem.epilogue) ? 4 : 1);
  return most(std::min<i64>(problem.k, kScaleBlock)) <= limit && most(problem.k) <= promoted;
}

DataSpec real_data(const Problem& problem, u64 seed) {
  const u64 r = verify::hash(seed, 2);
  const FillSpec values{.kind = r & 1 ? Fill::normal : Fill::uniform};
  DataSpec spec{.seed = seed,
                .a = values,
                .b = values,
                .c = {.kind = Fill::normal},
                .bias = {.kind = Fill::normal},
                .scale_a = {.kind = Fill::uniform},
                .scale_b = {.kind = Fill::uniform},
                .scale_d = {.kind = Fill::positive},
                .row_factors = {.kind = Fill::uniform}};
  spec.alpha = 0.1f + 0.01f * static_cast<float>(verify::pick(r >> 32, 200));
  spec.beta = problem.epilogue.residual && (r & 6) != 0 ? -0.7f : 0.0f;
  if (spec.beta == 0.0f) spec.c.kind = Fill::poison;
  spec.routing = static_cast<Routing>(verify::pick(r >> 16, 4));
  return spec;
}

DataSpec positive_data(const Problem&, u64 seed) {
  return {.seed = seed,
          .a = {.kind = Fill::positive},
          .b = {.kind = Fill::positive},
          .c = {.kind = Fill::poison},
          .bias = {.kind = Fill::integers},
          .scale_a = {.kind = Fill::ones},
          .scale_b = {.kind = Fill::ones},
          .scale_d = {.kind = Fill::ones},
          .row_factors = {.kind = Fill::ones}};
}

}  // namespace sluice
