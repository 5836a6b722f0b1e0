// SPDX-License-Identifier: Apache-2.0
// Compiles with one nvrtcProgram per unit. The options are constants, and part of the cache key.
#include <sluice/run/jit/compiler.h>

#include <array>
#include <chrono>
#include <vector>

#include <sluice/run/jit/embedded_files.h>
#include <sluice/run/jit/fork_gate.h>
#include <sluice/try.h>

namespace sluice {
namespace {

constexpr std::array kOptions = {
    "--gpu-architecture=sm_90a",  // a cubin, not PTX: no driver of the major version rejects it as too new
    "--std=c++20",
    "--ptxas-options=-v",   // puts registers, spills, stack and C75xx notes into the log
    "--no-source-include",  // does not search the current directory for headers
    "--no-cache",           // sluice has its own cache
};

struct Headers {
  std::vector<const char*> texts;
  std::vector<const char*> names;
};

/// Returns all embedded files. Every unit gets all of them: passing one costs a copy, and NVRTC reads only
/// those that the unit includes.
const Headers& headers() {
  static const Headers all = [] {
    Headers list;
    for (const EmbeddedFile& file : embedded_files()) {
      list.texts.push_back(file.text.data());  // the generated literals end in NUL
      list.names.push_back(file.path);
    }
    return list;
  }();
  return all;
}

class Program {
 public:
  explicit Program(const NvrtcApi& api) : api_(api) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (handle_ != nullptr) api_.destroy_program(&handle_);
  }

  nvrtcResult create(const std::string& unit) {
    const Headers& list = headers();
    return api_.create_program(&handle_, unit.c_str(), "unit.cu", static_cast<int>(list.names.size()),
                               list.texts.data(), list.names.data());
  }
  nvrtcResult compile(std::span<const char* const> more) {
    std::vector<const char*> options(kOptions.begin(), kOptions.end());
    options.insert(options.end(), more.begin(), more.end());
    return api_.compile_program(handle_, static_cast<int>(options.size()), options.data());
  }
  std::string log() const {
    size_t size = 0;
    if (handle_ == nullptr || api_.log_size(handle_, &size) != NVRTC_SUCCESS || size == 0) return {};
    std::string text(size, '\0');
    if (api_.log(handle_, text.data()) != NVRTC_SUCCESS) return {};
    text.resize(size - 1);  // without the final NUL
    return text;
  }
  nvrtcResult image(std::string& bytes) const {
    size_t size = 0;
    if (const nvrtcResult result = api_.cubin_size(handle_, &size); result != NVRTC_SUCCESS) return result;
    bytes.resize(size);
    return api_.cubin(handle_, bytes.data());
  }

 private:
  const NvrtcApi& api_;
  nvrtcProgram handle_ = nullptr;
};

}  // namespace

std::span<const char* const> compile_options() {
  return kOptions;
}

Result<std::shared_ptr<const Compiler>> Compiler::load(const std::string& nvrtc_path) {
  const ForkGate no_fork;
  SLUICE_TAKE(NvrtcLocation location, locate_nvrtc(nvrtc_path));
  SLUICE_TAKE(NvrtcApi api, load_nvrtc(location));
  return std::shared_ptr<const Compiler>(std::make_shared<Compiler>(std::move(api)));
}

std::string Compiler::version() const {
  return "NVRTC " + std::to_string(api_.major) + "." + std::to_string(api_.minor);
}

Result<Cubin> Compiler::compile(const std::string& unit, std::span<const char* const> more) const {
  const auto begin = std::chrono::steady_clock::now();
  const ForkGate no_fork;  // NVRTC has internal locks
  Program program(api_);
  Cubin cubin;
  nvrtcResult result = program.create(unit);
  if (result == NVRTC_SUCCESS) result = program.compile(more);
  const std::string log = program.log();
  if (result == NVRTC_SUCCESS) result = program.image(cubin.image);
  if (result != NVRTC_SUCCESS)
    return Error{ErrorCode::toolchain, version() + " (" + api_.path + ") failed with " +
                                           api_.error_string(result) + "\n" + log + "in the unit\n" + unit};
  read_compile_log(log, cubin.report);
  const std::string full = toolchain_version(cubin.image);
  cubin.report.compiler = full.empty() ? version() : "NVRTC " + full;
  cubin.report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return cubin;
}

}  // namespace sluice
