// SPDX-License-Identifier: Apache-2.0
// Finds libnvrtc and loads it at run time, so that sluice builds and starts without it. A loaded library
// stays loaded, because NVRTC starts threads and registers exit handlers. Called by compiler.cc, and by
// cache.cc to name the compiler without loading it.
#pragma once

#include <nvrtc.h>

#include <string>

#include <sluice/result.h>

namespace sluice {

inline constexpr int kNvrtcMajor = 13;  // the oldest tested major version; older ones are rejected

struct NvrtcLocation {
  std::string file;     // the argument of dlopen: a path, or only the soname
  std::string version;  // "13.0"; empty if it is known only after loading
};

/// Finds NVRTC. `path` is a library file, or a folder that contains one (directly, in lib64 or lib, or where
/// PyPI wheels put it). If it is empty: default_nvrtc with the toolkit in /usr/local/cuda. The version is
/// read from the name of libnvrtc-builtins in the same folder, in microseconds. Loading NVRTC takes 9 ms, and
/// 0.8 s if its 110 MB are not in the page cache (CI machine).
Result<NvrtcLocation> locate_nvrtc(const std::string& path);

/// Sets a folder to search after the toolkit if `path` is empty, such as the site-packages of a Python
/// process. It applies from the next search on; empty removes it.
void suggest_nvrtc(std::string folder);
/// Returns the first folder that contains a libnvrtc.so.13 (no other major version): the toolkit's, then
/// `suggested`. Otherwise only the library's name, for the loader to find.
NvrtcLocation default_nvrtc(const std::string& toolkit, const std::string& suggested);

struct NvrtcApi {
  decltype(&::nvrtcVersion) version = nullptr;
  decltype(&::nvrtcGetErrorString) error_string = nullptr;
  decltype(&::nvrtcCreateProgram) create_program = nullptr;
  decltype(&::nvrtcDestroyProgram) destroy_program = nullptr;
  decltype(&::nvrtcCompileProgram) compile_program = nullptr;
  decltype(&::nvrtcGetCUBINSize) cubin_size = nullptr;
  decltype(&::nvrtcGetCUBIN) cubin = nullptr;
  decltype(&::nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&::nvrtcGetProgramLog) log = nullptr;
  int major = 0;
  int minor = 0;
  std::string path;
};

/// Error toolchain: missing, not loadable, incomplete, or older than kNvrtcMajor.
Result<NvrtcApi> load_nvrtc(const NvrtcLocation& location);

}  // namespace sluice
