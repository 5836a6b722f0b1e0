// SPDX-License-Identifier: Apache-2.0
// Plans as text: as C++ initialisers (field_text.h), and as readable lines.
#include <string>

#include <sluice/plan.h>
#include <sluice/plan/text/conv_text.h>
#include <sluice/plan/text/field_text.h>
#include <sluice/plan/text/lines.h>
#include <sluice/plan/text/overlap_text.h>
#include <sluice/plan/text/packed_units.h>

namespace sluice {
namespace {

/// Returns "bf16" if A, B and D have one type, else for example "e4m3>bf16" or "e4m3*e5m2>bf16".
std::string short_types(DType a, DType b, DType d) {
  std::string out = name_of(a);
  if (b != a) out += std::string("*") + name_of(b);
  if (d != a || b != a) out += std::string(">") + name_of(d);
  return out;
}

/// Returns what differs from the default epilogue, each item after a space.
std::string short_epilogue(const Epilogue& e) {
  std::string out;
  if (e.scale_a != ScaleMode::none) out += std::string(" scale_a:") + name_of(e.scale_a);
  if (e.scale_b != ScaleMode::none) out += std::string(" scale_b:") + name_of(e.scale_b);
  if (e.bias != Bias::none) out += std::string(" bias:") + name_of(e.bias_type);
  if (e.residual) out += std::string(" residual:") + name_of(e.c_type);
  if (e.activation != Activation::none) out += std::string(" ") + name_of(e.activation);
  if (adds(e)) out += " update:add";
  if (e.gated) out += " gated";
  if (e.scale_d != ScaleMode::none) out += std::string(" scale_d:") + name_of(e.scale_d);
  if (e.row_factors) out += " row_factors";
  return out;
}

std::string fixed(double value) {
  return formatted("%.2f", value);
}

std::string describe_source(const Plan& plan) {
  if (plan.source == PlanSource::model) return "the cost model";
  return (plan.product_alone ? "a record of the product alone, " : "a record, measured ") +
         fixed(plan.measured_us) + " us";
}

/// Returns text that says whether results are bit-identical from run to run, for a product that is added to
/// D; empty for others.
std::string describe_bits(const Plan& plan) {
  if (!adds(plan.problem.epilogue)) return {};
  return line("bits", plan.config.combine == Combine::add ? "depend on the order of additions"
                                                          : "the same on every run");
}

std::string describe_matrix(const char* name, const Matrix& x, DType type) {
  return std::string(name) + " " + name_of(type) + " " + name_of(x.major) + "-major ld " +
         std::to_string(x.ld) + (x.unaligned ? " unaligned" : "");
}

std::string describe_problem(const Problem& p) {
  const std::string size = size_text(p);
  std::string matrices = describe_matrix("A", p.a, p.a.type) + ", " + describe_matrix("B", p.b, p.b.type) +
                         ", D " + name_of(p.d.type) + " ld " + std::to_string(p.d.ld) +
                         (p.d.unaligned ? " unaligned" : "");
  if (p.epilogue.residual)
    matrices += std::string(", C ") + name_of(p.epilogue.c_type) + " ld " + std::to_string(p.c.ld);
  if (scales_by_columns(p)) matrices += ", scales of A by columns ld " + std::to_string(p.scale_a_ld);
  const std::string epilogue = short_epilogue(p.epilogue);
  const std::string sums =
      is_fp8(p.a.type) ? std::string(", accumulate ") + name_of(p.accumulate) : std::string();
  return (is_conv(p.conv) ? conv_line(p.conv) : "") + line("problem", size + sums) +
         line("matrices", matrices) + line("epilogue", epilogue.empty() ? "none" : epilogue.substr(1));
}

}  // namespace

const char* name_of(PlanSource source) {
  return source == PlanSource::model ? "model" : "record";
}

std::string to_string(const KernelConfig& config) {
  return "sluice::KernelConfig" + text_of(config);
}
std::string to_string(const Problem& problem) {
  return "sluice::Problem" + text_of(problem);
}
std::string to_string(const WorkSplit& split) {
  return "sluice::WorkSplit" + text_of(split);
}

std::string short_name(const KernelConfig& c) {
  if (decodes(c.schedule)) return packed::short_name(c);
  std::string out =
      std::string(name_of(c.schedule)) + " " + std::to_string(c.tile.m) + "x" + std::to_string(c.tile.n) +
      "x" + std::to_string(c.tile.k) + (c.warps != 0 ? " w" + std::to_string(c.warps) : "") + " s" +
      std::to_string(c.stages) + " c" + std::to_string(c.cluster.m) + "x" + std::to_string(c.cluster.n) +
      (c.cluster.k > 1 ? "x" + std::to_string(c.cluster.k) : "") + " " + short_types(c.a, c.b, c.d);
  if (c.a_major != Major::k) out += " a:mn";
  if (c.b_major != Major::k) out += " b:mn";
  if (c.load_a == Load::strided) out += " a:strided";
  if (c.load_b == Load::strided) out += " b:strided";
  // Tile, cluster and majors are those of the swapped product, B times A.
  if (is_swapped(c)) out += " swapped";
  if (c.promotes) out += " promoted";
  if (c.scale_a_columns) out += " scale_a:columns";
  if (c.store != StorePath::tma) out += std::string(" ") + name_of(c.store);
  if (c.combine != Combine::none) out += std::string(" ") + name_of(c.combine);
  return out + overlap_words(c.overlap) + short_epilogue(c.epilogue);
}

std::string describe(const Plan& plan) {
  if (decodes(plan.config.schedule)) return packed::describe(plan);
  const Problem& p = plan.problem;
  const Estimate& e = plan.estimate;
  if (p.m == 0 || p.n == 0 || p.batch == 0) return describe_problem(p) + nothing_line();
  const std::string kernel = short_name(plan.config);
  const std::string work =
      std::to_string(plan.split.clusters) + " clusters of " + std::to_string(cluster_size(plan.config)) +
      (plan.split.numbering == Numbering::gpc ? ", numbered by GPC, " : ", ") + name_of(plan.split.raster) +
      " in bands of " + std::to_string(plan.split.group) + ", " + std::to_string(e.waves) +
      (e.waves == 1 ? " wave" : " waves") +
      (plan.split.slices == 1 ? "" : ", " + std::to_string(plan.split.slices) + " slices along k") +
      (plan.config.combine == Combine::separate ? "; a second kernel adds up the parts" : "");
  const std::string memory = std::to_string(plan.smem_bytes) + " bytes of shared memory per CTA, " +
                             std::to_string(plan.workspace_bytes) + " bytes of workspace";
  const std::string estimate = fixed(e.total_us) + " us: tensor " + fixed(e.tensor_us) + ", L2 " +
                               fixed(e.l2_us) + ", HBM " + fixed(e.hbm_us) + ", fixed " +
                               fixed(e.overhead_us);
  return describe_problem(p) + line("kernel", kernel) + line("work", work) + describe_bits(plan) +
         line("memory", memory) + line("estimate", estimate) + line("chosen by", describe_source(plan));
}

}  // namespace sluice
