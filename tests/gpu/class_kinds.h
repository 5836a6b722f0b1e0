// SPDX-License-Identifier: Apache-2.0
// Kinds of kernels, each with its own classes, and a problem for any kernel. Used by the pools of the
// sanitizer tests and of the overlap contract. Needs no GPU.
#pragma once

#include <string>
#include <vector>

#include <sluice/plan.h>

#include "class_cover.h"
#include "tests/packed_problems.h"

namespace sluice::testing {

/// A kind of dense kernels: those with the same loads and the same code path.
struct DenseKind {
  const char* name;
  bool (*belongs)(const KernelConfig&);  // true for valid configs of this kind
  std::set<std::string> numbers;         // numeric fields of which every value is tested

  /// `not_here`: fields that do not matter to the test.
  ClassCover<KernelConfig> cover(const std::set<std::string>& not_here) const {
    return {belongs, numbers, not_here};
  }
  /// Covers enumerations and switches only, over configs for which `joins` is true.
  ClassCover<KernelConfig> cover_of_switches(bool (*joins)(const KernelConfig&)) const {
    return {[joins, of_kind = belongs](const KernelConfig& c) { return joins(c) && of_kind(c); }, {}};
  }
};
/// Returns the kinds. Every valid config belongs to one of them.
const std::vector<DenseKind>& dense_kinds();

/// Kinds of packed kernels. The number of CTAs per SM is not covered: it only changes a launch bound.
ClassCover<NarrowConfig> narrow_classes();
ClassCover<StripConfig> strip_classes();
ClassCover<WideConfig> wide_classes();

/// True if a packed config is valid and fields that the kernel ignores have their defaults.
template <class Config>
bool is_possible_packed(const Config& c) {
  return validate(c) == nullptr && !clamps(c.activation) &&
         (c.bias != Bias::none || c.bias_type == Config{}.bias_type) && c.bias != Bias::row;
}
/// Covers enumerations and switches of packed kernels, over configs for which `joins` is true.
template <class Config>
ClassCover<Config> packed_switches(bool (*joins)(const Config&)) {
  return {[joins](const Config& c) { return joins(c) && is_possible_packed(c); }, {}};
}

/// Fields whose effect compute-sanitizer cannot see: on which SMs the CTAs of two launches run.
inline const std::set<std::string> kUnseenBySanitizers = {"overlap.spacing"};

/// Returns plans of small convolutions that run exactly this kernel; empty if there is none. `clusters`: 0
/// leaves the number to the planner.
std::vector<Plan> conv_plans(const KernelConfig& config, const DeviceInfo& device, int clusters);

/// Returns a test's name: a short form of the config, and four digits of a hash of all its fields. It depends
/// on the config only, so it stays the same when the pool grows.
std::string class_name(const KernelConfig& config);
std::string class_name(const PackedConfig& config);
/// Returns the text with everything but letters, digits and underscores replaced.
std::string cleaned(std::string text);

}  // namespace sluice::testing
