// SPDX-License-Identifier: Apache-2.0
// Opens the parts of a lab in order and returns the first failure. A missing cuBLASLt or clock is not an
// error.
#include "bench/lab.h"

#include <sluice/run/driver/ask_gpu.h>
#include <sluice/try.h>

#include "bench/device.h"

namespace sluice::bench {

Result<std::shared_ptr<const Lab>> open_lab(const Device& device, const LabSetup& setup) {
  SLUICE_TAKE(StreamHandle stream, StreamHandle::create(device));
  SLUICE_TAKE(ReplayTimer timer, ReplayTimer::create(device));
  SLUICE_TAKE(Verifier verifier, Verifier::create(device));
  Result<SmClock> clock = SmClock::create(device);
  SLUICE_TAKE(Workspace workspace, Workspace::create(device));
  const ContextScope scope(context_of(device));
  SLUICE_TRY(scope.entered());
  Lab lab{.device = device,
          .stream = std::move(stream),
          .timer = std::move(timer),
          .verifier = std::move(verifier),
          .clock = clock ? std::optional(*std::move(clock)) : std::nullopt,
          .telemetry = Telemetry::open(pci_bus_id(*device.impl().api, device.impl().primary->device())),
          .cublaslt = nullptr,
          .without_cublaslt = "cuBLASLt was not asked for",
          .cudnn = nullptr,
          .without_cudnn = "cuDNN was not asked for",
          .peer_workspace = {},
          .workspace = std::move(workspace),
          .method = setup.method};
  if (setup.method.peer) {
    const auto loaded = CublasLt::load(setup.cublaslt);
    lab.without_cublaslt = loaded ? "" : loaded.error().message;
    if (loaded) lab.cublaslt = *loaded;
    if (loaded) {
      SLUICE_TAKE(lab.peer_workspace, DeviceBuffer::allocate(device, kPeerWorkspaceBytes));
    }
  }
  if (setup.convolutions) {
    const auto loaded = Cudnn::load(setup.cudnn);
    lab.without_cudnn = loaded ? "" : loaded.error().message;
    if (loaded) lab.cudnn = *loaded;
  }
  return std::shared_ptr<const Lab>(std::make_shared<Lab>(std::move(lab)));
}

const Device& device_of(const Lab& lab) {
  return lab.device;
}
const Method& method_of(const Lab& lab) {
  return lab.method;
}
const std::string& without_cublaslt(const Lab& lab) {
  return lab.without_cublaslt;
}
const std::string& without_cudnn(const Lab& lab) {
  return lab.without_cudnn;
}
Result<std::string> find_cudnn(const std::string& path) {
  return Cudnn::find(path);
}

}  // namespace sluice::bench
