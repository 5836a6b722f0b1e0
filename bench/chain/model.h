// SPDX-License-Identifier: Apache-2.0
// The sizes of a transformer layer: those of a known model, of a config.json, or given as numbers.
#pragma once

#include <string>
#include <vector>

#include <sluice/result.h>
#include <sluice/spec/base.h>

namespace sluice::bench {

struct Model {
  std::string name;
  // attention: columns that o reads; inner: columns that down reads, half of gate_up's
  i64 width, qkv, attention, inner;
  /// If not 0, this is no model but four equal products of n x k, for projections only. Each reads k columns.
  /// The previous product wrote the first n of them. `width` holds k.
  i64 n = 0;
};
/// The 70B model has the sizes of one of eight tensor-parallel shards.
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
