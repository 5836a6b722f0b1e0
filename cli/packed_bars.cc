// SPDX-License-Identifier: Apache-2.0
// A ratio is the other contender's time divided by ours. Contenders that are wrong or missing have no ratio
// and are left out.
#include "cli/packed_bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include <sluice/quantiles.h>

namespace sluice::cli {
namespace {

using bench::kBestFp8;
using bench::kReadFloor;
using bench::ShapeRecord;

constexpr double kLargeWeights = 64 << 20;  // elements per weight matrix
constexpr double kSmallWeights = 11 << 20;  // elements; (1280, 8192) and (8192, 1024) are below
constexpr i64 kFewTokens = 32;

/// One product: its tokens, its weights (elements), and its speed relative to the best FP8 product.
struct Ratio {
  i64 tokens = 0;
  double weights = 0, fp8 = 0;
};

std::string verdict(bool met, const std::string& text) {
  return fmt::format("  {} {}\n", met ? "met:    " : "NOT met:", text);
}

bool is_first_bar(const Problem& p) {
  return p.m == 16 && p.n == 3584 && p.k == 8192 && p.b.packed.group == 64;
}

std::string first_bar(const ShapeRecord& shape, const char* ours) {
  const auto times = [&](const char* peer) {
    const double ratio = bench::ratio(shape, ours, peer);
    return ratio > 0 ? 1 / ratio : 0.0;
  };
  const double fp8 = times(kBestFp8), floor = times(kReadFloor);
  return verdict(fp8 > 0 && fp8 <= 0.70,
                 fmt::format("1: 16x3584x8192 g64 takes {:.3f} of FP8's time (bar 0.70)", fp8)) +
         verdict(floor > 0 && floor <= 1.20, fmt::format("1: and {:.3f} of a plain read (bar 1.20)", floor));
}

/// Compares measured ratios with their targets ("bars") for one family of products, and formats the result as
/// lines of text.
class Bars {
 public:
  Bars(std::string family, std::vector<Ratio> ratios) : family_(std::move(family)), all_(std::move(ratios)) {}

  template <class Which>
  void mean(double bar, const char* number, const char* what, const Which& which) {
    const std::vector<double> ratios = chosen(which);
    if (ratios.empty()) return;
    const double value = geometric_mean(ratios);
    text_ += verdict(value >= bar,
                     fmt::format("{}: {}{}: geometric mean {:.3f} x FP8's speed over {} shapes, least {:.3f} "
                                 "(bar {:.2f})",
                                 number, family_, what, value, ratios.size(), sluice::least(ratios), bar));
  }
  template <class Which>
  void least(double bar, const char* number, const char* what, const Which& which) {
    const std::vector<double> ratios = chosen(which);
    if (ratios.empty()) return;
    const double value = sluice::least(ratios);
    text_ += verdict(value >= bar,
                     fmt::format("{}: {}{}: least {:.3f} (bar {:.2f})", number, family_, what, value, bar));
  }
  void few_tokens() {
    const auto few = [](const Ratio& r) { return r.tokens <= kFewTokens; };
    mean(1.55, "2", "all", few);
    mean(1.70, "2", "weights of 64 M elements and more",
         [&](const Ratio& r) { return few(r) && r.weights >= kLargeWeights; });
    least(1.20, "2", "all but the two smallest layers",
          [&](const Ratio& r) { return few(r) && r.weights >= kSmallWeights; });
    least(1.00, "2", "the two smallest layers",
          [&](const Ratio& r) { return few(r) && r.weights < kSmallWeights; });
  }
  void many_tokens() {
    mean(1.35, "3", "64 tokens", [](const Ratio& r) { return r.tokens == 64; });
    mean(1.10, "3", "128 tokens", [](const Ratio& r) { return r.tokens == 128; });
  }
  const std::string& text() const { return text_; }

 private:
  template <class Which>
  std::vector<double> chosen(const Which& which) const {
    std::vector<double> ratios;
    for (const Ratio& r : all_)
      if (r.fp8 > 0 && which(r)) ratios.push_back(r.fp8);
    return ratios;
  }

  std::string family_, text_;
  std::vector<Ratio> all_;
};

std::string bars_of(const bench::RunRecord& run, const char* ours) {
  std::string text;
  std::vector<Ratio> half, byte, either;
  // The better ratio of the two token types, by product.
  std::map<std::tuple<i64, i64, i64, int>, Ratio> faster;
  for (const ShapeRecord& shape : run.shapes) {
    const Problem& p = shape.problem;
    if (!is_packed(p)) continue;
    if (is_first_bar(p)) {
      text += first_bar(shape, ours);
      continue;
    }
    const Ratio ratio{.tokens = p.m,
                      .weights = static_cast<double>(p.n) * static_cast<double>(p.k),
                      .fp8 = bench::ratio(shape, ours, kBestFp8)};
    (p.a.type == DType::e4m3 ? byte : half).push_back(ratio);
    Ratio& best = faster.emplace(std::tuple{p.m, p.n, p.k, p.b.packed.group}, ratio).first->second;
    if (ratio.fp8 > best.fp8) best = ratio;
  }
  for (const auto& [product, ratio] : faster) either.push_back(ratio);
  Bars of_half(byte.empty() ? "" : "16-bit tokens, ", half), of_byte("e4m3 tokens, ", byte),
      of_either("the faster of both, ", either);
  of_half.few_tokens();
  of_half.least(1.00, "3", "64 tokens", [](const Ratio& r) { return r.tokens == 64; });
  of_byte.few_tokens();
  of_byte.many_tokens();
  if (!half.empty() && !byte.empty()) of_either.few_tokens();
  text += of_half.text() + of_byte.text() + of_either.text();
  return text.empty() ? "" : fmt::format("bars, {}:\n{}", ours, text);
}

}  // namespace

std::string packed_bars(const bench::RunRecord& run, bool tuned) {
  return bars_of(run, bench::kSluice) + (tuned ? bars_of(run, bench::kSluiceTuned) : "");
}

}  // namespace sluice::cli
