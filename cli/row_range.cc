// SPDX-License-Identifier: Apache-2.0
#include "cli/row_range.h"

#include <fmt/format.h>

#include <charconv>

namespace sluice::cli {
namespace {

bool has_overrides(const AnyRequest& request) {
  if (const auto* dense = std::get_if<ProblemRequest>(&request))
    return !(dense->overrides == PlanOverrides{});
  return !(std::get<bench::PackedCase>(request).overrides == packed::Overrides{});
}

constexpr const char* kWhy = "with --rows: its kernels are chosen for the whole range; leave it out";

}  // namespace

Result<RowRange> parse_rows(const std::string& text) {
  const Error error{ErrorCode::invalid_argument,
                    fmt::format("--rows \"{}\" must be two numbers of rows, the first at least 1 and no more "
                                "than the second, like 1:512",
                                text)};
  RowRange rows;
  const char* const end = text.data() + text.size();
  const auto [colon, low] = std::from_chars(text.data(), end, rows.low);
  if (low != std::errc{} || colon == end || *colon != ':') return error;
  const auto [last, high] = std::from_chars(colon + 1, end, rows.high);
  if (high != std::errc{} || last != end || rows.low < 1 || rows.low > rows.high) return error;
  return rows;
}

Result<void> refuse_overrides(const RequestFlags& flags, const PackedFlags& packed,
                              const std::vector<AnyRequest>& requests) {
  for (const auto* options : {&flags.override_options, &packed.override_options})
    if (Result<void> none = refuse_given(*options, kWhy); !none) return none;
  for (const AnyRequest& request : requests)
    if (has_overrides(request))
      return Error{ErrorCode::invalid_argument, fmt::format("{}: an override of its plan has no effect {}",
                                                            bench::name_of(problem_of(request)), kWhy)};
  return {};
}

}  // namespace sluice::cli
