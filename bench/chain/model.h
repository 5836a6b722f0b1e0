// SPDX-License-Identifier: Apache-2.0
// The sizes of a transformer layer: of known models, of a config.json, or given as numbers.
#pragma once

#include <string>
#include <vector>

#include <sluice/result.h>
#include <sluice/spec/base.h>

namespace sluice::bench {

struct Model {
  std::string name;
  i64 width, qkv, attention, inner;  // columns read by o (attention), by down (inner: half of gate_up)
  /// Not 0: no model, but four equal products of n x k. Each reads k columns, the first n of them written by
  /// the one before it; width is k. Projections only.
  i64 n = 0;
};
/// 70B is one of eight tensor-parallel shards.
const std::vector<Model>& known_models();

/// `text` names one of:
///   llama3-8b                 a known model
///   1280x8192                 four equal products of n x k, n at most k
///   8192x1280x1024x3584       width, columns of qkv, columns that o reads, columns that down reads
///   path/config.json          a dense decoder's sizes as Hugging Face keeps them, or the folder of that
///   file;
///                             with ":8" behind it one of eight tensor-parallel shards
/// Errors: invalid_argument (no such name; the file is none, lacks a size or describes other layers than
/// layer_rules.h takes; shards that do not divide it), io (the file).
Result<Model> parse_model(const std::string& text);

}  // namespace sluice::bench
