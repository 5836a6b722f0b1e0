// SPDX-License-Identifier: Apache-2.0
#include "cli/conv_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include <sluice/conv.h>
#include <sluice/tools.h>
#include <sluice/try.h>

#include "bench/conv.h"
#include "bench/names.h"
#include "bench/parse.h"
#include "cli/bounded.h"

namespace sluice::cli {
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
  return bench::Request{
      .problem = problem, .overrides = overrides, .alpha = f.alpha, .beta = beta_of(f), .conv = conv};
}

std::string pointwise_line(const bench::Request& request) {
  const Conv& conv = request.conv;
  return is_conv(conv) && is_pointwise(conv) ? conv_line(conv, "; a plain product, as nothing is gathered")
                                             : "";
}

}  // namespace sluice::cli
