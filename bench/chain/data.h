// SPDX-License-Identifier: Apache-2.0
// The memory of a chain of layers, filled on the GPU: weights of each layer, several inputs, and all
// activations in one block. The block is filled with poison and compared as a whole. Made once per LayerSpec
// and shared by all variants.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "bench/chain/layers.h"
#include "bench/lab.h"

namespace sluice::bench {

class ChainData {
 public:
  static constexpr int kInputs = 61;  // prime, so that consecutive replays cycle through all inputs

  /// Errors: driver (memory), toolchain.
  static Result<ChainData> create(const Lab& lab, const LayerSpec& spec);

  const LayerSpec& spec() const { return spec_; }
  const LayerMemory& memory() const { return memory_; }
  /// Operands of one product in all layers, for the peer; empty for packed weights.
  std::span<const ProblemData> operands(LayerProduct product) const {
    return products_[static_cast<size_t>(product)];
  }
  const DeviceBuffer& activations() const { return activations_; }
  /// Byte offset of the buffer in activations().
  i64 offset_of(Activations::Buffer buffer) const { return offsets_[buffer]; }

  /// Both enqueue on `stream` and do not wait.
  Result<void> set_input(int which, Stream stream) const;
  Result<void> poison(Stream stream) const { return activations_.fill(poison_of(spec_), stream); }

 private:
  explicit ChainData(const LayerSpec& spec) : spec_(spec) {}
  Result<void> make_inputs(const Lab& lab);
  Result<void> make_activations(const Lab& lab);
  Result<void> make_dense(const Lab& lab);
  Result<void> make_packed(const Lab& lab);

  LayerSpec spec_;
  Device const* device_ = nullptr;
  LayerMemory memory_;
  std::array<std::vector<ProblemData>, kLayerProducts> products_;
  std::vector<DeviceBuffer> blobs_;
  std::vector<ProblemData> inputs_;         // one entry: A's rows are all inputs, then gamma
  DeviceBuffer input_, activations_, one_;  // one_: the constant 1, the fixed scale of packed weights
  std::array<i64, Activations::kCount> offsets_{};
};

}  // namespace sluice::bench
