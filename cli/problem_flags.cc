// SPDX-License-Identifier: Apache-2.0
// Defaults: D follows the inputs (bf16 for fp8; fp32 if the product is added), bias and C follow D.
#include "cli/problem_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include <sluice/try.h>

#include "cli/parse.h"
#include "cli/value_checks.h"

namespace sluice::cli {
namespace {

/// Writes the parsed value, or keeps the first error.
template <class T, class U>
void take(Result<T> parsed, U& target, std::optional<Error>& error) {
  if (parsed)
    target = *parsed;
  else if (!error)
    error = parsed.error();
}

/// "raster_group": "--raster-group".
std::string flag_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

DType default_output(DType input) {
  return is_fp8(input) ? DType::bf16 : input;
}
DType default_vector_type(DType output) {
  return is_fp8(output) ? DType::bf16 : output;
}

}  // namespace

void add_problem_flags(CLI::App& app, ProblemFlags& f) {
  const char* sizes = "Problem";
  app.add_option("--shape", f.shape, "MxNxK, short for --m --n --k")->group(sizes);
  app.add_option("--m,-m", f.m, "Rows of A and D")->group(sizes);
  app.add_option("--n,-n", f.n, "Columns of the product: rows of B")->group(sizes);
  app.add_option("--k,-k", f.k, "Length of the sums")->group(sizes);
  app.add_option("--batch", f.batch, "Number of products")->group(sizes)->capture_default_str();
  app.add_option("--dtype", f.dtype, "Type of A and B: bf16, fp16, e4m3, e5m2")->group(sizes);
  app.add_option("--a", f.a, "Type of A, if it differs")->group(sizes);
  app.add_option("--b", f.b, "Type of B, if it differs")->group(sizes);
  app.add_option("--d", f.d, "Type of D: bf16, fp16, fp32, e4m3")->group(sizes);
  app.add_option("--a-layout", f.a_layout, "k: A is m x k; mn: stored k x m")->group(sizes);
  app.add_option("--b-layout", f.b_layout, "k: B is stored n x k; mn: k x n")->group(sizes);
  app.add_option("--ld-a", f.ld_a, "Elements from row to row of A")->group(sizes);
  app.add_option("--ld-b", f.ld_b, "Elements from row to row of B")->group(sizes);
  app.add_option("--ld-c", f.ld_c, "Elements from row to row of C")->group(sizes);
  app.add_option("--ld-d", f.ld_d, "Elements from row to row of D")->group(sizes);
  app.add_option("--accumulate", f.accumulate, "fast or promoted (fp8 only)")->group(sizes);

  const char* epilogue = "Epilogue";
  app.add_option("--scale-a", f.scale_a, "none, tensor, vector (one a row), block (one for 1 x 128)")
      ->group(epilogue);
  app.add_option("--scale-b", f.scale_b, "none, tensor, vector (one a column), block (one for 128 x 128)")
      ->group(epilogue);
  app.add_flag("--bias", f.bias, "Add one value a column")->group(epilogue);
  app.add_option("--bias-type", f.bias_type, "bf16, fp16, fp32")->group(epilogue);
  app.add_option("--activation", f.activation, "none, relu, gelu, silu")->group(epilogue);
  app.add_flag("--residual", f.residual, "Add beta * C")->group(epilogue);
  app.add_flag("--gated", f.gated, "D (m x n / 2) = activation(first half of the columns) * second half")
      ->group(epilogue);
  app.add_option("--scale-d", f.scale_d, "none, tensor: an e4m3 D is divided by one given scale")
      ->group(epilogue);
  app.add_option("--update", f.update, "set: D = the result; add: D += it (fp32 D), to accumulate gradients")
      ->group(epilogue);
  app.add_flag(
         "--any-order", f.any_order,
         "With --update add: parts of a split product may be added in any order, so that bits may differ")
      ->group(epilogue);
  app.add_option("--c-type", f.c_type, "Type of C: bf16, fp16, fp32")->group(epilogue);
  app.add_option("--alpha", f.alpha, "Factor of the product")->group(epilogue)->capture_default_str();
  app.add_option("--beta", f.beta, "Factor of C; 1 unless told")->group(epilogue);
}

void add_override_flags(CLI::App& app, ProblemFlags& f) {
  const char* group = "Overrule the planner";
  app.add_option("--schedule", f.schedule, "ping_pong, cooperative; plain or plain_wgmma (few rows of A)")
      ->group(group);
  app.add_option("--tile", f.tile, "Rows x columns of a CTA's tile, like 128x256")->group(group);
  app.add_option("--stages", f.stages, "Slots of the shared-memory ring")->group(group);
  app.add_option("--cluster", f.cluster, "CTAs of a cluster along m x along n (x along k), like 2x1")
      ->group(group);
  app.add_option("--store", f.store, "tma or direct")->group(group);
  app.add_option("--swapped", f.swapped,
                 "true: multiply B by A; tile, cluster and raster are meant for that product. false: never")
      ->group(group);
  app.add_option("--raster", f.raster, "along_m or along_n")->group(group);
  app.add_option("--numbering", f.numbering,
                 "Of clusters: launch (as the grid counts), or gpc (neighbours share a GPC)")
      ->group(group);
  app.add_option("--raster-group", f.raster_group, "Cluster tiles in a band")->group(group);
  app.add_option("--clusters", f.clusters, "Clusters to launch")->group(group);
  app.add_option("--splits", f.splits, "Parts of each tile along k; 1: none")->group(group);
  app.add_option("--streamed", f.streamed, "Cluster tiles whose k-tiles are dealt out evenly; 0: none")
      ->group(group);
  app.add_option(
         "--combine", f.combine,
         "Who adds up the parts of a tile: last_arriver, separate (a kernel of its own), or add (into D)")
      ->group(group);
  app.add_option("--workspace-limit", f.workspace_limit, "Bytes of workspace that a plan may need")
      ->group(group)
      ->check(CLI::Range(i64{0}, std::numeric_limits<i64>::max(), "BYTES"));
  app.add_flag("--no-records", f.no_records, "Plan as if the problem had never been tuned")->group(group);
  // --stages belongs to both kinds of product; their planners check its range.
  for (const char* name : {"raster_group", "clusters", "splits", "streamed"})
    check_range(app.get_option(flag_of(name)), *range_of_override(name));
}

bool has_shape(const ProblemFlags& f) {
  return !f.shape.empty() || f.m || f.n || f.k;
}

/// Whether an 8-bit input type is given. Unknown names are left for parse_dtype to refuse.
bool has_fp8(const ProblemFlags& f) {
  const std::string input = !f.a.empty() ? f.a : f.dtype.empty() ? "bf16" : f.dtype;
  return input != name_of(DType::bf16) && input != name_of(DType::fp16);
}

/// A flag without effect unless another one is given.
struct IdleFlag {
  bool given;
  const char* name;
  bool used;
  const char* by;
};

Result<void> check_none_idle(const ProblemFlags& f) {
  const bool adds_any = f.update == name_of(Update::add);
  const IdleFlag flags[] = {{f.m.has_value(), "--m", f.shape.empty(), "with --shape"},
                            {f.n.has_value(), "--n", f.shape.empty(), "with --shape"},
                            {f.k.has_value(), "--k", f.shape.empty(), "with --shape"},
                            {f.ld_c.has_value(), "--ld-c", f.residual, "without --residual"},
                            {!f.c_type.empty(), "--c-type", f.residual, "without --residual"},
                            {f.beta.has_value(), "--beta", f.residual, "without --residual"},
                            {!f.bias_type.empty(), "--bias-type", f.bias, "without --bias"},
                            {f.any_order, "--any-order", adds_any, "without --update add"},
                            {f.accumulate == name_of(Accumulate::promoted), "--accumulate promoted",
                             has_fp8(f), "on 16-bit inputs, whose sums are fp32"}};
  for (const IdleFlag& flag : flags)
    if (flag.given && !flag.used)
      return Error{ErrorCode::invalid_argument,
                   std::string(flag.name) + " has no effect " + flag.by + ": leave it out"};
  return {};
}

Result<Problem> problem_of(const ProblemFlags& f) {
  SLUICE_TRY(check_none_idle(f));
  Problem p;
  std::optional<Error> error;
  std::vector<i64> sizes{f.m.value_or(-1), f.n.value_or(-1), f.k.value_or(-1)};
  if (!f.shape.empty()) take(parse_sizes(f.shape, 3, "shape", "4096x4096x4096"), sizes, error);
  p.m = sizes[0];
  p.n = sizes[1];
  p.k = sizes[2];
  p.batch = f.batch;
  if (!error && (f.shape.empty() && !(f.m && f.n && f.k)))
    return Error{ErrorCode::invalid_argument,
                 "a problem needs m, n and k: give --m, --n and --k, or --shape MxNxK"};

  const std::string inputs = f.dtype.empty() ? "bf16" : f.dtype;
  take(parse_dtype(f.a.empty() ? inputs : f.a), p.a.type, error);
  take(parse_dtype(f.b.empty() ? inputs : f.b), p.b.type, error);
  take(parse_update(f.update), p.epilogue.update, error);
  p.deterministic = !f.any_order;
  p.d.type = adds(p.epilogue) ? DType::fp32 : default_output(p.a.type);
  if (!f.d.empty()) take(parse_dtype(f.d), p.d.type, error);
  take(parse_major(f.a_layout), p.a.major, error);
  take(parse_major(f.b_layout), p.b.major, error);
  p.a.ld = f.ld_a.value_or(0);
  p.b.ld = f.ld_b.value_or(0);
  p.c.ld = f.ld_c.value_or(0);
  p.d.ld = f.ld_d.value_or(0);
  if (!f.accumulate.empty()) take(parse_accumulate(f.accumulate), p.accumulate, error);

  take(parse_scale_mode(f.scale_a), p.epilogue.scale_a, error);
  take(parse_scale_mode(f.scale_b), p.epilogue.scale_b, error);
  p.epilogue.bias = f.bias ? Bias::column : Bias::none;
  p.epilogue.bias_type = default_vector_type(p.d.type);
  if (!f.bias_type.empty()) take(parse_dtype(f.bias_type), p.epilogue.bias_type, error);
  take(parse_activation(f.activation), p.epilogue.activation, error);
  p.epilogue.residual = f.residual;
  p.epilogue.gated = f.gated;
  take(parse_scale_mode(f.scale_d), p.epilogue.scale_d, error);
  p.epilogue.c_type = default_vector_type(p.d.type);
  if (!f.c_type.empty()) take(parse_dtype(f.c_type), p.epilogue.c_type, error);
  p.c.type = p.epilogue.c_type;
  if (error) return *error;
  return p;
}

Result<PlanOverrides> overrides_of(const ProblemFlags& f) {
  if (!f.combine.empty() && f.combine != name_of(Combine::none) && !f.splits && !f.streamed)
    return Error{
        ErrorCode::invalid_argument,
        "--combine has no effect without --splits or --streamed, which split tiles: give one of them too"};
  PlanOverrides o;
  std::optional<Error> error;
  std::vector<int> sizes;
  if (!f.schedule.empty()) take(parse_schedule(f.schedule), o.schedule, error);
  if (!f.store.empty()) take(parse_store_path(f.store), o.store, error);
  if (!f.raster.empty()) take(parse_raster(f.raster), o.raster, error);
  if (!f.numbering.empty()) take(parse_numbering(f.numbering), o.numbering, error);
  if (!f.combine.empty()) take(parse_combine(f.combine), o.combine, error);
  if (!f.tile.empty()) take(parse_int_sizes(f.tile, 2, "tile", "128x256"), sizes, error);
  if (!f.tile.empty() && !error) {
    o.tile_m = sizes[0];
    o.tile_n = sizes[1];
  }
  const int cluster_sizes = std::count(f.cluster.begin(), f.cluster.end(), 'x') == 2 ? 3 : 2;
  if (!f.cluster.empty())
    take(parse_int_sizes(f.cluster, cluster_sizes, "cluster", "2x1 or 1x1x4"), sizes, error);
  if (!f.cluster.empty() && !error)
    o.cluster = ClusterShape{.m = sizes[0], .n = sizes[1], .k = cluster_sizes == 3 ? sizes[2] : 1};
  o.swapped = f.swapped;
  o.stages = f.stages;
  o.raster_group = f.raster_group;
  o.clusters = f.clusters;
  o.streamed = f.streamed;
  o.splits = f.splits;
  o.workspace_limit = f.workspace_limit;
  o.ignore_records = f.no_records;
  if (error) return *error;
  return o;
}

float beta_of(const ProblemFlags& f) {
  return f.beta.value_or(f.residual ? 1.0f : 0.0f);
}

Result<bench::DenseRequest> dense_request_of(const ProblemFlags& f) {
  SLUICE_TAKE(const Problem problem, problem_of(f));
  SLUICE_TAKE(const PlanOverrides overrides, overrides_of(f));
  return bench::DenseRequest{
      .problem = problem, .overrides = overrides, .alpha = f.alpha, .beta = beta_of(f)};
}

}  // namespace sluice::cli
