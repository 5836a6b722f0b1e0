// SPDX-License-Identifier: Apache-2.0
// A tuned chain: what was fastest at each step of a layer, between its neighbours, on one GPU. `sluice chain
// --tune` writes it, plan_chain looks steps up in it (record_book.h). As a tuning record it is data from
// outside: every field is checked here, and the planner checks each kernel again.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/records/step_recipe.h>

namespace sluice {

inline constexpr int kTunedChainVersion = 1;
/// The field that no other record has.
inline constexpr const char* kTunedChainSteps = "steps";

struct TunedChain {
  struct Step {
    StepRecipe recipe;
    TunedStep choice;

    bool operator==(const Step&) const = default;
  };
  std::string gpu;  // the name that the driver gives
  int sm_count = 0;
  std::vector<Step> steps;    // of one layer; the last stands before the first, too
  double us = 0, off_us = 0;  // a layer; off: the same steps with kernels that are best alone, not overlapped
  std::string name;           // for people: "llama3-8b e4m3, 16 tokens"
  std::string sluice, driver;  // versions
  std::string date;            // UTC, "2026-11-22T10:00:00Z": of two of the same steps the later one wins

  bool operator==(const TunedChain&) const = default;
};

/// Of the same GPU and the same steps?
bool same_key(const TunedChain& x, const TunedChain& y);

/// One line, fields in a fixed order.
std::string to_json(const TunedChain& chain);

/// Of a layer's steps, with what was chosen for each.
std::vector<TunedChain::Step> tuned_steps(std::span<const ChainStep> layer,
                                          std::span<const TunedStep> choices);

}  // namespace sluice
