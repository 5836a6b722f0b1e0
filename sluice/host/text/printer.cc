// SPDX-License-Identifier: Apache-2.0
// The one text form of a value: a C++ designated initialiser with every field and every name qualified, so
// that the log line, the cache key, the JIT source line and the test expectation are the same text.
// Every aggregate is taken apart by a structured binding that names all its fields: a field that is added
// and not printed does not compile.
#include <cstdio>
#include <string>

#include <sluice/host/text/overlap_text.h>
#include <sluice/plan.h>

namespace sluice {
namespace {

template <class Enum>
std::string qualified(const char* type, Enum value) {
  return std::string("sluice::") + type + "::" + name_of(value);
}
std::string text(DType value) {
  return qualified("DType", value);
}
std::string text(Major value) {
  return qualified("Major", value);
}
std::string text(Accumulate value) {
  return qualified("Accumulate", value);
}
std::string text(ScaleMode value) {
  return qualified("ScaleMode", value);
}
std::string text(Bias value) {
  return qualified("Bias", value);
}
std::string text(Activation value) {
  return qualified("Activation", value);
}
std::string text(Update value) {
  return qualified("Update", value);
}
std::string text(Schedule value) {
  return qualified("Schedule", value);
}
std::string text(StorePath value) {
  return qualified("StorePath", value);
}
std::string text(Combine value) {
  return qualified("Combine", value);
}
std::string text(Raster value) {
  return qualified("Raster", value);
}
std::string text(Numbering value) {
  return qualified("Numbering", value);
}
std::string text(bool value) {
  return value ? "true" : "false";
}
std::string text(int value) {
  return std::to_string(value);
}
std::string text(i64 value) {
  return std::to_string(value);
}

/// "{.name = value, ...}", in the order of the fields.
class Initialiser {
 public:
  template <class T>
  Initialiser& field(const char* name, const T& value) {
    body_ += body_.empty() ? "." : ", .";
    body_ += name;
    body_ += " = ";
    body_ += text(value);
    return *this;
  }
  std::string braced() const { return "{" + body_ + "}"; }

 private:
  // Nested aggregates: declared here, so that `field` finds them whatever the order of definition.
  static std::string text(const TileShape& value);
  static std::string text(const ClusterShape& value);
  static std::string text(const Epilogue& value);
  static std::string text(const Overlap& value);
  static std::string text(const Matrix& value);
  template <class Plain>
  static std::string text(const Plain& value) {
    return sluice::text(value);
  }

  std::string body_;
};

std::string Initialiser::text(const TileShape& value) {
  const auto& [m, n, k] = value;
  return Initialiser().field("m", m).field("n", n).field("k", k).braced();
}

std::string Initialiser::text(const ClusterShape& value) {
  const auto& [m, n, k] = value;
  return Initialiser().field("m", m).field("n", n).field("k", k).braced();
}

std::string Initialiser::text(const Overlap& value) {
  return overlap_text(value);
}

std::string Initialiser::text(const Epilogue& value) {
  const auto& [scale_a, scale_b, bias, bias_type, activation, residual, c_type, update, gated, scale_d] =
      value;
  Initialiser text;
  text.field("scale_a", scale_a)
      .field("scale_b", scale_b)
      .field("bias", bias)
      .field("bias_type", bias_type)
      .field("activation", activation)
      .field("residual", residual)
      .field("c_type", c_type)
      .field("update", update);
  if (gated) text.field("gated", gated);  // not printed of others: their units stay the same
  if (scale_d != ScaleMode::none) text.field("scale_d", scale_d);
  return text.braced();
}

std::string Initialiser::text(const Matrix& value) {
  const auto& [type, major, ld, batch_stride] = value;
  return Initialiser()
      .field("type", type)
      .field("major", major)
      .field("ld", ld)
      .field("batch_stride", batch_stride)
      .braced();
}

/// "bf16" if A, B and D agree, else "e4m3>bf16" or "e4m3*e5m2>bf16".
std::string short_types(DType a, DType b, DType d) {
  std::string out = name_of(a);
  if (b != a) out += std::string("*") + name_of(b);
  if (d != a || b != a) out += std::string(">") + name_of(d);
  return out;
}

/// What differs from the plainest epilogue, each with a leading space.
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
  return out;
}

std::string fixed(double value) {
  char digits[64];
  std::snprintf(digits, sizeof digits, "%.2f", value);
  return digits;
}

/// One aligned line of `describe`.
std::string line(const char* name, const std::string& value) {
  constexpr std::size_t kNameColumns = 11;
  std::string out = name;
  out.resize(kNameColumns, ' ');
  return out + value + "\n";
}

std::string describe_source(const Plan& plan) {
  if (plan.source == PlanSource::model) return "the model";
  return "a record, measured " + fixed(plan.measured_us) + " us";
}

/// Said where it is a question: a product added to D.
std::string describe_bits(const Plan& plan) {
  if (!adds(plan.problem.epilogue)) return {};
  return line("bits", plan.config.combine == Combine::add ? "depend on the order of additions"
                                                          : "the same on every run");
}

std::string describe_matrix(const char* name, const Matrix& x, DType type) {
  return std::string(name) + " " + name_of(type) + " " + name_of(x.major) + "-major ld " +
         std::to_string(x.ld);
}

}  // namespace

const char* name_of(PlanSource source) {
  return source == PlanSource::model ? "model" : "record";
}

std::string to_string(const KernelConfig& config) {
  const auto& [schedule, tile, stages, cluster, a, b, d, a_major, b_major, d_major, promotes, store, combine,
               epilogue, warps, overlap] = config;
  Initialiser text;
  text.field("schedule", schedule)
      .field("tile", tile)
      .field("stages", stages)
      .field("cluster", cluster)
      .field("a", a)
      .field("b", b)
      .field("d", d)
      .field("a_major", a_major)
      .field("b_major", b_major);
  if (d_major != Major::k)
    text.field("d_major", d_major);  // not printed of others: their units stay the same
  text.field("promotes", promotes)
      .field("store", store)
      .field("combine", combine)
      .field("epilogue", epilogue);
  if (warps != 0)
    text.field("warps", warps);  // not printed of schedules that have none: their units stay the same
  if (overlap != Overlap{}) text.field("overlap", overlap);
  return "sluice::KernelConfig" + text.braced();
}

std::string to_string(const Problem& problem) {
  const auto& [m, n, k, batch, a, b, c, d, epilogue, accumulate, deterministic] = problem;
  return "sluice::Problem" + Initialiser()
                                 .field("m", m)
                                 .field("n", n)
                                 .field("k", k)
                                 .field("batch", batch)
                                 .field("a", a)
                                 .field("b", b)
                                 .field("c", c)
                                 .field("d", d)
                                 .field("epilogue", epilogue)
                                 .field("accumulate", accumulate)
                                 .field("deterministic", deterministic)
                                 .braced();
}

std::string to_string(const WorkSplit& split) {
  const auto& [clusters, raster, group, streamed, numbering] = split;
  return "sluice::WorkSplit" + Initialiser()
                                   .field("clusters", clusters)
                                   .field("raster", raster)
                                   .field("group", group)
                                   .field("streamed", streamed)
                                   .field("numbering", numbering)
                                   .braced();
}

std::string short_name(const KernelConfig& c) {
  std::string out =
      std::string(name_of(c.schedule)) + " " + std::to_string(c.tile.m) + "x" + std::to_string(c.tile.n) +
      "x" + std::to_string(c.tile.k) + (c.warps != 0 ? " w" + std::to_string(c.warps) : "") + " s" +
      std::to_string(c.stages) + " c" + std::to_string(c.cluster.m) + "x" + std::to_string(c.cluster.n) +
      (c.cluster.k > 1 ? "x" + std::to_string(c.cluster.k) : "") + " " + short_types(c.a, c.b, c.d);
  if (c.a_major != Major::k) out += " a:mn";
  if (c.b_major != Major::k) out += " b:mn";
  if (is_swapped(c)) out += " swapped";  // B by A: tile, cluster and majors are those of that product
  if (c.promotes) out += " promoted";
  if (c.store != StorePath::tma) out += std::string(" ") + name_of(c.store);
  if (c.combine != Combine::none) out += std::string(" ") + name_of(c.combine);
  return out + overlap_words(c.overlap) + short_epilogue(c.epilogue);
}

std::string describe(const Plan& plan) {
  const Problem& p = plan.problem;
  const Estimate& e = plan.estimate;
  std::string size = "m " + std::to_string(p.m) + " n " + std::to_string(p.n) + " k " + std::to_string(p.k);
  if (p.batch != 1) size += " batch " + std::to_string(p.batch);
  std::string matrices = describe_matrix("A", p.a, p.a.type) + ", " + describe_matrix("B", p.b, p.b.type) +
                         ", D " + name_of(p.d.type) + " ld " + std::to_string(p.d.ld);
  if (p.epilogue.residual)
    matrices += std::string(", C ") + name_of(p.epilogue.c_type) + " ld " + std::to_string(p.c.ld);
  const std::string epilogue = short_epilogue(p.epilogue);
  const std::string kernel = short_name(plan.config);
  const std::string work =
      std::to_string(plan.split.clusters) + " clusters of " + std::to_string(cluster_size(plan.config)) +
      (plan.split.numbering == Numbering::gpc ? ", numbered by GPC, " : ", ") + name_of(plan.split.raster) +
      " in bands of " + std::to_string(plan.split.group) + ", " + std::to_string(e.waves) +
      (e.waves == 1 ? " wave" : " waves") +
      (plan.split.streamed == 0
           ? ""
           : ", " + std::to_string(plan.split.streamed) + " cluster tiles dealt out by k-tile") +
      (plan.config.combine == Combine::separate ? "; a second kernel adds up the parts" : "");
  const std::string memory = std::to_string(plan.smem_bytes) + " bytes of shared memory a CTA, " +
                             std::to_string(plan.workspace_bytes) + " bytes of workspace";
  const std::string estimate = fixed(e.total_us) + " us: tensor " + fixed(e.tensor_us) + ", L2 " +
                               fixed(e.l2_us) + ", HBM " + fixed(e.hbm_us) + ", fixed " +
                               fixed(e.overhead_us);
  return line("problem", size + ", accumulate " + name_of(p.accumulate)) + line("matrices", matrices) +
         line("epilogue", epilogue.empty() ? "none" : epilogue.substr(1)) + line("kernel", kernel) +
         line("work", work) + describe_bits(plan) + line("memory", memory) + line("estimate", estimate) +
         line("chosen by", describe_source(plan));
}

}  // namespace sluice
