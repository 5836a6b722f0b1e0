// SPDX-License-Identifier: Apache-2.0
// Converts the flags of `sluice chain` to cases: a LayerSpec for each number of tokens, and the variants to
// measure. Needs no GPU.
#pragma once

#include <string>
#include <vector>

#include <sluice/bench/chain.h>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sluice::cli {

struct ChainFlags {
  std::string model = "llama3-8b", weights = "e4m3", activations, accumulate, against;
  std::vector<i64> tokens{1, 4, 16, 64};
  int layers = 8, passes = 4;
  bool projections = false, half = false;
  std::string overlap = "tuned", trigger = "at_start", spacing = "even";
  i64 hand_off = 0, prefetch = 0;
  std::vector<int> stages;
  std::vector<std::string> fuse{"none"};
  i64 replays = 0;
  double tune_s = 0;
  std::string trials;
  bool guard = false;
  // Options grouped by when they are valid, to check which were given:
  std::vector<const CLI::Option*> arm_options;         // they describe the overlap
  std::vector<const CLI::Option*> overlapped_options;  // valid only with an overlap other than off
  std::vector<const CLI::Option*> dense_options;       // valid only for dense products
  std::vector<const CLI::Option*> measured_options;    // valid only when a GPU is timed
  const CLI::Option* tune_option = nullptr;
};

void add_chain_flags(CLI::App& app, ChainFlags& flags);

/// Returns one case per number of tokens. Errors: invalid_argument (an unknown name, or a flag that has no
/// effect together with another one).
Result<std::vector<bench::ChainCase>> cases_of(const ChainFlags& flags);

}  // namespace sluice::cli
