// SPDX-License-Identifier: Apache-2.0
// Searches for the library, opens it by dlopen, and fills the table of entry points. libcudnn itself loads
// further libraries from its own folder.
#include "bench/contender/cudnn.h"

#include <cstdlib>

#include <sluice/messages/errors.h>
#include <sluice/try.h>

#include "bench/contender/shared_library.h"

namespace sluice::bench {
namespace {

constexpr const char* kFile = "libcudnn.so.9";

std::string fill_table(void* library, cudnn::Api& api) {
  SymbolTable symbols{library};
  symbols.look_up(api.version, "cudnnGetVersion");
  symbols.look_up(api.error_string, "cudnnGetErrorString");
  symbols.look_up(api.last_error, "cudnnGetLastErrorString");
  symbols.look_up(api.create, "cudnnCreate");
  symbols.look_up(api.destroy, "cudnnDestroy");
  symbols.look_up(api.set_stream, "cudnnSetStream");
  symbols.look_up(api.create_descriptor, "cudnnBackendCreateDescriptor");
  symbols.look_up(api.destroy_descriptor, "cudnnBackendDestroyDescriptor");
  symbols.look_up(api.finalize, "cudnnBackendFinalize");
  symbols.look_up(api.set, "cudnnBackendSetAttribute");
  symbols.look_up(api.get, "cudnnBackendGetAttribute");
  symbols.look_up(api.execute, "cudnnBackendExecute");
  return symbols.missing;
}

}  // namespace

std::vector<std::string> cudnn_places(const std::string& path) {
  if (!path.empty()) return {path};
  if (const char* named = std::getenv("SLUICE_CUDNN"); named != nullptr && *named != '\0') return {named};
  std::vector<std::string> places = {kFile, fmt::format("/usr/local/cuda/lib64/{}", kFile)};
  append_matches(fmt::format("/usr/local/cuda-13*/lib64/{}", kFile), places);
  for (const std::string& packages : package_folders())
    for (const char* folder : {"nvidia/cudnn/lib", "nvidia/cu13/lib"})
      append_matches(fmt::format("{}/{}/{}", packages, folder, kFile), places);
  return places;
}

Result<void> Cudnn::open(const std::string& path) {
  std::string tried;
  library_ = open_first(cudnn_places(path), path_, tried);
  if (library_ == nullptr)
    return error_of(ErrorCode::toolchain,
                    "cuDNN could not be loaded; install nvidia-cudnn-cu13 (PyTorch brings it), or name "
                    "{} in SLUICE_CUDNN. Tried:{}",
                    kFile, tried);
  const std::string missing = fill_table(library_, api_);
  if (!missing.empty())
    return error_of(ErrorCode::toolchain, "{} lacks {}; cuDNN {} is needed", path_, missing, cudnn::kMajor);
  path_ = file_of(api_.create, path_);
  if (api_.version() / 10000 != cudnn::kMajor)
    return error_of(ErrorCode::toolchain, "{} is cuDNN {}; its major version must be {}", path_, version(),
                    cudnn::kMajor);
  return {};
}

Result<std::string> Cudnn::find(const std::string& path) {
  Cudnn found;
  SLUICE_TRY(found.open(path));
  return fmt::format("{} ({})", found.path(), found.version());
}

Result<void> Cudnn::make_handle() {
  return checked(api_.create(&handle_), "cudnnCreate");
}

Result<std::shared_ptr<const Cudnn>> Cudnn::load(const std::string& path) {
  std::shared_ptr<Cudnn> made(new Cudnn);
  SLUICE_TRY(made->open(path));
  SLUICE_TRY(made->make_handle());
  return std::shared_ptr<const Cudnn>(std::move(made));
}

Result<std::shared_ptr<const Cudnn>> Cudnn::load_for(const std::string& path, const std::string& device) {
  std::shared_ptr<Cudnn> made(new Cudnn);
  SLUICE_TRY(made->open(path));
  const cudnn::Api& api = made->api_;
  // A raw descriptor: a shared one would own the object that it is part of.
  cudnn::Descriptor raw = nullptr;
  SLUICE_TRY(made->checked(api.create_descriptor(cudnn::Kind::device, &raw), "a device descriptor"));
  made->device_ = CudnnDescriptor(raw, [destroy = api.destroy_descriptor](void* it) { destroy(it); });
  SLUICE_TRY(made->checked(api.set(raw, cudnn::Attribute::device_text, cudnn::Type::text,
                                   static_cast<std::int64_t>(device.size()), device.data()),
                           "a device's text"));
  SLUICE_TRY(made->checked(api.finalize(raw), "a device's text"));
  return std::shared_ptr<const Cudnn>(std::move(made));
}

Result<std::shared_ptr<const Cudnn>> Cudnn::with(const cudnn::Api& api) {
  std::shared_ptr<Cudnn> made(new Cudnn);
  made->api_ = api;
  SLUICE_TRY(made->make_handle());
  return std::shared_ptr<const Cudnn>(std::move(made));
}

Cudnn::~Cudnn() {
  device_.reset();
  if (handle_ != nullptr) api_.destroy(handle_);
  // The library is never unloaded, because its threads and CUDA modules may outlive the handle.
}

std::string Cudnn::version() const {
  const std::size_t number = api_.version();  // encoded as major * 10000 + minor * 100 + patch
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

Result<CudnnDescriptor> Cudnn::descriptor(cudnn::Kind kind) const {
  cudnn::Descriptor raw = nullptr;
  SLUICE_TRY(checked(api_.create_descriptor(kind, &raw), "a descriptor"));
  return CudnnDescriptor(raw, [keep = shared_from_this()](void* it) { keep->api_.destroy_descriptor(it); });
}

Result<void> Cudnn::checked(cudnn::Status status, const std::string& what) const {
  if (status == 0) return {};
  char words[1024] = "";
  api_.last_error(words, sizeof words);
  words[sizeof words - 1] = '\0';
  return error_of(ErrorCode::driver, "cuDNN {}: {} failed: {}{}{}", version(), what,
                  api_.error_string(status), words[0] != '\0' ? ": " : "", words);
}

}  // namespace sluice::bench
