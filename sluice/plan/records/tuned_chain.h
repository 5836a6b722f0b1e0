// SPDX-License-Identifier: Apache-2.0
// A tuned chain: for each step of a layer, the choice that is fastest between its neighbours on one GPU.
// `sluice chain --tune` writes it, and plan_chain looks up steps in it (record_book.h). JSON from outside is
// checked field by field here; the planner checks each kernel again.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sluice/plan/records/step_recipe.h>
#include <sluice/records.h>

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
  std::string gpu;  // the driver's name of the GPU
  int sm_count = 0;
  std::vector<Step> steps;  // one layer, as a cycle: the last step precedes the first
  // Us per layer; off_us: with the kernels that are fastest alone, without overlap.
  double us = 0, off_us = 0;
  std::string name;            // a readable name: "llama3-8b e4m3, 16 tokens"
  std::string sluice, driver;  // versions
  std::string date;            // UTC, "2026-11-22T10:00:00Z"; the later of equal steps wins

  bool operator==(const TunedChain&) const = default;
};

/// A change of a chain's choices that a tuner timed against its best choices so far; data for models of
/// chains.
struct TunedTrial {
  std::string gpu, axis, what;
  // Medians (and p90) of one run of the whole chain.
  double incumbent_us = 0, candidate_us = 0, candidate_p90_us = 0;
  bool kept = false;
  std::vector<TunedChain::Step> steps{};  // with the change
};
/// One line, fields in a fixed order.
std::string to_json(const TunedTrial& trial);

bool same_key(const TunedChain& x, const TunedChain& y);

/// One line, fields in a fixed order.
std::string to_json(const TunedChain& chain);

}  // namespace sluice
