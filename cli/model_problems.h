// SPDX-License-Identifier: Apache-2.0
// --model: the products of a model's layers, as sluice.torch.nn.convert_ runs them. Called by requests.cc for
// each verb that accepts many problems.
#pragma once

#include <string>
#include <vector>

#include <sluice/bench/request.h>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sluice::cli {

struct ModelFlags {
  std::string model, recipe;
  std::vector<i64> tokens{1, 4, 16, 64, 256, 1024, 4096};
  std::vector<const CLI::Option*> options;  // --recipe and --tokens, to check which were given
};

/// Adds --model, --recipe and --tokens.
void add_model_flags(CLI::App& app, ModelFlags& flags);
bool is_model(const ModelFlags& flags);
/// Returns the products of the model's linear layers, for each number of tokens. They are in bf16 or in the
/// recipe's format, without a bias. Layers of equal size are listed once. Errors: invalid_argument (tokens or
/// a recipe that is missing or unknown); those of bench::parse_model.
Result<std::vector<bench::Request>> requests_of_model(const ModelFlags& flags);

}  // namespace sluice::cli
