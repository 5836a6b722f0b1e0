// SPDX-License-Identifier: Apache-2.0
#include "cli/chain/flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <sluice/host/text/quoted.h>

#include "cli/bounded.h"
#include "cli/requests.h"

namespace sluice::cli {
namespace {

using bench::ArmSpec;

constexpr i64 kLadderHandOff = 8 << 20;

/// CLI11's own NonNegativeNumber writes its upper limit out, in 309 digits.
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
  } rules[] = {{f.ladder, f.arm_options, "beside --ladder, which has its own arms"},
               {f.ladder, {f.fuse_option, f.tune_option}, "beside --ladder, which has its own arms"},
               {f.window.us <= 0, f.window_options, "without --window"},
               {f.window.us > 0, f.no_window_options, "beside --window, which has its own arms"},
               {packed, f.dense_options, "on packed weights: it is of dense products"},
               {options.overlap == ChainOverlap::off, f.overlapped_options, "with the overlap off"}};
  for (const auto& [idle, flags, where] : rules)
    if (idle)
      if (const Result<void> used = refuse_given(flags, fmt::format("{}: leave it out", where)); !used)
        return used;
  return {};
}

template <class T>
Result<T> parse_name(const char* flag, const std::string& text, std::initializer_list<T> all) {
  std::string names;
  for (const T value : all) {
    if (text == name_of(value)) return value;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(value));
  }
  return Error{ErrorCode::invalid_argument,
               fmt::format("{} {} is not one of: {}", flag, in_quotes(text), names)};
}

Result<ChainOptions> options_of(const ChainFlags& f) {
  const Result<ChainOverlap> overlap = parse_name(
      "--overlap", f.overlap,
      {ChainOverlap::off, ChainOverlap::wait_first, ChainOverlap::weights_first, ChainOverlap::tuned});
  if (!overlap) return overlap.error();
  const Result<Trigger> trigger =
      parse_name("--trigger", f.trigger, {Trigger::never, Trigger::at_start, Trigger::after_loads});
  if (!trigger) return trigger.error();
  const Result<Spacing> spacing =
      parse_name("--spacing", f.spacing, {Spacing::memory, Spacing::registers, Spacing::none});
  if (!spacing) return spacing.error();
  if (f.prefetch > 0 && f.prefetch_ratio > 0)
    return Error{ErrorCode::invalid_argument,
                 "--prefetch-ratio says how many bytes, as --prefetch does: leave one out"};
  ChainOptions options{.overlap = *overlap,
                       .trigger = *trigger,
                       .spacing = *spacing,
                       .hand_off_bytes = f.hand_off,
                       .prefetch_bytes = f.prefetch,
                       .smem_limit = f.half ? kHalfFootprint : 0};
  if (f.overlap_ratio_option != nullptr && f.overlap_ratio_option->count() > 0) {
    if (f.trigger_option->count() > 0)
      return Error{ErrorCode::invalid_argument,
                   "--overlap-ratio says when to trigger, as --trigger does: leave one out"};
    options.trigger = trigger_of_overlap_ratio(f.overlap_ratio);
    // Example 63 launches without the attribute then.
    if (f.overlap_ratio < 0) options.overlap = ChainOverlap::off;
  }
  return options;
}

std::string fused_name(std::string name, bench::Fusion fusion) {
  if (fusion != bench::Fusion::none) name += fmt::format(", fused: {}", name_of(fusion));
  return name;
}

/// One change at a time.
std::vector<ArmSpec> ladder(const bench::LayerSpec& spec) {
  const ChainOptions first{.overlap = ChainOverlap::weights_first};
  ChainOptions half = first, hand_off = first;
  half.smem_limit = kHalfFootprint;
  hand_off.hand_off_bytes = kLadderHandOff;
  std::vector<ArmSpec> arms{{.name = "wait_first", .options = {.overlap = ChainOverlap::wait_first}},
                            {.name = "weights_first", .options = first}};
  if (spec.weights != bench::LayerWeights::int4) arms.push_back({.name = "half footprint", .options = half});
  const bool fuses = spec.parts == bench::LayerParts::all;
  const bench::Fusion fusion = fuses ? bench::Fusion::gated : bench::Fusion::none;
  if (fuses)
    arms.push_back({.name = fused_name("weights_first", fusion), .options = first, .fusion = fusion});
  arms.push_back({.name = fused_name("hand-off 8 MB", fusion), .options = hand_off, .fusion = fusion});
  arms.push_back({.name = fused_name("tuned", fusion), .fusion = fusion});
  return arms;
}

/// An idle window, alone and with what may hide in it: a hand-off by the step before it, or, where it lets
/// the product behind it begin, that one's rings and prefetch.
std::vector<ArmSpec> window_arms(const ChainFlags& f, const ChainOptions& options) {
  std::vector<ArmSpec> arms{{.name = "no window", .options = options}};
  bench::WindowSpec window = f.window;
  arms.push_back({.name = bench::kChainWindow, .options = options, .window = window});
  for (const i64 bytes : f.window_bytes) {
    window.hand_off_bytes = bytes;
    arms.push_back({.name = fmt::format("hand-off {:g} MB", static_cast<double>(bytes) / (1 << 20)),
                    .options = options,
                    .window = window});
  }
  window.hand_off_bytes = 0;
  window.overlapped = true;
  arms.push_back({.name = "overlapped", .options = options, .window = window});
  for (const i64 bytes : f.window_bytes) {
    window.prefetch_bytes = bytes;
    arms.push_back(
        {.name = fmt::format("overlapped, prefetch {:g} MB", static_cast<double>(bytes) / (1 << 20)),
         .options = options,
         .window = window});
  }
  return arms;
}

/// What the flags say; without any, what a caller who says nothing gets, beside what needs no tuning.
std::vector<ArmSpec> overlapping(const ChainFlags& f, const ChainOptions& options) {
  if (first_given(f.arm_options).empty())
    return {{.name = "weights_first", .options = {.overlap = ChainOverlap::weights_first}},
            {.name = "tuned", .options = {}}};
  std::string name = name_of(options.overlap);
  if (options.overlap != ChainOverlap::off) name += fmt::format(", {}", name_of(options.trigger));
  if (options.spacing != Spacing::memory) name += fmt::format(", spaced by {}", name_of(options.spacing));
  if (f.half) name += ", half";
  if (f.prefetch_ratio > 0) name += fmt::format(", prefetch ratio {:g}", f.prefetch_ratio);
  if (f.prefetch > 0) name += fmt::format(", prefetch {} KB", f.prefetch >> 10);
  if (f.hand_off > 0) name += fmt::format(", hand-off {} KB", f.hand_off >> 10);
  std::vector<ArmSpec> arms;
  for (const int stages : f.stages) {
    ChainOptions fewer = options;
    fewer.most_stages = stages;
    arms.push_back({.name = fmt::format("{}, {} stages", name, stages),
                    .options = fewer,
                    .prefetch_ratio = f.prefetch_ratio});
  }
  if (arms.empty()) arms.push_back({.name = name, .options = options, .prefetch_ratio = f.prefetch_ratio});
  return arms;
}

/// All of them for each fusion; one with fused products has its own "off" beside it.
std::vector<ArmSpec> arms_of(const ChainFlags& f, const ChainOptions& options,
                             const std::vector<bench::Fusion>& fusions) {
  std::vector<ArmSpec> arms;
  for (const bench::Fusion fusion : fusions) {
    std::vector<ArmSpec> some = overlapping(f, options);
    if (fusion != bench::Fusion::none)
      some.insert(some.begin(), {.name = bench::kChainOff, .options = {.overlap = ChainOverlap::off}});
    if (f.tune_s > 0) some.push_back({.name = "tuning", .options = {}, .tune_s = f.tune_s});
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
    const Result<bench::Fusion> fusion = bench::parse_fusion(name);
    if (!fusion) return fusion.error();
    if (const char* reason = why_not_fused(spec, *fusion))
      return Error{ErrorCode::invalid_argument, fmt::format("--fuse {} {}", name, reason)};
    fusions.push_back(*fusion);
  }
  return fusions;
}

/// Norms in products take few tokens: where there are more, no arm has them.
Result<std::vector<bench::Fusion>> fusions_for(i64 tokens, std::vector<bench::Fusion> fusions) {
  if (tokens > kNormTokens) std::erase(fusions, bench::Fusion::norm);
  if (fusions.empty())
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--fuse norm is for at most {} tokens, not {}: name another one besides",
                             kNormTokens, tokens)};
  return fusions;
}

}  // namespace

void add_chain_flags(CLI::App& app, ChainFlags& f) {
  app.add_option(
         "--model", f.model,
         "llama3-8b, llama3-70b-tp8 (one of eight shards), qwen3-8b; or 1280x8192, n x k of four equal "
         "products a layer")
      ->capture_default_str();
  app.add_option("--tokens", f.tokens, "Numbers of tokens, 1,4,16,64")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  app.add_option("--weights", f.weights, "e4m3 (tokens too), bf16 (the same), int4 (groups of 128)")
      ->capture_default_str();
  app.add_option("--activations", f.activations,
                 "Tokens of int4 weights: bf16 or, with one given scale, e4m3");
  bounded(app.add_option("--layers", f.layers, "Layers with weights of their own; for --tune at least 4"), 1,
          256);
  bounded(app.add_option("--passes", f.passes, "Times through them in one graph"), 1, 64);
  app.add_flag("--projections", f.projections, "The four products alone, each reading the one before it");
  f.fuse_option =
      app.add_option("--fuse", f.fuse,
                     "What products do in place of companions, arms for each: none; gated "
                     "(SwiGLU and quantising); residual (adding the residual stream, besides); norm (norms "
                     "too: int4 weights, up to 8 bf16 tokens)")
          ->delimiter(',')
          ->capture_default_str();
  const char* group = "Overlap";
  const auto arm = [&](CLI::Option* option) {
    f.arm_options.push_back(option->group(group));
    return option;
  };
  arm(app.add_option("--overlap", f.overlap,
                     "off, wait_first, weights_first, or tuned: as records say, weights_first without")
          ->capture_default_str());
  f.trigger_option =
      arm(app.add_option("--trigger", f.trigger, "never, at_start or after_loads")->capture_default_str());
  arm(app.add_option("--spacing", f.spacing,
                     "What keeps two CTAs of a launch of one wave from one SM: memory, registers or none")
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
  f.no_window_options.push_back(f.arm_options.back());
  f.overlap_ratio_option =
      arm(app.add_option("--overlap-ratio", f.overlap_ratio,
                         "CUTLASS example 63's: below 0 off; below 0.5 at_start; else after_loads"));
  arm(app.add_option("--prefetch-ratio", f.prefetch_ratio,
                     "CUTLASS example 63's: half of this share of a product's weights; below 0 none"));
  f.no_window_options.push_back(f.arm_options.back());
  f.overlapped_options.push_back(f.trigger_option);
  app.add_flag("--ladder", f.ladder,
               "off, wait_first, weights_first, half footprint, fused, fused with hand-off, tuned")
      ->group(group);
  app.add_option("--window", f.window.us, "Microseconds of an idle window; arms with it and without")
      ->group(group)
      ->check(CLI::Range(0.1, 1e4));
  const auto of_window = [&](CLI::Option* option) {
    f.window_options.push_back(option->group(group));
    return option;
  };
  of_window(app.add_option("--window-before", f.window.before,
                           "The product behind it: qkv, o, gate_up, down, or all")
                ->capture_default_str()
                ->check(CLI::IsMember({"qkv", "o", "gate_up", "down", "all"})));
  of_window(bounded(app.add_option("--window-ctas", f.window.ctas, "CTAs that idle in it"), 1, 132));
  of_window(app.add_option("--window-bytes", f.window_bytes,
                           "What is brought into L2 in it; two arms for each number")
                ->delimiter(',')
                ->check(kNotNegative));
  f.tune_option = app.add_option("--tune", f.tune_s, "An arm more: what the tuner finds in so many seconds")
                      ->check(kNotNegative);
  for (const CLI::Option* option : {f.fuse_option, f.tune_option}) f.no_window_options.push_back(option);
  f.measured_options.push_back(app.add_option("--against", f.against, "Time a peer too: cublaslt"));
  f.measured_options.push_back(
      app.add_option("--replays", f.replays,
                     "Replay every arm so often with changing inputs, all compared with off")
          ->capture_default_str()
          ->check(kNotNegative));
}

Result<std::vector<bench::ChainCase>> cases_of(const ChainFlags& f) {
  const Result<bench::Model> model = bench::parse_model(f.model);
  if (!model) return model.error();
  const Result<bench::LayerWeights> weights = bench::parse_layer_weights(f.weights);
  if (!weights) return weights.error();
  const Result<DType> tokens = bench::parse_layer_tokens(f.activations, *weights);
  if (!tokens) return tokens.error();
  if (!f.against.empty() && f.against != "cublaslt")
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--against {} is not one of: cublaslt", in_quotes(f.against))};
  if (f.ladder && f.window.us > 0)
    return Error{ErrorCode::invalid_argument, "--window and --ladder have arms of their own: leave one out"};
  const Result<ChainOptions> options = options_of(f);
  if (!options) return options.error();
  if (const Result<void> used = refuse_idle_flags(f, *options, *weights); !used) return used.error();
  if (f.tune_s > 0 && f.layers < bench::kLeastTunedLayers)
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--tune with --layers {}: the tuner needs at least {} layers, or their weights "
                             "stay in L2",
                             f.layers, bench::kLeastTunedLayers)};
  const bool alone = f.projections || model->n > 0;
  bench::LayerSpec spec{.model = *model,
                        .weights = *weights,
                        .parts = alone ? bench::LayerParts::projections : bench::LayerParts::all,
                        .layers = f.layers,
                        .passes = f.passes,
                        .tokens_of_int4 = *tokens};
  const Result<std::vector<bench::Fusion>> fusions = fusions_of(f, spec);
  if (!fusions) return fusions.error();
  std::vector<bench::ChainCase> cases;
  for (const i64 tokens : f.tokens) {
    spec.tokens = tokens;
    const Result<std::vector<bench::Fusion>> some = fusions_for(tokens, *fusions);
    if (!some) return some.error();
    cases.push_back({.spec = spec,
                     .arms = f.window.us > 0 ? window_arms(f, *options)
                             : f.ladder      ? ladder(spec)
                                             : arms_of(f, *options, *some),
                     .against_peer = !f.against.empty(),
                     .replays = f.replays});
  }
  return cases;
}

}  // namespace sluice::cli
