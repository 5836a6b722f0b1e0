// SPDX-License-Identifier: Apache-2.0
// Opens the parts of a lab in order and returns the first failure. A missing cuBLASLt or clock is not an
// error.
#include "bench/lab.h"

#include <sluice/tools.h>
#include <sluice/try.h>

namespace sluice::bench {

Result<Lab> open_lab(const Device& device, const Method& method, const std::string& cublaslt_path) {
  SLUICE_TAKE(StreamHandle stream, StreamHandle::create(device));
  SLUICE_TAKE(ReplayTimer timer, ReplayTimer::create(device));
  SLUICE_TAKE(Verifier verifier, Verifier::create(device));
  Result<SmClock> clock = SmClock::create(device);

  SLUICE_TAKE(Workspace own_workspace, Workspace::create(device));

  std::shared_ptr<const CublasLt> peer;
  std::string without_peer;
  DeviceBuffer workspace;
  const ContextScope scope(tools::context_of(device));
  if (!method.peer) {
    without_peer = "cuBLASLt was not asked for";
  } else if (Result<std::shared_ptr<const CublasLt>> loaded = CublasLt::load(cublaslt_path); loaded) {
    SLUICE_TAKE(DeviceBuffer memory, DeviceBuffer::allocate(device, kPeerWorkspaceBytes));
    peer = *loaded;
    workspace = std::move(memory);
  } else {
    without_peer = loaded.error().message;
  }
  return Lab{.device = device,
             .stream = std::move(stream),
             .timer = std::move(timer),
             .verifier = std::move(verifier),
             .clock = clock ? std::optional(*std::move(clock)) : std::nullopt,
             .telemetry = Telemetry::open(tools::pci_bus_id(device)),
             .cublaslt = std::move(peer),
             .without_peer = std::move(without_peer),
             .cudnn = nullptr,
             .without_cudnn = "cuDNN was not asked for",
             .peer_workspace = std::move(workspace),
             .workspace = std::move(own_workspace),
             .method = method};
}

void load_cudnn(Lab& lab, const std::string& path) {
  const ContextScope scope(tools::context_of(lab.device));
  const Result<void> entered = scope.entered();
  Result<std::shared_ptr<const Cudnn>> loaded =
      entered ? Cudnn::load(path) : Result<std::shared_ptr<const Cudnn>>(entered.error());
  if (loaded)
    lab.cudnn = *std::move(loaded);
  else
    lab.without_cudnn = loaded.error().message;
}

}  // namespace sluice::bench
