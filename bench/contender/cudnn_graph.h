// SPDX-License-Identifier: Apache-2.0
// Helpers for cuDNN's backend descriptors: set attributes in turn, finalize, and read attributes. Used by
// cudnn_problem.cc and cudnn_plans.cc.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sluice/try.h>

#include "bench/contender/cudnn.h"

namespace sluice::bench {

/// Identifiers of the tensors x, w and y in a graph.
inline constexpr i64 kTensorIds[] = {1, 2, 3};

/// Sets attributes of a descriptor one by one and keeps the first failure, which finish() returns.
class DescriptorWriter {
 public:
  static Result<DescriptorWriter> make(const Cudnn& cudnn, cudnn::Kind kind) {
    SLUICE_TAKE(CudnnDescriptor descriptor, cudnn.descriptor(kind));
    return DescriptorWriter(cudnn, std::move(descriptor));
  }

  template <class T>
  void set(cudnn::Attribute attribute, cudnn::Type type, std::span<T> values) {
    if (status_ == 0)
      status_ = cudnn_->api().set(descriptor_.get(), attribute, type, static_cast<i64>(values.size()),
                                  values.data());
  }
  template <class T>
  void set(cudnn::Attribute attribute, cudnn::Type type, const T& value) {
    set(attribute, type, std::span<const T>(&value, 1));
  }
  void set(cudnn::Attribute attribute, const std::vector<i64>& values) {
    set(attribute, cudnn::Type::int64, std::span<const i64>(values));
  }
  void set(cudnn::Attribute attribute, const CudnnDescriptor& part) {
    cudnn::Descriptor raw = part.get();
    set(attribute, cudnn::Type::descriptor, std::span<const cudnn::Descriptor>(&raw, 1));
    parts_.push_back(part);
  }
  /// Sets the cuDNN handle or, for a GPU described by text, the device descriptor.
  void set_device(cudnn::Attribute handle, cudnn::Attribute device) {
    if (cudnn_->device() != nullptr) return set(device, cudnn_->device());
    set(handle, cudnn::Type::handle, cudnn_->handle());
  }
  void set_device(cudnn::Attribute device) {
    if (cudnn_->device() != nullptr) set(device, cudnn_->device());
  }

  /// Finalizes the descriptor. It shares ownership of the descriptors that it refers to. Error: driver.
  Result<CudnnDescriptor> finish(const std::string& what) {
    if (status_ == 0) status_ = cudnn_->api().finalize(descriptor_.get());
    SLUICE_TRY(cudnn_->checked(status_, what));
    void* raw = descriptor_.get();
    return CudnnDescriptor(raw, [own = std::move(descriptor_), parts = std::move(parts_)](void*) {});
  }

 private:
  DescriptorWriter(const Cudnn& cudnn, CudnnDescriptor descriptor)
      : cudnn_(&cudnn), descriptor_(std::move(descriptor)) {}

  const Cudnn* cudnn_;
  CudnnDescriptor descriptor_;
  std::vector<CudnnDescriptor> parts_;
  cudnn::Status status_ = 0;
};

/// Reads an attribute that has one value. Error: driver.
template <class T>
Result<T> read(const Cudnn& cudnn, const CudnnDescriptor& from, cudnn::Attribute attribute,
               cudnn::Type type) {
  T value{};
  std::int64_t count = 0;
  SLUICE_TRY(cudnn.checked(cudnn.api().get(from.get(), attribute, type, 1, &count, &value), "an attribute"));
  return value;
}

/// Reads an attribute that is a list of 32-bit enumerators. Error: driver.
Result<std::vector<int>> read_notes(const Cudnn& cudnn, const CudnnDescriptor& from,
                                    cudnn::Attribute attribute, cudnn::Type type);
/// Reads an attribute that is a list of descriptors, as new descriptors. Error: driver.
Result<std::vector<CudnnDescriptor>> read_parts(const Cudnn& cudnn, const CudnnDescriptor& from,
                                                cudnn::Attribute attribute, cudnn::Kind kind);

}  // namespace sluice::bench
