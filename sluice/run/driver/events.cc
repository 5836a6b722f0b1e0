// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/driver/events.h>

#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/error.h>
#include <sluice/try.h>

namespace sluice {
namespace {

Result<void> checked(const DriverApi& api, CUresult code, const char* call) {
  if (code == CUDA_SUCCESS) return {};
  return driver_error(api, code, call);
}

}  // namespace

Result<StreamHandle> StreamHandle::create(const Device& device) {
  const std::shared_ptr<const PrimaryContext>& primary = device.impl().primary;
  const ContextScope scope(*primary);
  SLUICE_TRY(scope.entered());
  CUstream stream = nullptr;
  const CUresult code = primary->api().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (code != CUDA_SUCCESS) return driver_error(primary->api(), code, "cuStreamCreate");
  return StreamHandle(Owned(stream, {primary}));
}

Result<void> StreamHandle::synchronize() const {
  const PrimaryContext& primary = *stream_.get_deleter().primary;
  const ContextScope scope(primary);
  SLUICE_TRY(scope.entered());
  return checked(primary.api(), primary.api().cuStreamSynchronize(stream_.get()), "cuStreamSynchronize");
}

Result<Event> Event::create(const Device& device) {
  const std::shared_ptr<const PrimaryContext>& primary = device.impl().primary;
  const ContextScope scope(*primary);
  SLUICE_TRY(scope.entered());
  CUevent event = nullptr;
  const CUresult code = primary->api().cuEventCreate(&event, CU_EVENT_DEFAULT);
  if (code != CUDA_SUCCESS) return driver_error(primary->api(), code, "cuEventCreate");
  return Event(Owned(event, {primary}));
}

Result<void> Event::record(Stream stream) const {
  const PrimaryContext& primary = *event_.get_deleter().primary;
  const ContextScope scope(primary);
  SLUICE_TRY(scope.entered());
  return checked(primary.api(), primary.api().cuEventRecord(event_.get(), stream), "cuEventRecord");
}

Result<void> Event::synchronize() const {
  const PrimaryContext& primary = *event_.get_deleter().primary;
  const ContextScope scope(primary);
  SLUICE_TRY(scope.entered());
  return checked(primary.api(), primary.api().cuEventSynchronize(event_.get()), "cuEventSynchronize");
}

Result<double> Event::microseconds_since(const Event& start) const {
  const PrimaryContext& primary = *event_.get_deleter().primary;
  const ContextScope scope(primary);
  SLUICE_TRY(scope.entered());
  float milliseconds = 0;
  const CUresult code = primary.api().cuEventElapsedTime(&milliseconds, start.get(), event_.get());
  if (code != CUDA_SUCCESS) return driver_error(primary.api(), code, "cuEventElapsedTime");
  return milliseconds * 1e3;
}

Result<Graph> Graph::capture(const Device& device, Stream stream,
                             const std::function<Result<void>()>& enqueue,
                             const std::function<Result<void>(CUgraph)>& inspect) {
  const std::shared_ptr<const PrimaryContext>& primary = device.impl().primary;
  const DriverApi& api = primary->api();
  const ContextScope scope(*primary);
  SLUICE_TRY(scope.entered());
  CUresult code = api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  if (code != CUDA_SUCCESS) return driver_error(api, code, "cuStreamBeginCapture");
  using OwnedGraph = std::unique_ptr<CUgraph_st, HandleDeleter<&DriverApi::cuGraphDestroy>>;
  const auto end_capture = [&] {
    CUgraph captured = nullptr;  // null if `enqueue` invalidated the capture
    code = api.cuStreamEndCapture(stream, &captured);
    return OwnedGraph(captured, {primary});
  };
  Result<void> enqueued;
  try {
    enqueued = enqueue();
  } catch (...) {  // thrown by code of the caller, such as a foreign step of a chain
    end_capture();
    throw;
  }
  const OwnedGraph graph = end_capture();
  if (!enqueued) return enqueued.error();
  if (code != CUDA_SUCCESS) return driver_error(api, code, "cuStreamEndCapture");

  if (inspect) SLUICE_TRY(inspect(graph.get()));

  CUgraphExec executable = nullptr;
  code = api.cuGraphInstantiate(&executable, graph.get(), 0);
  if (code != CUDA_SUCCESS) return driver_error(api, code, "cuGraphInstantiate");
  Graph result(Owned(executable, {primary}));
  code = api.cuGraphUpload(executable, stream);  // otherwise the first launch would upload
  if (code != CUDA_SUCCESS) return driver_error(api, code, "cuGraphUpload");
  return result;
}

Result<void> Graph::launch(Stream stream) const {
  const PrimaryContext& primary = *graph_.get_deleter().primary;
  const ContextScope scope(primary);
  SLUICE_TRY(scope.entered());
  return checked(primary.api(), primary.api().cuGraphLaunch(graph_.get(), stream), "cuGraphLaunch");
}

}  // namespace sluice
