// SPDX-License-Identifier: Apache-2.0
#include "cli/row_range.h"

#include <fmt/format.h>

#include <charconv>

#include <sluice/try.h>

namespace sluice::cli {
namespace {

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

Result<void> check_row_requests(const RequestFlags& flags, const std::vector<bench::Request>& requests) {
  SLUICE_TRY(refuse_overrides(flags, kWhy));
  for (const bench::Request& request : requests) {
    if (has_overrides(request))
      return Error{ErrorCode::invalid_argument, fmt::format("{}: an override of its plan has no effect {}",
                                                            bench::name_of(request), kWhy)};
    if (is_conv(request.problem.conv))
      return Error{ErrorCode::invalid_argument,
                   fmt::format("{}: --rows has no effect on a convolution, whose rows follow from its input; "
                               "leave it out",
                               bench::name_of(request))};
  }
  return {};
}

}  // namespace sluice::cli
