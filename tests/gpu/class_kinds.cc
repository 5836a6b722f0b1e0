// SPDX-License-Identifier: Apache-2.0
#include "class_kinds.h"

#include <cctype>
#include <cstdio>

#include <sluice/kernels/registry.h>
#include <sluice/kernels/verify_arith.h>
#include <sluice/spec/validate.h>

#include "conv_cases.h"
#include "tests/packed_problems.h"

namespace sluice::testing {
namespace {

constexpr int kConvSplits = 3;

/// True if the config is valid and fields that the kernel ignores have their defaults.
bool is_possible(const KernelConfig& c) {
  return validate(c) == nullptr && !c.scale_a_columns &&
         c.epilogue == canonical(c.epilogue);  // group_test.cc has these scales
}
bool has_plain_roles(const KernelConfig& c) {
  return !is_plain(c.schedule) && c.conv.op == ConvOp::none && !loads_strided(c);
}
/// True for a config of this op whose inputs have one type, as conv::problem() requires.
bool is_conv_of(const KernelConfig& c, ConvOp op) {
  return c.conv.op == op && c.a == c.b && is_possible(c);
}
/// Returns the variant for which plan_conv() plans this kernel.
ConvVariant variant_of(const KernelConfig& c, int clusters) {
  ConvVariant variant{.name = "",
                      .op = c.conv.op,
                      .overrides = {.schedule = c.schedule,
                                    .tile_m = c.tile.m,
                                    .tile_n = c.tile.n,
                                    .stages = c.stages,
                                    .cluster = c.cluster,
                                    .store = c.store,
                                    .combine = c.combine,
                                    .overlap = c.overlap},
                      .inputs = c.a,
                      .output = c.d,
                      .epilogue = c.epilogue,
                      .deterministic = c.combine != Combine::add,
                      .accumulate = c.promotes ? Accumulate::promoted : Accumulate::fast};
  if (c.combine != Combine::none)
    variant.overrides.splits = kConvSplits;
  else if (clusters > 0)
    variant.overrides.clusters = clusters;
  return variant;
}

std::string named(const std::string& text, const std::string& all) {
  u64 digest = 0;
  for (const char letter : all) digest = verify::hash(digest, static_cast<u64>(letter));
  char digits[8];
  std::snprintf(digits, sizeof digits, "_%04x", static_cast<unsigned>(digest & 0xffff));
  return cleaned(text) + digits;
}

}  // namespace

const std::vector<DenseKind>& dense_kinds() {
  static const std::vector<DenseKind> kinds = {
      {"roles",
       [](const KernelConfig& c) { return has_plain_roles(c) && !is_swapped(c) && is_possible(c); },
       {"tile.m", "tile.n", "stages", "cluster.m", "cluster.n", "cluster.k"}},
      {"swapped",
       [](const KernelConfig& c) { return has_plain_roles(c) && is_swapped(c) && is_possible(c); },
       {"tile.m", "cluster.m", "cluster.n", "cluster.k"}},
      {"strided",
       [](const KernelConfig& c) { return loads_strided(c) && is_possible(c); },
       {"tile.m", "tile.n", "cluster.k"}},
      {"plain",
       [](const KernelConfig& c) { return c.schedule == Schedule::plain && is_possible(c); },
       {"tile.m", "tile.n", "stages", "cluster.k", "warps"}},
      {"plain_wgmma",
       [](const KernelConfig& c) { return c.schedule == Schedule::plain_wgmma && is_possible(c); },
       {"tile.m", "tile.n", "stages", "cluster.k", "warps"}},
      {"fprop",
       [](const KernelConfig& c) { return is_conv_of(c, ConvOp::fprop); },
       {"tile.m", "cluster.m", "cluster.n", "cluster.k", "conv.spatial"}},
      {"dgrad",
       [](const KernelConfig& c) { return is_conv_of(c, ConvOp::dgrad); },
       {"tile.m", "cluster.m", "cluster.n", "cluster.k", "conv.spatial"}},
      {"wgrad",
       [](const KernelConfig& c) { return is_conv_of(c, ConvOp::wgrad); },
       {"tile.m", "cluster.m", "cluster.n", "cluster.k", "conv.spatial"}}};
  return kinds;
}

ClassCover<NarrowConfig> narrow_classes() {
  return {is_possible_packed<NarrowConfig>,
          {"weights.group", "held_tokens", "token_blocks", "row_blocks", "warps", "stages", "parts"},
          kUnseenBySanitizers};
}
ClassCover<StripConfig> strip_classes() {
  return {is_possible_packed<StripConfig>,
          {"weights.group", "tokens", "strips", "k_groups", "parts", "stages"},
          kUnseenBySanitizers};
}
ClassCover<WideConfig> wide_classes() {
  return {is_possible_packed<WideConfig>,
          {"weights.group", "tokens", "cluster_n", "x_stages", "w_stages"},
          kUnseenBySanitizers};
}

std::vector<Plan> conv_plans(const KernelConfig& config, const DeviceInfo& device, int clusters) {
  std::vector<Plan> plans;
  for (const Conv& conv : small_convs()) {
    Result<Plan> plan = plan_conv(conv, variant_of(config, clusters), device);
    if (plan && plan->config == config) plans.push_back(*std::move(plan));
  }
  return plans;
}

std::string cleaned(std::string text) {
  for (char& c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  text.erase(std::unique(text.begin(), text.end(), [](char a, char b) { return a == '_' && b == '_'; }),
             text.end());
  return text;
}

std::string class_name(const KernelConfig& c) {
  std::string conv;
  if (c.conv.op != ConvOp::none)
    conv = std::string(name_of(c.conv.op)) + std::to_string(c.conv.spatial) + (c.conv.phased ? "p " : " ");
  return named(conv + short_name(c), to_string(c));
}
std::string class_name(const PackedConfig& config) {
  return named(short_name(config), to_string(config));
}

}  // namespace sluice::testing
