// SPDX-License-Identifier: Apache-2.0
// What a sluice_device holds for packed weights: the kernels of packed products, by problem, and the packers,
// by format. No module is given back before the end, since graphs may point there.
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <sluice/c_api/packing.h>
#include <sluice/host/device/device_impl.h>

namespace sluice::c_api {

class PackedSession {
 public:
  explicit PackedSession(Device device) : device_(std::move(device)) {}

  /// Error not_prepared: the stream captures and the kernel is not there.
  Result<void> run(const PackedProblem& problem, const packed::Args& args, Stream stream);
  Result<void> make_ready(std::span<const PackedProblem> problems);
  /// run() uses this plan for its problem from now on, whatever was chosen before.
  Result<void> use(const packed::Plan& plan);

  /// Of arrays on this device. Error not_prepared: the stream captures and the packer is not there.
  Result<void> pack(const PackCall& call, Stream stream);
  Result<void> unpack(const PackCall& call, Stream stream);
  Result<void> make_packer_ready(const WeightFormat& format);

  i64 kernels();  // problems that run() has one for

 private:
  Result<packed::Kernel> prepare(const PackedProblem& problem, Stream stream);
  std::optional<Packer> find_packer(const WeightFormat& format);
  Result<Packer> packer_for(const WeightFormat& format, Stream stream);
  Packer keep(const WeightFormat& format, const Packer& packer);

  Device device_;
  PreparedPacked kernels_;
  std::mutex mutex_;  // of the packers; never held where the driver is waited for
  std::vector<std::pair<WeightFormat, Packer>> packers_;  // few
};

}  // namespace sluice::c_api
