// SPDX-License-Identifier: Apache-2.0
#include "bench/calibrate/timed_graph.h"

#include <algorithm>

#include <sluice/try.h>

namespace sluice::bench {

Result<double> us_of_launch(const Device& device, int launches,
                            const std::function<Result<void>(int launch, Stream stream)>& enqueue) {
  constexpr int kReplays = 7;
  SLUICE_TAKE(const StreamHandle stream, StreamHandle::create(device));
  SLUICE_TAKE(const Event start, Event::create(device));
  SLUICE_TAKE(const Event stop, Event::create(device));
  SLUICE_TAKE(const Graph graph, Graph::capture(device, stream.get(), [&]() -> Result<void> {
                for (int i = 0; i < launches; ++i) SLUICE_TRY(enqueue(i, stream.get()));
                return {};
              }));
  SLUICE_TRY(graph.launch(stream.get()));
  double least = 1e30;
  for (int i = 0; i < kReplays; ++i) {
    SLUICE_TRY(start.record(stream.get()));
    SLUICE_TRY(graph.launch(stream.get()));
    SLUICE_TRY(stop.record(stream.get()));
    SLUICE_TRY(stop.synchronize());
    SLUICE_TAKE(const double us, stop.microseconds_since(start));
    least = std::min(least, us);
  }
  return least / launches;
}

}  // namespace sluice::bench
