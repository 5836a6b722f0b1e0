// SPDX-License-Identifier: Apache-2.0
// Implements packed_problem_checks.h. Each check may rely on the checks before it, so that no arithmetic here
// overflows.
#include <sluice/host/planner/packed/packed_problem_checks.h>

#include <type_traits>

#include <sluice/host/limits.h>
#include <sluice/host/planner/dense/problem_checks.h>
#include <sluice/host/planner/field_checks.h>
#include <sluice/host/planner/packed/packed_choices.h>
#include <sluice/host/text/pack_units.h>
#include <sluice/try.h>

namespace sluice::packed {
namespace {

constexpr int kTokenBytes = 16;  // tokens are copied in pieces of this size

Result<void> check_sizes(const PackedProblem& p) {
  const struct {
    const char* name;
    i64 value;
  } sizes[] = {{"m", p.m}, {"n", p.n}, {"k", p.k}};
  for (const auto& [name, value] : sizes) {
    if (value < 0)
      return Error{ErrorCode::invalid_size, std::string(name) + " = " + std::to_string(value) +
                                                " must not be negative: give 0 or more"};
    if (value > kMaxPackedExtent)
      return Error{ErrorCode::invalid_size, std::string(name) + " = " + std::to_string(value) +
                                                " must be at most " + std::to_string(kMaxPackedExtent) +
                                                " (2^31 - 129: rows are 32-bit); split the problem"};
  }
  return {};
}

/// Checks that the weights' fragment order fits the type of the tokens, and that only e4m3 tokens have
/// scales.
Result<void> check_partners(const PackedProblem& p) {
  const std::string x = name_of(p.x), order = name_of(p.weights.order);
  const bool bytes = p.x == DType::e4m3;
  if (bytes && p.weights.type != WeightType::uint4)
    return Error{ErrorCode::invalid_config, std::string("the weights are ") + name_of(p.weights.type) +
                                                " and X is e4m3: its weights must be uint4; quantise them "
                                                "to 4 bits, or give 16-bit tokens"};
  if (p.weights.order != (bytes ? FragmentOrder::byte : FragmentOrder::half))
    return Error{ErrorCode::invalid_config,
                 "the weights are packed in the order " + order + " and X is " + x + ": " +
                     (bytes ? "8-bit tokens need the order byte; pack them again in that order"
                            : "16-bit tokens need the order half; pack them again in that order")};
  if (!bytes && p.scale_x != ScaleMode::none)
    return Error{ErrorCode::invalid_type,
                 std::string("scale_x is ") + name_of(p.scale_x) + " and X is " + x +
                     ": only e4m3 tokens have scales; multiply them into the tokens, "
                     "and say none"};
  if (p.scale_x == ScaleMode::block)
    return Error{ErrorCode::invalid_type,
                 "scale_x is block: it must be none, tensor or vector; quantise tokens by row"};
  return {};
}

Result<void> check_gated(const PackedProblem& p) {
  const char* remedy =
      "leave out gated, and let a Quantizer with Gate::silu (sluice/quantize.h) do it behind the product";
  if (is_16bit(p.x) && p.m > kMaxGatedTokens)
    return Error{ErrorCode::invalid_size, "m = " + std::to_string(p.m) + " must be at most " +
                                              std::to_string(kMaxGatedTokens) +
                                              " if the product is gated and tokens have 16 bits; " + remedy};
  if (const char* rule = validate_gated(p.n))
    return Error{ErrorCode::invalid_size, "n = " + std::to_string(p.n) + rule};
  return {};
}

/// Checks norm_x: one tile must hold all tokens, and also the sums of their squares.
Result<void> check_norm(const PackedProblem& p) {
  const char* remedy = "; leave out norm_x, and let a Norm (sluice/norm.h) do it in front of the product";
  if (p.x != DType::bf16)
    return Error{ErrorCode::invalid_type,
                 std::string("X is ") + name_of(p.x) +
                     " and is to be normed: it must be bf16, which has room for tokens "
                     "times gamma" +
                     remedy};
  if (p.m > kNormTokens)
    return Error{ErrorCode::invalid_size, "m = " + std::to_string(p.m) + " must be at most " +
                                              std::to_string(kNormTokens) + " if tokens are to be normed" +
                                              remedy};
  return {};
}

Result<void> check_residual(const PackedProblem& p) {
  const char* remedy = "; leave out residual, and add C behind the product";
  if (!is_16bit(p.x))
    return Error{ErrorCode::invalid_type, std::string("X is ") + name_of(p.x) +
                                              " and there is a residual: it must be fp16 or bf16" + remedy};
  if (p.gated)
    return Error{ErrorCode::invalid_type, std::string("a gated product adds no residual") + remedy};
  if (p.m > kMaxResidualTokens)
    return Error{ErrorCode::invalid_size, "m = " + std::to_string(p.m) + " must be at most " +
                                              std::to_string(kMaxResidualTokens) + " if there is a residual" +
                                              remedy};
  return {};
}

Result<void> check_types(const PackedProblem& p) {
  const auto refuse = [](const std::string& message) { return Error{ErrorCode::invalid_type, message}; };
  const std::string x = name_of(p.x);
  if (!is_16bit(p.x) && p.x != DType::e4m3)
    return refuse("X is " + x + ": tokens must be fp16, bf16 or e4m3; convert them");
  const bool may_be_e4m3 = p.x == DType::e4m3;
  if (!is_16bit(p.d) && p.d != DType::fp32 && !(may_be_e4m3 && p.d == DType::e4m3))
    return refuse(std::string("D is ") + name_of(p.d) + ": it must be fp16, bf16 or fp32" +
                  (may_be_e4m3          ? ", or e4m3"
                   : p.d == DType::e4m3 ? "; e4m3 takes e4m3 tokens"
                                        : ""));
  if (p.scale_d != ScaleMode::none && p.scale_d != ScaleMode::tensor)
    return refuse(std::string("scale_d is ") + name_of(p.scale_d) +
                  ": it must be none or tensor, one for all of D; quantise by row behind the product");
  if (p.scale_d != ScaleMode::none && p.d != DType::e4m3)
    return refuse(std::string("D is ") + name_of(p.d) +
                  " and there is a scale_d: it must be e4m3; leave out the scale, or store e4m3");
  if (p.bias != Bias::none && !is_16bit(p.bias_type) && p.bias_type != DType::fp32)
    return refuse(std::string("bias is ") + name_of(p.bias_type) + ": it must be bf16, fp16 or fp32");
  if (const char* rule = validate(p.weights))
    return Error{ErrorCode::invalid_config, "weights " + describe(p.weights) + ": " + rule};
  return check_partners(p);
}

struct Pitch {
  const char* matrix;
  const char* field;
  const char* inner_name;
  i64 ld, inner, rows;
  DType type;
};

Result<void> check_pitch(const Pitch& x) {
  if (x.ld < 0)
    return Error{ErrorCode::invalid_stride,
                 std::string(x.field) + " = " + std::to_string(x.ld) + " must not be negative (0 = packed)"};
  if (x.rows > 1 && x.ld < x.inner)
    return Error{ErrorCode::invalid_stride,
                 std::string(x.field) + " = " + std::to_string(x.ld) + " must be at least " + x.inner_name +
                     " = " + std::to_string(x.inner) + ": rows of " + x.matrix + " would overlap"};
  i64 bytes = 0;
  if (__builtin_mul_overflow(x.ld, x.rows, &bytes) || __builtin_add_overflow(bytes, x.inner, &bytes) ||
      __builtin_mul_overflow(bytes, bytes_of(x.type), &bytes))
    return Error{ErrorCode::invalid_size, std::string(x.matrix) + " spans more than 2^63 bytes (" + x.field +
                                              " = " + std::to_string(x.ld) + "): make it smaller"};
  return {};
}

Result<void> check_pitches(const PackedProblem& p) {
  SLUICE_TRY(check_pitch({"D", "ld_d", p.gated ? "n / 2" : "n", p.ld_d, d_columns(p), p.m, p.d}));
  if (p.residual) SLUICE_TRY(check_pitch({"C", "ld_c", "n", p.ld_c, p.n, p.m, p.d}));
  if (p.k == 0) return {};
  SLUICE_TRY(check_pitch({"X", "ld_x", "k", p.ld_x, p.k, p.m, p.x}));
  const i64 unit = kTokenBytes / bytes_of(p.x);
  if (p.m > 1 && p.ld_x % unit != 0)
    return Error{ErrorCode::misaligned, "ld_x = " + std::to_string(p.ld_x) + " must be a multiple of " +
                                            std::to_string(unit) +
                                            ": tokens are copied 16 bytes at a time; pad ld_x to " +
                                            std::to_string(ceil_div(p.ld_x, unit) * unit)};
  if (p.m > 1 && p.ld_x > kMaxPitch)
    return Error{ErrorCode::invalid_stride,
                 "ld_x = " + std::to_string(p.ld_x) + " must be at most " + std::to_string(kMaxPitch) +
                     " (2^26 - 8: tokens of a tile are found by 32-bit offsets); copy X closer together"};
  return {};
}

/// Return a config with the formats and the epilogue that the problem requires; one overload per kernel.
NarrowConfig formats_for(const PackedProblem& problem, const NarrowConfig& chosen) {
  NarrowConfig c = config_for(problem);
  c.held_tokens = held_tokens_for(problem.m, chosen.token_blocks);
  return c;
}
WideConfig formats_for(const PackedProblem& problem, const WideConfig&) {
  return wide_config_for(problem);
}
StripConfig formats_for(const PackedProblem& problem, const StripConfig&) {
  return strip_config_for(problem);
}

template <class Config>
const char* broken_rule(const PackedProblem& problem, const Config& config) {
  if (const char* rule = validate(config)) return rule;
  Config expected = with_choices(formats_for(problem, config), config);
  expected.overlap = config.overlap;  // does not depend on the problem
  if constexpr (std::is_same_v<Config, NarrowConfig>) expected.held_tokens = config.held_tokens;
  if (!(config == expected)) return "formats and epilogue must be those of the problem";
  return why_not(problem, config);
}

}  // namespace

Result<PackedProblem> check_problem(const PackedProblem& problem) {
  SLUICE_TRY(check_enumerators(problem));
  PackedProblem p = problem;
  SLUICE_TRY(check_sizes(p));
  SLUICE_TRY(check_types(p));
  if (p.gated) SLUICE_TRY(check_gated(p));
  if (p.norm_x) SLUICE_TRY(check_norm(p));
  if (p.residual) SLUICE_TRY(check_residual(p));
  if (p.ld_x == 0 || p.k == 0) p.ld_x = p.k;
  if (p.ld_d == 0) p.ld_d = d_columns(p);
  if (!p.residual) p.ld_c = 0;  // C is not read, so equal products must be equal problems
  if (p.residual && p.ld_c == 0) p.ld_c = p.n;
  if (p.k == 0) p.norm_x = false;  // with k = 0 there are no elements to normalise
  SLUICE_TRY(check_pitches(p));
  // No bias is read, so equal products must be equal problems.
  if (p.bias == Bias::none) p.bias_type = PackedProblem{}.bias_type;
  return p;
}

int held_tokens_for(i64 m, int token_blocks) {
  if (token_blocks > 1 || m > 4) return 0;
  return m == 1 ? 1 : 4;
}

NarrowConfig config_for(const PackedProblem& problem) {
  return {.weights = problem.k == 0 ? WeightFormat{} : problem.weights,
          .x = problem.x,
          .d = problem.d,
          .bias = problem.bias,
          .bias_type = problem.bias == Bias::none ? NarrowConfig{}.bias_type : problem.bias_type,
          .activation = problem.activation,
          .gated = problem.gated,
          .norm_x = problem.norm_x,
          .residual = problem.residual};
}

WideConfig wide_config_for(const PackedProblem& problem) {
  const NarrowConfig c = config_for(problem);
  return {.weights = c.weights,
          .x = c.x,
          .d = c.d,
          .bias = c.bias,
          .bias_type = c.bias_type,
          .activation = c.activation};
}

StripConfig strip_config_for(const PackedProblem& problem) {
  const NarrowConfig c = config_for(problem);
  const WeightFormat& any =
      // With k = 0 there are no weights, so any valid format will do.
      is_16bit(c.x) ? c.weights : StripConfig{}.weights;
  return {.weights = problem.k == 0 ? any : problem.weights,
          .x = c.x,
          .d = c.d,
          // With k = 0 nothing is scaled, and the scale's pointer may be null.
          .scale_x = problem.k == 0 ? ScaleMode::none : problem.scale_x,
          .bias = c.bias,
          .bias_type = c.bias_type,
          .activation = c.activation,
          .gated = c.gated,
          .scale_d = problem.scale_d};
}

PackedConfig made_for(const PackedProblem& problem, const PackedConfig& config) {
  return std::visit([&](const auto& c) { return PackedConfig(with_choices(formats_for(problem, c), c)); },
                    config);
}

bool rows_allow_boxes(const PackedProblem& p) {
  if (!is_16bit(p.d) || d_columns(p) * bytes_of(p.d) % kTmaUnit != 0) return false;
  return p.m <= 1 || (p.ld_d < kTmaStrideLimit / bytes_of(p.d) && p.ld_d * bytes_of(p.d) % kTmaUnit == 0);
}

const char* why_not(const PackedProblem& problem, const NarrowConfig& config) {
  const i64 strips = ceil_div(problem.n, i64{tile_rows(config)}) * tile_strips(config);
  if (config.row_blocks > 4 && strips > strip_count(problem))
    return "row_blocks = 8 reads strips in pairs, and n has an odd number of them";
  if (config.held_tokens != 0 && problem.m > config.held_tokens)
    return "held_tokens must be at least m: 1 for one token, 4 for up to four, 0 for more";
  return nullptr;
}

const char* why_not(const PackedProblem& problem, const WideConfig& config) {
  if (problem.gated) return "gated products are the narrow kernel's";
  if (problem.norm_x || problem.residual) return "norms and residuals are the narrow kernel's";
  if (problem.k == 0) return "k must be more than 0 for the wide kernel";
  const i64 tiles = ceil_div(problem.m, i64{config.tokens}) *
                    ceil_div(problem.n, i64{kWideRows * config.cluster_n}) * cluster_size(config);
  if (tiles > kMaxInt) return "the wide kernel counts tiles in an int";
  return nullptr;
}

const char* why_not(const PackedProblem& problem, const StripConfig& config) {
  if (problem.norm_x || problem.residual) return "norms and residuals are the narrow kernel's";
  const i64 ctas =
      ceil_div(problem.m, i64{config.tokens}) * ceil_div(d_columns(problem), i64{tile_columns(config)});
  if (ctas * config.parts > kMaxInt) return "the strip kernel counts CTAs in an int";
  return nullptr;
}

Result<Plan> sealed(const Plan& plan, const DeviceInfo& device) {
  SLUICE_TRY(check_device(device));
  SLUICE_TAKE(const PackedProblem checked, check_problem(plan.problem));
  const char* rule = std::visit([&](const auto& c) { return broken_rule(checked, c); }, plan.config);
  if (rule != nullptr && !is_empty(checked))
    return Error{ErrorCode::invalid_config,
                 std::string(rule) + ", in the plan " + to_string(plan.config) + "; plan again"};
  // An empty product launches nothing, so its config does not matter.
  if (rule != nullptr) return Plan{.problem = checked, .config = plan.config};
  Plan filled = plan_of(checked, plan.config);
  filled.estimate_us = plan.estimate_us;
  filled.source = plan.source;
  filled.measured_us = plan.measured_us;
  filled.product_alone = plan.product_alone;
  return filled;
}

Plan plan_of(const PackedProblem& checked, const PackedConfig& config) {
  return {.problem = checked,
          .config = config,
          .smem_bytes = std::visit([](const auto& c) { return sluice::smem_bytes(c); }, config),
          .weight_bytes = blob_bytes(checked),
          .stored_bits = stored_bits(checked)};
}

}  // namespace sluice::packed
