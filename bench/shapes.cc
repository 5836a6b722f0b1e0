// SPDX-License-Identifier: Apache-2.0
// Contents of the sets. `engine`: layers of models of 8 to 70 billion parameters at three prompt lengths, and
// 8192^3. `tokens`, `decode`: the same layers with few and with very few tokens. `promoted`, `block`: their
// fp8 products with this accumulation or these scales. `row`: fp8 with row scales and promoted accumulation,
// for all of these. `long_k`: products that are split along k. `sweep`: one layer with 1 to 128 tokens.
#include "bench/shapes.h"

#include <fmt/format.h>

#include <array>

#include <sluice/conv.h>
#include <sluice/text.h>

#include "bench/conv.h"

namespace sluice::bench {
namespace {

struct Layer {
  i64 n, k;
};
constexpr std::array<Layer, 8> kLayers = {{{4096, 4096},
                                           {8192, 8192},
                                           {1280, 8192},
                                           {8192, 1024},
                                           {7168, 8192},
                                           {8192, 3584},
                                           {28672, 4096},
                                           {4096, 14336}}};
constexpr std::array<i64, 3> kPrompts = {1024, 4096, 8192};

std::vector<Problem> engine_set() {
  std::vector<Problem> problems;
  for (const DType type : {DType::bf16, DType::e4m3})
    for (const i64 m : kPrompts)
      for (const Layer& layer : kLayers) problems.push_back(plain_problem(m, layer.n, layer.k, type));
  return problems;
}

std::vector<Problem> smoke_set() {
  std::vector<Problem> problems;
  for (const DType type : {DType::bf16, DType::e4m3}) {
    problems.push_back(plain_problem(1024, 4096, 4096, type));
    problems.push_back(plain_problem(4096, 8192, 1024, type));
  }
  return problems;
}

std::vector<Problem> types_set() {
  std::vector<Problem> problems;
  for (const DType type : {DType::bf16, DType::fp16, DType::e4m3, DType::e5m2})
    problems.push_back(plain_problem(4096, 4096, 4096, type));
  for (const auto& [a, b] : {std::pair{Major::mn, Major::k}, {Major::k, Major::mn}, {Major::mn, Major::mn}}) {
    problems.push_back(plain_problem(4096, 4096, 4096, DType::bf16));
    problems.back().a.major = a;
    problems.back().b.major = b;
  }
  Problem mixed = plain_problem(4096, 4096, 4096, DType::e5m2);
  mixed.b.type = DType::e4m3;
  problems.push_back(mixed);
  Problem promoted = plain_problem(4096, 4096, 4096, DType::e4m3);
  promoted.accumulate = Accumulate::promoted;
  problems.push_back(promoted);
  return problems;
}

/// The layers of known models while decoding, with few tokens.
std::vector<Problem> decode_set() {
  std::vector<Problem> problems;
  for (const DType type : {DType::bf16, DType::e4m3})
    for (const i64 m : {1, 4, 16, 32, 64})
      for (const Layer& layer : kLayers) problems.push_back(plain_problem(m, layer.n, layer.k, type));
  return problems;
}

/// Products with large k and few tiles: a model's output over its vocabulary, and weight gradients of linear
/// layers. Those have both operands MN-major, as frameworks pass them. Each shape is also in the list with
/// K-major operands.
std::vector<Problem> long_k_set() {
  std::vector<Problem> problems{plain_problem(1024, 2048, 50304, DType::bf16),
                                plain_problem(1024, 2048, 50304, DType::e4m3)};
  constexpr i64 kSizes[][3] = {{256, 256, 131072}, {768, 3072, 65536}, {512, 512, 32768}, {128, 1024, 65536}};
  for (const Major major : {Major::k, Major::mn})
    for (const auto& [m, n, k] : kSizes) {
      problems.push_back(plain_problem(m, n, k, DType::bf16));
      problems.back().a.major = problems.back().b.major = major;
    }
  return problems;
}

/// One square layer at 1 to 128 tokens, the shape of published split-K figures.
std::vector<Problem> sweep_set() {
  std::vector<Problem> problems;
  for (const i64 m : {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128})
    problems.push_back(plain_problem(m, 4096, 4096, DType::e4m3));
  return problems;
}

constexpr std::array<i64, 3> kFewTokens = {128, 256, 512};

std::vector<Problem> tokens_set() {
  std::vector<Problem> problems;
  for (const DType type : {DType::bf16, DType::e4m3})
    for (const i64 m : kFewTokens)
      for (const Layer& layer : kLayers) problems.push_back(plain_problem(m, layer.n, layer.k, type));
  return problems;
}

std::vector<Problem> promoted_set() {
  std::vector<Problem> problems;
  for (const i64 m : kPrompts)
    for (const Layer& layer : kLayers) {
      problems.push_back(plain_problem(m, layer.n, layer.k, DType::e4m3));
      problems.back().accumulate = Accumulate::promoted;
    }
  return problems;
}

/// Layers as sluice.torch runs them with the recipe "row": one scale per row of each operand, promoted
/// accumulation.
std::vector<Problem> row_set() {
  std::vector<Problem> problems;
  for (const i64 m : {1, 2, 4, 8, 16, 32, 48, 64, 256, 1024, 4096})
    for (const Layer& layer : kLayers) {
      problems.push_back(plain_problem(m, layer.n, layer.k, DType::e4m3));
      problems.back().epilogue.scale_a = problems.back().epilogue.scale_b = ScaleMode::vector;
      problems.back().accumulate = Accumulate::promoted;
    }
  return problems;
}

std::vector<Problem> block_set() {
  std::vector<Problem> problems;
  for (const i64 m : {128, 256, 1024, 4096})
    for (const Layer& layer : kLayers) {
      problems.push_back(plain_problem(m, layer.n, layer.k, DType::e4m3));
      problems.back().epilogue.scale_a = problems.back().epilogue.scale_b = ScaleMode::block;
    }
  return problems;
}

/// The packed products that have speed targets. First 16 x 3584 x 8192, the case of CUTLASS issue #1549. Then
/// eight layers with scale groups of 64 and 128, at 1 to 64 fp16 tokens. Then the same at 1 to 128 e4m3
/// tokens with one scale per token.
std::vector<Problem> packed_set() {
  constexpr Layer kPackedLayers[] = {{4096, 4096},  {8192, 8192}, {28672, 4096}, {4096, 14336},
                                     {8192, 28672}, {7168, 8192}, {1280, 8192},  {8192, 1024}};
  constexpr DType half = DType::fp16;
  std::vector<Problem> problems{packed_problem(16, 3584, 8192, half, half, {.group = 64})};
  for (const int group : {64, 128})
    for (const i64 m : {1, 4, 16, 32, 64})
      for (const auto& [n, k] : kPackedLayers)
        problems.push_back(packed_problem(m, n, k, half, half, {.group = group}));
  for (const int group : {64, 128})
    for (const i64 m : {1, 4, 16, 32, 64, 128})
      for (const auto& [n, k] : kPackedLayers) {
        problems.push_back(packed_problem(m, n, k, DType::e4m3, DType::bf16,
                                          {.group = group, .order = FragmentOrder::byte}));
        problems.back().epilogue.scale_a = ScaleMode::vector;
      }
  return problems;
}

struct NamedSet {
  const char* name;
  std::vector<Problem> (*make)();
};
constexpr NamedSet kSets[] = {{"engine", engine_set}, {"smoke", smoke_set},       {"types", types_set},
                              {"tokens", tokens_set}, {"promoted", promoted_set}, {"block", block_set},
                              {"row", row_set},       {"decode", decode_set},     {"long_k", long_k_set},
                              {"sweep", sweep_set},   {"packed", packed_set}};

}  // namespace

Problem plain_problem(i64 m, i64 n, i64 k, DType input) {
  Problem p{.m = m, .n = n, .k = k};
  p.a.type = p.b.type = input;
  p.d.type = is_fp8(input) ? DType::bf16 : input;
  if (is_fp8(input)) p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::tensor;
  p.accumulate = Accumulate::fast;
  return p;
}

std::vector<std::string> set_names() {
  std::vector<std::string> names;
  for (const NamedSet& set : kSets) names.push_back(set.name);
  return names;
}

Result<std::vector<Problem>> problem_set(const std::string& name) {
  for (const NamedSet& set : kSets)
    if (name == set.name) return set.make();
  return Error{ErrorCode::invalid_argument, fmt::format("no problem set {}; there are: {}", in_quotes(name),
                                                        fmt::join(set_names(), ", "))};
}

std::string shape_text(const Problem& p) {
  return fmt::format("{}x{}x{}", p.m, p.n, p.k);
}

std::string problem_text(const Problem& p) {
  const bool conv = is_conv(p.conv);
  std::string text = (conv ? conv_name(p.conv) : shape_text(p)) + " " + name_of(p.a.type);
  if (p.b.type != p.a.type) text += fmt::format("*{}", name_of(p.b.type));
  text += fmt::format(" > {}", name_of(p.d.type));
  if (!conv && (p.a.major == Major::mn || p.b.major == Major::mn))
    text += fmt::format(" {}/{}-major", name_of(p.a.major), name_of(p.b.major));
  if (reads_table(p))
    text += fmt::format(" {} groups by {} pitch {}", p.batch, name_of(p.groups.kind), p.groups.pitch);
  else if (!conv && p.batch != 1)
    text += fmt::format(" batch {}", p.batch);
  if (is_block_scaled(p.epilogue))
    text += scales_each_column(p.epilogue) ? " block-scaled, B by column"
            : scales_by_columns(p)         ? " block-scaled by columns"
                                           : " block-scaled";
  else if (is_promoted(p))
    text += " promoted";
  if (p.epilogue.scale_a == ScaleMode::vector && p.epilogue.scale_b == ScaleMode::vector)
    text += " row-scaled";
  if (p.epilogue.bias != Bias::none) text += " bias";
  if (p.epilogue.activation != Activation::none) text += fmt::format(" {}", name_of(p.epilogue.activation));
  if (p.epilogue.residual) text += " residual";
  if (p.epilogue.gated) text += " gated";
  if (p.epilogue.scale_d != ScaleMode::none)
    text += writes_scales(p.epilogue) ? " scale_d block" : " scale_d";
  if (p.epilogue.row_factors) text += " row_factors";
  if (adds(p.epilogue)) text += p.deterministic ? " added" : " added in any order";
  return text;
}

double dense_traffic(const Problem& p) {
  if (is_conv(p.conv)) {
    const ConvElements e = conv_elements(p.conv);
    const int d_bytes = bytes_of(p.d.type) * (adds(p.epilogue) ? 2 : 1);
    return 1.0 * e.a * bytes_of(p.a.type) + 1.0 * e.b * bytes_of(p.b.type) + 1.0 * e.d * d_bytes +
           (p.epilogue.residual ? 1.0 * e.d * bytes_of(p.epilogue.c_type) : 0);
  }
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const double c_bytes = p.epilogue.residual ? m * n * bytes_of(p.epilogue.c_type) : 0;
  const double d_bytes =
      // With Update::add, D is read too.
      m * static_cast<double>(d_columns(p)) * bytes_of(p.d.type) * (adds(p.epilogue) ? 2 : 1);
  // A balanced table gives rows to as many groups as there are pitches of rows, or slots.
  const i64 pitches = by_slots(p) ? p.m : ceil_div(p.m, i64{p.groups.pitch});
  const i64 weights = has_groups(p) ? std::min(p.batch, pitches) : b_matrices(p);
  return static_cast<double>(a_rows(p)) * k * bytes_of(p.a.type) * static_cast<double>(a_matrices(p)) +
         n * k * bytes_of(p.b.type) * static_cast<double>(weights) +
         (d_bytes + c_bytes) * static_cast<double>(d_matrices(p));
}

}  // namespace sluice::bench
