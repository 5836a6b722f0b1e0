// SPDX-License-Identifier: Apache-2.0
// Defaults of types: D has the inputs' type, but bf16 for fp8, and fp32 if the product is added to D. Bias
// and C have D's type.
#include "cli/problem_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include <sluice/try.h>

#include "bench/names.h"
#include "bench/parse.h"
#include "cli/value_checks.h"

namespace sluice::cli {
namespace {

template <class T>
struct Unwrapped {
  using Type = T;
};
template <class T>
struct Unwrapped<std::optional<T>> {
  using Type = T;
};

template <class T, class U>
void take(Result<T> parsed, U& target, std::optional<Error>& error) {
  if (parsed)
    target = *parsed;
  else if (!error)
    error = parsed.error();
}
/// Stores the enumerator called `text` in a field; does nothing if `text` is empty. Keeps the first error.
template <class T>
void take(const char* what, const std::string& text, T& target, std::optional<Error>& error) {
  if (!text.empty()) take(bench::parse_name<typename Unwrapped<T>::Type>(what, text), target, error);
}

DType default_output(DType input) {
  return is_fp8(input) ? DType::bf16 : input;
}
DType default_vector_type(DType output) {
  return is_fp8(output) ? DType::bf16 : output;
}

}  // namespace

std::string flag_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

void add_problem_flags(CLI::App& app, ProblemFlags& f) {
  std::string group = "Problem";
  const auto add = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->group(group);
  };
  const auto add_flag = [&](const char* name, bool& value, const char* help) {
    app.add_flag(name, value, help)->group(group);
  };
  add("--shape", f.shape, "MxNxK, short for --m --n --k");
  add("--m,-m", f.m, "Rows of A and D");
  add("--n,-n", f.n, "Columns of the product: rows of B");
  add("--k,-k", f.k, "Length of the sums");
  add("--batch", f.batch, "Number of products")->capture_default_str();
  add("--dtype", f.dtype, "Type of A and B: bf16, fp16, e4m3, e5m2; torch's names too");
  add("--a", f.a, "Type of A, if it differs");
  add("--b", f.b, "Type of B, if it differs");
  add("--d", f.d, "Type of D: bf16, fp16, fp32, e4m3");
  add("--a-layout", f.a_layout, "k: A is m x k; mn: stored k x m");
  add("--b-layout", f.b_layout, "k: B is stored n x k; mn: k x n");
  add("--ld-a", f.ld_a, "Elements from row to row of A");
  add("--ld-b", f.ld_b, "Elements from row to row of B");
  add("--ld-c", f.ld_c, "Elements from row to row of C");
  add("--ld-d", f.ld_d, "Elements from row to row of D");
  add("--batch-stride-a", f.batch_stride_a, "Elements from matrix to matrix of A");
  add("--batch-stride-b", f.batch_stride_b, "Elements from matrix to matrix of B");
  add("--batch-stride-c", f.batch_stride_c, "Elements from matrix to matrix of C");
  add("--batch-stride-d", f.batch_stride_d, "Elements from matrix to matrix of D");
  add("--unaligned", f.unaligned, "Of a, b and d: those at any address, no multiple of 16 bytes");
  add("--accumulate", f.accumulate, "Sums of fp8 products: promoted, or fast");

  group = "Epilogue";
  add("--scale-a", f.scale_a, "none, tensor, vector (one a row), block (one for 1 x 128)");
  add("--scale-b", f.scale_b, "none, tensor, vector (one a column), block (one for 128 x 128)");
  add_flag("--bias", f.bias, "Add one value a column");
  add("--bias-type", f.bias_type, "bf16, fp16, fp32");
  add("--activation", f.activation, "none, relu, gelu, silu");
  add_flag("--residual", f.residual, "Add beta * C");
  add_flag("--gated", f.gated, "D (m x n / 2) = activation(first half of the columns) * second half");
  add("--scale-d", f.scale_d, "none, tensor: an e4m3 D is divided by one given scale");
  add("--update", f.update, "set: D = the result; add: D += it (fp32 D), to accumulate gradients");
  add_flag("--any-order", f.any_order,
           "With --update add: parts of a split product may be added in any order, so that bits may differ");
  add("--c-type", f.c_type, "Type of C: bf16, fp16, fp32");
  add("--alpha", f.alpha, "Factor of the product")->capture_default_str();
  add("--beta", f.beta, "Factor of C; 1 unless told");
}

void add_override_flags(CLI::App& app, ProblemFlags& f) {
  const char* group = "Overrule the planner";
  app.add_option("--tile", f.tile, "Rows x columns of a CTA's tile, like 128x256")->group(group);
  app.add_option("--cluster", f.cluster, "CTAs of a cluster along m x along n (x along k), like 2x1")
      ->group(group);
  for_each_field(f.overrides, [&](const auto& row, auto& member) {
    using Value = typename Unwrapped<std::remove_reference_t<decltype(member)>>::Type;
    const std::string name = row.name, flag = flag_of(name);
    if constexpr (Enumerated<Value>) {
      app.add_option(flag, f.names[name], row.help)->group(group);
    } else if constexpr (!HasFields<Value>) {
      if (name == "tile_m" || name == "tile_n") return;  // set by --tile
      if (name == "ignore_records") {
        app.add_flag("--no-records", member, row.help)->group(group);
        return;
      }
      CLI::Option* option = app.add_option(flag, member, row.help)->group(group);
      if constexpr (std::is_same_v<Value, i64>)
        option->check(CLI::Range(i64{0}, std::numeric_limits<i64>::max(), "BYTES"));
      if (std::is_same_v<Value, int>) check_range(option, row.range);
    }
  });
}

bool has_shape(const ProblemFlags& f) {
  return !f.shape.empty() || f.m || f.n || f.k;
}

/// True if an input type of 8 bits is given. parse_name() reports unknown names later.
bool has_fp8(const ProblemFlags& f) {
  const std::string input(bench::type_name(!f.a.empty() ? f.a : f.dtype.empty() ? "bf16" : f.dtype));
  return input != name_of(DType::bf16) && input != name_of(DType::fp16);
}

/// A flag that has no effect unless another flag is given.
struct IdleFlag {
  bool given;
  const char* name;
  bool used;
  const char* by;
};

Result<void> check_none_idle(const ProblemFlags& f) {
  const bool adds_any = f.update == name_of(Update::add);
  const IdleFlag flags[] = {
      {f.m.has_value(), "--m", f.shape.empty(), "with --shape"},
      {f.n.has_value(), "--n", f.shape.empty(), "with --shape"},
      {f.k.has_value(), "--k", f.shape.empty(), "with --shape"},
      {f.ld_c.has_value(), "--ld-c", f.residual, "without --residual"},
      {f.batch_stride_c.has_value(), "--batch-stride-c", f.residual, "without --residual"},
      {!f.c_type.empty(), "--c-type", f.residual, "without --residual"},
      {f.beta.has_value(), "--beta", f.residual, "without --residual"},
      {!f.bias_type.empty(), "--bias-type", f.bias, "without --bias"},
      {f.any_order, "--any-order", adds_any, "without --update add"},
      {!f.accumulate.empty(), "--accumulate", has_fp8(f), "on 16-bit inputs, whose sums are fp32"}};
  for (const IdleFlag& flag : flags)
    if (flag.given && !flag.used)
      return Error{ErrorCode::invalid_argument,
                   std::string(flag.name) + " has no effect " + flag.by + ": leave it out"};
  return {};
}

Result<Problem> problem_of(const ProblemFlags& f) {
  std::vector<i64> sizes{f.m.value_or(-1), f.n.value_or(-1), f.k.value_or(-1)};
  SLUICE_TRY(check_none_idle(f));
  if (!f.shape.empty()) {
    SLUICE_TAKE(sizes, bench::parse_sizes(f.shape, 3, "shape", "4096x4096x4096"));
  } else if (!(f.m && f.n && f.k)) {
    return bad_argument("a problem needs m, n and k: give --m, --n and --k, or --shape MxNxK");
  }
  SLUICE_TAKE(Problem p, unsized_problem_of(f));
  p.m = sizes[0];
  p.n = sizes[1];
  p.k = sizes[2];
  p.batch = f.batch;
  return p;
}

Result<Problem> unsized_problem_of(const ProblemFlags& f) {
  SLUICE_TRY(check_none_idle(f));
  Problem p;
  std::optional<Error> error;
  const std::string inputs = f.dtype.empty() ? "bf16" : f.dtype;
  take("type", f.a.empty() ? inputs : f.a, p.a.type, error);
  take("type", f.b.empty() ? inputs : f.b, p.b.type, error);
  take("update", f.update, p.epilogue.update, error);
  p.deterministic = !f.any_order;
  p.d.type = adds(p.epilogue) ? DType::fp32 : default_output(p.a.type);
  take("type", f.d, p.d.type, error);
  take("layout", f.a_layout, p.a.major, error);
  take("layout", f.b_layout, p.b.major, error);
  p.a.ld = f.ld_a.value_or(0);
  p.b.ld = f.ld_b.value_or(0);
  p.c.ld = f.ld_c.value_or(0);
  p.d.ld = f.ld_d.value_or(0);
  p.a.batch_stride = f.batch_stride_a.value_or(0);
  p.b.batch_stride = f.batch_stride_b.value_or(0);
  p.c.batch_stride = f.batch_stride_c.value_or(0);
  p.d.batch_stride = f.batch_stride_d.value_or(0);
  for (const char letter : f.unaligned) {
    if (letter != 'a' && letter != 'b' && letter != 'd')
      return bad_argument("--unaligned {}: must be letters of a, b and d, like ab", in_quotes(f.unaligned));
    (letter == 'a' ? p.a : letter == 'b' ? p.b : p.d).unaligned = true;
  }
  take("accumulate", f.accumulate, p.accumulate, error);

  take("scale", f.scale_a, p.epilogue.scale_a, error);
  take("scale", f.scale_b, p.epilogue.scale_b, error);
  p.epilogue.bias = f.bias ? Bias::column : Bias::none;
  p.epilogue.bias_type = default_vector_type(p.d.type);
  take("type", f.bias_type, p.epilogue.bias_type, error);
  take("activation", f.activation, p.epilogue.activation, error);
  p.epilogue.residual = f.residual;
  p.epilogue.gated = f.gated;
  take("scale", f.scale_d, p.epilogue.scale_d, error);
  p.epilogue.c_type = default_vector_type(p.d.type);
  take("type", f.c_type, p.epilogue.c_type, error);
  p.c.type = p.epilogue.c_type;
  if (error) return *error;
  return p;
}

Result<PlanOverrides> overrides_of(const ProblemFlags& f) {
  PlanOverrides o = f.overrides;
  std::optional<Error> error;
  for_each_field(o, [&](const auto& row, auto& member) {
    if constexpr (Enumerated<typename Unwrapped<std::remove_reference_t<decltype(member)>>::Type>)
      if (const auto given = f.names.find(row.name); given != f.names.end())
        take(row.name, given->second, member, error);
  });
  std::vector<int> sizes;
  if (!f.tile.empty()) take(bench::parse_int_sizes(f.tile, 2, "tile", "128x256"), sizes, error);
  if (!f.tile.empty() && !error) {
    o.tile_m = sizes[0];
    o.tile_n = sizes[1];
  }
  const int cluster_sizes = std::count(f.cluster.begin(), f.cluster.end(), 'x') == 2 ? 3 : 2;
  if (!f.cluster.empty())
    take(bench::parse_int_sizes(f.cluster, cluster_sizes, "cluster", "2x1 or 1x1x4"), sizes, error);
  if (!f.cluster.empty() && !error)
    o.cluster = ClusterShape{.m = sizes[0], .n = sizes[1], .k = cluster_sizes == 3 ? sizes[2] : 1};
  if (error) return *error;
  if (o.combine.value_or(Combine::none) != Combine::none && !o.splits)
    return bad_argument("--combine has no effect without --splits, which splits tiles along k: give it too");
  return o;
}

float beta_of(const ProblemFlags& f) {
  return f.beta.value_or(f.residual ? 1.0f : 0.0f);
}

Result<bench::Request> product_request_of(const ProblemFlags& f) {
  SLUICE_TAKE(const Problem problem, problem_of(f));
  SLUICE_TAKE(const PlanOverrides overrides, overrides_of(f));
  return bench::Request{.problem = problem, .overrides = overrides, .alpha = f.alpha, .beta = beta_of(f)};
}

}  // namespace sluice::cli
