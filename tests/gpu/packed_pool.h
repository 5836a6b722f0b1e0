// SPDX-License-Identifier: Apache-2.0
// Kernels of each packed format, prepared once per process, and random problems that such a kernel accepts.
// Used by packed_test.cc.
#pragma once

#include <algorithm>
#include <vector>

#include <sluice/check/packed_check.h>
#include <sluice/pack.h>
#include <sluice/plan/packed/packed_problem_checks.h>
#include <sluice/plan/text/pack_units.h>
#include <sluice/run/device/device_impl.h>

#include "gpu.h"
#include "lab/random/dice.h"
#include "random_packed_config.h"
#include "tests/packed_problems.h"
#include "tests/unit/packed_formats.h"

namespace sluice::testing {

using packed::DataKind;
using packed::DeviceData;

inline constexpr int kConfigsOfFormat = 2;
/// Number of elements in 16 bytes. The pitch of tokens must be a multiple of it.
inline i64 token_unit(DType x) {
  return 16 / bytes_of(x);
}

inline PackedProblem problem_of(const PackedConfig& config, i64 m, i64 n, i64 k) {
  const auto of = [&](const auto& c) -> PackedProblem {
    ScaleMode scale_x = ScaleMode::none;
    if constexpr (requires { c.scale_x; }) scale_x = c.scale_x;
    bool gated = false;
    if constexpr (requires { c.gated; }) gated = c.gated;
    if (gated) n = round_up(n, i64{kGatedUnit});
    if (gated && is_16bit(c.x)) m = std::min(m, packed::kMaxGatedTokens);
    if constexpr (requires { c.held_tokens; })
      if (c.held_tokens != 0) m = std::min(m, i64{c.held_tokens});
    bool norm_a = false, residual = false;
    if constexpr (requires { c.norm_a; }) norm_a = c.norm_a, residual = c.residual;
    if (norm_a) m = std::min(m, i64{kNormTokens});
    if (residual) m = std::min(m, packed::kMaxResidualTokens);
    ScaleMode scale_d = ScaleMode::none;
    if constexpr (requires { c.scale_d; }) scale_d = c.scale_d;
    return {.m = m,
            .n = n,
            .k = k,
            .x = c.x,
            .scale_x = scale_x,
            .d = c.d,
            .weights = c.weights,
            .bias = c.bias,
            .bias_type = c.bias_type,
            .activation = c.activation,
            .gated = gated,
            .scale_d = scale_d,
            .norm_a = norm_a,
            .residual = residual,
            .ld_x = ceil_div(k, token_unit(c.x)) * token_unit(c.x)};
  };
  return std::visit(of, config);
}

/// A config's tile, and the smallest n and k that it supports.
struct PackedExtents {
  int tokens, rows, least_n, least_k;
};
inline PackedExtents extents_of(const PackedConfig& config) {
  if (const auto* c = std::get_if<WideConfig>(&config)) return {c->tokens, kWideRows * c->cluster_n, 1, 1};
  if (const auto* c = std::get_if<StripConfig>(&config)) return {c->tokens, tile_rows(*c), 1, 1};
  const auto& c = std::get<NarrowConfig>(config);
  return {tile_tokens(c), tile_rows(c), c.row_blocks == 8 ? 2 * kStripRows : 1, 1};
}

/// Kernels for packing, products and the reference. They are compiled in parallel once, and stay loaded for
/// all tests.
struct PackedPool {
  std::vector<PackedConfig> configs;
  std::vector<gemm::Kernel> kernels;
  std::vector<Packer> packers;
  std::shared_ptr<const Module> reference;

  static Result<PackedPool> create(const Device& device) {
    PackedPool pool;
    // Two generators, so that draws for one kernel leave the other kernels' cases unchanged.
    Dice dice(11), strip_dice(12);
    const i64 kernels = setting("SLUICE_PACKED_KERNELS", 15);
    std::vector<std::string> units;
    std::vector<WeightFormat> formats;
    for (const WeightFormat& format : test::all_formats()) {
      if (kernels == 4 && format.order == FragmentOrder::half) continue;
      formats.push_back(format);
      for (int i = 0; i < kConfigsOfFormat && format.order == FragmentOrder::byte; ++i)
        if (kernels & 4) pool.configs.push_back(random_strip_config(format, dice));
      for (int i = 0; i < kConfigsOfFormat && format.order == FragmentOrder::half; ++i) {
        const NarrowConfig narrow = random_config(format, dice);
        const WideConfig wide = random_wide_config(format, dice);
        if (kernels & 1) pool.configs.push_back(narrow);
        if (kernels & 2) pool.configs.push_back(wide);
        if (kernels & 8) pool.configs.push_back(random_strip_config(format, strip_dice));
      }
      for (const PackStep step : {PackStep::pack, PackStep::unpack})
        units.push_back(pack_unit_text({step, format, CodeStorage::byte}));
    }
    if (kernels & 4)
      for (const StripConfig& config : quantised_strip_configs()) pool.configs.push_back(config);
    for (const auto& cubin : device.impl().cache.get_all(units, device.options().jobs, {}))
      if (!cubin) return cubin.error();
    for (const WeightFormat& format : formats) {
      Result<Packer> packer = Packer::create(device, format, CodeStorage::byte);
      if (!packer) return packer.error();
      pool.packers.push_back(*std::move(packer));
    }
    std::vector<Plan> plans;
    for (const PackedConfig& config : pool.configs)
      plans.push_back({.problem = problem_of(config, 8, 128, 256), .config = config_of(config)});
    for (Result<gemm::Kernel>& kernel : gemm::prepare(device, plans)) {
      if (!kernel) return kernel.error();
      pool.kernels.push_back(*std::move(kernel));
    }
    Result<std::shared_ptr<const Module>> reference =
        device.impl().load_unit(packed::reference_unit_text(), 0);
    if (!reference) return reference.error();
    pool.reference = *std::move(reference);
    return pool;
  }
};

inline const Result<PackedPool>& pool_of(const Device& device) {
  static const Result<PackedPool> pool = PackedPool::create(device);
  return pool;
}

struct PackedCase {
  PackedProblem problem;
  PackedConfig config;
  DataKind kind;
  int shift;
};

inline PackedCase random_case(const std::vector<PackedConfig>& configs, u64 seed) {
  Dice dice(seed);
  const PackedConfig c = dice.any_of(configs);
  const PackedExtents extents = extents_of(c);
  const bool large = dice.one_in(8);
  const i64 m = dice.one_in(8) ? dice.between(33, 100) : dice.between(1, extents.tokens + 1);
  i64 n = dice.between(1, large ? 1500 : 300);
  if (dice.one_in(4)) n = n / 64 * 64 + 64;
  if (dice.one_in(4)) n = n / 8 * 8 + 8;
  if (extents.least_n > 1 && strip_count(n) % 2 != 0) n += 64;  // the kernel takes strips in pairs
  i64 k = dice.between(1, large ? 3000 : 700);
  if (dice.one_in(4)) k = k / 128 * 128 + 128;
  if (dice.one_in(4)) k = k / 8 * 8 + 8;
  k = std::max<i64>(k, extents.least_k);
  PackedCase made{.problem = problem_of(c, m, n, k),
                  .config = c,
                  .kind = !dice.one_in(4) ? DataKind::exact
                          : seed % 2 == 0 ? DataKind::real
                                          : DataKind::positive,
                  .shift = dice.one_in(2) ? 0 : dice.between(1, 5)};
  if (dice.one_in(2)) made.problem.ld_x += token_unit(made.problem.x) * dice.between(0, 5);
  if (dice.one_in(2)) made.problem.ld_d = d_columns(made.problem) + dice.between(0, 9);
  if (made.problem.residual && dice.one_in(2)) made.problem.ld_c = made.problem.n + dice.between(0, 9);
  return made;
}

}  // namespace sluice::testing
