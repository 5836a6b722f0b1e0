// SPDX-License-Identifier: Apache-2.0
// Streams, events and graphs that destroy themselves, for timing: races of plans (run/ops/race.h), bench,
// the tool and tests/gpu. Launches of kernels use none of them; workspaces and locate.cc create streams for
// their own work.
#pragma once

#include <functional>
#include <memory>

#include <sluice/gemm.h>
#include <sluice/run/driver/context.h>

namespace sluice {

/// A stream that does not synchronise with the legacy default stream.
class StreamHandle {
 public:
  static Result<StreamHandle> create(const Device& device);
  Stream get() const { return stream_.get(); }
  /// Waits for the stream. Error driver, which may also report a failure of an earlier kernel.
  Result<void> synchronize() const;

 private:
  using Owned = std::unique_ptr<CUstream_st, HandleDeleter<&DriverApi::cuStreamDestroy>>;
  explicit StreamHandle(Owned stream) : stream_(std::move(stream)) {}
  Owned stream_;
};

class Event {
 public:
  static Result<Event> create(const Device& device);
  CUevent get() const { return event_.get(); }
  Result<void> record(Stream stream) const;
  Result<void> synchronize() const;
  Result<double> microseconds_since(const Event& start) const;

 private:
  using Owned = std::unique_ptr<CUevent_st, HandleDeleter<&DriverApi::cuEventDestroy>>;
  explicit Event(Owned event) : event_(std::move(event)) {}
  Owned event_;
};

/// A graph of the work that `enqueue` put into a stream; one launch replays it.
class Graph {
 public:
  /// Captures (thread-local mode), instantiates and uploads. `stream` must not be the legacy default stream.
  /// `inspect` gets the captured graph before it is instantiated, and may return an error. Errors: those of
  /// `enqueue` and `inspect`; driver. The capture always ends, even if `enqueue` throws.
  static Result<Graph> capture(const Device& device, Stream stream,
                               const std::function<Result<void>()>& enqueue,
                               const std::function<Result<void>(CUgraph)>& inspect = {});
  Result<void> launch(Stream stream) const;

 private:
  using Owned = std::unique_ptr<CUgraphExec_st, HandleDeleter<&DriverApi::cuGraphExecDestroy>>;
  explicit Graph(Owned graph) : graph_(std::move(graph)) {}
  Owned graph_;
};

}  // namespace sluice
