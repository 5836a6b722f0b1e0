// SPDX-License-Identifier: Apache-2.0
// Text of packed products. Units contain only enumerators and integers, so no string of a caller becomes
// code.
#include <sluice/plan/text/packed_units.h>

#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/plan/text/field_text.h>
#include <sluice/plan/text/lines.h>
#include <sluice/plan/text/overlap_text.h>
#include <sluice/plan/text/pack_units.h>
#include <sluice/plan/text/units.h>
#include <sluice/spec/packed_config.h>

namespace sluice::packed {
namespace {

std::string to_string(const NarrowConfig& config) {
  return "sluice::NarrowConfig" + text_of(config);
}
std::string to_string(const WideConfig& config) {
  return "sluice::WideConfig" + text_of(config);
}
std::string to_string(const StripConfig& config) {
  return "sluice::StripConfig" + text_of(config);
}

std::string unit_text(const NarrowConfig& config) {
  return "#include <sluice/kernels/narrow.cuh>\n"
         "inline constexpr sluice::NarrowConfig kConfig = " +
         to_string(config) + ";\n" +
         entry_text({.params = "sluice::NarrowParams",
                     .threads = "sluice::threads_of(kConfig)",
                     .ctas = "kConfig.ctas",
                     .call = "sluice::packed::run_narrow<kConfig>(params)"},
                    config.overlap.spacing);
}

std::string unit_text(const WideConfig& config) {
  return "#include <sluice/kernels/wide.cuh>\n"
         "#include <sluice/device/ptx/generated/wgmma_rs_n" +
         std::to_string(config.tokens) +
         ".cuh>\n"
         "inline constexpr sluice::WideConfig kConfig = " +
         to_string(config) + ";\n" +
         entry_text({.params = "sluice::WideParams",
                     .threads = "sluice::kWideThreads",
                     .ctas = "1",
                     .call = "sluice::packed::run_wide<kConfig>(params)"});
}

std::string unit_text(const StripConfig& config) {
  return "#include <sluice/kernels/strip.cuh>\n"
         "#include <sluice/device/ptx/generated/wgmma_rs_n" +
         std::to_string(config.tokens) +
         ".cuh>\n"
         "inline constexpr sluice::StripConfig kConfig = " +
         to_string(config) + ";\n" +
         entry_text({.params = "sluice::StripParams",
                     .threads = "sluice::threads_of(kConfig)",
                     .ctas = "1",
                     .call = "sluice::packed::run_strip<kConfig>(params)"},
                    config.overlap.spacing);
}

/// Returns formats and epilogue: the end of the short name of every packed kernel.
template <class Config>
std::string formats_text(const Config& c) {
  const WeightFormat& w = c.weights;
  std::string out = std::string(" ") + name_of(c.x) + "*" + name_of(w.type) + ">" + name_of(c.d) + " g" +
                    (w.group == 0 ? std::string("k") : std::to_string(w.group)) + " " + name_of(w.scale);
  if (w.zero != ScaleZero::none) out += " zeros";
  if (c.bias != Bias::none) out += std::string(" bias:") + name_of(c.bias_type);
  if (c.activation != Activation::none) out += std::string(" ") + name_of(c.activation);
  if constexpr (requires { c.gated; })
    if (c.gated) out += " gated";
  if constexpr (requires { c.norm_a; }) {
    if (c.norm_a) out += " norm_a";
    if (c.residual) out += " residual";
  }
  if constexpr (requires { c.scale_x; })
    if (c.scale_x != ScaleMode::none) out += std::string(" scale_a:") + name_of(c.scale_x);
  if constexpr (requires { c.scale_d; })
    if (c.scale_d != ScaleMode::none) out += std::string(" scale_d:") + name_of(c.scale_d);
  return out + overlap_words(c.overlap);
}

std::string tiles_text(const Problem& p, int rows, int tokens) {
  const std::string of_tokens = has_groups(p) ? "up to " + std::to_string(most_group_tiles(p, tokens))
                                              : std::to_string(ceil_div(p.m, i64{tokens}));
  return std::to_string(ceil_div(p.n, i64{rows})) + " x " + of_tokens + " tiles of " + std::to_string(rows) +
         " outputs x " + std::to_string(tokens) + " tokens, ";
}
/// uint4 codes without zeros are signed: 8 stands for 0.
std::string type_text(const WeightFormat& w) {
  const bool is_signed = w.type == WeightType::uint4 && w.zero == ScaleZero::none;
  return is_signed ? "int4 (uint4, zero 8)" : name_of(w.type);
}

std::string microseconds(double value) {
  return formatted("%.2f us", value);
}
std::string source_text(const Plan& plan) {
  if (plan.source == PlanSource::model) return "the cost model";
  return (plan.product_alone ? "a record of the product alone, " : "a record, measured ") +
         microseconds(plan.measured_us);
}
const char* scales_text(ScaleMode scale_x) {
  switch (scale_x) {
    case ScaleMode::tensor: return " with a scale";
    case ScaleMode::vector: return " with a scale per token";
    default: return "";
  }
}
std::string work_text(const Problem& p, const NarrowConfig& c) {
  return tiles_text(p, tile_rows(c), tile_tokens(c)) + "k in " + std::to_string(c.parts) +
         (c.parts == 1 ? " part, " : " parts, ") + std::to_string(c.ctas) +
         (c.ctas == 1 ? " CTA per SM" : " CTAs per SM");
}
std::string work_text(const Problem& p, const WideConfig& c) {
  return tiles_text(p, kWideRows, c.tokens) + (c.cluster_n > 1 ? "two CTAs share tokens" : "no clusters");
}
std::string work_text(const Problem& p, const StripConfig& c) {
  return tiles_text(p, tile_rows(c), c.tokens) + "k in " + std::to_string(c.parts) +
         (c.parts == 1 ? " part, " : " parts, ") + std::to_string(c.k_groups) +
         (c.k_groups == 1 ? " warpgroup per strip" : " warpgroups per strip");
}

std::string short_name(const NarrowConfig& c) {
  return "narrow " + std::to_string(tile_tokens(c)) + "x" + std::to_string(tile_rows(c)) +
         (c.held_tokens == 0 ? "" : " h" + std::to_string(c.held_tokens)) + " w" + std::to_string(c.warps) +
         " s" + std::to_string(c.stages) + " p" + std::to_string(c.parts) + " b" + std::to_string(c.ctas) +
         formats_text(c);
}

std::string short_name(const WideConfig& c) {
  return "wide " + std::to_string(c.tokens) + "x" + std::to_string(kWideRows) + " x" +
         std::to_string(c.x_stages) + " w" + std::to_string(c.w_stages) + " cn" +
         std::to_string(c.cluster_n) + formats_text(c);
}

std::string short_name(const StripConfig& c) {
  return "strip " + std::to_string(c.tokens) + "x" + std::to_string(tile_rows(c)) + " g" +
         std::to_string(c.k_groups) + " s" + std::to_string(c.stages) + " p" + std::to_string(c.parts) +
         formats_text(c);
}

}  // namespace

std::string unit_text(const KernelConfig& config) {
  return visit_decoder(config, [](const auto& c) { return unit_text(c); });
}
std::string short_name(const KernelConfig& config) {
  return visit_decoder(config, [](const auto& c) { return short_name(c); });
}

std::string describe(const Plan& plan) {
  const Problem& p = plan.problem;
  const WeightFormat& w = p.b.packed;
  const std::string bits = formatted("%.3f", stored_bits(p));
  const std::string problem =
      line("problem", size_text(p)) +
      line("matrices", std::string("A ") + name_of(p.a.type) + " ld " + std::to_string(p.a.ld) +
                           scales_text(p.epilogue.scale_a) + ", D " + name_of(p.d.type) + " ld " +
                           std::to_string(p.d.ld)) +
      line("weights", type_text(w) + ", " +
                          (w.group == 0 ? "one scale per row" : "groups of " + std::to_string(w.group)) +
                          ", " + name_of(w.scale) + " scales" +
                          (w.zero == ScaleZero::none ? "" : " and zeros") + ": " +
                          std::to_string(blob_bytes(p)) + " bytes, " + bits + " bits per weight");
  if (is_empty(p)) return problem + nothing_line();
  return problem + line("kernel", packed::short_name(plan.config)) +
         line("work", visit_decoder(plan.config, [&](const auto& c) { return work_text(p, c); })) +
         line("memory", std::to_string(plan.smem_bytes) + " bytes of shared memory per CTA, no workspace") +
         line("estimate", microseconds(plan.estimate.total_us)) + line("chosen by", source_text(plan));
}

}  // namespace sluice::packed
