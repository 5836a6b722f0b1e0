// SPDX-License-Identifier: Apache-2.0
// Implements packed_problem_checks.h. Each check may rely on the checks before it, so that no arithmetic here
// overflows.
#include <sluice/plan/packed/packed_problem_checks.h>

#include <sluice/kernels/registry.h>
#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/plan/dense/problem_checks.h>
#include <sluice/plan/field_checks.h>
#include <sluice/plan/limits.h>
#include <sluice/plan/text/pack_units.h>
#include <sluice/try.h>

namespace sluice::packed {
namespace {

constexpr int kTokenBytes = 16;  // tokens are copied in pieces of this size

Result<void> check_sizes(const Problem& p) {
  const struct {
    const char* name;
    i64 value;
  } sizes[] = {{"m", p.m}, {"n", p.n}, {"k", p.k}, {"batch", p.batch}};
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
Result<void> check_partners(const Problem& p) {
  const std::string x = name_of(p.a.type), order = name_of(p.b.packed.order);
  const bool bytes = p.a.type == DType::e4m3;
  if (bytes && p.b.packed.type != WeightType::uint4)
    return Error{ErrorCode::invalid_config, std::string("the weights are ") + name_of(p.b.packed.type) +
                                                " and A is e4m3: its weights must be uint4; quantise them "
                                                "to 4 bits, or give 16-bit tokens"};
  if (p.b.packed.order != (bytes ? FragmentOrder::byte : FragmentOrder::half))
    return Error{ErrorCode::invalid_config,
                 "the weights are packed in the order " + order + " and A is " + x + ": " +
                     (bytes ? "8-bit tokens need the order byte; pack them again in that order"
                            : "16-bit tokens need the order half; pack them again in that order")};
  if (!bytes && p.epilogue.scale_a != ScaleMode::none)
    return Error{ErrorCode::invalid_type,
                 std::string("scale_a is ") + name_of(p.epilogue.scale_a) + " and A is " + x +
                     ": only e4m3 tokens have scales; multiply them into the tokens, "
                     "and say none"};
  if (scales_128_of_k(p.epilogue.scale_a))
    return Error{ErrorCode::invalid_type, std::string("scale_a is ") + name_of(p.epilogue.scale_a) +
                                              ": it must be none, tensor or vector; quantise tokens by row"};
  return {};
}

Result<void> check_gated(const Problem& p) {
  const char* remedy =
      "leave out gated, and let a Quantizer with Gate::silu (sluice/quantize.h) do it behind the product";
  if (is_16bit(p.a.type) && p.m > kMaxGatedTokens && !has_groups(p))
    return Error{ErrorCode::invalid_size, "m = " + std::to_string(p.m) + " must be at most " +
                                              std::to_string(kMaxGatedTokens) +
                                              " if the product is gated and tokens have 16 bits; " + remedy};
  if (const char* rule = validate_gated(p.n))
    return Error{ErrorCode::invalid_size, "n = " + std::to_string(p.n) + rule};
  return {};
}

/// Checks norm_a: one tile must hold all tokens, and also the sums of their squares.
Result<void> check_norm(const Problem& p) {
  const char* remedy = "; leave out norm_a, and let a Norm (sluice/norm.h) do it in front of the product";
  if (p.a.type != DType::bf16)
    return Error{ErrorCode::invalid_type,
                 std::string("A is ") + name_of(p.a.type) +
                     " and is to be normed: it must be bf16, which has room for tokens "
                     "times gamma" +
                     remedy};
  if (p.m > kNormTokens)
    return Error{ErrorCode::invalid_size, "m = " + std::to_string(p.m) + " must be at most " +
                                              std::to_string(kNormTokens) + " if tokens are to be normed" +
                                              remedy};
  return {};
}

Result<void> check_residual(const Problem& p) {
  const char* remedy = "; leave out residual, and add C behind the product";
  if (!is_16bit(p.a.type))
    return Error{ErrorCode::invalid_type, std::string("A is ") + name_of(p.a.type) +
                                              " and there is a residual: it must be fp16 or bf16" + remedy};
  if (p.epilogue.gated)
    return Error{ErrorCode::invalid_type, std::string("a gated product adds no residual") + remedy};
  if (!p.epilogue.residual_last && p.epilogue.activation != Activation::none)
    return Error{ErrorCode::invalid_type,
                 "there is a residual before the activation: with packed weights it is added behind it; set "
                 "epilogue.residual_last, or leave out the activation"};
  if (p.epilogue.c_type != p.d.type)
    return Error{ErrorCode::invalid_type, std::string("C is ") + name_of(p.epilogue.c_type) + " and D is " +
                                              name_of(p.d.type) +
                                              ": with packed weights both must have one type; set "
                                              "epilogue.c_type, or convert C"};
  if (p.m > kMaxResidualTokens)
    return Error{ErrorCode::invalid_size, "m = " + std::to_string(p.m) + " must be at most " +
                                              std::to_string(kMaxResidualTokens) + " if there is a residual" +
                                              remedy};
  return {};
}

Result<void> check_types(const Problem& p) {
  const auto refuse = [](const std::string& message) { return Error{ErrorCode::invalid_type, message}; };
  const std::string x = name_of(p.a.type);
  if (!is_16bit(p.a.type) && p.a.type != DType::e4m3)
    return refuse("A is " + x + ": tokens must be fp16, bf16 or e4m3; convert them");
  const bool may_be_e4m3 = p.a.type == DType::e4m3;
  if (!is_16bit(p.d.type) && p.d.type != DType::fp32 && !(may_be_e4m3 && p.d.type == DType::e4m3))
    return refuse(std::string("D is ") + name_of(p.d.type) + ": it must be fp16, bf16 or fp32" +
                  (may_be_e4m3               ? ", or e4m3"
                   : p.d.type == DType::e4m3 ? "; e4m3 takes e4m3 tokens"
                                             : ""));
  if (p.epilogue.scale_d != ScaleMode::none && p.epilogue.scale_d != ScaleMode::tensor)
    return refuse(std::string("scale_d is ") + name_of(p.epilogue.scale_d) +
                  ": it must be none or tensor, one for all of D; quantise by row behind the product");
  if (p.epilogue.row_factors)
    return refuse("row_factors with packed weights: leave them out, and multiply the rows of D by them");
  if (clamps(p.epilogue.activation))
    return refuse(
        "activation is clamped_swiglu: with packed weights it must be none, relu, gelu or silu; unpack the "
        "weights, or apply it behind a product without a gate");
  if (p.epilogue.scale_d != ScaleMode::none && p.d.type != DType::e4m3)
    return refuse(std::string("D is ") + name_of(p.d.type) +
                  " and there is a scale_d: it must be e4m3; leave out the scale, or store e4m3");
  if (p.epilogue.bias != Bias::none && !is_addend(p.epilogue.bias_type))
    return refuse(std::string("bias is ") + name_of(p.epilogue.bias_type) +
                  ": it must be bf16, fp16 or fp32");
  if (const char* rule = validate(p.b.packed))
    return Error{ErrorCode::invalid_config, "weights " + describe(p.b.packed) + ": " + rule};
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

Result<void> check_pitches(const Problem& p) {
  SLUICE_TRY(
      check_pitch({"D", "d.ld", p.epilogue.gated ? "n / 2" : "n", p.d.ld, d_columns(p), p.m, p.d.type}));
  if (p.epilogue.residual) SLUICE_TRY(check_pitch({"C", "c.ld", "n", p.c.ld, p.n, p.m, p.d.type}));
  if (p.k == 0) return {};
  SLUICE_TRY(check_pitch({"A", "a.ld", "k", p.a.ld, p.k, a_rows(p), p.a.type}));
  const i64 unit = kTokenBytes / bytes_of(p.a.type);
  if (a_rows(p) > 1 && p.a.ld % unit != 0)
    return Error{ErrorCode::misaligned, "a.ld = " + std::to_string(p.a.ld) + " must be a multiple of " +
                                            std::to_string(unit) +
                                            ": tokens are copied 16 bytes at a time; pad a.ld to " +
                                            std::to_string(ceil_div(p.a.ld, unit) * unit)};
  if (a_rows(p) > 1 && p.a.ld > kMaxPitch)
    return Error{ErrorCode::invalid_stride,
                 "a.ld = " + std::to_string(p.a.ld) + " must be at most " + std::to_string(kMaxPitch) +
                     " (2^26 - 8: tokens of a tile are found by 32-bit offsets); copy A closer together"};
  return {};
}

const char* broken_rule(const Problem& problem, const KernelConfig& config) {
  if (!decodes(config.schedule)) return "schedule must be narrow, wide or strip: the weights are packed";
  if (const char* rule = validate_decoder(config)) return rule;
  KernelConfig expected = made_for(problem, config);
  expected.overlap = config.overlap;  // does not depend on the problem
  expected.held_rows = config.held_rows;
  if (!(config == expected)) return "formats and epilogue must be those of the problem";
  return visit_decoder(config, [&](const auto& c) { return why_not(problem, c); });
}

/// Checks groups: 16-bit tokens, which the narrow kernel multiplies.
Result<void> check_packed_groups(const Problem& p) {
  const auto refuse = [](const std::string& message) { return Error{ErrorCode::invalid_type, message}; };
  SLUICE_TRY(check_group_numbers(p));
  if (!reads_table(p)) return {};
  const std::string kind = std::string("groups.kind = ") + name_of(p.groups.kind);
  if (sums_groups(p))
    return refuse(kind + ": packed weights take ends, counts or slots, which are groups of rows");
  if (!is_16bit(p.a.type))
    return refuse(std::string("A is ") + name_of(p.a.type) + " and " + kind +
                  ": packed weights of groups take fp16 or bf16 tokens; convert them");
  if (p.norm_a || p.epilogue.residual)
    return refuse(kind + " and a norm or residual: leave them out, and compute them in kernels of their own");
  return {};
}

/// Checks the fields that packed products have no use for: a caller who sets one expects what it does
/// elsewhere.
Result<void> check_unused(const Problem& p) {
  const auto refuse = [](const std::string& message) { return Error{ErrorCode::invalid_type, message}; };
  if (p.batch != 1 && !reads_table(p))
    return Error{ErrorCode::invalid_size, "batch = " + std::to_string(p.batch) +
                                              " must be 1: the weights are packed; launch one product each"};
  if (is_conv(p.conv)) return refuse("a convolution's filters cannot be packed: leave out b.packed");
  if (scales_by_columns(p))
    return refuse("scale_a_ld = " + std::to_string(p.scale_a_ld) +
                  ": with packed weights there are no block scales; leave it out");
  if (p.a.major != Major::k || p.b.major != Major::k || p.c.major != Major::k || p.d.major != Major::k)
    return refuse("a matrix is mn-major: with packed weights all must be k-major; store rows of k");
  if (p.b.ld != 0)
    return Error{ErrorCode::invalid_stride,
                 "b.ld = " + std::to_string(p.b.ld) + " must be 0: packed weights have no rows in memory"};
  if (adds(p.epilogue)) return refuse("update is add: with packed weights it must be set; use a residual C");
  if (p.epilogue.scale_b != ScaleMode::none)
    return refuse(std::string("scale_b is ") + name_of(p.epilogue.scale_b) +
                  ": it must be none, because packed weights contain their scales");
  if (p.epilogue.bias == Bias::row)
    return refuse("bias is row: it must be none or column, one value per output");
  for (const Matrix* x : {&p.a, &p.c, &p.d})
    if (x->packed.type != WeightType::none) return refuse("A, C or D is packed: only B can be");
  for (const Matrix* x : {&p.a, &p.b, &p.c, &p.d})
    if (x->unaligned)
      return Error{ErrorCode::misaligned,
                   "unaligned is true: with packed weights all matrices must be aligned; leave it false"};
  return {};
}

}  // namespace

Result<Problem> check_packed(const Problem& problem) {
  SLUICE_TRY(check_enumerators(problem));
  Problem p = problem;
  if (!p.epilogue.residual) p.c = {};
  SLUICE_TRY(check_sizes(p));
  SLUICE_TRY(check_unused(p));
  SLUICE_TRY(check_types(p));
  SLUICE_TRY(check_packed_groups(p));
  if (p.epilogue.gated) SLUICE_TRY(check_gated(p));
  if (p.norm_a) SLUICE_TRY(check_norm(p));
  if (p.epilogue.residual) SLUICE_TRY(check_residual(p));
  if (p.a.ld == 0 || p.k == 0) p.a.ld = p.k;
  if (p.d.ld == 0) p.d.ld = d_columns(p);
  if (p.epilogue.residual && p.c.ld == 0) p.c.ld = p.n;
  SLUICE_TRY(check_pitches(p));
  return one_spelling(p);
}

Problem one_spelling(Problem p) {
  Epilogue& e = p.epilogue;
  if (!e.residual) p.c = {}, e.c_type = Epilogue{}.c_type, e.residual_last = false;
  if (p.k == 0) p.a.ld = 0, p.norm_a = false;
  p.b.type = p.a.type, p.c.type = Matrix{}.type;
  for (Matrix* x : {&p.a, &p.b, &p.c, &p.d}) x->batch_stride = 0;
  if (e.bias == Bias::none) e.bias_type = Epilogue{}.bias_type;
  if (e.residual && e.activation == Activation::none) e.residual_last = true;
  p.accumulate = Accumulate::fast;
  p.deterministic = true;
  return with_strides(p);
}

int held_tokens_for(const Problem& problem, int token_blocks) {
  if (token_blocks > 1 || problem.m > 4 || has_groups(problem)) return 0;
  return problem.m == 1 ? 1 : 4;
}

NarrowConfig config_for(const Problem& problem) {
  return {.weights = problem.k == 0 ? WeightFormat{} : problem.b.packed,
          .x = problem.a.type,
          .d = problem.d.type,
          .bias = problem.epilogue.bias,
          .bias_type =
              problem.epilogue.bias == Bias::none ? NarrowConfig{}.bias_type : problem.epilogue.bias_type,
          .activation = problem.epilogue.activation,
          .gated = problem.epilogue.gated,
          .norm_a = problem.norm_a,
          .residual = problem.epilogue.residual,
          .groups = group_config(problem)};
}

WideConfig wide_config_for(const Problem& problem) {
  const NarrowConfig c = config_for(problem);
  return {.weights = c.weights,
          .x = c.x,
          .d = c.d,
          .bias = c.bias,
          .bias_type = c.bias_type,
          .activation = c.activation};
}

StripConfig strip_config_for(const Problem& problem) {
  const NarrowConfig c = config_for(problem);
  const WeightFormat& any =
      // With k = 0 there are no weights, so any valid format will do.
      is_16bit(c.x) ? c.weights : StripConfig{}.weights;
  return {.weights = problem.k == 0 ? any : problem.b.packed,
          .x = c.x,
          .d = c.d,
          // With k = 0 nothing is scaled, and the scale's pointer may be null.
          .scale_x = problem.k == 0 ? ScaleMode::none : problem.epilogue.scale_a,
          .bias = c.bias,
          .bias_type = c.bias_type,
          .activation = c.activation,
          .gated = c.gated,
          .scale_d = problem.epilogue.scale_d};
}

KernelConfig made_for(const Problem& problem, const KernelConfig& config) {
  KernelConfig made = visit_decoder(config, [](const auto& c) { return config_of(c); });
  const bool narrow = config.schedule == Schedule::narrow;
  const KernelConfig wanted = narrow                              ? config_of(config_for(problem))
                              : config.schedule == Schedule::wide ? config_of(wide_config_for(problem))
                                                                  : config_of(strip_config_for(problem));
  made.a = made.b = wanted.a;
  made.d = wanted.d;
  made.packed = wanted.packed;
  made.epilogue = wanted.epilogue;
  made.norm_a = wanted.norm_a;
  made.overlap = {};
  if (narrow) {
    made.groups = wanted.groups;
    made.held_rows = held_tokens_for(problem, config.tile.m / kTokenBlock);
  }
  return made;
}

bool rows_allow_boxes(const Problem& p) {
  if (!is_16bit(p.d.type) || d_columns(p) * bytes_of(p.d.type) % kTmaUnit != 0) return false;
  return p.m <= 1 ||
         (p.d.ld < kTmaStrideLimit / bytes_of(p.d.type) && p.d.ld * bytes_of(p.d.type) % kTmaUnit == 0);
}

const char* why_not(const Problem& problem, const NarrowConfig& config) {
  const i64 strips = ceil_div(problem.n, i64{tile_rows(config)}) * tile_strips(config);
  if (config.row_blocks > 4 && strips > strip_count(problem))
    return "tile_n = 128 reads strips in pairs, and n has an odd number of them";
  if (config.held_tokens != 0 && problem.m > config.held_tokens)
    return "held_rows must be at least m: 1 for one row, 4 for up to four, 0 for more";
  if (has_groups(problem) && most_group_tiles(problem, tile_tokens(config)) > kMaxGridY)
    return "groups of packed weights have at most 65,535 tiles of rows: a larger tile_m, or fewer rows";
  return nullptr;
}

const char* why_not(const Problem& problem, const WideConfig& config) {
  if (problem.epilogue.gated) return "gated products are the narrow kernel's";
  if (has_groups(problem)) return "groups are the narrow kernel's";
  if (problem.norm_a || problem.epilogue.residual) return "norms and residuals are the narrow kernel's";
  if (problem.k == 0) return "k must be more than 0 for the wide kernel";
  const i64 tiles = ceil_div(problem.m, i64{config.tokens}) *
                    ceil_div(problem.n, i64{kWideRows * config.cluster_n}) * cluster_size(config);
  if (tiles > kMaxInt) return "the wide kernel counts tiles in an int";
  return nullptr;
}

const char* why_not(const Problem& problem, const StripConfig& config) {
  if (has_groups(problem)) return "groups are the narrow kernel's";
  if (problem.norm_a || problem.epilogue.residual) return "norms and residuals are the narrow kernel's";
  const i64 ctas =
      ceil_div(problem.m, i64{config.tokens}) * ceil_div(d_columns(problem), i64{tile_columns(config)});
  if (ctas * config.parts > kMaxInt) return "the strip kernel counts CTAs in an int";
  return nullptr;
}

Result<Plan> sealed(const Plan& plan, const DeviceInfo& device) {
  SLUICE_TRY(check_device(device));
  SLUICE_TAKE(const Problem checked, check_packed(plan.problem));
  Plan sealed = plan;
  sealed.problem = checked;
  sealed.split = WorkSplit{};
  sealed.workspace_bytes = 0;
  // An empty product launches nothing, so its config does not matter.
  if (is_empty(checked)) return sealed;
  if (const char* rule = broken_rule(checked, plan.config))
    return Error{ErrorCode::invalid_config,
                 std::string(rule) + ", in the plan " + to_string(plan.config) + "; plan again"};
  sealed.smem_bytes = plan_for(checked, plan.config).smem_bytes;
  return sealed;
}

Plan plan_for(const Problem& checked, const KernelConfig& config) {
  return {.problem = checked, .config = config, .smem_bytes = visit_decoder(config, [](const auto& c) {
                                                  return smem_bytes(c);
                                                })};
}

}  // namespace sluice::packed
