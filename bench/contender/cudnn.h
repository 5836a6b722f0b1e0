// SPDX-License-Identifier: Apache-2.0
// The peer of convolutions, loaded at run time: a machine without it still benches sluice alone. One handle,
// used from one thread. cudnn_problem.h states convolutions in its terms.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sluice/result.h>

#include "bench/contender/cudnn_abi.h"

namespace sluice::bench {

class Cudnn;
/// A descriptor that destroys itself, and keeps the library loaded.
using CudnnDescriptor = std::shared_ptr<void>;

class Cudnn : public std::enable_shared_from_this<Cudnn> {
 public:
  /// `path`: the library to load; empty: cudnn_places(). Needs the device's context to be current. Errors:
  /// toolchain (not found, too old), driver (no handle).
  static Result<std::shared_ptr<const Cudnn>> load(const std::string& path);
  /// Plans for the GPU that the text describes, and launches nothing: for machines without a GPU. The text is
  /// cuDNN's JSON of a device.
  static Result<std::shared_ptr<const Cudnn>> load_for(const std::string& path, const std::string& device);
  /// The file that load() would open, and its version. Needs no GPU. Error toolchain.
  static Result<std::string> find(const std::string& path);
  /// Takes entry points from the caller; tests pass fakes.
  static Result<std::shared_ptr<const Cudnn>> with(const cudnn::Api& api);
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  const cudnn::Api& api() const { return api_; }
  cudnn::Handle handle() const { return handle_; }           // null: made by load_for
  const CudnnDescriptor& device() const { return device_; }  // null: there is a handle
  const std::string& path() const { return path_; }
  std::string version() const;  // "9.19.0"

  /// An unfinished descriptor. Error driver.
  Result<CudnnDescriptor> descriptor(cudnn::Kind kind) const;
  /// Error driver with cuDNN's words if `status` is a failure of `what`.
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

/// The places of the library, most likely first: the loader's own search, the toolkit's folders, and what
/// PyTorch brings. Only `path` if it is not empty, else only SLUICE_CUDNN if that is set.
std::vector<std::string> cudnn_places(const std::string& path);

}  // namespace sluice::bench
