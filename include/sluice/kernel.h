// SPDX-License-Identifier: Apache-2.0
// A prepared kernel: gemm::Kernel, norm::Kernel and those of other operations.
#pragma once

#include <memory>
#include <string>
#include <utility>

namespace sluice {

/// A plan, compiled and loaded on a device: immutable, shareable, launchable from any thread and into any
/// stream.
template <class Plan>
class BasicKernel {
 public:
  /// The plan that was prepared.
  const Plan& plan() const;
  int registers() const;         // per thread at launch; 0 if there is nothing to launch
  std::string built_by() const;  // the NVRTC version that made the cubin

  struct Impl;
  explicit BasicKernel(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sluice
