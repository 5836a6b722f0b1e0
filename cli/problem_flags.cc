// SPDX-License-Identifier: Apache-2.0
// Defaults of types: D has the inputs' type, but bf16 for fp8, and fp32 if the product is added to D. Bias
// and C have D's type.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include <array>

#include <sluice/bench/parse.h>
#include <sluice/bench/sets.h>
#include <sluice/choices.h>
#include <sluice/conv.h>
#include <sluice/messages/errors.h>
#include <sluice/spec/packed.h>
#include <sluice/text.h>
#include <sluice/try.h>

#include "cli/bounded.h"
#include "cli/problem_flags.h"
#include "cli/value_checks.h"

namespace sluice::cli {
namespace {

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
  if (!text.empty()) take(bench::parse_name<T>(what, text), target, error);
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
  add("--batch", f.batch, "Number of products, or of groups")->capture_default_str();
  add("--groups", f.groups,
      "Rows belong to groups, whose table has their ends, their counts or each row's group: none, ends, "
      "counts, slots")
      ->capture_default_str();
  add("--group-pitch", f.group_pitch,
      "Groups begin at a multiple of so many rows (ends), at one each (counts), or so many slots read a row "
      "of A");
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
  add("--scale-a", f.scale_a, "none, tensor, vector (one per row), block (one per 1 x 128)");
  add("--scale-a-ld", f.scale_a_ld,
      "Block scales of A are stored by columns, so many elements apart, as DeepGEMM's are");
  add("--scale-b", f.scale_b,
      "none, tensor, vector (one per column), block (one per 128 x 128), vector128 (one per column and 128 "
      "of "
      "k)");
  add_flag("--bias", f.bias, "Add one value a column");
  add("--bias-type", f.bias_type, "bf16, fp16, fp32");
  add("--activation", f.activation, "none, relu, gelu, silu; with --gated also clamped_swiglu, gpt-oss's");
  add_flag("--residual", f.residual, "Add beta * C");
  add_flag("--gated", f.gated, "D (m x n / 2) = activation(first half of the columns) * second half");
  add("--scale-d", f.scale_d,
      "none, tensor: an e4m3 D is divided by one given scale; block: by one for 1 x 128, which it computes");
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
  for (const Choice& choice : plan_choices()) {
    const std::string name = choice.name, flag = flag_of(name);
    if (name == "tile_m" || name == "tile_n") continue;  // set by --tile
    if (name == "ignore_records") {
      app.add_flag("--no-records", f.no_records, choice.help)->group(group);
    } else if (choice.kind == ChoiceKind::name) {
      app.add_option(flag, f.names[name], choice.help)->group(group);
    } else if (choice.kind == ChoiceKind::flag) {
      app.add_option(flag, f.switches[name], choice.help)->group(group);
    } else {
      CLI::Option* option = app.add_option(flag, f.numbers[name], choice.help)->group(group);
      if (choice.kind == ChoiceKind::bytes)
        option->check(CLI::Range(i64{0}, std::numeric_limits<i64>::max(), "BYTES"));
      else
        check_range(option, choice.range);
    }
  }
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
      {f.group_pitch.has_value(), "--group-pitch", f.groups != name_of(GroupKind::none), "without --groups"},
      {f.scale_a_ld.has_value(), "--scale-a-ld", f.scale_a == name_of(ScaleMode::block),
       "without --scale-a block"},
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
  take("kind of groups", f.groups, p.groups.kind, error);
  p.groups.pitch = f.group_pitch.value_or(1);
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
  p.scale_a_ld = f.scale_a_ld.value_or(0);
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
  PlanOverrides o{.ignore_records = f.no_records};
  std::optional<Error> error;
  for (const Choice& choice : plan_choices()) {
    std::string text;
    if (const auto name = f.names.find(choice.name); name != f.names.end()) text = name->second;
    if (const auto number = f.numbers.find(choice.name); number != f.numbers.end() && number->second)
      text = std::to_string(*number->second);
    if (const auto given = f.switches.find(choice.name); given != f.switches.end() && given->second)
      text = *given->second ? "true" : "false";
    if (text.empty() || set_choice(o, choice.name, text)) continue;
    if (!error) error = bench::no_such_name(choice.name, text, choice.names);
  }
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

// ---- packed weights ----
namespace {

/// Flags of dense products that have the same meaning for packed ones.
constexpr std::array kShared = {"--shape", "--m",       "--n",         "--k",          "--dtype",
                                "--d",     "--bias",    "--bias-type", "--ld-a",       "--activation",
                                "--ld-d",  "--scale-a", "--gated",     "--scale-d",    "--residual",
                                "--ld-c",  "--batch",   "--groups",    "--group-pitch"};

}  // namespace

Result<WeightFormat> format_named(const std::string& weights, ScaleZero zero) {
  if (weights == "int4" && zero != ScaleZero::none)
    return bad_argument(
        "--weights int4 are signed and --zero is per_group: zeros are for uint4 and int8; say --weights "
        "uint4, or --zero none");
  const std::optional<WeightType> type =
      weights == "int4" ? WeightType::uint4 : enumerator_named<WeightType>(weights);
  if (type && *type != WeightType::none) return default_format(*type);
  return bad_argument("--weights {} is not one of: {}", in_quotes(weights), kWeightNames);
}

Result<WeightFormat> format_of(const PackedFlags& flags) {
  SLUICE_TAKE(const ScaleZero zero, bench::parse_name<ScaleZero>("zero", flags.zero));
  SLUICE_TAKE(WeightFormat format, format_named(flags.weights, zero));
  if (flags.weight_scale) {
    SLUICE_TAKE(const DType scale, bench::parse_name<DType>("type", *flags.weight_scale));
    format.scale = scale;
  }
  format.zero = zero;
  format.group = flags.group.value_or(format.group);
  return format;
}

void add_format_flags(CLI::App& app, PackedFlags& f) {
  const char* group = "Packed weights";
  f.format_options = {
      app.add_option("--weights", f.weights, std::string("B is packed: ") + kWeightNames)->group(group),
      app.add_option("--group", f.group, kGroupHelp)->group(group),
      app.add_option("--weight-scale", f.weight_scale, kScaleHelp)->group(group),
      app.add_option("--zero", f.zero, "none or per_group")->group(group)->capture_default_str()};
}

void add_packed_flags(CLI::App& app, PackedFlags& f) {
  add_format_flags(app, f);
  f.format_options.push_back(
      app.add_flag("--norm-a", f.norm_a,
                   "A is normed first: its rows over their root mean square, times gamma")
          ->group("Packed weights"));
}

bool is_shared_flag(const std::string& name) {
  return std::find(kShared.begin(), kShared.end(), name) != kShared.end();
}

bool is_packed(const PackedFlags& flags) {
  return !flags.weights.empty();
}

Result<bench::Request> packed_request_of(const ProblemFlags& problem, const PackedFlags& flags) {
  SLUICE_TAKE(WeightFormat format, format_of(flags));
  SLUICE_TAKE(bench::Request request, product_request_of(problem));
  Problem& p = request.problem;
  if (p.a.type == DType::e4m3 && format.type == WeightType::uint4) format.order = FragmentOrder::byte;
  p.b = {.type = p.a.type, .packed = format};
  p.norm_a = flags.norm_a;
  if (p.epilogue.residual) add_residual(p);
  return request;
}

// ---- convolutions ----
namespace {

int count_of(const std::string& text, char letter) {
  return static_cast<int>(std::count(text.begin(), text.end(), letter));
}

/// Converts values in the order of the command line (outermost axis first) to Axes.
Axes axes_of(const std::vector<int>& values, size_t first, int spatial, int others) {
  Axes axes{others, others, others};
  for (int axis = 0; axis < spatial; ++axis)
    axes[axis] = values[first + static_cast<size_t>(spatial - 1 - axis)];
  return axes;
}

/// Parses "2" (for all axes) or "1x2x2" (one number per axis). Each number must be at least `least`.
Result<Axes> parse_axes(const std::string& text, int spatial, const char* flag, int least) {
  const int given = count_of(text, 'x') + 1;
  if (given != 1 && given != spatial)
    return bad_argument("--{} {} has {} numbers and the input has {} axes: give one number, or one an axis",
                        flag, in_quotes(text), given, spatial);
  SLUICE_TAKE(std::vector<int> values, bench::parse_int_sizes(text, given, flag, given == 1 ? "2" : "1x2x2"));
  for (const int value : values)
    if (value < least)
      return bad_argument("--{} {}: {} must be at least {}", flag, in_quotes(text), value, least);
  if (given == 1) values.assign(static_cast<size_t>(spatial), values[0]);
  return axes_of(values, 0, spatial, least);
}

struct Paddings {
  Axes before, after;
};
/// Parses padding: "1", "0:2" or "0:2x1x1", one item for all axes or one per axis. BEFORE:AFTER gives
/// different padding at the two ends of an axis.
Result<Paddings> parse_padding(const std::string& text, int spatial) {
  std::string before, after;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('x', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    const size_t colon = one.find(':');
    const char* join = begin == 0 ? "" : "x";
    before += join + one.substr(0, colon);
    after += join + (colon == std::string::npos ? one : one.substr(colon + 1));
    begin = end + 1;
  }
  Paddings paddings;
  SLUICE_TAKE(paddings.before, parse_axes(before, spatial, "padding", 0));
  SLUICE_TAKE(paddings.after, parse_axes(after, spatial, "padding", 0));
  return paddings;
}

Error missing(const char* flag, const char* like) {
  return bad_argument("--conv needs {}, like {}: give it, or convolutions with --set or --shapes", flag,
                      like);
}

}  // namespace

void add_conv_flags(CLI::App& app, ConvFlags& f) {
  const char* group = "Convolution";
  const auto add = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->group(group);
  };
  constexpr i64 kMost = std::numeric_limits<i64>::max();
  f.op_option = add("--conv", f.op, "In place of a product: fprop, dgrad or wgrad of a convolution");
  f.options = {
      add("--input", f.input, "N x C x sizes, 1 to 3 of them, like 32x64x56x56"),
      add("--filter", f.filter, "K x sizes, like 64x3x3"),
      add("--stride", f.stride, "One number, or one an axis, outermost first")->capture_default_str(),
      add("--padding", f.padding, "The same; BEFORE:AFTER where they differ, like 0:2x1x1")
          ->capture_default_str(),
      add("--dilation", f.dilation, "As --stride")->capture_default_str(),
      add("--x-pitch", f.x_pitch, "Elements from pixel to pixel of x; 0: C")
          ->check(CLI::Range(i64{0}, kMost, "ELEMENTS")),
      add("--y-pitch", f.y_pitch, "The same of y; 0: K")->check(CLI::Range(i64{0}, kMost, "ELEMENTS"))};
}

bool is_conv(const ConvFlags& flags) {
  return !flags.op.empty();
}

Result<ConvOp> op_of(const ConvFlags& flags) {
  return bench::parse_name("--conv", flags.op, {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad});
}

Result<Conv> conv_of(const ConvFlags& f) {
  Conv conv;
  SLUICE_TAKE(conv.op, op_of(f));
  if (f.input.empty()) return missing("--input", "32x64x56x56");
  if (f.filter.empty()) return missing("--filter", "64x3x3");
  conv.spatial = count_of(f.input, 'x') - 1;
  if (conv.spatial < 1 || conv.spatial > kMostSpatial)
    return bad_argument("--input {} must be N x C and 1 to 3 sizes, like 32x64x56x56", in_quotes(f.input));
  SLUICE_TAKE(const std::vector<int> input,
              bench::parse_int_sizes(f.input, conv.spatial + 2, "input", "32x64x56x56"));
  SLUICE_TAKE(const std::vector<int> filter,
              bench::parse_int_sizes(f.filter, conv.spatial + 1, "filter", "64x3x3"));
  conv.images = input[0];
  conv.channels = input[1];
  conv.size = axes_of(input, 2, conv.spatial, 1);
  conv.filters = filter[0];
  conv.filter = axes_of(filter, 1, conv.spatial, 1);
  SLUICE_TAKE(conv.stride, parse_axes(f.stride, conv.spatial, "stride", 1));
  SLUICE_TAKE(conv.dilation, parse_axes(f.dilation, conv.spatial, "dilation", 1));
  SLUICE_TAKE(const Paddings paddings, parse_padding(f.padding, conv.spatial));
  conv.padding = paddings.before;
  conv.padding_after = paddings.after;
  conv.x_pitch = f.x_pitch;
  conv.y_pitch = f.y_pitch;
  return conv;
}

Result<bench::Request> conv_request_of(const Conv& conv, const ProblemFlags& f) {
  SLUICE_TAKE(const Problem said, unsized_problem_of(f));
  if (said.a.type != said.b.type)
    return error_of(ErrorCode::invalid_type,
                    "--a {} and --b {}: the inputs of a convolution have one type; give it with --dtype",
                    name_of(said.a.type), name_of(said.b.type));
  SLUICE_TAKE(const PlanOverrides overrides, overrides_of(f));
  SLUICE_TAKE(const Problem problem, bench::conv_problem(conv, said));
  return bench::Request{.problem = problem, .overrides = overrides, .alpha = f.alpha, .beta = beta_of(f)};
}

std::string pointwise_line(const bench::Request& request) {
  const Conv& conv = request.problem.conv;
  return is_conv(conv) && is_pointwise(conv) ? conv_line(conv, "; a plain product, as nothing is gathered")
                                             : "";
}

}  // namespace sluice::cli
