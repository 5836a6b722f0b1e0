// SPDX-License-Identifier: Apache-2.0
// The only code that reads the environment. A set-uid program reads nothing from it (secure_getenv). Every
// path is made absolute, so that a later chdir changes nothing.
#include <sluice/options.h>

#include <stdlib.h>  // secure_getenv is from glibc, not from std

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include <sluice/text.h>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxJobs = 1024;
constexpr const char* kReadOnly = "SLUICE_CACHE_READ_ONLY";
constexpr const char* kJobs = "SLUICE_JOBS";
constexpr const char* kRace = "SLUICE_RACE";

std::string_view variable(const char* name) {
  const char* value = secure_getenv(name);
  return value != nullptr ? value : "";
}

std::string absolute_path(std::string_view path) {
  std::error_code error;
  const fs::path full = fs::absolute(path, error);
  return error || path.empty() ? std::string() : full.string();
}

/// Returns a folder by the XDG base directory rules: an absolute $XDG_..._HOME, else `in_home` below $HOME.
std::string xdg_dir(const char* base_variable, const char* in_home, const char* name) {
  if (const std::string_view base = variable(base_variable); base.starts_with('/'))
    return (fs::path(base) / name).string();
  if (const std::string_view home = variable("HOME"); home.starts_with('/'))
    return (fs::path(home) / in_home / name).string();
  return {};
}

/// Returns the folder that variable `name` holds, made absolute; "" if it is set to ""; `otherwise` if unset.
std::string chosen_dir(const char* name, const std::string& otherwise) {
  const char* chosen = secure_getenv(name);
  return chosen != nullptr ? absolute_path(chosen) : otherwise;
}

/// Returns SLUICE_NVRTC, else the toolkit in CUDA_PATH if it has an NVRTC, else "", which means the default
/// search.
std::string nvrtc_path() {
  if (const std::string_view chosen = variable("SLUICE_NVRTC"); !chosen.empty()) return absolute_path(chosen);
  const std::string_view toolkit = variable("CUDA_PATH");
  if (toolkit.empty()) return {};
  const fs::path file = fs::path(absolute_path(toolkit)) / "lib64" / "libnvrtc.so.13";
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) ? file.string() : std::string();
}

/// Returns nullopt if the word means neither on nor off.
std::optional<bool> switch_of(std::string_view value) {
  std::string word(value);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* yes : {"1", "true", "yes", "on"})
    if (word == yes) return true;
  for (const char* no : {"0", "false", "no", "off"})
    if (word == no) return false;
  return std::nullopt;
}

bool is_on(const char* name) {
  return switch_of(variable(name)).value_or(false);
}

/// Returns nullopt if the text is not a whole number in 0..most.
std::optional<int> number_of(std::string_view value, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool whole = error == std::errc() && end == value.data() + value.size();
  return whole && number >= 0 && number <= most ? std::optional(number) : std::nullopt;
}

}  // namespace

Options options_from_environment() {
  return {.cache_dir = chosen_dir("SLUICE_CACHE_DIR", xdg_dir("XDG_CACHE_HOME", ".cache", "sluice")),
          .cache_read_only = is_on(kReadOnly),
          .nvrtc_path = nvrtc_path(),
          .records_dir =
              chosen_dir("SLUICE_RECORDS_DIR", xdg_dir("XDG_DATA_HOME", ".local/share", "sluice/records")),
          .jobs = number_of(variable(kJobs), kMaxJobs).value_or(0),
          .race = number_of(variable(kRace), kMostRacers).value_or(kUsualRace),
          .kernel_log = absolute_path(variable("SLUICE_KERNEL_LOG"))};
}

std::vector<std::string> environment_troubles() {
  std::vector<std::string> troubles;
  const auto add = [&](const char* name, const std::string& rule) {
    troubles.push_back(std::string(name) + "=" + escaped(variable(name)) + " means nothing: it must be " +
                       rule + "; set it so, or unset it");
  };
  if (!variable(kReadOnly).empty() && !switch_of(variable(kReadOnly)))
    add(kReadOnly, "1, true, yes, on or 0, false, no, off");
  if (!variable(kJobs).empty() && !number_of(variable(kJobs), kMaxJobs))
    add(kJobs, "in 0.." + std::to_string(kMaxJobs) + ", 0 for one a core");
  if (!variable(kRace).empty() && !number_of(variable(kRace), kMostRacers))
    add(kRace, "in 0.." + std::to_string(kMostRacers) + ", 0 for no race");
  return troubles;
}

}  // namespace sluice
