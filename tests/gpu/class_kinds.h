// SPDX-License-Identifier: Apache-2.0
// Kinds of kernels, each with classes of its own, and a problem for any kernel. Used by the pools of
// sanitizers and of contracts. Pure.
#pragma once

#include <string>
#include <vector>

#include <sluice/packed.h>
#include <sluice/plan.h>

#include "class_cover.h"

namespace sluice::testing {

/// Dense kernels that share a loader and a way through the kernel.
struct DenseKind {
  const char* name;
  bool (*belongs)(const KernelConfig&);  // a config of this kind that can be compiled
  std::set<std::string> numbers;         // fields whose every number is a class

  /// `not_here`: fields that mean nothing to those that ask.
  ClassCover<KernelConfig> cover(const std::set<std::string>& not_here) const {
    return {belongs, numbers, not_here};
  }
  /// Without numbers, for configs that `joins` lets in.
  ClassCover<KernelConfig> cover_of_switches(bool (*joins)(const KernelConfig&)) const {
    return {[joins, of_kind = belongs](const KernelConfig& c) { return joins(c) && of_kind(c); }, {}};
  }
};
/// Each config that can be compiled belongs to one of them.
const std::vector<DenseKind>& dense_kinds();

/// Kinds of packed kernels. The CTAs of an SM are no class: they change a launch bound.
ClassCover<NarrowConfig> narrow_classes();
ClassCover<StripConfig> strip_classes();
ClassCover<WideConfig> wide_classes();

/// A packed kernel that can be compiled, with defaults in the fields that it does not read.
template <class Config>
bool is_possible_packed(const Config& c) {
  return validate(c) == nullptr && (c.bias != Bias::none || c.bias_type == Config{}.bias_type) &&
         c.bias != Bias::row;
}
/// Classes without numbers, for packed kernels that `joins` lets in.
template <class Config>
ClassCover<Config> packed_switches(bool (*joins)(const Config&)) {
  return {[joins](const Config& c) { return joins(c) && is_possible_packed(c); }, {}};
}

/// Fields that no tool of compute-sanitizer sees: where the CTAs of two launches stand.
inline const std::set<std::string> kUnseenBySanitizers = {"overlap.spacing"};

/// Plans of small convolutions that run on exactly this kernel; `clusters` 0: as planned. Empty if none does.
std::vector<Plan> conv_plans(const KernelConfig& config, const DeviceInfo& device, int clusters);

/// A test's name: the kernel in short, and four digits of a digest of all its fields. It is the config's
/// alone, so that a class keeps its name whatever is added to its pool.
std::string class_name(const KernelConfig& config);
std::string class_name(const PackedConfig& config);
/// Letters, digits and underscores alone.
std::string cleaned(std::string text);

}  // namespace sluice::testing
