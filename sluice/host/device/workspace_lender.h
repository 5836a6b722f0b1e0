// SPDX-License-Identifier: Apache-2.0
// Workspaces that streams and graphs are lent, as large as the plan needs, rounded up.
//
// A stream has one for good: nobody is told when a stream is destroyed, its last launch may be on its way,
// and its id never comes again. One that needs more is lent another, and what it had stays: a launch may be
// there.
//
// A graph has one for each stream that is captured into it, since branches may run at once. The driver holds
// it by a user object of the graph: it comes back when the graph, its copies and executables are destroyed
// and their last launch is done, and the next that asks gets it. So no two graphs share one, whatever stream
// captured them. What one graph runs twice at once (two executables of it, a child of two graphs) shares.
//
// Any thread may call. Held by Device::Impl, for gemm::run and the C interface's session.
#pragma once

#include <memory>
#include <vector>

#include <sluice/gemm.h>

namespace sluice {

class WorkspaceLender {
 public:
  static constexpr i64 kMostOfStreams = i64{4} << 30;

  /// `most_of_streams`: bytes that streams are lent in all; tests take less.
  explicit WorkspaceLender(i64 most_of_streams = kMostOfStreams);
  WorkspaceLender(const WorkspaceLender&) = delete;
  WorkspaceLender& operator=(const WorkspaceLender&) = delete;
  /// Graphs may outlive it. Their memory is freed when another lender comes or goes.
  ~WorkspaceLender();

  /// At least `bytes` for a launch into `stream`, zeroed when it was lent first. Allocates where there is
  /// none yet, also while the stream is captured. Errors: workspace (streams have all that they may), driver.
  Result<WorkspaceView> lend(const Device& device, Stream stream, i64 bytes);

  /// Handles of the same memory: whoever waits for the device holds no lock.
  std::vector<Workspace> all_lent() const;
  struct Holdings {
    i64 lent;   // to streams, and to graphs that are alive
    i64 bytes;  // of them, of what streams had before, and of what came back
  };
  Holdings holdings() const;

  struct Store;

 private:
  const i64 most_of_streams_;
  const std::shared_ptr<Store> store_;  // what is lent to graphs shares it
};

}  // namespace sluice
