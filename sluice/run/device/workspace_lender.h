// SPDX-License-Identifier: Apache-2.0
// Lends workspaces to streams and graphs, as large as the plan needs, rounded up.
//
// A stream keeps its workspace for good: nothing reports that a stream was destroyed, its last launch may
// still be running, and its id is never reused. A stream that needs a larger workspace gets another and keeps
// the smaller one, because a launch may be using it.
//
// A graph gets one workspace per captured stream, since branches may run at the same time. A user object of
// the graph holds the loan. The driver releases it when the graph, its copies and its executables are
// destroyed and their last launch is done; the workspace can then be lent again. Two graphs never share a
// workspace, but the executables of one graph do, and so does a child graph with two parents.
//
// Any thread may call it. Held by Device::Impl, for gemm::run and the C interface's session.
#pragma once

#include <memory>
#include <vector>

#include <sluice/gemm.h>

namespace sluice {

class WorkspaceLender {
 public:
  static constexpr i64 kMostOfStreams = i64{4} << 30;

  /// `most_of_streams`: limit of the bytes lent to all streams together; tests pass a smaller one.
  explicit WorkspaceLender(i64 most_of_streams = kMostOfStreams);
  WorkspaceLender(const WorkspaceLender&) = delete;
  WorkspaceLender& operator=(const WorkspaceLender&) = delete;
  /// Graphs may outlive the lender. Their memory is freed when the next lender is created or destroyed.
  ~WorkspaceLender();

  /// Returns a workspace of at least `bytes` for launches into `stream`, zeroed when first lent. The first
  /// call allocates, also during a capture. Errors: workspace (the streams' limit is reached), driver.
  Result<WorkspaceView> lend(const Device& device, Stream stream, i64 bytes);

  /// Returns copies of all lent handles, so that the caller can wait for the device without holding a lock.
  std::vector<Workspace> all_lent() const;
  struct Holdings {
    i64 lent;   // to streams and to graphs that still exist
    i64 bytes;  // includes outgrown and returned workspaces
  };
  Holdings holdings() const;

  struct Store;

 private:
  const i64 most_of_streams_;
  const std::shared_ptr<Store> store_;  // shared with the loans of graphs
};

}  // namespace sluice
