// SPDX-License-Identifier: Apache-2.0
// cuDNN, loaded at run time to compare convolutions with. Without it, the bench times sluice alone. There is
// one handle, used from one thread. cudnn_problem.h describes convolutions in its terms.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sluice/result.h>

#include "bench/contender/cudnn_abi.h"

namespace sluice::bench {

class Cudnn;
/// A cuDNN descriptor that is destroyed with its last owner. It keeps the library loaded.
using CudnnDescriptor = std::shared_ptr<void>;

class Cudnn : public std::enable_shared_from_this<Cudnn> {
 public:
  /// Loads cuDNN from `path`, or if that is empty from the first of cudnn_places() that loads. The device's
  /// context must be current. Errors: toolchain (not found, or too old), driver (no handle).
  static Result<std::shared_ptr<const Cudnn>> load(const std::string& path);
  /// Loads cuDNN for a GPU that is described by cuDNN's JSON text, so no GPU is needed. It can make plans,
  /// but launches nothing.
  static Result<std::shared_ptr<const Cudnn>> load_for(const std::string& path, const std::string& device);
  /// Returns the path and version of the file that load() would open. Needs no GPU. Error: toolchain.
  static Result<std::string> find(const std::string& path);
  /// Takes the entry points from the caller; tests pass fakes.
  static Result<std::shared_ptr<const Cudnn>> with(const cudnn::Api& api);
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  const cudnn::Api& api() const { return api_; }
  cudnn::Handle handle() const { return handle_; }           // null if made by load_for
  const CudnnDescriptor& device() const { return device_; }  // null unless made by load_for
  const std::string& path() const { return path_; }
  std::string version() const;  // such as "9.19.0"

  /// Makes a descriptor that is not finalized yet. Error: driver.
  Result<CudnnDescriptor> descriptor(cudnn::Kind kind) const;
  /// Turns a failed `status` of the call `what` into an Error (driver) with cuDNN's message.
  Result<void> checked(cudnn::Status status, const std::string& what) const;

 private:
  Cudnn() = default;
  Result<void> open(const std::string& path);
  Result<void> make_handle();

  void* library_ = nullptr;
  cudnn::Api api_{};
  cudnn::Handle handle_ = nullptr;
  CudnnDescriptor device_;
  std::string path_;
};

/// Returns paths at which the library may be, most likely first: the loader's search path, the toolkit's
/// folders and PyTorch's packages. Returns only `path` if that is not empty, else only SLUICE_CUDNN if that
/// is set.
std::vector<std::string> cudnn_places(const std::string& path);

}  // namespace sluice::bench
