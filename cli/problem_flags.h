// SPDX-License-Identifier: Apache-2.0
// The flags that describe a problem and override its plan. Verbs, lines of a problem file and objects of a
// JSON file use the same names. Values stay text until problem_of(), so that errors are Results.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/product.h"

namespace CLI {
class App;
}

namespace sluice::cli {

struct ProblemFlags {
  std::string shape;  // MxNxK; replaces --m, --n and --k
  std::optional<i64> m, n, k;
  i64 batch = 1;
  std::string dtype, a, b, d;
  std::string a_layout = "k", b_layout = "k";
  std::optional<i64> ld_a, ld_b, ld_c, ld_d;
  std::optional<i64> batch_stride_a, batch_stride_b, batch_stride_c, batch_stride_d;
  std::string unaligned;  // some of the letters a, b and d: operands whose address may be unaligned
  std::string scale_a = "none", scale_b = "none";
  bool bias = false;
  std::string bias_type, c_type;
  std::string activation = "none";
  bool residual = false;
  bool gated = false;
  std::string scale_d = "none";
  std::string update = "set";
  bool any_order = false;
  std::string accumulate;  // "": the default of spec/problem.h, promoted
  float alpha = 1.0f;
  std::optional<float> beta;

  std::string tile, cluster;
  // Overrides that are enumerations: field name -> enumerator's name.
  std::map<std::string, std::string> names;
  PlanOverrides overrides;  // all other overrides
};

/// Adds the flags for sizes, types, layouts and epilogue.
void add_problem_flags(CLI::App& app, ProblemFlags& flags);
/// Adds one flag per override of the planner (text/fields.h), such as --schedule.
void add_override_flags(CLI::App& app, ProblemFlags& flags);

/// Converts a field's name to its flag: "raster_group" to "--raster-group".
std::string flag_of(std::string name);
/// True if a size was given. If not, some verbs take a default problem.
bool has_shape(const ProblemFlags& flags);
Result<Problem> problem_of(const ProblemFlags& flags);
/// Returns a problem with types, strides and epilogue; sizes are 0.
Result<Problem> unsized_problem_of(const ProblemFlags& flags);
Result<PlanOverrides> overrides_of(const ProblemFlags& flags);
/// Returns the value of --beta. The default is 1 with a residual, else 0.
float beta_of(const ProblemFlags& flags);

Result<bench::Request> product_request_of(const ProblemFlags& flags);

}  // namespace sluice::cli
