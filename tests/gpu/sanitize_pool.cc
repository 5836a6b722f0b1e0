// SPDX-License-Identifier: Apache-2.0
#include "sanitize_pool.h"

#include <algorithm>
#include <map>
#include <span>

#include <sluice/kernels/registry.h>
#include <sluice/plan.h>
#include <sluice/spec/validate.h>

#include "config_pool.h"
#include "packed_pool.h"
#include "random_case.h"

namespace sluice::testing {
namespace {

constexpr int kSeenTwice = 2, kMostDraws = 4000;
constexpr i64 kMostK = 12288;  // the deepest rings wrap with it

struct Size {
  i64 m, n, k;
  int clusters;
};
/// Several tiles a cluster: the ring wraps, ping-pong takes turns, buffers are reused. Kept small, since the
/// tools slow down the judging kernels too.
constexpr Size kSizes[] = {{130, 72, 520, 1}, {65, 136, 264, 2}};
/// Sizes for plain schedules: several tiles each way, and rings that wrap.
constexpr Size kPlainSizes[] = {{33, 72, 4200, 0}, {5, 48, 64, 0}};

/// One cluster takes all tiles of a convolution that is not split, and a ring of so many stages wraps.
constexpr int kConvStages = 3, kConvClusters = 1;

void add(std::vector<KernelConfig>& pool, const KernelConfig& c) {
  if (validate(c) == nullptr && std::find(pool.begin(), pool.end(), c) == pool.end()) pool.push_back(c);
}

/// Draws configs of the formats in turn, and keeps those with a choice seen less than twice.
template <class Draw>
std::vector<PackedConfig> covering(FragmentOrder order, u64 seed, const Draw& draw) {
  std::vector<WeightFormat> formats;
  for (const WeightFormat& format : test::all_formats())
    if (format.order == order) formats.push_back(format);
  Dice dice(seed);
  std::map<std::string, int> seen;
  std::vector<PackedConfig> pool;
  for (int i = 0; i < kMostDraws; ++i) {
    const WeightFormat& format = formats[static_cast<size_t>(dice.below(static_cast<int>(formats.size())))];
    const PackedConfig config = draw(format, dice);
    bool is_new = false;
    for (const std::string& choice : choices_of(config)) is_new = is_new || seen[choice] < kSeenTwice;
    if (!is_new) continue;
    for (const std::string& choice : choices_of(config)) ++seen[choice];
    pool.push_back(config);
  }
  return pool;
}

/// Keeps what test names allow: letters, digits and underscores.
std::string cleaned(std::string text) {
  for (char& c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  text.erase(std::unique(text.begin(), text.end(), [](char a, char b) { return a == '_' && b == '_'; }),
             text.end());
  return text;
}

std::string numbered(size_t index, const std::string& text) {
  std::string number = std::to_string(index);
  number.insert(0, 3 - std::min<size_t>(3, number.size()), '0');
  return number + "_" + cleaned(text);
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
            if ((turn++ + kind) % 3 != 0) continue;  // a third of them, which includes each pair
            KernelConfig c = config_for(p, {schedule, tokens, 32}, {1, 1, parts}, StorePath::direct);
            c.warps = turn % 2 == 0 ? 4 : 8;
            c.stages = 3;
            if (kind == 2) c.overlap = {Wait::weights_first, Trigger::after_loads};
            add(pool, c);
          }
  return pool;
}

std::vector<PackedConfig> sanitize_narrow_pool() {
  return covering(FragmentOrder::half, 21, [](const WeightFormat& format, Dice& dice) {
    return PackedConfig(random_config(format, dice));
  });
}

std::vector<PackedConfig> sanitize_strip_pool() {
  const auto draw = [](const WeightFormat& format, Dice& dice) {
    return PackedConfig(random_strip_config(format, dice));
  };
  std::vector<PackedConfig> pool = covering(FragmentOrder::half, 22, draw);
  for (PackedConfig& config : covering(FragmentOrder::byte, 23, draw)) pool.push_back(std::move(config));
  return pool;
}

std::vector<PackedConfig> sanitize_wide_pool() {
  return covering(FragmentOrder::half, 24, [](const WeightFormat& format, Dice& dice) {
    return PackedConfig(random_wide_config(format, dice));
  });
}

std::vector<KernelConfig> sanitize_conv_pool() {
  std::vector<KernelConfig> pool;
  for (const char* gpu : {"h200", "h100"})
    for (const ConvVariant& variant : conv_variants())
      for (const Plan& plan : sanitize_plans(variant, *gpu_named(gpu))) add(pool, plan.config);
  return pool;
}

std::vector<std::string> choices_of(const PackedConfig& config) {
  std::vector<std::string> all;
  const auto say = [&](const char* what, int value) { all.push_back(what + std::to_string(value)); };
  std::visit(
      [&](const auto& c) {
        all.push_back(std::string("x ") + name_of(c.x));
        all.push_back(std::string("d ") + name_of(c.d));
        all.push_back(std::string("weights ") + name_of(c.weights.type) + " zero " + name_of(c.weights.zero));
        all.push_back(std::string("scale ") + name_of(c.weights.scale));
        say("group ", c.weights.group);
        say("bias ", c.bias == Bias::column);
        if constexpr (requires { c.gated; }) say("gated ", c.gated);
        if constexpr (requires { c.norm_x; }) {
          say("norm_x ", c.norm_x);
          say("residual ", c.residual);
          say("token_blocks ", c.token_blocks);
          say("held_tokens ", c.held_tokens);
          say("row_blocks ", c.row_blocks);
          say("warps ", c.warps);
          say("parts ", c.parts);
          say("stages ", c.stages);
        }
        if constexpr (requires { c.k_groups; }) {
          all.push_back(std::string("scale_x ") + name_of(c.scale_x));
          all.push_back(std::string("scale_d ") + name_of(c.scale_d));
          say("tokens ", c.tokens);
          say("strips ", c.strips);
          say("k_groups ", c.k_groups);
          say("parts ", c.parts);
        }
        if constexpr (requires { c.tail_parts; }) {
          say("tokens ", c.tokens);
          say("cluster_n ", c.cluster_n);
          say("cluster_k ", c.cluster_k);
          say("x_stages ", c.x_stages);
          say("w_stages ", c.w_stages);
          say("tail_parts ", c.tail_parts);
        }
      },
      config);
  return all;
}

std::string class_name(size_t index, const KernelConfig& config) {
  return numbered(index, short_name(config));
}

std::string class_name(size_t index, const PackedConfig& config) {
  return numbered(index, packed::short_name(config));
}

std::string class_name(size_t index, const ConvVariant& variant) {
  return numbered(index, name_of(variant.op) + std::string("_") + variant.name);
}

std::vector<Plan> sanitize_plans(const KernelConfig& config, const DeviceInfo& device) {
  std::vector<Plan> plans;
  for (const Size& size :
       is_plain(config.schedule) ? std::span<const Size>(kPlainSizes) : std::span<const Size>(kSizes))
    plans.push_back(plan_for(problem_for(config, size.m, size.n, size.k), config, device, size.clusters));
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
