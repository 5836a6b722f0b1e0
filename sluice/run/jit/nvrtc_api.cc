// SPDX-License-Identifier: Apache-2.0
// The search for libnvrtc. If the user gives a path, no other one is tried: another compiler would be a
// silent fallback.
#include <sluice/run/jit/nvrtc_api.h>

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <mutex>

#include <sluice/text.h>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSoname = "libnvrtc.so.13";
constexpr const char* kToolkitFolder = "/usr/local/cuda/lib64";
constexpr const char* kRemedy =
    "install the CUDA toolkit 13 or `pip install nvidia-cuda-nvrtc`, and set SLUICE_NVRTC to libnvrtc.so or "
    "its folder";

Error missing(std::string what) {
  return {ErrorCode::toolchain, std::move(what) + "; " + kRemedy};
}

/// Finds libnvrtc in `folder`, or in a folder below it where toolkits and wheels put it; empty if there is
/// none.
fs::path library_in(const fs::path& folder) {
  constexpr std::array kPlaces = {"", "lib64", "lib", "nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"};
  constexpr std::array kNames = {kSoname, "libnvrtc.so"};
  std::error_code ignored;
  for (const char* place : kPlaces)
    for (const char* name : kNames)
      if (const fs::path file = folder / place / name; fs::is_regular_file(file, ignored)) return file;
  return {};
}

/// Returns "13.0" if there is exactly one libnvrtc-builtins.so.13.0 in the folder of `library`; else empty.
std::string version_beside(const fs::path& library) {
  constexpr std::string_view kPrefix = "libnvrtc-builtins.so.";
  std::string version;
  std::error_code error;
  for (fs::directory_iterator entry(library.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const std::string found = name.substr(kPrefix.size());
    const bool major_minor = found.find_first_not_of("0123456789.") == std::string::npos &&
                             found.find('.') != std::string::npos && found.find('.') == found.rfind('.');
    if (!major_minor) continue;  // a name without a version, or with a longer one
    if (!version.empty() && version != found) return {};
    version = found;
  }
  return version;
}

NvrtcLocation location_of(const fs::path& file) {
  return {.file = file.string(), .version = version_beside(file)};
}

template <class Function>
bool resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

struct Suggestion {
  std::mutex mutex;
  std::string folder;
};

Suggestion& suggested() {
  static Suggestion suggestion;
  return suggestion;
}

}  // namespace

void suggest_nvrtc(std::string folder) {
  Suggestion& suggestion = suggested();
  const std::lock_guard lock(suggestion.mutex);
  suggestion.folder = std::move(folder);
}

NvrtcLocation default_nvrtc(const std::string& toolkit, const std::string& suggested) {
  for (const std::string& folder : {toolkit, suggested})
    if (const fs::path file = library_in(folder); !folder.empty() && file.filename() == kSoname)
      return location_of(file);
  return {.file = kSoname, .version = {}};
}

Result<NvrtcLocation> locate_nvrtc(const std::string& path) {
  std::error_code ignored;
  if (path.empty()) {
    Suggestion& suggestion = suggested();
    const std::lock_guard lock(suggestion.mutex);
    return default_nvrtc(kToolkitFolder, suggestion.folder);
  }
  if (fs::is_directory(path, ignored)) {
    const fs::path file = library_in(fs::absolute(path, ignored));
    if (file.empty()) return missing("no libnvrtc.so.13 in the folder '" + escaped(path) + "'");
    return location_of(file);
  }
  if (!fs::is_regular_file(path, ignored))
    return missing("no file '" + escaped(path) + "' to load NVRTC from");
  // Absolute, because dlopen would search for a bare name elsewhere.
  return location_of(fs::absolute(path, ignored));
}

Result<NvrtcApi> load_nvrtc(const NvrtcLocation& location) {
  // Opens the builtins library by its path first: NVRTC opens it by name only, and does not find it in a
  // wheel's folder.
  if (!location.version.empty()) {
    const fs::path builtins =
        fs::path(location.file).parent_path() / ("libnvrtc-builtins.so." + location.version);
    dlopen(builtins.c_str(), RTLD_LAZY | RTLD_LOCAL);
  }
  void* library = dlopen(location.file.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return missing("NVRTC cannot be loaded: " + std::string(reason != nullptr ? reason : location.file));
  }
  NvrtcApi api;
  const bool complete = resolve(library, "nvrtcVersion", api.version) &&
                        resolve(library, "nvrtcGetErrorString", api.error_string) &&
                        resolve(library, "nvrtcCreateProgram", api.create_program) &&
                        resolve(library, "nvrtcDestroyProgram", api.destroy_program) &&
                        resolve(library, "nvrtcCompileProgram", api.compile_program) &&
                        resolve(library, "nvrtcGetCUBINSize", api.cubin_size) &&
                        resolve(library, "nvrtcGetCUBIN", api.cubin) &&
                        resolve(library, "nvrtcGetProgramLogSize", api.log_size) &&
                        resolve(library, "nvrtcGetProgramLog", api.log);
  if (!complete || api.version(&api.major, &api.minor) != NVRTC_SUCCESS)
    return missing("'" + escaped(location.file) + "' is not a complete NVRTC");
  Dl_info where{};
  const bool known = dladdr(reinterpret_cast<void*>(api.version), &where) != 0 && where.dli_fname != nullptr;
  api.path = known ? where.dli_fname : location.file;
  if (api.major < kNvrtcMajor)
    return missing("'" + api.path + "' is NVRTC " + std::to_string(api.major) + "." +
                   std::to_string(api.minor) + ", and sluice needs " + std::to_string(kNvrtcMajor) + ".0");
  return api;
}

}  // namespace sluice
