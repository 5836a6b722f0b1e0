// SPDX-License-Identifier: Apache-2.0
// Decides which flags exclude each other. CLI11's options tell whether a flag was given, because a given
// value may equal the default.
#include "cli/requests.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include <sluice/bench/sets.h>
#include <sluice/conv.h>
#include <sluice/messages/errors.h>
#include <sluice/text.h>
#include <sluice/try.h>

namespace sluice::cli {
namespace {

using bench::Request;

/// Flags of matrix products whose values follow from a convolution.
constexpr std::array kProductOnly = {"--shape",
                                     "--m",
                                     "--n",
                                     "--k",
                                     "--batch",
                                     "--groups",
                                     "--group-pitch",
                                     "--a-layout",
                                     "--b-layout",
                                     "--gated",
                                     "--ld-a",
                                     "--ld-b",
                                     "--ld-c",
                                     "--ld-d",
                                     "--batch-stride-a",
                                     "--batch-stride-b",
                                     "--batch-stride-c",
                                     "--batch-stride-d"};

/// Returns the options that `add` adds to `app`.
std::vector<const CLI::Option*> added_by(CLI::App& app, ProblemFlags& flags,
                                         void (*add)(CLI::App&, ProblemFlags&)) {
  const size_t before = app.get_options().size();
  add(app, flags);
  const std::vector<CLI::Option*> all = app.get_options();
  return {all.begin() + static_cast<std::ptrdiff_t>(before), all.end()};
}

/// Refuses flags that are valid for dense products only.
Result<void> refuse_dense(const std::vector<const CLI::Option*>& options, const std::string& why) {
  std::vector<const CLI::Option*> dense = options;
  std::erase_if(dense, [](const CLI::Option* option) { return is_shared_flag(option->get_name()); });
  return refuse_given(dense, why + ": a packed product has no such choice; leave it out");
}

/// Refuses flags of convolutions if --conv is not given.
Result<void> check_product(const ConvFlags& flags) {
  if (is_conv(flags)) return {};
  return refuse_given(flags.options, "without --conv: say which product, fprop, dgrad or wgrad");
}

/// Refuses flags whose values follow from a convolution, such as --m.
Result<void> refuse_product_flags(std::vector<const CLI::Option*> options) {
  std::erase_if(options, [](const CLI::Option* option) {
    return std::find(kProductOnly.begin(), kProductOnly.end(), option->get_name()) == kProductOnly.end();
  });
  return refuse_given(options,
                      "with --conv: sizes, layouts and strides follow from the convolution; leave it out");
}

/// Returns the operation of a list's convolutions. Refuses flags that describe one convolution, and flags
/// that only matrix products have.
Result<ConvOp> check_list_flags(const RequestFlags& flags, const std::string& source) {
  SLUICE_TAKE(const ConvOp op, op_of(flags.conv));
  SLUICE_TRY(
      refuse_given(flags.conv.options, fmt::format("with {}: write it on the problem's line", source)));
  SLUICE_TRY(refuse_product_flags(flags.problem_options));
  SLUICE_TRY(refuse_given(flags.packed.format_options,
                          "with --conv: a convolution's filter is not packed; leave it out"));
  return op;
}

Result<std::vector<Request>> requests_of_file(const RequestFlags& flags) {
  const std::string source = "--shapes " + escaped(flags.file);
  if (!flags.set.empty())
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--set {} and {}: give one of them", escaped(flags.set), source)};
  if (is_conv(flags.conv)) {
    SLUICE_TRY(check_list_flags(flags, source));
    return read_problem_file(flags.file, flags);
  }
  SLUICE_TRY(check_product(flags.conv));
  for (const auto* options : {&flags.problem_options, &flags.override_options, &flags.packed.format_options})
    SLUICE_TRY(
        refuse_given(*options, fmt::format("with {}: write it on the problem's line in the file", source)));
  return read_problem_file(flags.file);
}

Result<std::vector<Request>> requests_of_conv_set(const RequestFlags& flags) {
  if (!is_conv(flags.conv))
    return bad_argument("--set {} holds convolutions: say which product with --conv fprop, dgrad or wgrad",
                        flags.set);
  SLUICE_TAKE(const ConvOp op, check_list_flags(flags, "--set " + flags.set));
  SLUICE_TAKE(const std::vector<Conv> layers, bench::conv_set(flags.set, op));
  std::vector<Request> requests;
  for (const Conv& layer : layers) {
    Result<bench::Request> made = conv_request_of(layer, flags.problem);
    if (!made) return within(conv_name(layer), made.error());
    requests.push_back(*std::move(made));
  }
  return requests;
}

Result<std::vector<Request>> requests_of_set(const RequestFlags& flags) {
  if (bench::is_conv_set(flags.set)) return requests_of_conv_set(flags);
  const std::string source = "--set " + escaped(flags.set);
  if (is_conv(flags.conv))
    return bad_argument("--conv has no effect with {}: sets of convolutions are {}", source,
                        fmt::join(bench::conv_set_names(), ", "));
  SLUICE_TRY(check_product(flags.conv));
  for (const auto* options : {&flags.problem_options, &flags.packed.format_options})
    SLUICE_TRY(refuse_given(
        *options, fmt::format("with {}: the set says what its problems are; give --shape for one problem, or "
                              "leave it out",
                              source)));
  SLUICE_TAKE(const std::vector<Problem> problems, bench::problem_set(flags.set));
  SLUICE_TAKE(const PlanOverrides overrides, overrides_of(flags.problem));
  std::vector<Request> requests;
  for (const Problem& problem : problems) requests.push_back({.problem = problem, .overrides = overrides});
  return requests;
}

Result<std::vector<Request>> requests_of_model_alone(const RequestFlags& flags) {
  const std::string source = "--model " + escaped(flags.model.model);
  if (!flags.set.empty() || !flags.file.empty())
    return bad_argument("{} and {}: give one of them", source, flags.set.empty() ? "--shapes" : "--set");
  if (is_conv(flags.conv)) return bad_argument("--conv has no effect with {}: leave it out", source);
  SLUICE_TRY(check_product(flags.conv));
  for (const auto* options : {&flags.problem_options, &flags.override_options, &flags.packed.format_options})
    SLUICE_TRY(refuse_given(
        *options,
        fmt::format("with {}: its layers and --recipe say what the problems are; leave it out", source)));
  return requests_of_model(flags.model);
}

}  // namespace

void add_request_flags(CLI::App& app, RequestFlags& flags) {
  flags.problem_options = added_by(app, flags.problem, add_problem_flags);
  flags.override_options = added_by(app, flags.problem, add_override_flags);
  add_packed_flags(app, flags.packed);
  add_conv_flags(app, flags.conv);
}

void add_many_requests_flags(CLI::App& app, RequestFlags& flags) {
  app.add_option("--set", flags.set,
                 fmt::format("A named set of problems: {} (packed weights); with --conv {}",
                             fmt::join(bench::set_names(), ", "), fmt::join(bench::conv_set_names(), ", ")));
  app.add_option("--shapes", flags.file, "File of problems: lines of flags, or a JSON array");
  add_model_flags(app, flags.model);
  add_request_flags(app, flags);
}

bool names_problem(const RequestFlags& flags) {
  return has_shape(flags.problem) || is_packed(flags.packed) || is_conv(flags.conv);
}

bool names_problems(const RequestFlags& flags) {
  return !flags.set.empty() || !flags.file.empty() || is_model(flags.model) || names_problem(flags);
}

std::string first_given(const std::vector<const CLI::Option*>& options) {
  for (const CLI::Option* option : options)
    if (option->count() > 0) return option->get_name();
  return "";
}

Result<void> refuse_given(const std::vector<const CLI::Option*>& options, const std::string& why) {
  const std::string given = first_given(options);
  if (given.empty()) return {};
  return Error{ErrorCode::invalid_argument, fmt::format("{} has no effect {}", given, why)};
}

Result<void> check_dense(const PackedFlags& flags) {
  if (is_packed(flags)) return {};
  return refuse_given(flags.format_options, "without --weights: say which weights are packed");
}

Result<void> refuse_packed_convolution(const RequestFlags& flags) {
  if (!is_packed(flags.packed) || !is_conv(flags.conv)) return {};
  return bad_argument(
      "--weights has no effect with --conv: a convolution's filter is not packed; leave it out");
}

Result<void> refuse_overrides(const RequestFlags& flags, const std::string& why) {
  return refuse_given(flags.override_options, why);
}

Result<Request> request_of(const RequestFlags& flags) {
  if (is_conv(flags.conv)) {
    SLUICE_TRY(refuse_packed_convolution(flags));
    SLUICE_TRY(check_dense(flags.packed));
    SLUICE_TRY(refuse_product_flags(flags.problem_options));
    SLUICE_TAKE(const Conv conv, conv_of(flags.conv));
    return conv_request_of(conv, flags.problem);
  }
  SLUICE_TRY(check_product(flags.conv));
  if (is_packed(flags.packed)) {
    SLUICE_TRY(refuse_dense(flags.problem_options, "with --weights"));
    return packed_request_of(flags.problem, flags.packed);
  }
  SLUICE_TRY(check_dense(flags.packed));
  return product_request_of(flags.problem);
}

Result<std::vector<Request>> requests_of(const RequestFlags& flags) {
  if (is_model(flags.model)) return requests_of_model_alone(flags);
  SLUICE_TRY(refuse_given(flags.model.options, "without --model: give a model, or leave it out"));
  if (!flags.file.empty()) return requests_of_file(flags);
  if (!flags.set.empty()) return requests_of_set(flags);
  SLUICE_TAKE(Request one, request_of(flags));
  return std::vector<Request>{std::move(one)};
}

}  // namespace sluice::cli
