// SPDX-License-Identifier: Apache-2.0
// From the flags of `sluice chain` to cases: a LayerSpec for each number of tokens, and the arms. No GPU.
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
  std::string model = "llama3-8b", weights = "e4m3", activations, against;
  std::vector<i64> tokens{1, 4, 16, 64};
  int layers = 8, passes = 4;
  bool projections = false, half = false;
  std::string overlap = "weights_first", trigger = "at_start", spacing = "memory";
  i64 hand_off = 0, prefetch = 0;
  std::vector<int> stages;
  std::vector<std::string> fuse{"none"};
  i64 replays = 0;
  double tune_s = 0;
  // To ask which of them were given.
  std::vector<const CLI::Option*> arm_options;         // ways to overlap
  std::vector<const CLI::Option*> overlapped_options;  // of an overlap that is not off
  std::vector<const CLI::Option*> dense_options;       // of dense products alone
  std::vector<const CLI::Option*> measured_options;    // of what is timed on a GPU
  const CLI::Option* tune_option = nullptr;
};

void add_chain_flags(CLI::App& app, ChainFlags& flags);

/// One case for each number of tokens. Errors: invalid_argument (a name that is none, a flag without effect
/// beside another).
Result<std::vector<bench::ChainCase>> cases_of(const ChainFlags& flags);

}  // namespace sluice::cli
