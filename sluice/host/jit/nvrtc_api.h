// SPDX-License-Identifier: Apache-2.0
// Finds libnvrtc and loads it at run time, so that sluice builds and starts on machines that have none.
// A library that was loaded stays loaded: NVRTC leaves threads and exit handlers behind. Called by
// compiler.cc and, to name the compiler without the cost of loading it, by cache.cc.
#pragma once

#include <nvrtc.h>

#include <string>

#include <sluice/result.h>

namespace sluice {

inline constexpr int kNvrtcMajor = 13;  // the oldest that was tested; nothing older is taken

struct NvrtcLocation {
  std::string file;     // what dlopen gets: a path, or the bare soname
  std::string version;  // "13.0"; empty if it cannot be told without loading
};

/// Where NVRTC is. `path`: a library file, or a folder that holds one (itself, or in lib64, lib, or one of
/// the places where PyPI wheels put it); empty: that of default_nvrtc for the toolkit in /usr/local/cuda. The
/// version is that of libnvrtc-builtins beside it. Reading a name takes microseconds; loading NVRTC takes 9
/// ms, and 0.8 s when its 110 MB are not in the page cache (measured on this project's CI machine).
Result<NvrtcLocation> locate_nvrtc(const std::string& path);

/// A folder in which an empty path looks behind the toolkit: site-packages, of a process that knows its own.
/// Holds from the next search on; empty: none.
void suggest_nvrtc(std::string folder);
/// The first that holds a libnvrtc.so.13 (another CUDA's does not count): the folder of the toolkit, then
/// `suggested`. Neither: the bare name, for the loader to find.
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

/// Error toolchain: none there, not loadable, a function missing, or older than kNvrtcMajor.
Result<NvrtcApi> load_nvrtc(const NvrtcLocation& location);

}  // namespace sluice
