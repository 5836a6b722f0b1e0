// SPDX-License-Identifier: Apache-2.0
// --model: the products of a model's layers, as sluice.torch.nn.convert_ runs them. Called by requests.cc for
// each verb that takes many problems.
#pragma once

#include <string>
#include <vector>

#include "bench/product.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sluice::cli {

struct ModelFlags {
  std::string model, recipe;
  std::vector<i64> tokens{1, 4, 16, 64, 256, 1024, 4096};
  std::vector<const CLI::Option*> options;  // --recipe and --tokens, asked which were given
};

/// Adds --model, --recipe and --tokens.
void add_model_flags(CLI::App& app, ModelFlags& flags);
bool is_model(const ModelFlags& flags);
/// The linear layers of the model, in bf16 or by the recipe, without a bias; equal ones once, for each number
/// of tokens. Errors: invalid_argument (no recipe or an unknown one); those of bench::parse_model.
Result<std::vector<bench::Request>> requests_of_model(const ModelFlags& flags);

}  // namespace sluice::cli
