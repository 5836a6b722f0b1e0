// SPDX-License-Identifier: Apache-2.0
// The flags that describe a problem (a product, one with packed weights, or a convolution) and override its
// plan. Verbs, lines of a problem file and objects of a JSON file use the same names. Values stay text until
// problem_of() or conv_of(), so that errors are Results.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sluice/bench/request.h>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sluice::cli {

struct ProblemFlags {
  std::string shape;  // MxNxK; replaces --m, --n and --k
  std::optional<i64> m, n, k;
  i64 batch = 1;
  std::string groups = "none";
  std::optional<int> group_pitch;
  std::string dtype, a, b, d;
  std::string a_layout = "k", b_layout = "k";
  std::optional<i64> ld_a, ld_b, ld_c, ld_d;
  std::optional<i64> batch_stride_a, batch_stride_b, batch_stride_c, batch_stride_d;
  std::string unaligned;  // some of the letters a, b and d: operands whose address may be unaligned
  std::string scale_a = "none", scale_b = "none";
  std::optional<i64> scale_a_ld;
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
  // The planner's choices (sluice/choices.h), by name and kind.
  std::map<std::string, std::string> names;
  std::map<std::string, std::optional<i64>> numbers;
  std::map<std::string, std::optional<bool>> switches;
  bool no_records = false;
};

/// Adds the flags for sizes, types, layouts and epilogue.
void add_problem_flags(CLI::App& app, ProblemFlags& flags);
/// Adds one flag per choice of the planner (sluice/choices.h), such as --schedule.
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

// ---- packed weights: --weights and its format; all else is as for other products ----
inline constexpr const char* kWeightNames = "int4, uint4, int8, e4m3, e2m1";
inline constexpr const char* kGroupHelp = "k that share a scale: 32, 64, 128 (default); 0: all. e2m1: 32";
inline constexpr const char* kScaleHelp = "Type of scales and zeros: fp16 (default), bf16, fp32. e2m1: e8m0";

struct PackedFlags {
  std::string weights, zero = "none";
  std::optional<std::string> weight_scale;  // default_format() gives what is left out
  std::optional<int> group;
  bool norm_a = false;
  std::vector<const CLI::Option*> format_options;  // to check which were given
};

/// Adds --weights and the flags of its format.
void add_format_flags(CLI::App& app, PackedFlags& flags);
/// Adds the format's flags and --norm-a.
void add_packed_flags(CLI::App& app, PackedFlags& flags);

bool is_packed(const PackedFlags& flags);
/// True if a flag of dense products, such as "--stages", means the same with --weights.
bool is_shared_flag(const std::string& name);

/// Returns the default format of the type that --weights names; "int4" is uint4.
Result<WeightFormat> format_named(const std::string& weights, ScaleZero zero);
Result<WeightFormat> format_of(const PackedFlags& flags);
/// Returns the packed problem and overrides that the flags describe.
Result<bench::Request> packed_request_of(const ProblemFlags& problem, const PackedFlags& flags);

// ---- convolutions: sizes in torch's order; types, epilogue and overrides are those of products ----
struct ConvFlags {
  std::string op;             // the value of --conv; "": the problem is a matrix product
  std::string input, filter;  // N x C x spatial sizes; K x spatial sizes
  std::string stride = "1", padding = "0", dilation = "1";
  i64 x_pitch = 0, y_pitch = 0;

  const CLI::Option* op_option = nullptr;
  std::vector<const CLI::Option*> options;  // all other options, to check which were given
};

void add_conv_flags(CLI::App& app, ConvFlags& flags);

bool is_conv(const ConvFlags& flags);

/// Parses the value of --conv.
Result<ConvOp> op_of(const ConvFlags& flags);
/// Returns the convolution. Errors: invalid_argument, if a size is missing or malformed.
Result<Conv> conv_of(const ConvFlags& flags);
/// Returns the product that computes `conv`, with the types, epilogue and overrides of `flags`. Errors: those
/// of conv::problem and product_request_of.
Result<bench::Request> conv_request_of(const Conv& conv, const ProblemFlags& flags);

/// Returns a line that describes the convolution if it is pointwise, else "". The plan of a pointwise one is
/// that of a plain product, which does not mention the convolution.
std::string pointwise_line(const bench::Request& request);

}  // namespace sluice::cli
