// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>

#include <sluice/bench/parse.h>
#include <sluice/messages/errors.h>
#include <sluice/spec/packed.h>
#include <sluice/text.h>
#include <sluice/try.h>

#include "cli/bounded.h"
#include "cli/chain/flags.h"
#include "cli/requests.h"

namespace sluice::cli {
namespace {

using bench::ArmSpec;

/// As CLI11's NonNegativeNumber, which prints its upper limit with 309 digits.
const CLI::Validator kNotNegative(
    [](const std::string& text) {
      double value = 0;
      const bool right = CLI::detail::lexical_cast(text, value) && value >= 0;
      return right ? std::string() : fmt::format("{} must be a number that is not negative", text);
    },
    "NOT NEGATIVE");

Result<void> refuse_idle_flags(const ChainFlags& f, const ChainOptions& options,
                               bench::LayerWeights weights) {
  const bool packed = weights == bench::LayerWeights::int4;
  const struct {
    bool idle;
    const std::vector<const CLI::Option*>& flags;
    const char* where;
  } rules[] = {{packed, f.dense_options, "on packed weights: it is of dense products"},
               {options.overlap == ChainOverlap::off, f.overlapped_options, "with the overlap off"}};
  for (const auto& [idle, flags, where] : rules)
    if (idle) SLUICE_TRY(refuse_given(flags, fmt::format("{}: leave it out", where)));
  return {};
}

Result<ChainOptions> options_of(const ChainFlags& f) {
  SLUICE_TAKE(const ChainOverlap overlap,
              bench::parse_name("--overlap", f.overlap,
                                {ChainOverlap::off, ChainOverlap::wait_first, ChainOverlap::weights_first,
                                 ChainOverlap::tuned}));
  SLUICE_TAKE(const Trigger trigger, bench::parse_name<Trigger>("--trigger", f.trigger));
  SLUICE_TAKE(const Spacing spacing, bench::parse_name<Spacing>("--spacing", f.spacing));
  return ChainOptions{.overlap = overlap,
                      .trigger = trigger,
                      .spacing = spacing,
                      .hand_off_bytes = f.hand_off,
                      .prefetch_bytes = f.prefetch,
                      .smem_limit = f.half ? kHalfFootprint : 0};
}

std::string fused_name(std::string name, bench::Fusion fusion) {
  if (fusion != bench::Fusion::none) name += fmt::format(", fused: {}", name_of(fusion));
  return name;
}

/// The variants that the flags describe. By default two: weights_first, which needs no tuning records, and
/// the library's default options.
std::vector<ArmSpec> overlapping(const ChainFlags& f, const ChainOptions& options) {
  if (first_given(f.arm_options).empty())
    return {{.name = "weights_first", .options = {.overlap = ChainOverlap::weights_first}},
            {.name = "tuned", .options = {}}};
  std::string name = name_of(options.overlap);
  if (options.overlap != ChainOverlap::off) name += fmt::format(", {}", name_of(options.trigger));
  if (options.spacing != ChainOptions{}.spacing)
    name += fmt::format(", spaced by {}", name_of(options.spacing));
  if (f.half) name += ", half";
  if (f.prefetch > 0) name += fmt::format(", prefetch {} KB", f.prefetch >> 10);
  if (f.hand_off > 0) name += fmt::format(", hand-off {} KB", f.hand_off >> 10);
  std::vector<ArmSpec> arms;
  for (const int stages : f.stages) {
    ChainOptions fewer = options;
    fewer.most_stages = stages;
    arms.push_back({.name = fmt::format("{}, {} stages", name, stages), .options = fewer});
  }
  if (arms.empty()) arms.push_back({.name = name, .options = options});
  return arms;
}

/// Returns a function that appends a line to the file of --trials; null without the flag. A chain has some
/// hundreds of lines.
std::function<void(const std::string&)> trials_of(const ChainFlags& f) {
  if (f.trials.empty()) return {};
  return [file = f.trials](const std::string& line) { std::ofstream(file, std::ios::app) << line << '\n'; };
}

/// The variants for each fusion. Each fusion other than `none` also gets a variant without overlap.
std::vector<ArmSpec> arms_of(const ChainFlags& f, const ChainOptions& options,
                             const std::vector<bench::Fusion>& fusions) {
  std::vector<ArmSpec> arms;
  for (const bench::Fusion fusion : fusions) {
    std::vector<ArmSpec> some = overlapping(f, options);
    if (fusion != bench::Fusion::none)
      some.insert(some.begin(), {.name = bench::kChainOff, .options = {.overlap = ChainOverlap::off}});
    if (f.guard) some.push_back({.name = "guarded", .options = options, .guard = true});
    if (f.tune_s > 0)
      some.push_back({.name = "tuning", .options = {}, .tune_s = f.tune_s, .trials = trials_of(f)});
    for (ArmSpec& arm : some) {
      arm.fusion = fusion;
      arm.name = fused_name(arm.name, fusion);
      arms.push_back(std::move(arm));
    }
  }
  return arms;
}

Result<std::vector<bench::Fusion>> fusions_of(const ChainFlags& f, const bench::LayerSpec& spec) {
  std::vector<bench::Fusion> fusions;
  for (const std::string& name : f.fuse) {
    SLUICE_TAKE(const bench::Fusion fusion, bench::parse_fusion(name));
    if (const char* reason = why_not_fused(spec, fusion)) return bad_argument("--fuse {} {}", name, reason);
    fusions.push_back(fusion);
  }
  return fusions;
}

/// Removes Fusion::norm if there are more tokens than it supports.
Result<std::vector<bench::Fusion>> fusions_for(i64 tokens, std::vector<bench::Fusion> fusions) {
  if (tokens > kNormTokens) std::erase(fusions, bench::Fusion::norm);
  if (fusions.empty())
    return bad_argument("--fuse norm is for at most {} tokens, not {}: name another one besides", kNormTokens,
                        tokens);
  return fusions;
}

}  // namespace

void add_chain_flags(CLI::App& app, ChainFlags& f) {
  app.add_option(
         "--model", f.model,
         "llama3-8b, llama3-70b-tp8 (one of eight shards), qwen3-8b; a model's config.json, with :8 one of "
         "eight shards; width x qkv x attention x inner; or 1280x8192, n x k of four equal products a layer")
      ->capture_default_str();
  app.add_option("--tokens", f.tokens, "Numbers of tokens, 1,4,16,64")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  app.add_option("--weights", f.weights, "e4m3 (tokens too), bf16 (the same), int4 (groups of 128)")
      ->capture_default_str();
  app.add_option("--activations", f.activations,
                 "Tokens of int4 weights: bf16 or, with one given scale, e4m3");
  app.add_option("--accumulate", f.accumulate, "Sums of e4m3 products: promoted, or fast");
  bounded(app.add_option("--layers", f.layers, "Layers with weights of their own; for --tune at least 4"), 1,
          256);
  bounded(app.add_option("--passes", f.passes, "Times through them in one graph"), 1, 64);
  app.add_flag("--projections", f.projections, "The four products alone, each reading the one before it");
  app.add_option("--fuse", f.fuse,
                 "Work of products in place of companions, arms for each: none; gated "
                 "(SwiGLU and quantising); residual (adding the residual stream, besides); norm (norms "
                 "too: int4 weights, up to 8 bf16 tokens)")
      ->delimiter(',')
      ->capture_default_str();
  const char* group = "Overlap";
  const auto arm = [&](CLI::Option* option) {
    f.arm_options.push_back(option->group(group));
    return option;
  };
  arm(app.add_option(
             "--overlap", f.overlap,
             "off, wait_first, weights_first, or tuned: as records say; without, as weights_first, packed "
             "products with kernels for their neighbours")
          ->capture_default_str());
  arm(app.add_option("--trigger", f.trigger, "never, at_start or after_loads")->capture_default_str());
  f.overlapped_options.push_back(f.arm_options.back());
  arm(app.add_option("--spacing", f.spacing,
                     "Keeps CTAs of a launch off SMs that have their share: memory, registers (launches of "
                     "one wave), even (of several too), none")
          ->capture_default_str());
  f.overlapped_options.push_back(f.arm_options.back());
  arm(app.add_option("--hand-off", f.hand_off, "Bytes of the next step's weights that a step brings into L2")
          ->capture_default_str()
          ->check(kNotNegative));
  f.overlapped_options.push_back(f.arm_options.back());
  arm(app.add_option("--prefetch", f.prefetch, "Bytes of its own weights, before it waits")
          ->capture_default_str()
          ->check(kNotNegative));
  f.overlapped_options.push_back(f.arm_options.back());
  arm(app.add_flag("--half", f.half,
                   "At most 112.9 KB of shared memory a CTA of dense products; SMs are shared with --spacing "
                   "registers or none"));
  f.dense_options.push_back(f.arm_options.back());
  arm(app.add_option("--stages", f.stages, "At most so many stages; an arm for each number")->delimiter(','));
  f.dense_options.push_back(f.arm_options.back());
  f.measured_options.push_back(
      app.add_flag("--guard", f.guard,
                   "An arm more: off or overlapped, whichever is faster in some milliseconds at load"));
  f.tune_option = app.add_option("--tune", f.tune_s, "An arm more: what the tuner finds in so many seconds")
                      ->check(kNotNegative);
  f.measured_options.push_back(app.add_option(
      "--trials", f.trials, "Append every change that --tune times here, a line of JSON each"));
  f.measured_options.push_back(app.add_option("--against", f.against, "Time a peer too: cublaslt"));
  f.measured_options.push_back(
      app.add_option("--replays", f.replays,
                     "Replay every arm so often with changing inputs, all compared with off")
          ->capture_default_str()
          ->check(kNotNegative));
}

Result<std::vector<bench::ChainCase>> cases_of(const ChainFlags& f) {
  SLUICE_TAKE(const bench::Model model, bench::parse_model(f.model));
  SLUICE_TAKE(const bench::LayerWeights weights, bench::parse_layer_weights(f.weights));
  SLUICE_TAKE(const DType type_of_tokens, bench::parse_layer_tokens(f.activations, weights));
  SLUICE_TAKE(const Accumulate accumulate, bench::parse_layer_sums(f.accumulate, weights));
  if (!f.against.empty() && f.against != "cublaslt")
    return bad_argument("--against {} is not one of: cublaslt", in_quotes(f.against));
  SLUICE_TAKE(const ChainOptions options, options_of(f));
  SLUICE_TRY(refuse_idle_flags(f, options, weights));
  if (f.tune_s > 0 && f.layers < bench::kLeastTunedLayers)
    return bad_argument(
        "--tune with --layers {}: the tuner needs at least {} layers, or their weights stay in L2", f.layers,
        bench::kLeastTunedLayers);
  if (!f.trials.empty()) {
    if (f.tune_s <= 0)
      return bad_argument("--trials {} without --tune: nothing is tried", in_quotes(f.trials));
    if (!std::ofstream(f.trials, std::ios::app))
      return bad_argument("--trials {}: the file cannot be written", in_quotes(f.trials));
  }
  const bool alone = f.projections || model.n > 0;
  bench::LayerSpec spec{.model = model,
                        .weights = weights,
                        .parts = alone ? bench::LayerParts::projections : bench::LayerParts::all,
                        .layers = f.layers,
                        .passes = f.passes,
                        .tokens_of_int4 = type_of_tokens,
                        .accumulate = accumulate};
  SLUICE_TAKE(const std::vector<bench::Fusion> fusions, fusions_of(f, spec));
  std::vector<bench::ChainCase> cases;
  for (const i64 tokens : f.tokens) {
    spec.tokens = tokens;
    SLUICE_TAKE(const std::vector<bench::Fusion> some, fusions_for(tokens, fusions));
    cases.push_back({.spec = spec,
                     .arms = arms_of(f, options, some),
                     .against_peer = !f.against.empty(),
                     .replays = f.replays});
  }
  return cases;
}

}  // namespace sluice::cli
