// SPDX-License-Identifier: Apache-2.0
// A tuned chain: the fastest choice for each step of a layer, between its neighbours, on one GPU. `sluice
// chain --tune` writes it, plan_chain looks steps up (record_book.h). Text from outside is checked field by
// field here; the planner checks each kernel again.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/records/step_recipe.h>

namespace sluice {

inline constexpr int kTunedChainVersion = 1;
/// Marks a record as a tuned chain.
inline constexpr const char* kTunedChainSteps = "steps";

struct TunedChain {
  struct Step {
    StepRecipe recipe;
    TunedStep choice;

    bool operator==(const Step&) const = default;
  };
  std::string gpu;  // the driver's name for it
  int sm_count = 0;
  std::vector<Step> steps;     // one layer; the last step also precedes the first
  double us = 0, off_us = 0;   // us for a layer; off_us: the kernels that are best alone, not overlapped
  std::string name;            // for people: "llama3-8b e4m3, 16 tokens"
  std::string sluice, driver;  // versions
  std::string date;            // UTC, "2026-11-22T10:00:00Z"; the later of equal steps wins

  bool operator==(const TunedChain&) const = default;
};

/// A change that a tuner timed against the choices that it had: data for models of chains.
struct TunedTrial {
  std::string gpu, axis, what;
  double incumbent_us = 0, candidate_us = 0, candidate_p90_us = 0;  // medians: all steps of the chain once
  bool kept = false;
  std::vector<TunedChain::Step> steps{};  // with the change
};
/// One line, fields in a fixed order.
std::string to_json(const TunedTrial& trial);

bool same_key(const TunedChain& x, const TunedChain& y);

/// One line, fields in a fixed order.
std::string to_json(const TunedChain& chain);

std::vector<TunedChain::Step> tuned_steps(std::span<const ChainStep> layer,
                                          std::span<const TunedStep> choices);

}  // namespace sluice
