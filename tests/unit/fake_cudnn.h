// SPDX-License-Identifier: Apache-2.0
// A fake cuDNN on the host. It stores attributes, proposes the configs that a test lists, and records
// launches. On request it fails the n-th call. Only one can exist at a time.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/contender/cudnn_abi.h"
#include "bench/contender/cudnn_problem.h"

namespace sluice::bench {

struct FakeCudnn {
  using Knobs = std::vector<std::pair<int, i64>>;
  struct Config {
    i64 engine = 0;
    Knobs knobs{};
  };
  struct Node {
    cudnn::Kind kind{};
    bool finished = false;
    std::map<cudnn::Attribute, std::vector<i64>> numbers{};
    std::map<cudnn::Attribute, std::vector<void*>> pointers{};
    Config config{};  // set for configs, for engines and, with one knob, for knob choices
  };
  struct Launch {
    Node plan, pack;
    Stream stream = nullptr;
  };

  FakeCudnn() { current() = this; }
  ~FakeCudnn() { current() = nullptr; }
  static FakeCudnn*& current() {
    static FakeCudnn* fake = nullptr;
    return fake;
  }

  // ---- what it knows, set by tests ----
  std::map<cudnn::HeuristicMode, std::vector<Config>> proposals;
  i64 engines = 0;
  std::set<i64> unfit, broken;   // engines that refuse the graph; engines whose plans cannot be built
  std::map<i64, i64> workspace;  // bytes, by engine
  std::map<i64, std::vector<int>> notes;  // numerical notes, by engine
  int fail_at = -1;                       // index of the call that fails, from 0; -1: none

  // ---- what was seen ----
  int calls = 0, alive = 0, handles = 0;
  std::vector<Node> finished;  // descriptors in the order in which they were finalized
  std::vector<Launch> launches;
  Stream stream = nullptr;

  const Node* last(cudnn::Kind kind) const {
    for (auto node = finished.rbegin(); node != finished.rend(); ++node)
      if (node->kind == kind) return &*node;
    return nullptr;
  }

  static cudnn::Api api() {
    return {.version = [] { return std::size_t{91900}; },
            .error_string = [](cudnn::Status status) { return status == 3000 ? "NOT_SUPPORTED" : "FAILED"; },
            .last_error = [](char* message, std::size_t size) { snprintf(message, size, "as planned"); },
            .create =
                [](cudnn::Handle* handle) {
                  if (current()->fails()) return kFailed;
                  ++current()->handles;
                  *handle = reinterpret_cast<cudnn::Handle>(&current()->handles);
                  return 0;
                },
            .destroy =
                [](cudnn::Handle) {
                  --current()->handles;
                  return 0;
                },
            .set_stream =
                [](cudnn::Handle, Stream stream) {
                  current()->stream = stream;
                  return current()->fails() ? kFailed : 0;
                },
            .create_descriptor =
                [](cudnn::Kind kind, cudnn::Descriptor* made) {
                  if (current()->fails()) return kFailed;
                  *made = new Node{.kind = kind};
                  ++current()->alive;
                  return 0;
                },
            .destroy_descriptor =
                [](cudnn::Descriptor it) {
                  delete static_cast<Node*>(it);
                  --current()->alive;
                  return 0;
                },
            .finalize = [](cudnn::Descriptor it) { return current()->finish(*static_cast<Node*>(it)); },
            .set =
                [](cudnn::Descriptor it, cudnn::Attribute attribute, cudnn::Type type, std::int64_t count,
                   const void* values) {
                  return current()->store(*static_cast<Node*>(it), attribute, type, count, values);
                },
            .get =
                [](cudnn::Descriptor it, cudnn::Attribute attribute, cudnn::Type, std::int64_t room,
                   std::int64_t* count, void* values) {
                  return current()->load(*static_cast<Node*>(it), attribute, room, count, values);
                },
            .execute =
                [](cudnn::Handle, cudnn::Descriptor plan, cudnn::Descriptor pack) {
                  if (current()->fails()) return kFailed;
                  current()->launches.push_back(
                      {*static_cast<Node*>(plan), *static_cast<Node*>(pack), current()->stream});
                  return 0;
                }};
  }

 private:
  static constexpr cudnn::Status kFailed = 5000, kUnfit = 3000;

  bool fails() { return calls++ == fail_at; }

  /// Returns the engine and knobs of a config, whether the caller made it or a heuristic proposed it.
  static Config config_of(const Node& node) {
    const auto engine = node.pointers.find(cudnn::Attribute::config_engine);
    if (engine == node.pointers.end()) return node.config;
    return {static_cast<Node*>(engine->second[0])->numbers.at(cudnn::Attribute::engine_index)[0]};
  }
  static Config config_of_plan(const Node& plan) {
    return config_of(*static_cast<Node*>(plan.pointers.at(cudnn::Attribute::plan_config)[0]));
  }

  cudnn::Status finish(Node& node) {
    if (fails()) return kFailed;
    if (node.kind == cudnn::Kind::engine && unfit.count(node.numbers.at(cudnn::Attribute::engine_index)[0]))
      return kUnfit;
    if (node.kind == cudnn::Kind::plan && broken.count(config_of_plan(node).engine)) return kUnfit;
    node.finished = true;
    finished.push_back(node);
    return 0;
  }

  cudnn::Status store(Node& node, cudnn::Attribute attribute, cudnn::Type type, i64 count,
                      const void* values) {
    if (fails() || node.finished) return kFailed;
    for (i64 i = 0; i < count; ++i) {
      switch (type) {
        case cudnn::Type::int64: node.numbers[attribute].push_back(static_cast<const i64*>(values)[i]); break;
        case cudnn::Type::float32:
          node.numbers[attribute].push_back(static_cast<i64>(static_cast<const float*>(values)[i]));
          break;
        case cudnn::Type::handle:
        case cudnn::Type::pointer:
        case cudnn::Type::descriptor:
          node.pointers[attribute].push_back(static_cast<void* const*>(values)[i]);
          break;
        default: node.numbers[attribute].push_back(static_cast<const int*>(values)[i]);
      }
    }
    return 0;
  }

  /// Fills as many of the caller's descriptors as there is room for. If asked for the number only, returns
  /// one more than there are, as cuDNN may.
  static cudnn::Status give(const std::vector<Config>& list, i64 room, std::int64_t* count, void* values) {
    *count = room == 0 && !list.empty() ? static_cast<i64>(list.size()) + 1
                                        : std::min(room, static_cast<i64>(list.size()));
    for (i64 i = 0; room > 0 && i < *count; ++i)
      static_cast<Node*>(static_cast<void**>(values)[i])->config = list[static_cast<size_t>(i)];
    return 0;
  }

  cudnn::Status load(Node& node, cudnn::Attribute attribute, i64 room, std::int64_t* count, void* values) {
    if (fails()) return kFailed;
    const auto number = [&](i64 value) {
      *count = 1;
      *static_cast<i64*>(values) = value;
      return 0;
    };
    switch (attribute) {
      case cudnn::Attribute::heuristic_results: {
        const auto mode =
            static_cast<cudnn::HeuristicMode>(node.numbers.at(cudnn::Attribute::heuristic_mode)[0]);
        return give(proposals[mode], room, count, values);
      }
      case cudnn::Attribute::config_engine: return give({config_of(node)}, room, count, values);
      case cudnn::Attribute::config_knobs: {
        std::vector<Config> choices;
        for (const auto& knob : config_of(node).knobs) choices.push_back({.knobs = {knob}});
        return give(choices, room, count, values);
      }
      case cudnn::Attribute::knob_type:
        *count = 1;
        *static_cast<int*>(values) = node.config.knobs.at(0).first;
        return 0;
      case cudnn::Attribute::knob_value: return number(node.config.knobs.at(0).second);
      case cudnn::Attribute::engine_index: return number(node.config.engine);
      case cudnn::Attribute::engine_numerical_notes: {
        const std::vector<int>& its = notes[node.config.engine];
        *count = static_cast<i64>(its.size());
        std::copy(its.begin(), its.end(), static_cast<int*>(values));
        return 0;
      }
      case cudnn::Attribute::engine_behavior_notes: *count = 0; return 0;
      case cudnn::Attribute::plan_workspace: return number(workspace[config_of_plan(node).engine]);
      case cudnn::Attribute::graph_engine_count: return number(engines);
      default: return kFailed;
    }
  }
};

}  // namespace sluice::bench
