// SPDX-License-Identifier: Apache-2.0
// Opens the parts in order; the first that fails is the error, but for the peer and the clocks.
#include "bench/lab.h"

#include <sluice/host/device/device_impl.h>
#include <sluice/host/driver/ask_gpu.h>

namespace sluice::bench {

Result<Lab> open_lab(const Device& device, const Method& method, const std::string& cublaslt_path) {
  Result<StreamHandle> stream = StreamHandle::create(device);
  if (!stream) return stream.error();
  Result<Event> start = Event::create(device);
  if (!start) return start.error();
  Result<Event> stop = Event::create(device);
  if (!stop) return stop.error();
  Result<Verifier> verifier = Verifier::create(device);
  if (!verifier) return verifier.error();
  Result<SmClock> clock = SmClock::create(device);

  Result<Workspace> own_workspace = Workspace::create(device);
  if (!own_workspace) return own_workspace.error();

  std::shared_ptr<const CublasLt> peer;
  std::string without_peer;
  DeviceBuffer workspace;
  const ContextScope scope(*device.impl().primary);
  if (!method.peer) {
    without_peer = "cuBLASLt was not asked for";
  } else if (Result<std::shared_ptr<const CublasLt>> loaded = CublasLt::load(cublaslt_path); loaded) {
    Result<DeviceBuffer> memory = DeviceBuffer::allocate(device, kPeerWorkspaceBytes);
    if (!memory) return memory.error();
    peer = *loaded;
    workspace = std::move(*memory);
  } else {
    without_peer = loaded.error().message;
  }
  return Lab{.device = device,
             .stream = std::move(*stream),
             .start = std::move(*start),
             .stop = std::move(*stop),
             .verifier = std::move(*verifier),
             .clock = clock ? std::optional(*std::move(clock)) : std::nullopt,
             .telemetry = Telemetry::open(pci_bus_id(*device.impl().api, device.impl().primary->device())),
             .cublaslt = std::move(peer),
             .without_peer = std::move(without_peer),
             .peer_workspace = std::move(workspace),
             .workspace = *std::move(own_workspace),
             .method = method};
}

}  // namespace sluice::bench
