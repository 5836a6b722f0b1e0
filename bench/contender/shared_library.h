// SPDX-License-Identifier: Apache-2.0
// Finds another library at run time: the paths to try, the first one that loads, and its entry points. Used
// by cublaslt.cc and cudnn.cc.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>
#include <glob.h>

#include <string>
#include <vector>

namespace sluice::bench {

/// Appends the paths that match a glob pattern, in the order of glob(3). No match is not an error.
inline void append_matches(const std::string& pattern, std::vector<std::string>& into) {
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    into.insert(into.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
}

/// Glob patterns of folders in which Python packages such as PyTorch may be installed.
inline std::vector<std::string> package_folders() {
  std::vector<std::string> folders;
  for (const char* root :
       {"/usr/lib/python3*", "/usr/local/lib/python3*", "/opt/*/lib/python3*", "/opt/*/.venv/lib/python3*"})
    for (const char* packages : {"dist-packages", "site-packages"})
      folders.push_back(fmt::format("{}/{}", root, packages));
  return folders;
}

/// Opens the first library that loads; returns nullptr if none does. For each failure, appends the loader's
/// message to `tried` as one line.
inline void* open_first(const std::vector<std::string>& places, std::string& opened, std::string& tried) {
  for (const std::string& place : places) {
    if (void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      opened = place;
      return library;
    }
    tried += fmt::format("\n  {}", dlerror());
  }
  return nullptr;
}

/// Fills a table of entry points, and collects the names that the library does not have.
struct SymbolTable {
  void* library;
  std::string missing{};

  template <class F>
  void look_up(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
    if (function == nullptr) missing += missing.empty() ? name : fmt::format(", {}", name);
  }
};

/// Returns the file that a symbol was loaded from. A library opened by its bare name could be any of several
/// files.
template <class F>
std::string file_of(F* symbol, const std::string& otherwise) {
  Dl_info info{};
  const bool known = dladdr(reinterpret_cast<void*>(symbol), &info) != 0 && info.dli_fname != nullptr;
  return known ? info.dli_fname : otherwise;
}

}  // namespace sluice::bench
