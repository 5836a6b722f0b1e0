// SPDX-License-Identifier: Apache-2.0
// The texts of mixed products. Units have nothing of a caller in them: enumerators and integers.
#include <sluice/host/mixed_units.h>

#include <cstdio>

#include <sluice/host/jit/source.h>
#include <sluice/host/pack_units.h>

namespace sluice {
namespace {

std::string type_text(DType type) {
  return std::string("sluice::DType::") + name_of(type);
}
std::string number(i64 value) {
  return std::to_string(value);
}
/// What problems and configs say of their epilogue.
std::string epilogue_text(Bias bias, DType bias_type, Activation activation) {
  return std::string(", .bias = sluice::Bias::") + name_of(bias) + ", .bias_type = " + type_text(bias_type) +
         ", .activation = sluice::Activation::" + name_of(activation);
}

}  // namespace

std::string to_string(const NarrowConfig& config) {
  const auto& [weights, x, d, bias, bias_type, activation, token_blocks, row_blocks, warps, stages, parts,
               ctas] = config;  // a field that is added and not printed does not compile
  return "sluice::NarrowConfig{.weights = " + to_string(weights) + ", .x = " + type_text(x) +
         ", .d = " + type_text(d) + epilogue_text(bias, bias_type, activation) +
         ", .token_blocks = " + number(token_blocks) + ", .row_blocks = " + number(row_blocks) +
         ", .warps = " + number(warps) + ", .stages = " + number(stages) + ", .parts = " + number(parts) +
         ", .ctas = " + number(ctas) + "}";
}

std::string to_string(const MixedProblem& problem) {
  const auto& [m, n, k, x, d, weights, bias, bias_type, activation, ld_x, ld_d] = problem;
  return "sluice::MixedProblem{.m = " + number(m) + ", .n = " + number(n) + ", .k = " + number(k) +
         ", .x = " + type_text(x) + ", .d = " + type_text(d) + ", .weights = " + to_string(weights) +
         epilogue_text(bias, bias_type, activation) + ", .ld_x = " + number(ld_x) +
         ", .ld_d = " + number(ld_d) + "}";
}

std::string unit_text(const NarrowConfig& config) {
  return "#include <sluice/kernels/narrow.cuh>\n"
         "inline constexpr sluice::NarrowConfig kConfig = " +
         to_string(config) +
         ";\n"
         "extern \"C\" __global__ void __launch_bounds__(sluice::threads_of(kConfig), kConfig.ctas)\n" +
         kEntryName +
         "(const __grid_constant__ sluice::NarrowParams params) {\n"
         "  sluice::mixed::run_narrow<kConfig>(params);\n}\n";
}

namespace mixed {

std::string short_name(const NarrowConfig& c) {
  const WeightFormat& w = c.weights;
  std::string out = "narrow " + number(tile_tokens(c)) + "x" + number(tile_rows(c)) + " w" + number(c.warps) +
                    " s" + number(c.stages) + " p" + number(c.parts) + " b" + number(c.ctas) + " " +
                    name_of(c.x) + "*" + name_of(w.type) + ">" + name_of(c.d) + " g" +
                    (w.group == 0 ? std::string("k") : number(w.group)) + " " + name_of(w.scale);
  if (w.zero != ScaleZero::none) out += " zeros";
  if (c.bias != Bias::none) out += std::string(" bias:") + name_of(c.bias_type);
  if (c.activation != Activation::none) out += std::string(" ") + name_of(c.activation);
  return out;
}

std::string describe(const Plan& plan) {
  const MixedProblem& p = plan.problem;
  const NarrowConfig& c = plan.config;
  const WeightFormat& w = p.weights;
  char bits[32], us[32];
  std::snprintf(bits, sizeof bits, "%.3f", plan.stored_bits);
  std::snprintf(us, sizeof us, "%.2f", plan.estimate_us);
  const auto line = [](const char* key, const std::string& value) {
    char start[16];
    std::snprintf(start, sizeof start, "%-11s", key);
    return start + value + "\n";
  };
  const i64 row_tiles = ceil_div(p.n, i64{tile_rows(c)}), token_tiles = ceil_div(p.m, i64{tile_tokens(c)});
  return line("problem", "m " + number(p.m) + " n " + number(p.n) + " k " + number(p.k)) +
         line("matrices", std::string("X ") + name_of(p.x) + " ld " + number(p.ld_x) + ", D " + name_of(p.d) +
                              " ld " + number(p.ld_d)) +
         line("weights", std::string(name_of(w.type)) + ", " +
                             (w.group == 0 ? "one scale a row" : "groups of " + number(w.group)) + ", " +
                             name_of(w.scale) + " scales" + (w.zero == ScaleZero::none ? "" : " and zeros") +
                             ": " + number(plan.weight_bytes) + " bytes, " + bits + " bits a weight") +
         line("kernel", short_name(c)) +
         line("work", number(row_tiles) + " x " + number(token_tiles) + " tiles of " + number(tile_rows(c)) +
                          " outputs x " + number(tile_tokens(c)) + " tokens, k in " + number(c.parts) +
                          (c.parts == 1 ? " part, " : " parts, ") + number(c.ctas) +
                          (c.ctas == 1 ? " CTA an SM" : " CTAs an SM")) +
         line("memory", number(plan.smem_bytes) + " bytes of shared memory a CTA, no workspace") +
         line("estimate", std::string(us) + " us");
}

std::vector<std::string> units_of(const Plan& plan) {
  if (plan.problem.m == 0 || plan.problem.n == 0) return {};
  return {unit_text(plan.config)};
}

}  // namespace mixed
}  // namespace sluice
