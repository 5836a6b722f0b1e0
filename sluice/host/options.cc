// SPDX-License-Identifier: Apache-2.0
// The only place that reads the environment; a set-uid program reads none of it (secure_getenv).
// Every path that leaves here is absolute, so that a later chdir changes nothing.
#include <sluice/options.h>

#include <stdlib.h>  // secure_getenv: glibc, not std

#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxJobs = 1024;

std::string_view variable(const char* name) {
  const char* value = secure_getenv(name);
  return value != nullptr ? value : "";
}

std::string absolute_path(std::string_view path) {
  std::error_code error;
  const fs::path full = fs::absolute(path, error);
  return error || path.empty() ? std::string() : full.string();
}

/// The XDG base directory rules: a relative $XDG_..._HOME is ignored, and `in_home` of $HOME stands in for
/// it.
std::string xdg_dir(const char* base_variable, const char* in_home, const char* name) {
  if (const std::string_view base = variable(base_variable); base.starts_with('/'))
    return (fs::path(base) / name).string();
  if (const std::string_view home = variable("HOME"); home.starts_with('/'))
    return (fs::path(home) / in_home / name).string();
  return {};
}

/// The folder that `name` says, made absolute; set but empty: none; not set: `otherwise`.
std::string chosen_dir(const char* name, const std::string& otherwise) {
  const char* chosen = secure_getenv(name);
  return chosen != nullptr ? absolute_path(chosen) : otherwise;
}

/// SLUICE_NVRTC, else the toolkit that CUDA_PATH names if it has an NVRTC; empty: the default search.
std::string nvrtc_path() {
  if (const std::string_view chosen = variable("SLUICE_NVRTC"); !chosen.empty()) return absolute_path(chosen);
  const std::string_view toolkit = variable("CUDA_PATH");
  if (toolkit.empty()) return {};
  const fs::path file = fs::path(absolute_path(toolkit)) / "lib64" / "libnvrtc.so.13";
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) ? file.string() : std::string();
}

bool is_true(std::string_view value) {
  return value == "1" || value == "true" || value == "yes" || value == "on";
}

int jobs_of(std::string_view value) {
  int jobs = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), jobs);
  const bool whole = error == std::errc() && end == value.data() + value.size();
  return whole && jobs >= 0 && jobs <= kMaxJobs ? jobs : 0;
}

}  // namespace

Options options_from_environment() {
  return {.cache_dir = chosen_dir("SLUICE_CACHE_DIR", xdg_dir("XDG_CACHE_HOME", ".cache", "sluice")),
          .cache_read_only = is_true(variable("SLUICE_CACHE_READ_ONLY")),
          .nvrtc_path = nvrtc_path(),
          .records_dir =
              chosen_dir("SLUICE_RECORDS_DIR", xdg_dir("XDG_DATA_HOME", ".local/share", "sluice/records")),
          .jobs = jobs_of(variable("SLUICE_JOBS")),
          .stamp_workspaces = is_true(variable("SLUICE_STAMP_WORKSPACES"))};
}

}  // namespace sluice
