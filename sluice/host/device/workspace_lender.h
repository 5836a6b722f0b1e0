// SPDX-License-Identifier: Apache-2.0
// Lends workspaces to streams and graphs, as large as the plan needs, rounded up.
//
// A stream keeps its workspace for good: nothing reports that a stream is destroyed, its last launch may be
// running, and its id never recurs. A stream that needs more gets another, and keeps the smaller one, which a
// launch may use.
//
// A graph gets one for each captured stream, since branches may run at once. A user object of the graph holds
// the loan. The driver releases it when the graph, its copies and executables are destroyed and their last
// launch is done; then it can be lent again. No two graphs share one. Executables of one graph do, and so
// does a child graph of two parents.
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

  /// `most_of_streams` limits the bytes lent to streams in all; tests pass less.
  explicit WorkspaceLender(i64 most_of_streams = kMostOfStreams);
  WorkspaceLender(const WorkspaceLender&) = delete;
  WorkspaceLender& operator=(const WorkspaceLender&) = delete;
  /// Graphs may outlive the lender. The next lender that is created or destroyed frees their memory.
  ~WorkspaceLender();

  /// Lends at least `bytes` for launches into `stream`, zeroed at first. Allocates on first use, also during
  /// capture. Errors: workspace (streams have reached their limit), driver.
  Result<WorkspaceView> lend(const Device& device, Stream stream, i64 bytes);

  /// Copies of all lent handles, so that the caller can wait for the device without a lock.
  std::vector<Workspace> all_lent() const;
  struct Holdings {
    i64 lent;   // to streams and to living graphs
    i64 bytes;  // includes outgrown and returned ones
  };
  Holdings holdings() const;

  struct Store;

 private:
  const i64 most_of_streams_;
  const std::shared_ptr<Store> store_;  // shared with loans of graphs
};

}  // namespace sluice
