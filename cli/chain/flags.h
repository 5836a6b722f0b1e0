// SPDX-License-Identifier: Apache-2.0
// Converts the flags of `sluice chain` to cases: a LayerSpec for each number of tokens, and the arms. No GPU.
#pragma once

#include <string>
#include <vector>

#include "bench/chain/session.h"

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
  // Asked which were given.
  std::vector<const CLI::Option*> arm_options;         // overlaps
  std::vector<const CLI::Option*> overlapped_options;  // only with an overlap that is not off
  std::vector<const CLI::Option*> dense_options;       // only for dense products
  std::vector<const CLI::Option*> measured_options;    // only when timing on a GPU
  const CLI::Option* tune_option = nullptr;
};

void add_chain_flags(CLI::App& app, ChainFlags& flags);

/// Returns a case for each number of tokens. Errors: invalid_argument (an unknown name, a flag without effect
/// beside another).
Result<std::vector<bench::ChainCase>> cases_of(const ChainFlags& flags);

}  // namespace sluice::cli
