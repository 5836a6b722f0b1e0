// SPDX-License-Identifier: Apache-2.0
#include "tools/probes/conv_lines.h"

#include <charconv>
#include <optional>
#include <sstream>

#include <sluice/tools.h>
#include <sluice/try.h>

#include "bench/errors.h"
#include "bench/names.h"

namespace sluice::probes {
namespace {

using bench::CudnnConvolution;

constexpr size_t kMostFileBytes = 1 << 20;

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Result<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    return bad_argument("{} is not a whole number from 0 on", in_quotes(text));
  return value;
}

/// "32x64x56x56": at least `least` numbers.
Result<std::vector<int>> numbers(std::string_view text, size_t least, size_t most) {
  std::vector<int> list;
  for (const std::string_view part : split(text, 'x')) {
    SLUICE_TAKE(const int value, number(part));
    list.push_back(value);
  }
  if (list.size() < least || list.size() > most)
    return bad_argument("{} must have {} to {} numbers joined by x", in_quotes(text), least, most);
  return list;
}

/// The last `spatial` numbers of a list, outermost first, as axes.
Axes axes_of(const std::vector<int>& list, int spatial, int others) {
  int values[kMostSpatial] = {others, others, others};
  for (int axis = 0; axis < spatial; ++axis) values[axis] = list[list.size() - 1 - static_cast<size_t>(axis)];
  return {values[0], values[1], values[2]};
}

/// One number for all axes, or one for each.
Result<Axes> spread(const std::string& flag, std::vector<int> list, int spatial, int others) {
  if (list.size() == 1) list.assign(static_cast<size_t>(spatial), list[0]);
  if (list.size() != static_cast<size_t>(spatial))
    return bad_argument("{} has {} numbers: give one, or one for each of {} axes", flag, list.size(),
                        spatial);
  return axes_of(list, spatial, others);
}

struct Flags {
  std::optional<std::string> conv, input, filter, stride, padding, dilation, dtype, d;

  std::optional<std::string>* named(std::string_view name) {
    const std::pair<std::string_view, std::optional<std::string>*> all[] = {
        {"--conv", &conv},       {"--input", &input},       {"--filter", &filter}, {"--stride", &stride},
        {"--padding", &padding}, {"--dilation", &dilation}, {"--dtype", &dtype},   {"--d", &d}};
    for (const auto& [known, value] : all)
      if (name == known) return value;
    return nullptr;
  }
};

Result<Flags> flags_in(std::string_view line) {
  Flags flags;
  std::istringstream words{std::string(line)};
  for (std::string word; words >> word;) {
    std::optional<std::string>* value = flags.named(word);
    if (value == nullptr)
      return bad_argument(
          "{} is not one of: --conv --input --filter --stride --padding --dilation --dtype --d",
          in_quotes(word));
    if (value->has_value()) return bad_argument("{} is given twice", word);
    std::string text;
    if (!(words >> text)) return bad_argument("{} needs a value", word);
    *value = text;
  }
  return flags;
}

Result<void> take_padding(const std::string& text, Conv& conv) {
  std::vector<int> before, after;
  for (const std::string_view part : split(text, 'x')) {
    const std::vector<std::string_view> sides = split(part, ':');
    if (sides.size() > 2)
      return bad_argument("--padding {}: at most BEFORE:AFTER for an axis", in_quotes(text));
    SLUICE_TAKE(const int first, number(sides.front()));
    SLUICE_TAKE(const int last, number(sides.back()));
    before.push_back(first);
    after.push_back(last);
  }
  SLUICE_TAKE(conv.padding, spread("--padding", before, conv.spatial, 0));
  SLUICE_TAKE(conv.padding_after, spread("--padding", after, conv.spatial, 0));
  return {};
}

std::string list_text(const Conv& conv, const Axes& axes) {
  std::string text;
  for (int axis = conv.spatial - 1; axis >= 0; --axis)
    text += fmt::format("{}{}", text.empty() ? "" : "x", axes[axis]);
  return text;
}

bool all_are(const Conv& conv, const Axes& axes, int value) {
  for (int axis = 0; axis < conv.spatial; ++axis)
    if (axes[axis] != value) return false;
  return true;
}

/// One number if the axes are equal.
std::string short_list(const Conv& conv, const Axes& axes) {
  return all_are(conv, axes, axes.w) ? fmt::format("{}", axes.w) : list_text(conv, axes);
}

std::string padding_text(const Conv& conv) {
  if (conv.padding == conv.padding_after) return short_list(conv, conv.padding);
  std::string text;
  for (int axis = conv.spatial - 1; axis >= 0; --axis)
    text += fmt::format("{}{}:{}", text.empty() ? "" : "x", conv.padding[axis], conv.padding_after[axis]);
  return text;
}

}  // namespace

Result<CudnnConvolution> parse_conv(std::string_view line, const CudnnConvolution& defaults) {
  SLUICE_TAKE(const Flags flags, flags_in(line));
  if (!flags.input || !flags.filter) return bad_argument("a convolution needs --input and --filter");
  CudnnConvolution p = defaults;
  Conv& conv = p.conv;
  if (flags.conv) {
    SLUICE_TAKE(conv.op,
                bench::parse_name("--conv", *flags.conv, {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad}));
  }
  if (flags.dtype) {
    SLUICE_TAKE(p.inputs, bench::parse_name("--dtype", *flags.dtype, {DType::bf16, DType::fp16}));
    p.result = p.inputs;
  }
  if (flags.d) {
    SLUICE_TAKE(p.result, bench::parse_name("--d", *flags.d, {DType::bf16, DType::fp16, DType::fp32}));
  }
  SLUICE_TAKE(const std::vector<int> input, numbers(*flags.input, 3, 2 + kMostSpatial));
  conv.spatial = static_cast<int>(input.size()) - 2;
  SLUICE_TAKE(const std::vector<int> filter, numbers(*flags.filter, 2, 1 + kMostSpatial));
  if (filter.size() != input.size() - 1)
    return bad_argument("--filter {} must have {} numbers: filters, and a size for each axis of --input {}",
                        in_quotes(*flags.filter), input.size() - 1, in_quotes(*flags.input));
  conv.images = input[0];
  conv.channels = input[1];
  conv.filters = filter[0];
  conv.size = axes_of(input, conv.spatial, 1);
  conv.filter = axes_of(filter, conv.spatial, 1);
  SLUICE_TAKE(const std::vector<int> stride, numbers(flags.stride.value_or("1"), 1, kMostSpatial));
  SLUICE_TAKE(conv.stride, spread("--stride", stride, conv.spatial, 1));
  SLUICE_TAKE(const std::vector<int> dilation, numbers(flags.dilation.value_or("1"), 1, kMostSpatial));
  SLUICE_TAKE(conv.dilation, spread("--dilation", dilation, conv.spatial, 1));
  SLUICE_TRY(take_padding(flags.padding.value_or("0"), conv));
  SLUICE_TRY(bench::check(p));
  return p;
}

Result<std::vector<CudnnConvolution>> read_conv_file(const std::string& path,
                                                     const std::vector<ConvOp>& operations,
                                                     const CudnnConvolution& defaults) {
  SLUICE_TAKE(const std::string text, read_text_file(path, kMostFileBytes));
  std::vector<CudnnConvolution> all;
  int line_number = 0;
  for (const std::string_view whole : split(text, '\n')) {
    ++line_number;
    const std::string_view line = whole.substr(0, whole.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    for (const ConvOp operation : operations) {
      CudnnConvolution given = defaults;
      given.conv.op = operation;
      const Result<CudnnConvolution> parsed = parse_conv(line, given);
      if (!parsed) return within(fmt::format("{}:{}", path, line_number), parsed.error());
      if (all.empty() || !(all.back() == *parsed)) all.push_back(*parsed);
    }
  }
  if (all.empty()) return bad_argument("{} has no convolution", in_quotes(path));
  return all;
}

std::string short_name(const CudnnConvolution& p) {
  const Conv& v = p.conv;
  std::string text = fmt::format("{} {}x{}x{} * {}x{}", name_of(v.op), v.images, v.channels,
                                 list_text(v, v.size), v.filters, list_text(v, v.filter));
  if (!all_are(v, v.stride, 1)) text += " /" + short_list(v, v.stride);
  if (v.padding != Axes{} || v.padding_after != Axes{}) text += " p" + padding_text(v);
  if (!all_are(v, v.dilation, 1)) text += " d" + short_list(v, v.dilation);
  text += fmt::format(" {}", name_of(p.inputs));
  return p.result == p.inputs ? text : text + fmt::format(" > {}", name_of(p.result));
}

std::string flags_of(const CudnnConvolution& p) {
  const Conv& v = p.conv;
  return fmt::format(
      "--conv {} --input {}x{}x{} --filter {}x{} --stride {} --padding {} --dilation {} --dtype {} --d {}",
      name_of(v.op), v.images, v.channels, list_text(v, v.size), v.filters, list_text(v, v.filter),
      short_list(v, v.stride), padding_text(v), short_list(v, v.dilation), name_of(p.inputs),
      name_of(p.result));
}

}  // namespace sluice::probes
