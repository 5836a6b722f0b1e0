// SPDX-License-Identifier: Apache-2.0
// Streams, events and graphs that give themselves back: what bench, the CLI and tests/gpu time with.
// The library's launches use none of them; host/device/locate.cc has a stream of its own.
#pragma once

#include <functional>
#include <memory>

#include <sluice/gemm.h>
#include <sluice/host/driver/context.h>

namespace sluice {

/// A stream that does not synchronise with the legacy default stream.
class StreamHandle {
 public:
  static Result<StreamHandle> create(const Device& device);
  Stream get() const { return stream_.get(); }
  /// Error driver: also that of an earlier kernel.
  Result<void> synchronize() const;

 private:
  using Owned = std::unique_ptr<CUstream_st, HandleDeleter<&DriverApi::cuStreamDestroy>>;
  explicit StreamHandle(Owned stream) : stream_(std::move(stream)) {}
  Owned stream_;
};

/// A point in a stream, with its time.
class Event {
 public:
  static Result<Event> create(const Device& device);
  CUevent get() const { return event_.get(); }
  Result<void> record(Stream stream) const;
  /// Blocks until the recorded point has passed.
  Result<void> synchronize() const;
  /// GPU time between two recorded and passed points.
  Result<double> microseconds_since(const Event& start) const;

 private:
  using Owned = std::unique_ptr<CUevent_st, HandleDeleter<&DriverApi::cuEventDestroy>>;
  explicit Event(Owned event) : event_(std::move(event)) {}
  Owned event_;
};

/// What `enqueue` put into a stream, as one launch.
class Graph {
 public:
  /// Captures (thread-local mode), instantiates and uploads. `stream` must not be the legacy default one.
  /// `inspect` sees what was captured before it is instantiated, and may refuse it.
  /// Errors: that of `enqueue` or `inspect`, else driver. The stream is out of capture again in every case,
  /// also if `enqueue` throws.
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
