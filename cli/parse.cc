// SPDX-License-Identifier: Apache-2.0
// A name is looked up among name_of() of all enumerators, so that a new one needs one entry in a list here.
#include "cli/parse.h"

#include <fmt/format.h>

#include <charconv>
#include <initializer_list>
#include <limits>

#include <sluice/tools.h>
#include <sluice/try.h>

namespace sluice::cli {
namespace {

template <class T>
Result<T> lookup(const std::string& text, const char* what, std::initializer_list<T> values) {
  std::string names;
  for (const T value : values) {
    if (text == name_of(value)) return value;
    names += names.empty() ? "" : ", ";
    names += name_of(value);
  }
  return Error{ErrorCode::invalid_argument,
               fmt::format("{} {} is not one of: {}", what, in_quotes(text), names)};
}

}  // namespace

Result<DType> parse_dtype(const std::string& text) {
  return lookup(text, "type", {DType::bf16, DType::fp16, DType::fp32, DType::e4m3, DType::e5m2});
}
Result<Major> parse_major(const std::string& text) {
  return lookup(text, "layout", {Major::k, Major::mn});
}
Result<ScaleMode> parse_scale_mode(const std::string& text) {
  return lookup(text, "scale", {ScaleMode::none, ScaleMode::tensor, ScaleMode::vector, ScaleMode::block});
}
Result<Activation> parse_activation(const std::string& text) {
  return lookup(text, "activation", {Activation::none, Activation::relu, Activation::gelu, Activation::silu});
}
Result<Update> parse_update(const std::string& text) {
  return lookup(text, "update", {Update::set, Update::add});
}
Result<Accumulate> parse_accumulate(const std::string& text) {
  return lookup(text, "accumulate", {Accumulate::fast, Accumulate::promoted});
}
Result<Schedule> parse_schedule(const std::string& text) {
  return lookup(text, "schedule",
                {Schedule::ping_pong, Schedule::cooperative, Schedule::plain, Schedule::plain_wgmma});
}
Result<StorePath> parse_store_path(const std::string& text) {
  return lookup(text, "store", {StorePath::tma, StorePath::direct});
}
Result<Numbering> parse_numbering(const std::string& text) {
  return lookup(text, "numbering", {Numbering::launch, Numbering::gpc});
}
Result<Raster> parse_raster(const std::string& text) {
  return lookup(text, "raster", {Raster::along_m, Raster::along_n});
}
Result<Combine> parse_combine(const std::string& text) {
  return lookup(text, "combine", {Combine::none, Combine::last_arriver, Combine::separate, Combine::add});
}
Result<ScaleZero> parse_scale_zero(const std::string& text) {
  return lookup(text, "zero", {ScaleZero::none, ScaleZero::per_group});
}

Result<std::vector<i64>> parse_sizes(const std::string& text, int count, const std::string& what,
                                     const std::string& like) {
  std::vector<i64> sizes;
  const char* at = text.data();
  const char* end = text.data() + text.size();
  while (true) {
    i64 value = 0;
    const auto [next, status] = std::from_chars(at, end, value);
    if (status != std::errc{} || value < 0) break;
    sizes.push_back(value);
    if (next == end) {
      if (static_cast<int>(sizes.size()) == count) return sizes;
      break;
    }
    if (*next != 'x') break;
    at = next + 1;
  }
  return Error{ErrorCode::invalid_argument, fmt::format("{} {} must be {} numbers joined by x, like {}", what,
                                                        in_quotes(text), count, like)};
}

Result<std::vector<int>> parse_int_sizes(const std::string& text, int count, const std::string& what,
                                         const std::string& like) {
  SLUICE_TAKE(const std::vector<i64> sizes, parse_sizes(text, count, what, like));
  constexpr i64 kMost = std::numeric_limits<int>::max();
  for (const i64 size : sizes)
    if (size > kMost)
      return Error{ErrorCode::invalid_argument,
                   fmt::format("{} {}: {} must be at most {}", what, in_quotes(text), size, kMost)};
  return std::vector<int>(sizes.begin(), sizes.end());
}

}  // namespace sluice::cli
