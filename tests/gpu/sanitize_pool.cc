// SPDX-License-Identifier: Apache-2.0
#include "sanitize_pool.h"

#include <algorithm>
#include <set>

#include <sluice/kernels/registry.h>
#include <sluice/plan.h>
#include <sluice/spec/validate.h>

#include "class_kinds.h"
#include "config_pool.h"
#include "packed_pool.h"
#include "random_case.h"

namespace sluice::testing {
namespace {

constexpr int kMostDraws = 4000;
constexpr i64 kMostK = 12288;  // long enough for the deepest rings to wrap

struct Size {
  i64 m, n, k;
  int clusters;
};
/// Sizes with several tiles per cluster: rings wrap, ping-pong groups take turns, and buffers are reused.
/// They are small, because the tools slow down the checking kernels too.
std::vector<Size> sizes(const KernelConfig& c) {
  const i64 k = std::max(520, (c.stages + 1) * c.tile.k + 8);
  i64 rows = c.tile.m * c.cluster.m, columns = c.tile.n * c.cluster.n;
  if (is_swapped(c)) std::swap(rows, columns);
  return {{std::max<i64>(130, rows + 2), std::max<i64>(72, columns + 8), k, 1},
          {std::max<i64>(65, rows + 1), std::max<i64>(136, columns + 8), 264, 2}};
}

/// True for the one class whose warpgroups pass a different number of named barriers before they meet as a
/// CTA. For it, racecheck runs a modified kernel (docs/findings/races.md, tools/gpu_sanitize.py).
bool has_uneven_teams(const KernelConfig& c) {
  return c.schedule == Schedule::plain_wgmma && c.tile.m == 32 && c.tile.n == 32 && c.tile.k == 64 &&
         c.warps == 8 && c.cluster.k == 1;
}
/// Sizes for plain schedules, with several tiles along m and n and with rings that wrap. k ends inside a
/// k-tile. Every team gets the same number of stages, except in the class of has_uneven_teams().
std::vector<Size> plain_sizes(const KernelConfig& c) {
  const i64 each = i64{c.tile.k} * c.cluster.k * teams(c) * stage_k_tiles(c);
  const i64 more = has_uneven_teams(c) ? c.tile.k * stage_k_tiles(c) : 0;
  return {{c.tile.m + 1, c.tile.n + 40, (c.stages + 1) * each + more - 24, 0},
          {std::max(5, c.tile.m / 2 - 1), 48, each - 24, 0}};
}

/// A single cluster computes all tiles of a convolution that is not split, with a ring of so few stages that
/// it wraps.
constexpr int kConvStages = 3, kConvClusters = 1;

void add(std::vector<KernelConfig>& pool, const KernelConfig& c) {
  if (validate(c) == nullptr && std::find(pool.begin(), pool.end(), c) == pool.end()) pool.push_back(c);
}

/// Adds configs of these kinds with field values that the pool lacks.
void complete(std::vector<KernelConfig>& pool, const std::set<std::string>& kinds) {
  for (const DenseKind& kind : dense_kinds())
    if (kinds.contains(kind.name)) kind.cover(kUnseenBySanitizers).complete(pool);
}

/// Draws configs of random formats and keeps those that have a new value of a field. Then adds configs for
/// the values that were never drawn. MXFP4 is not drawn, so that draws are those of before.
template <class Config>
std::vector<PackedConfig> covering(const ClassCover<Config>& classes, FragmentOrder order, u64 seed,
                                   Config (*draw)(const WeightFormat&, Dice&)) {
  std::vector<WeightFormat> formats;
  for (const WeightFormat& format : test::all_formats())
    if (format.order == order && format != kMxfp4) formats.push_back(format);
  std::set<Choice> missing(classes.wanted().begin(), classes.wanted().end());
  Dice dice(seed);
  std::vector<Config> pool;
  for (int i = 0; i < kMostDraws; ++i) {
    const Config config = draw(dice.any_of(formats), dice);
    bool is_new = false;
    for (const Choice& choice : choices_of(config)) is_new = missing.erase(choice) > 0 || is_new;
    if (is_new) pool.push_back(config);
  }
  classes.complete(pool);
  return {pool.begin(), pool.end()};
}

}  // namespace

std::vector<KernelConfig> sanitize_dense_pool() {
  std::vector<KernelConfig> pool = class_pool();
  constexpr BaseConfig kShapes[] = {{Schedule::ping_pong, 64, 64}, {Schedule::cooperative, 128, 64}};
  for (const BaseConfig& shape : kShapes) {
    const auto add_class = [&](Problem p, ClusterShape cluster, const auto& change) {
      KernelConfig c = config_for(p, shape, cluster, StorePath::tma);
      c.stages = 3;
      change(c);
      add(pool, c);
    };
    const auto as_it_is = [](KernelConfig&) {};
    Problem bf16, fp8{.a = {.type = DType::e4m3}, .b = {.type = DType::e4m3}, .accumulate = Accumulate::fast};
    for (const ClusterShape cluster : {ClusterShape{2, 2}, ClusterShape{1, 1, 4}}) {
      add_class(bf16, cluster, as_it_is);
      add_class(fp8, cluster, as_it_is);
    }
    Problem gated = bf16;
    gated.epilogue = {.activation = Activation::relu, .gated = true};
    Problem quantised = fp8;
    quantised.d.type = DType::e4m3;
    quantised.epilogue = {.scale_a = ScaleMode::vector,
                          .scale_b = ScaleMode::tensor,
                          .activation = Activation::relu,
                          .gated = true,
                          .scale_d = ScaleMode::tensor};
    for (const Combine combine : {Combine::none, Combine::last_arriver})
      for (const StorePath store : {StorePath::tma, StorePath::direct})
        for (const Problem& p : {gated, quantised})
          add_class(p, {1, 1}, [&](KernelConfig& c) {
            c.combine = combine;
            c.store = store;
          });
    for (const Combine combine : {Combine::none, Combine::last_arriver})
      for (const ClusterShape cluster : {ClusterShape{1, 1}, ClusterShape{2, 1}, ClusterShape{1, 1, 2}})
        add_class(combine == Combine::none ? bf16 : fp8, cluster, [&](KernelConfig& c) {
          c.d_major = Major::mn;
          c.epilogue = {.scale_a = ScaleMode::vector, .bias = Bias::row};
          c.combine = combine;
        });
    for (const ClusterShape cluster : {ClusterShape{1, 1}, ClusterShape{2, 1}, ClusterShape{1, 1, 2}})
      add_class(bf16, cluster, [](KernelConfig& c) {
        c.overlap = {Wait::weights_first, Trigger::after_loads};
      });
  }
  // Both products of an expert.
  for (const BaseConfig& shape :
       {BaseConfig{Schedule::ping_pong, 64, 256}, BaseConfig{Schedule::cooperative, 128, 256}})
    for (const StorePath store : {StorePath::tma, StorePath::direct})
      for (const bool gated : {true, false}) {
        Problem p{.a = {.type = DType::e4m3}, .b = {.type = DType::e4m3}};
        p.epilogue = {.scale_a = ScaleMode::block, .scale_b = ScaleMode::block};
        p.epilogue.gated = gated;
        p.epilogue.row_factors = !gated;
        p.d.type = gated ? DType::e4m3 : DType::bf16;
        if (gated) p.epilogue.scale_d = ScaleMode::block;
        KernelConfig c = config_for(p, shape, {1, 1}, store);
        c.stages = 3;
        add(pool, c);
      }
  // Scales of columns, which are read until their stage is released.
  for (const BaseConfig& shape :
       {BaseConfig{Schedule::ping_pong, 64, 128}, BaseConfig{Schedule::cooperative, 128, 192},
        BaseConfig{Schedule::cooperative, 128, 256}}) {
    Problem p{.a = {.type = DType::e4m3}, .b = {.type = DType::e4m3}};
    p.epilogue = {.scale_a = ScaleMode::block, .scale_b = ScaleMode::vector128};
    p.scale_a_ld = 1;
    KernelConfig c = config_for(p, shape, {2, 1}, StorePath::tma);
    c.stages = 3;
    add(pool, c);
    c.cluster = {1, 1};
    c.combine = Combine::last_arriver;
    add(pool, c);
  }
  complete(pool, {"roles", "swapped"});
  return pool;
}

std::vector<KernelConfig> sanitize_plain_pool() {
  std::vector<KernelConfig> pool;
  int turn = 0;
  for (const Schedule schedule : {Schedule::plain, Schedule::plain_wgmma})
    for (const int parts : {1, 2, 4})
      for (const DType type : {DType::bf16, DType::e4m3})
        for (const int tokens : {8, 16, 32})
          for (const int kind : {0, 1, 2}) {
            Problem p{.a = {.type = type}, .b = {.type = type}, .accumulate = Accumulate::fast};
            if (kind == 0)
              p.epilogue = {.scale_a = ScaleMode::vector,
                            .scale_b = ScaleMode::vector,
                            .bias = Bias::column,
                            .residual = true};
            if (kind == 1) p.epilogue = {.activation = Activation::relu, .gated = true};
            // A third of the combinations, in which every pair of values occurs.
            if ((turn++ + kind) % 3 != 0) continue;
            KernelConfig c = config_for(p, {schedule, tokens, 32}, {1, 1, parts}, StorePath::direct);
            c.warps = turn % 2 == 0 ? 4 : 8;
            c.stages = 3;
            if (kind == 2) c.overlap = {Wait::weights_first, Trigger::after_loads};
            add(pool, c);
          }
  complete(pool, {"plain", "plain_wgmma"});
  return pool;
}

std::vector<KernelConfig> sanitize_strided_pool() {
  constexpr BaseConfig kShapes[] = {{Schedule::ping_pong, 64, 64}, {Schedule::cooperative, 128, 64}};
  std::vector<KernelConfig> pool;
  for (const BaseConfig& shape : kShapes)
    for (const Major major : {Major::k, Major::mn})
      for (const int operands : {1, 2, 3}) {  // bit mask: A, B, both
        const Problem p{.a = {.major = major, .unaligned = (operands & 1) != 0},
                        .b = {.major = major, .unaligned = (operands & 2) != 0}};
        KernelConfig c = config_for(p, shape, {1, 1}, StorePath::tma);
        c.stages = 3;
        add(pool, c);
      }
  complete(pool, {"strided"});
  return pool;
}

std::vector<PackedConfig> sanitize_narrow_pool() {
  return covering(narrow_classes(), FragmentOrder::half, 21, &random_config);
}

std::vector<PackedConfig> sanitize_strip_pool() {
  std::vector<PackedConfig> pool = covering(strip_classes(), FragmentOrder::half, 22, &random_strip_config);
  for (PackedConfig& config : covering(strip_classes(), FragmentOrder::byte, 23, &random_strip_config))
    if (std::find(pool.begin(), pool.end(), config) == pool.end()) pool.push_back(std::move(config));
  return pool;
}

std::vector<PackedConfig> sanitize_wide_pool() {
  return covering(wide_classes(), FragmentOrder::half, 24, &random_wide_config);
}

std::vector<KernelConfig> sanitize_conv_pool() {
  std::vector<KernelConfig> pool;
  for (const char* gpu : {"h200", "h100"})
    for (const ConvVariant& variant : conv_variants())
      for (const Plan& plan : sanitize_plans(variant, *gpu_named(gpu))) add(pool, plan.config);
  return pool;
}

std::vector<KernelConfig> sanitize_conv_field_pool() {
  std::vector<KernelConfig> pool = sanitize_conv_pool();
  const size_t given = pool.size();
  complete(pool, {"fprop", "dgrad", "wgrad"});
  return {pool.begin() + static_cast<i64>(given), pool.end()};
}

std::string class_name(const ConvVariant& variant) {
  return cleaned(name_of(variant.op) + std::string("_") + variant.name);
}

std::vector<Plan> sanitize_plans(const KernelConfig& config, const DeviceInfo& device) {
  if (config.conv.op != ConvOp::none) return conv_plans(config, device, kConvClusters);
  std::vector<Plan> plans;
  for (const Size& size : is_plain(config.schedule) ? plain_sizes(config) : sizes(config)) {
    const Problem p = problem_for(config, size.m, size.n, size.k);
    plans.push_back(plan_for(p, config, device, size.clusters));
  }
  return plans;
}

std::vector<Plan> sanitize_plans(const ConvVariant& variant, const DeviceInfo& device) {
  std::vector<Plan> plans;
  for (const Conv& conv : small_convs()) {
    ConvVariant small = variant;
    small.overrides.stages = kConvStages;
    if (!variant.overrides.splits) small.overrides.clusters = kConvClusters;
    if (Result<Plan> plan = plan_conv(conv, small, device); plan) plans.push_back(*std::move(plan));
  }
  return plans;
}

PackedProblem sanitize_problem(const PackedConfig& config) {
  const PackedExtents e = extents_of(config);
  i64 n = e.rows + 72, k = 1152;
  if (const auto* c = std::get_if<NarrowConfig>(&config))
    k = kPackedTileK * i64{c->parts} * c->warps * (c->stages + 1) + 40;
  if (const auto* c = std::get_if<StripConfig>(&config))
    k = kPackedTileK * i64{c->parts} * (c->stages + 2) + 40;
  if (std::get_if<WideConfig>(&config) != nullptr) n = 72 * kWideRows, k = 680;
  return problem_of(config, e.tokens + 1, std::max<i64>(n, e.least_n), std::min(k, kMostK));
}

}  // namespace sluice::testing
