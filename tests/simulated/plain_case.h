// SPDX-License-Identifier: Apache-2.0
// Random problems for kernels of Schedule::plain, with operands that have rights (simulated_cta.h), and the
// verdict on what a simulated launch made of D. Inputs are small whole numbers and scales are powers of two,
// so every sum is exact in fp32. D must then be the reference's in every bit, unless an activation is smooth.
// Bytes that must not be read are NaN; bytes that must not be written are compared, too.
#pragma once

#include <algorithm>
#include <string>

#include <sluice/kernels/registry.h>
#include <sluice/reference/gemm.h>
#include <sluice/spec/params.h>

#include "cuda_names.h"

namespace simulated {

using namespace sluice;

/// The fields of a kernel that the cases vary.
struct Choice {
  DType in = DType::bf16, d = DType::bf16;
  int tile_m = 8, tile_n = 16, warps = 4, stages = 3;
  Epilogue epilogue{};
  Overlap overlap{};
  GroupKind groups = GroupKind::none;  // or slots
  bool scale_a_columns = false;
};

constexpr Problem typed_problem(const Choice& c) {
  Problem p;
  p.m = 8, p.n = 256, p.k = 256;
  p.a.type = p.b.type = c.in;
  p.d.type = c.d;
  p.c.type = c.epilogue.c_type;
  p.epilogue = c.epilogue;
  p.groups.kind = c.groups;
  p.scale_a_ld = c.scale_a_columns ? 8 : 0;
  return p;
}
constexpr KernelConfig config_of(const Choice& c) {
  KernelConfig config = config_for(with_strides(typed_problem(c)), {Schedule::plain, c.tile_m, c.tile_n}, {},
                                   StorePath::direct);
  config.warps = c.warps;
  config.stages = c.stages;
  config.overlap = c.overlap;
  return config;
}

struct Kernel {
  Choice choice;
  KernelConfig config;
  void (*run)(const GroupedParams&);
};

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  i64 between(i64 least, i64 most) {
    return least + static_cast<i64>(random_() % static_cast<u64>(most - least + 1));
  }
  bool one_in(i64 count) { return between(1, count) == 1; }
  float power() { return std::ldexp(1.0f, static_cast<int>(between(-1, 1))); }

 private:
  std::mt19937 random_;
};

/// An array with guards at both ends. All of it is NaN, and nobody may touch it, until elements are set.
class Operand {
 public:
  Operand(DType type, i64 count, i64 first = 0)
      : type_(type),
        bytes_(static_cast<std::size_t>(2 * kGuard + 16 + count * bytes_of(type)), kPoison),
        rights_(bytes_.size()) {
    const i64 aligned =
        kGuard + 15 - static_cast<i64>((reinterpret_cast<u64>(bytes_.data()) + kGuard + 15) % 16);
    start_ = aligned + first * bytes_of(type);
  }
  Operand(const Operand&) = delete;
  u8* data() { return bytes_.data() + start_; }
  const std::vector<u8>& bytes() const { return bytes_; }
  Region region(bool early) const { return {bytes_.data(), &rights_, early}; }
  void allow(i64 index, u8 right) {
    const i64 size = bytes_of(type_);
    std::fill_n(rights_.begin() + static_cast<std::ptrdiff_t>(start_ + index * size), size, right);
  }
  void set(i64 index, double value, u8 right = kRead) {
    store_element(type_, data(), index, value);
    allow(index, right);
  }
  double get(i64 index) { return load_element(type_, data(), index); }

 private:
  static constexpr i64 kGuard = 256;
  DType type_;
  std::vector<u8> bytes_, rights_;
  i64 start_;
};

/// A problem with its operands.
class PlainCase {
 public:
  PlainCase(const Kernel& kernel, Dice& dice) : kernel_(kernel), p_(draw_problem(kernel.choice, dice)) {
    const Epilogue& e = p_.epilogue;
    alpha_ = dice.one_in(12) ? 0 : dice.power();
    beta_ = !e.residual || dice.one_in(6) ? 0 : dice.power();
    const auto number = [&] { return static_cast<double>(dice.between(-3, 3)); };
    for (i64 matrix = 0; matrix < a_matrices(p_); ++matrix)
      for (i64 row = 0; row < a_rows(p_); ++row)
        for (i64 k = 0; k < p_.k; ++k) a_.set(matrix * p_.a.batch_stride + row * p_.a.ld + k, number());
    for (i64 matrix = 0; matrix < p_.batch; ++matrix)
      for (i64 column = 0; column < p_.n; ++column)
        for (i64 k = 0; k < p_.k; ++k) b_.set(b_index(p_, matrix, column, k), number());
    for (i64 i = 0; i < table_size(p_); ++i) {
      const i64 none[] = {-1, p_.batch, -(i64{1} << 31), (i64{1} << 31) - 1};
      groups_.push_back(
          static_cast<int>(dice.one_in(5) ? none[dice.between(0, 3)] : dice.between(0, p_.batch - 1)));
    }
    for (i64 i = 0; i < scale_a_count(p_); ++i) scale_a_.set(i, dice.power());
    for (i64 i = 0; i < scale_b_count(p_); ++i) scale_b_.set(i, dice.power());
    if (e.bias != Bias::none)
      for (i64 i = 0; i < column_vectors(p_) * p_.n; ++i) bias_.set(i, number());
    if (e.scale_d == ScaleMode::tensor) scale_d_.set(0, dice.power());
    const u8 right = adds(e) ? kRead | kWrite : kWrite;
    for_each_row(p_, groups_.data(), [&](i64 batch, i64 row) {
      const i64 matrix = has_groups(p_) ? 0 : batch;
      for (i64 column = 0; beta_ != 0 && column < p_.n; ++column)
        c_.set(c_index(p_, {matrix, row, column}), number());
      for (i64 column = 0; column < outputs_of(e, p_.n); ++column) {
        const i64 index = d_index(p_, {matrix, row, column});
        if (adds(e)) d_.set(index, number());
        d_.allow(index, right);
      }
    });
  }

  /// Runs the kernel. Returns what is wrong with D, or with how it was computed; "" if nothing is.
  std::string run(Bug bug) {
    Operand wanted(p_.d.type, d_count(p_), d_offset_);
    std::copy_n(d_.data(), d_count(p_) * bytes_of(p_.d.type), wanted.data());
    reference_gemm(p_,
                   {.a = a_.data(),
                    .b = b_.data(),
                    .c = c_.data(),
                    .d = wanted.data(),
                    .scale_a = floats(scale_a_),
                    .scale_b = floats(scale_b_),
                    .bias = bias_.data(),
                    .scale_d = floats(scale_d_),
                    .groups = groups_.data()},
                   alpha_, beta_);
    launch(bug);
    std::string wrong;
    if (cta.faults > 0) wrong = std::to_string(cta.faults) + " faults; " + cta.first_fault;
    if (const std::string d = wrong_d(wanted); !d.empty()) wrong += (wrong.empty() ? "" : "; ") + d;
    return wrong;
  }
  std::string name() const {
    const KernelConfig& c = kernel_.config;
    return std::to_string(p_.m) + "x" + std::to_string(p_.n) + "x" + std::to_string(p_.k) + ", batch " +
           std::to_string(p_.batch) + ", " + name_of(c.a) + " to " + name_of(c.d) + ", tile " +
           std::to_string(c.tile.m) + "x" + std::to_string(c.tile.n) + ", " + std::to_string(c.warps) +
           " warps, " + std::to_string(c.stages) + " stages, alpha " + std::to_string(alpha_);
  }

 private:
  static Problem draw_problem(const Choice& choice, Dice& dice) {
    Problem p = typed_problem(choice);
    const bool blocks = is_block_scaled(p.epilogue);
    p.m = dice.between(1, dice.one_in(4) ? 2 * choice.tile_m : std::min(16, choice.tile_m));
    // Long ones fill the rings of all warps and come back to their first stages.
    const bool is_long = dice.one_in(3);
    p.n = !p.epilogue.gated ? dice.between(16, is_long || dice.one_in(2) ? 50 : 200)
          : blocks          ? 2 * kScaleBlock
                            : 16 * dice.between(1, is_long ? 3 : 12);
    p.k = dice.between(16, is_long ? i64{k_block(choice.in)} * choice.warps * (choice.stages + 2) : 200);
    if (dice.one_in(12)) p.k = 64 * dice.between(0, 8);
    p.batch = dice.between(1, 3);
    if (by_slots(p)) p.groups.pitch = static_cast<int>(dice.between(1, 3));
    const i64 unit = 16 / bytes_of(p.a.type);  // rows of A and B begin at multiples of 16 bytes
    p.a.ld = round_up(p.k, unit) + unit * dice.between(0, 2);
    p.b.ld = round_up(p.k, unit) + unit * dice.between(0, 2);
    p.c.ld = p.n + dice.between(0, 5);
    p.d.ld = outputs_of(p.epilogue, p.n) + dice.between(0, 5);
    p.a.batch_stride = p.a.ld * a_rows(p) + unit * dice.between(0, 3);
    p.b.batch_stride = p.b.ld * p.n + unit * dice.between(0, 3);
    p.c.batch_stride = p.c.ld * p.m + dice.between(0, 9);
    p.d.batch_stride = p.d.ld * p.m + dice.between(0, 9);
    if (choice.scale_a_columns) p.scale_a_ld = a_rows(p) + dice.between(0, 5);
    return with_strides(p);
  }
  static i64 count(const Matrix& x, i64 matrices, i64 rows) {
    return matrices * x.batch_stride + rows * x.ld;
  }
  static i64 d_count(const Problem& p) { return count(p.d, d_matrices(p), p.m); }
  static const float* floats(Operand& operand) { return reinterpret_cast<const float*>(operand.data()); }

  GroupedParams params() {
    GroupedParams params{};
    params.c = beta_ == 0 ? nullptr : c_.data();
    params.d = d_.data();
    params.scale_a = floats(scale_a_);
    params.scale_b = floats(scale_b_);
    params.bias = bias_.data();
    params.scale_d = floats(scale_d_);
    params.c_ld = p_.c.ld, params.c_batch_stride = p_.c.batch_stride;
    params.d_ld = p_.d.ld, params.d_batch_stride = p_.d.batch_stride;
    params.alpha = alpha_, params.beta = beta_;
    params.m = static_cast<int>(p_.m);
    params.n = static_cast<int>(p_.n);
    params.k = static_cast<int>(p_.k);
    params.grid = tile_grid(kernel_.config, params.m, params.n, params.k, static_cast<int>(p_.batch));
    if (alpha_ == 0) params.grid.k_tiles = 0;
    params.a = a_.data(), params.b = b_.data();
    params.a_ld = a_rows(p_) > 1 ? p_.a.ld : 0;
    params.a_batch_stride = p_.a.batch_stride;
    params.b_ld = p_.n > 1 ? p_.b.ld : 0;
    params.b_batch_stride = p_.b.batch_stride;
    params.prefetch = {b_.data(), 64};
    params.hand_off = {b_.data(), 64};
    params.group_numbers = groups_.data();
    params.group_pitch = p_.groups.pitch;
    params.group_total = static_cast<int>(group_total(p_));
    params.scale_a_ld = p_.scale_a_ld;
    return params;
  }
  void launch(Bug bug) {
    const GroupedParams given = params();
    const KernelConfig& c = kernel_.config;
    // Tables of groups are read directly, without a check of rights.
    cta.regions = {a_.region(false),       b_.region(true),       c_.region(false),   d_.region(false),
                   scale_a_.region(false), scale_b_.region(true), bias_.region(true), scale_d_.region(false)};
    cta.bug = bug;
    cta.launch({.grid_x = static_cast<unsigned>(given.grid.columns),
                .grid_y = static_cast<unsigned>(by_slots(p_) ? given.m : given.grid.rows * given.grid.batch),
                .threads = static_cast<unsigned>(32 * c.warps),
                .shared_bytes = static_cast<u32>(plain_smem_bytes(c)),
                .overlaps = c.overlap.wait != Wait::none},
               [&] { kernel_.run(given); });
    cta.bug = Bug::none;
    cta.regions.clear();
  }

  /// Compares D with `wanted`, and what lies around its elements. Makes D equal to `wanted` where it is near
  /// enough.
  std::string wrong_d(Operand& wanted) {
    std::string wrong;
    const double bound = p_.d.type == DType::fp32 ? 1e-5 : p_.d.type == DType::e4m3 ? 0.13 : 0.01;
    for_each_row(p_, groups_.data(), [&](i64 batch, i64 row) {
      for (i64 column = 0; column < outputs_of(p_.epilogue, p_.n); ++column) {
        const i64 index = d_index(p_, {has_groups(p_) ? 0 : batch, row, column});
        const double got = d_.get(index), want = wanted.get(index);
        const bool near = is_smooth(p_.epilogue.activation)
                              ? std::abs(got - want) <= bound * std::max(1.0, std::abs(want))
                              : got == want;
        if (near) d_.set(index, want);
        if (!near && wrong.empty())
          wrong = "D[" + std::to_string(batch) + "][" + std::to_string(row) + "][" + std::to_string(column) +
                  "] is " + std::to_string(got) + ", not " + std::to_string(want);
      }
    });
    const i64 bytes = d_count(p_) * bytes_of(p_.d.type);
    if (wrong.empty() && std::memcmp(d_.data(), wanted.data(), static_cast<std::size_t>(bytes)) != 0)
      wrong = "gaps of D are overwritten";
    const auto poisoned = [](u8 byte) { return byte == kPoison; };
    if (wrong.empty() && (!std::all_of(d_.bytes().data(), static_cast<const u8*>(d_.data()), poisoned) ||
                          !std::all_of(static_cast<const u8*>(d_.data()) + bytes,
                                       d_.bytes().data() + d_.bytes().size(), poisoned)))
      wrong = "guards of D are overwritten";
    return wrong;
  }

  const Kernel& kernel_;
  Problem p_;
  i64 d_offset_ = p_.m % 3 == 0 ? 1 : 0;  // D's pairs are aligned or not
  Operand a_{p_.a.type, count(p_.a, a_matrices(p_), a_rows(p_))};
  Operand b_{p_.b.type, count(p_.b, p_.batch, p_.n)};
  Operand c_{p_.epilogue.c_type, count(p_.c, d_matrices(p_), p_.m)};
  Operand d_{p_.d.type, d_count(p_), d_offset_};
  Operand scale_a_{DType::fp32, scale_a_count(p_)}, scale_b_{DType::fp32, scale_b_count(p_)};
  Operand bias_{p_.epilogue.bias_type, column_vectors(p_) * p_.n}, scale_d_{DType::fp32, 1};
  std::vector<int> groups_;
  float alpha_, beta_;
};

}  // namespace simulated
